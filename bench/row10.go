package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/tools"
	"countersign/internal/pgtest"
)

// contextTurns is row 10: whole turns a second of 64 applications against the least that
// they can cost, on each engine, and the slowest of compass calls over a large Build.
func contextTurns(ctx context.Context, b *bench) (_ []line, err error) {
	if b.server == nil {
		if b.server, err = pgtest.Start(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, b.server.Stop()); b.server = nil }()
	}
	embedded := &contestant{name: "SQLite", order: order{Contexts: true, Callers: callers}}
	embeddedFloor := &contestant{name: "its floor", order: order{Contexts: true, Floor: true, Callers: callers}}
	server := &contestant{name: "PostgreSQL", order: order{Contexts: true, Postgres: true, Callers: callers}}
	serverFloor := &contestant{name: "its floor", order: order{Contexts: true, Floor: true, Postgres: true, Callers: callers}}
	problems, err := b.turns(ctx, 0, embedded, embeddedFloor, server, serverFloor)
	if err != nil {
		return nil, err
	}
	note := func(x, y *contestant) string {
		return fmt.Sprintf("%s %.0f turns/s, %s %.0f/s; a turn is start, compass over %d documents, complete: three commits, which alone are the floor", x.name, median(x.rates), y.name, median(y.rates), contextDocuments)
	}
	lines := []line{
		{row: 10, name: "context turns on SQLite / floor", pairs: ratios(embedded.rates, embeddedFloor.rates), aim: atLeast(0.5), problems: problems, note: note(embedded, embeddedFloor)},
		{row: 10, name: "context turns on PostgreSQL / floor", pairs: ratios(server.rates, serverFloor.rates), aim: atLeast(0.5), problems: problems, note: note(server, serverFloor)},
	}
	slowest, err := b.compass(ctx)
	return append(lines, slowest), err
}

// Sizes of the compass line.
const (
	largeBuild   = 10_000
	compassCalls = 1000 // of one side of one pair
)

// compass asks one Build and the bare index over the same text the same tasks, by turns,
// one caller each.
func (b *bench) compass(ctx context.Context) (_ line, err error) {
	documents, calls := largeBuild, compassCalls
	if b.quick {
		documents, calls = 500, 100
	}
	lib, err := newLibrary(documents)
	if err != nil {
		return line{}, err
	}
	dir, err := os.MkdirTemp(b.dir, "compass-")
	if err != nil {
		return line{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	index, err := newBareIndex(ctx, dir, lib)
	if err != nil {
		return line{}, err
	}
	defer func() { err = errors.Join(err, index.db.Close()) }()
	raw := map[string][]byte{}
	for i, d := range lib.documents {
		raw[d.SHA256] = []byte(lib.files[i])
	}
	build, err := tools.Open(ctx, content.NewManifest(lib.documents, nil), func(_ context.Context, hashes []string) ([][]byte, error) {
		list := make([][]byte, len(hashes))
		for i, h := range hashes {
			list[i] = raw[h]
		}
		return list, nil
	})
	if err != nil {
		return line{}, err
	}
	defer func() { err = errors.Join(err, build.Close()) }()
	tasks := lib.tasks(differentTasks)
	var problems []string
	ours := func(task string) error {
		a, err := build.Compass(ctx, "bench", task)
		if err == nil && len(a.Items) == 0 {
			err = fmt.Errorf("compass has nothing for %q", task)
		}
		return err
	}
	bare := func(task string) error { _, err := index.ask(ctx, task); return err }
	var p99s [2][]float64
	for pair := range b.pairs {
		sides := []int{0, 1}
		if pair%2 == 1 {
			slices.Reverse(sides)
		}
		for _, side := range sides {
			took := make([]float64, 0, calls)
			for i := range calls {
				task, ask := tasks[i%len(tasks)], ours
				if side == 1 {
					ask = bare
				}
				start := time.Now()
				if err := ask(task); err != nil {
					return line{}, err
				}
				took = append(took, time.Since(start).Seconds())
			}
			slices.Sort(took)
			p99s[side] = append(p99s[side], took[len(took)*99/100])
		}
	}
	return line{
		row: 10, name: "compass p99 / bare query", pairs: ratios(p99s[0], p99s[1]), aim: atMost(3), problems: problems,
		note: fmt.Sprintf("%d documents: compass %v, the five best of SQLite's own full text search %v", documents, seconds(median(p99s[0])), seconds(median(p99s[1]))),
	}, nil
}
