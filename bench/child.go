package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"countersign/internal/app"
	"countersign/internal/ledger/sqlite"
)

// childArgument starts this program as a child, which works until it is killed.
// What to do stands as JSON in the first line of its input; the input's end is
// its parent's, and its own. It prints one line for each thing that happened:
//
//	ack RUN PERMIT       a cycle was acknowledged to its caller
//	window N NANOS P50   cycles within the window, its length, median of a cycle
//	fail TEXT            it cannot go on
//
// The window is followed by more work: the kill has to meet commits under way.
const childArgument = "child"

// childLife ends a child that nobody kills.
const childLife = 2 * time.Minute

// order is what a child is to do.
type order struct {
	Bare     bool          // the bare program instead of the product
	Commits  bool          // single commits of one event instead of cycles
	Log      bool          // a transparency log instead of the product
	Post     string        // one POST instead of a cycle: through the product's API "layer", or "plain"
	Contexts bool          // context turns instead of cycles
	Floor    bool          // of Contexts: the least that they can cost
	Events   int           // of one commit, or one call of a log; 0: one
	Existing string        // folder of an installation that [bench.fill] made: each cycle in a run drawn from all of it
	Runs     int           // the same with so many runs in a new ledger
	Warm     int           // cycles that each run has behind it when it is measured
	Each     int           // cycles of a run until it is replaced; 0: cyclesPerRun
	HTTP     bool          // serve the API, with the callers' HTTP client in the same process
	Dir      string        // folder with keys and, without Database, the ledger
	Postgres bool          // the parent gives each turn a fresh Database
	Database string        // PostgreSQL URL
	Callers  int           // at the same time, each with a run of its own
	Batch    int           // most Changes in one transaction; 0: the product's
	Delay    time.Duration // slept after each COMMIT
	Window   time.Duration
}

// cycler does one cycle after the other for one caller.
type cycler interface {
	// next does one whole cycle and names the run and the permit.
	next(ctx context.Context) (runID, permitID string, err error)
}

func child(in io.Reader, out io.Writer) int {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return 2
	}
	var o order
	if err := json.Unmarshal(first, &o); err != nil {
		return 2
	}
	app.SetCollector() // as serve does; for the bare program too
	time.AfterFunc(childLife, func() { os.Exit(3) })
	go func() {
		_, _ = io.Copy(io.Discard, lines) // whatever ends it, the parent is gone
		os.Exit(0)
	}()
	if err := work(context.Background(), o, out); err != nil {
		fmt.Fprintf(out, "fail %v\n", err)
	}
	return 1
}

// work starts the callers and returns only when one of them fails.
func work(ctx context.Context, o order, out io.Writer) error {
	callers, err := prepareCallers(ctx, o)
	if err != nil {
		return err
	}
	w := &window{out: out, length: o.Window, callers: len(callers), failed: make(chan error, len(callers))}
	for _, c := range callers {
		go w.call(ctx, c)
	}
	return <-w.failed
}

func prepareCallers(ctx context.Context, o order) (callers []cycler, err error) {
	switch {
	case o.Bare:
		return newBare(ctx, o)
	case o.HTTP:
		return newHTTP(ctx, o)
	case o.Log:
		return newAppending(ctx, o)
	case o.Post != "":
		return newPosting(ctx, o)
	}
	options := sqlite.Options{BatchLimit: o.Batch}
	if o.Delay > 0 {
		options.AfterCommit = func() { time.Sleep(o.Delay) }
	}
	l, err := openLedger(ctx, o.Dir, o.Database, options)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Contexts && o.Floor:
		return newContextFloors(ctx, o, l)
	case o.Contexts:
		return newContexts(ctx, o, l)
	}
	p, err := openPlane(o.Dir, l)
	if err != nil {
		return nil, err
	}
	if o.Commits {
		return newCommitters(p, l, o), nil
	}
	if o.Existing != "" || o.Runs > 0 {
		return newWandering(ctx, p, o)
	}
	for range o.Callers {
		c := &planeCaller{plane: p, warm: o.Warm, most: cmp.Or(o.Each, cyclesPerRun)}
		if err := c.fresh(ctx); err != nil {
			return nil, err
		}
		callers = append(callers, c)
	}
	return callers, nil
}

// planeCaller works on one run until it has had enough cycles.
type planeCaller struct {
	plane      *plane
	runID      string
	warm, most int
	done       int
}

func (c *planeCaller) fresh(ctx context.Context) (err error) {
	c.done = 0
	if c.runID, err = c.plane.newRun(ctx); err != nil {
		return err
	}
	for range c.warm {
		if _, err := c.plane.cycle(ctx, c.runID, cycled); err != nil {
			return err
		}
	}
	return nil
}

func (c *planeCaller) next(ctx context.Context) (string, string, error) {
	if c.done == c.most {
		if err := c.fresh(ctx); err != nil {
			return "", "", err
		}
	}
	c.done++
	permit, err := c.plane.cycle(ctx, c.runID, cycled)
	return c.runID, permit, err
}

// window counts acknowledged cycles. It opens when there have been as many as
// there are callers, which warms everything up, and ends with the first one after
// its length.
type window struct {
	out     io.Writer
	length  time.Duration
	callers int
	failed  chan error

	mu    sync.Mutex
	done  int
	begin time.Time
	took  []time.Duration // of each cycle that began and ended inside
	ended bool
}

func (w *window) call(ctx context.Context, c cycler) {
	for {
		start := time.Now()
		runID, permitID, err := c.next(ctx)
		if err == nil {
			err = w.acknowledge(runID, permitID, start)
		}
		if err != nil {
			w.failed <- err
			return
		}
	}
}

// acknowledge tells the parent of one cycle and counts it.
func (w *window) acknowledge(runID, permitID string, start time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if _, err := fmt.Fprintf(w.out, "ack %s %s\n", runID, permitID); err != nil {
		return err
	}
	w.done++
	switch {
	case w.ended:
		return nil
	case w.begin.IsZero():
		if w.done >= w.callers {
			w.begin, w.done = now, 0
		}
		return nil
	case start.After(w.begin):
		w.took = append(w.took, now.Sub(start))
	}
	length := now.Sub(w.begin)
	if length < w.length || len(w.took) == 0 {
		return nil
	}
	w.ended = true
	slices.Sort(w.took)
	_, err := fmt.Fprintf(w.out, "window %d %d %d\n", w.done, length, w.took[len(w.took)/2])
	return err
}
