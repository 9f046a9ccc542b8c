package workspace_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"countersign/internal/ledger"
	"countersign/internal/supervision/workspace"
)

// intruded is a ledger at which somebody else comes in between: once, at the next commit
// after it is armed, before it or between it and its answer, which then is lost.
type intruded struct {
	workspace.Ledger
	armed atomic.Bool
	early bool   // before the commit
	lost  bool   // the answer; the commit is stored all the same
	full  bool   // the ledger then stores nothing
	then  func() // what somebody else does
}

func (l *intruded) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if !l.armed.CompareAndSwap(true, false) {
		return l.Ledger.Commit(ctx, c)
	}
	switch {
	case l.full:
		l.then()
		return ledger.Result{Outcome: ledger.NotStored, Cause: ledger.ErrQueueFull}
	case l.early:
		l.then()
	}
	r := l.Ledger.Commit(ctx, c)
	if l.lost {
		l.then()
		r = ledger.Result{Outcome: ledger.Unknown, Cause: errors.New("the connection was lost")}
	}
	return r
}

func newIntruded(t *testing.T, open func(*ledger.Clock) openLedger, l *intruded) *house {
	return newHouse(t, open, plan{ledger: func(engine workspace.Ledger) workspace.Ledger { l.Ledger = engine; return l }})
}

// One request to unfreeze lifts the freeze that it found, however often it is tried: after a
// lost answer, after a refusal and after a lost race. A freeze that another owner has set
// meanwhile stays and is in the answer; to a request that names its freeze the answer is a conflict.
func TestUnfreezeLiftsOne(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		l := &intruded{}
		h := newIntruded(t, open, l)
		ctx := t.Context()
		first := int64(1) // the freeze that is to be lifted
		for name, way := range map[string]struct{ lost, full, early bool }{
			"the answer is lost": {lost: true}, "nothing is stored": {full: true}, "a lost race": {early: true},
		} {
			l.lost, l.full, l.early = way.lost, way.full, way.early
			l.then = func() {
				if !way.lost {
					_, err := h.Unfreeze(ctx, "first is over", first, session)
					must(t, err)
				}
				f, err := h.Freeze(ctx, "second", session)
				if err != nil || !f.Changed || f.Epoch != first+1 {
					t.Errorf("%s: the second freeze: %+v, %v", name, f, err)
				}
			}
			unfreeze := func(epoch int64) (*workspace.Frozen, error) {
				_, err := h.Freeze(ctx, "first", session)
				must(t, err)
				h.frozen(first, "first")
				l.armed.Store(true)
				return h.Unfreeze(ctx, "over", epoch, session)
			}
			over := func() {
				_, err := h.Unfreeze(ctx, "all over", 0, session)
				must(t, err)
				first += 2
			}
			f, err := unfreeze(0)
			if must(t, err); !f.Frozen || f.Epoch != first+1 || f.Reason != "second" || f.Changed {
				t.Errorf("%s: answered %+v", name, f)
			}
			h.frozen(first+1, "second")
			over()
			if f, err := unfreeze(first); reason(err) != "REVISION_CONFLICT" {
				t.Errorf("%s, that freeze only: %+v, %v", name, f, err)
			}
			h.frozen(first+1, "second")
			over()
			// Negative control: each try on its own lifts what it finds.
			h.Forgets(true)
			f, err = unfreeze(0)
			h.Forgets(false)
			if must(t, err); f.Frozen || f.Epoch != first+1 {
				t.Errorf("%s: control: the second freeze stands without the guard too: %+v", name, f)
			}
			over()
		}
	})
}

// One request to freeze freezes once: when its answer was lost and the freeze was lifted
// before the next try, that stays. One that was not stored is tried again whatever came in between.
func TestFreezeOnce(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		for _, forgets := range []bool{false, true} {
			l := &intruded{lost: true}
			h := newIntruded(t, open, l)
			ctx := t.Context()
			l.then = func() {
				f, err := h.Unfreeze(ctx, "seen to", 0, session)
				if err != nil || !f.Changed || f.Epoch != 1 {
					t.Errorf("the other owner: %+v, %v", f, err)
				}
			}
			if forgets {
				h.Forgets(true)
			}
			l.armed.Store(true)
			f, err := h.Freeze(ctx, "stop", session)
			must(t, err)
			if forgets { // negative control
				if !f.Frozen || f.Epoch != 2 {
					t.Errorf("control: it freezes once without the guard too: %+v", f)
				}
				continue
			}
			if f.Frozen || f.Epoch != 1 || f.Changed {
				t.Errorf("answered %+v", f)
			}
			h.frozen(1, "")
		}
		for name, l := range map[string]*intruded{"nothing is stored": {full: true}, "a lost race": {early: true}} {
			h := newIntruded(t, open, l)
			ctx := t.Context()
			l.then = func() {
				_, err := h.Freeze(ctx, "another's", session)
				must(t, err)
				_, err = h.Unfreeze(ctx, "the other's is over", 1, session)
				must(t, err)
			}
			l.armed.Store(true)
			if f, err := h.Freeze(ctx, "stop", session); err != nil || !f.Frozen || f.Epoch != 2 || !f.Changed {
				t.Errorf("%s: %+v, %v", name, f, err)
			}
			h.frozen(2, "stop")
		}
	})
}
