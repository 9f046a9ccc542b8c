package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"countersign/evidence"
	"countersign/internal/ledger"
)

var errInjected = errors.New("injected fault")

// walk is the shortest way past every fail point: create, update with every
// part, and a Change that loses.
type walk struct {
	plan
	engine Engine
}

// newWalk stores the subject that every update leans on.
func newWalk(ctx context.Context, e Engine, key evidence.SigningKey) (walk, error) {
	guarded := fresh()
	if r := e.Commit(ctx, guarded); r.Outcome != ledger.Stored {
		return walk{}, r.Err()
	}
	return walk{plan{id: newID(), key: key, guard: ledger.Guard{Key: guarded.Writes[0].Key, Revision: 1}}, e}, nil
}

// lose commits a Change that was decided on an older revision.
func (w walk) lose(ctx context.Context) ledger.Result {
	s := ledger.Subject{Key: w.subject(), Head: evidence.Genesis} // as if it were not there
	now, err := w.engine.Now(ctx)
	if err != nil {
		return ledger.Result{Outcome: ledger.NotStored, Cause: err}
	}
	c, err := w.next(s, now)
	if err != nil {
		return ledger.Result{Outcome: ledger.NotStored, Cause: err}
	}
	return w.engine.Commit(ctx, c)
}

// truthful commits the next Change and compares the answer with what is there.
func (w walk) truthful(ctx context.Context) (ledger.Result, error) {
	before, err := w.audit(ctx, w.engine)
	if err != nil {
		return ledger.Result{}, fmt.Errorf("before: %w", err)
	}
	_, r, err := w.step(ctx, w.engine)
	if err != nil {
		return r, err
	}
	after, err := w.audit(ctx, w.engine)
	if err != nil {
		return r, fmt.Errorf("after %v: %w", r.Outcome, err)
	}
	switch {
	case r.Outcome == ledger.Stored && after == before+1,
		r.Outcome == ledger.NotStored && after == before && r.Cause != nil,
		r.Outcome == ledger.Unknown && (after == before || after == before+1) && r.Cause != nil:
		return r, nil
	}
	return r, fmt.Errorf("%v (%v) and the subject went from revision %d to %d", r.Outcome, r.Cause, before, after)
}

// For every fail point, the transaction that reaches it fails there once. The
// answer is compared with what is in the tables: at a point before the
// transaction is durable this is "failed and not stored", at a durable one
// "stored but reported failed". The next Change is stored, on the same engine.
// Three commits and their audits a point.
func testFaults(t *testing.T, b Backend) {
	for _, point := range b.Points {
		t.Run(point, func(t *testing.T) { faultAt(t, b, point) })
	}
}

func faultAt(t testing.TB, b Backend, point string) {
	i := start(t, b, Options{})
	w, err := newWalk(t.Context(), i.Engine, i.key)
	if err != nil {
		t.Fatal(err)
	}
	var hit atomic.Bool
	var outcomes []ledger.Outcome
	i.points.set(func(p string) error {
		if p == point && hit.CompareAndSwap(false, true) {
			return errInjected
		}
		return nil
	})
	for range 2 {
		before := i.rows()
		struck := hit.Load()
		r, err := w.truthful(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, r.Outcome)
		struck = !struck && hit.Load()
		if !struck && r.Outcome != ledger.Stored {
			t.Errorf("without a fault: %v", r.Err())
		}
		if struck && slices.Contains(b.Durable, point) && r.Outcome == ledger.NotStored {
			t.Error("stored, but the answer is not stored")
		}
		if r.Outcome == ledger.NotStored {
			if err := i.unchanged(before); err != nil {
				t.Error(err)
			}
		}
	}
	if !hit.Load() {
		if r := w.lose(t.Context()); r.Outcome == ledger.Stored {
			t.Error("a lost race is stored")
		} else {
			outcomes = append(outcomes, r.Outcome)
		}
	}
	if !hit.Load() {
		t.Fatal("the point was not hit")
	}
	t.Logf("answers: %v", outcomes)
	if r, err := w.truthful(t.Context()); err != nil || r.Outcome != ledger.Stored {
		t.Errorf("the next Change: %v, %v", r.Err(), err)
	}
	if r := w.lose(t.Context()); r.Outcome != ledger.Conflict || r.Which != ledger.OnSubject {
		t.Errorf("a lost race afterwards: %v", r.Err())
	}
}
