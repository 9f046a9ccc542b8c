package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"countersign/internal/ledger/sqlite"
)

// Sizes of row 9.
const (
	fewRuns    = 10
	manyRuns   = 100_000
	longEvents = 1000 // that a long run begins with
)

// flatness is row 9: whether a cycle costs more in a large ledger, or in a long run,
// than in small ones. One caller, the middle cycle of a window.
func flatness(ctx context.Context, b *bench) (_ []line, err error) {
	recorded, err := recordCycle(ctx, b.dir)
	if err != nil {
		return nil, err
	}
	n := manyRuns
	if b.quick {
		n = 100
	}
	large, err := b.fill(ctx, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Dir(large))) }()
	many := &contestant{name: fmt.Sprintf("%d runs", n), order: order{Callers: 1, Existing: large}}
	few := &contestant{name: fmt.Sprintf("%d runs", fewRuns), order: order{Callers: 1, Runs: fewRuns}}
	long := &contestant{name: "long run", order: order{Callers: 1, Warm: 1 + longEvents/recorded.events()}}
	short := &contestant{name: "short run", order: order{Callers: 1, Each: 20}}
	problems, err := b.turns(ctx, recorded.events(), many, few, long, short)
	if err != nil {
		return nil, err
	}
	p50s := func(x, y *contestant) string {
		return fmt.Sprintf("p50 of a cycle: %s %v, %s %v", x.name, seconds(median(x.p50s)), y.name, seconds(median(y.p50s)))
	}
	return []line{
		{row: 9, name: "a cycle among 100,000 runs / among 10", pairs: ratios(many.p50s, few.p50s), aim: atMost(1.5), problems: problems, note: p50s(many, few) + "; each cycle in a run drawn from the whole table"},
		{row: 9, name: "a cycle behind 1,000 events / behind few", pairs: ratios(long.p50s, short.p50s), aim: atMost(1.5), problems: problems, note: p50s(long, short) + "; a short run is replaced after 20 cycles"},
	}, nil
}

// runsFile lists the runs of a filled installation, beside its folder.
const runsFile = "runs"

// fill makes an installation with n runs and returns its folder.
func (b *bench) fill(ctx context.Context, n int) (dir string, err error) {
	parent, err := os.MkdirTemp(b.dir, "filled-")
	if err != nil {
		return "", err
	}
	dir = filepath.Join(parent, "control")
	if err := initFolder(ctx, dir, ""); err != nil {
		return "", err
	}
	l, err := openLedger(ctx, dir, "", sqlite.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	p, err := openPlane(dir, l)
	if err != nil {
		return "", err
	}
	ids, err := p.newRuns(ctx, n)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(parent, runsFile), []byte(strings.Join(ids, "\n")), 0o600)
}

// newRuns makes n runs, many at a time, and says how far it is.
func (p *plane) newRuns(ctx context.Context, n int) (ids []string, err error) {
	var (
		mu     sync.Mutex
		made   int
		makers sync.WaitGroup
		said   = time.Now()
	)
	for range min(n, callers) {
		makers.Go(func() {
			for {
				mu.Lock()
				more := err == nil && made < n
				made++
				mu.Unlock()
				if !more {
					return
				}
				id, failed := p.newRun(ctx)
				mu.Lock()
				ids, err = append(ids, id), errors.Join(err, failed)
				if time.Since(said) > 5*time.Second {
					said = time.Now()
					fmt.Fprintf(os.Stderr, "  %d of %d runs made\n", len(ids), n)
				}
				mu.Unlock()
			}
		})
	}
	makers.Wait()
	return ids, err
}

// newWandering finds or makes the runs.
func newWandering(ctx context.Context, p *plane, o order) (callers []cycler, err error) {
	var runs []string
	if o.Existing == "" {
		runs, err = p.newRuns(ctx, o.Runs)
	} else {
		var text []byte
		text, err = os.ReadFile(filepath.Join(filepath.Dir(o.Existing), runsFile))
		runs = strings.Fields(string(text))
	}
	if err != nil {
		return nil, err
	}
	for i := range o.Callers {
		callers = append(callers, &wandering{p, runs, rand.New(rand.NewPCG(uint64(len(runs)), uint64(i)))})
	}
	return callers, nil
}

// wandering does each cycle in a run drawn from all of the ledger's.
type wandering struct {
	plane  *plane
	runs   []string
	random *rand.Rand
}

func (w *wandering) next(ctx context.Context) (string, string, error) {
	id := w.runs[w.random.IntN(len(w.runs))]
	permit, err := w.plane.cycle(ctx, id, cycled)
	return id, permit, err
}
