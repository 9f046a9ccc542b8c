package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
)

// shape is one cycle as the product wrote it: the Changes in their order. The
// bare program writes the same, so that both sides have the same rows and bytes.
type shape []ledger.Change

// events is how many events, and so signatures, one cycle has.
func (s shape) events() (n int) {
	for _, c := range s {
		for _, w := range c.Writes {
			n += len(w.Events)
		}
	}
	return n
}

// recorder keeps the Changes that pass through it.
type recorder struct {
	closable
	mu      sync.Mutex
	changes []ledger.Change
}

func (r *recorder) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	r.mu.Lock()
	r.changes = append(r.changes, c)
	r.mu.Unlock()
	return r.closable.Commit(ctx, c)
}

// recordCycle lets the product do cycles in a folder of its own and returns the
// last.
func recordCycle(ctx context.Context, dir string) (_ shape, err error) {
	parent, err := os.MkdirTemp(dir, "shape-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(parent)) }()
	dir = filepath.Join(parent, "control")
	if err := initFolder(ctx, dir, ""); err != nil {
		return nil, err
	}
	l, err := openLedger(ctx, dir, "", sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	r := &recorder{closable: l}
	p, err := openPlane(dir, r)
	if err != nil {
		return nil, err
	}
	id, err := p.newRun(ctx)
	if err != nil {
		return nil, err
	}
	for range 3 {
		r.changes = nil
		if _, err := p.cycle(ctx, id, cycled); err != nil {
			return nil, err
		}
	}
	return r.changes, nil
}
