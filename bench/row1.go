package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// callers is how many runs work at the same time in rows 1 and 2.
const callers = 64

// contestant is one side of a ratio: what a child does, measured once a pair.
type contestant struct {
	name  string
	order order
	other func(context.Context) (rate float64, err error) // another program instead of a child
	rates []float64
	p50s  []float64 // seconds
}

// turns measures the contestants by turns, the order reversed in every second
// pair, and audits each ledger after its process was killed.
func (b *bench) turns(ctx context.Context, eventsOfCycle int, contestants ...*contestant) (problems []string, err error) {
	for pair := range b.pairs {
		for i := range contestants {
			c := contestants[i]
			if pair%2 == 1 {
				c = contestants[len(contestants)-1-i]
			}
			found, err := b.turn(ctx, eventsOfCycle, c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			for _, p := range found {
				problems = append(problems, c.name+": "+p)
			}
		}
	}
	return problems, nil
}

// turn is one window of one contestant, in a ledger of its own.
func (b *bench) turn(ctx context.Context, eventsOfCycle int, c *contestant) (problems []string, err error) {
	if c.other != nil {
		rate, err := c.other(ctx)
		c.rates = append(c.rates, rate)
		return nil, err
	}
	o := c.order
	o.Window = b.window
	if c.order.Postgres {
		if o.Database, err = b.newDatabase(ctx); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, b.dropDatabase(ctx, o.Database)) }()
	}
	switch o.Dir, err = b.folder(o); {
	case err != nil:
		return nil, err
	case o.Existing != "": // stays for the next turn
	default:
		defer func() { err = errors.Join(err, os.RemoveAll(filepath.Dir(o.Dir))) }()
	}
	switch {
	case o.Existing != "":
	case o.Bare:
		err = os.Mkdir(o.Dir, 0o700)
	default:
		err = initFolder(ctx, o.Dir, o.Database)
	}
	if err != nil {
		return nil, err
	}
	l, err := b.killed(ctx, o)
	if err != nil {
		return nil, err
	}
	if c.order.Postgres {
		if err := b.crash(); err != nil {
			return nil, err
		}
	}
	c.rates, c.p50s = append(c.rates, l.rate), append(c.p50s, l.p50.Seconds())
	found := &audited{}
	switch {
	case o.Bare:
		found, err = auditBare(ctx, o.Dir, eventsOfCycle, l.acks)
	case o.Contexts:
		found, err = auditTurns(ctx, o, l.acks)
	case o.Commits:
		found, err = auditCommits(ctx, o.Dir, o.Database, l.acks)
	case o.Log, o.Post != "": // another program's promises; nothing that is kept
	default:
		found, err = audit(ctx, o.Dir, o.Database, l.acks)
	}
	if err != nil {
		return nil, err
	}
	return found.problems, nil
}

// folder is where the turn's installation is or will be.
func (b *bench) folder(o order) (string, error) {
	if o.Existing != "" {
		return o.Existing, nil
	}
	parent, err := os.MkdirTemp(b.dir, "turn-")
	return filepath.Join(parent, "control"), err
}

// ratios of two lists, pair by pair.
func ratios(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}

func cyclesPerSecond(c *contestant) string {
	return fmt.Sprintf("%s %.0f cycles/s", c.name, median(c.rates))
}

// grouping is rows 1 and 2, which share their sides.
func grouping(ctx context.Context, b *bench) ([]line, error) {
	recorded, err := recordCycle(ctx, b.dir)
	if err != nil {
		return nil, err
	}
	n := recorded.events()
	grouped := &contestant{name: "grouped", order: order{Callers: callers}}
	single := &contestant{name: "limit 1", order: order{Callers: callers, Batch: 1}}
	bare := &contestant{name: "bare grouped", order: order{Bare: true, Callers: callers}}
	bareSingle := &contestant{name: "bare limit 1", order: order{Bare: true, Callers: callers, Batch: 1}}
	problems, err := b.turns(ctx, n, grouped, single, bare, bareSingle)
	if err != nil {
		return nil, err
	}
	const delay = 2 * time.Millisecond
	slowGrouped := &contestant{name: "grouped, 2 ms", order: order{Callers: callers, Delay: delay}}
	slowSingle := &contestant{name: "limit 1, 2 ms", order: order{Callers: callers, Batch: 1, Delay: delay}}
	slowProblems, err := b.turns(ctx, n, slowGrouped, slowSingle)
	if err != nil {
		return nil, err
	}
	floor := fmt.Sprintf("a cycle is %d commits and %d signatures, %v of signing", len(recorded), n, round(time.Duration(n)*b.floors.sign))
	return []line{
		{row: 1, name: "64 runs: grouped / limit 1", pairs: ratios(grouped.rates, single.rates), aim: atLeast(2.5), problems: problems,
			note: cyclesPerSecond(grouped) + ", " + cyclesPerSecond(single) + "; " + floor},
		{row: 1, name: "limit 1 / bare limit 1", pairs: ratios(single.rates, bareSingle.rates), aim: atLeast(0.8), problems: problems,
			note: cyclesPerSecond(single) + ", " + cyclesPerSecond(bareSingle)},
		{row: 1, name: "the same with a 2 ms flush", pairs: ratios(slowGrouped.rates, slowSingle.rates), aim: atLeast(15), problems: slowProblems,
			note: cyclesPerSecond(slowGrouped) + ", " + cyclesPerSecond(slowSingle)},
		{row: 2, name: "in process / bare", pairs: ratios(grouped.rates, bare.rates), aim: atLeast(0.65), problems: problems,
			note: cyclesPerSecond(grouped) + ", " + cyclesPerSecond(bare) + "; the bare program reads nothing and decides nothing"},
	}, nil
}
