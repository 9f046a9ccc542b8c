package ledgertest

import (
	"context"
	"testing"
	"time"

	"countersign/internal/ledger"
)

// weakened is an engine behind a door that takes a guard out of every Change.
// It exists for negative controls only.
type weakened struct {
	Engine
	without func(context.Context, Engine, *ledger.Change)
}

func (w weakened) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	w.without(ctx, w.Engine, &c)
	return w.Engine.Commit(ctx, c)
}

func withoutGuards(_ context.Context, _ Engine, c *ledger.Change) { c.Guards = nil }
func withoutFreeze(_ context.Context, _ Engine, c *ledger.Change) { c.Freezable = false }
func withoutNotAfter(_ context.Context, _ Engine, c *ledger.Change) {
	c.NotAfter = time.Time{}
}

func withoutUniqueRows(_ context.Context, _ Engine, c *ledger.Change) {
	c.Record, c.Fates, c.Credentials = nil, nil, nil
}

// overwriting writes over whatever is there, as a patch would. A write
// that loses the race against another one is tried again.
type overwriting struct{ Engine }

func (o overwriting) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	for {
		for i := range c.Writes {
			s, err := load(ctx, o.Engine, c.Writes[i].Key)
			if err != nil {
				return ledger.Result{Outcome: ledger.NotStored, Cause: err}
			}
			c.Writes[i].Revision, c.Writes[i].Head = s.Revision, s.Head
		}
		if r := o.Engine.Commit(ctx, c); r.Outcome != ledger.Conflict || r.Which != ledger.OnSubject {
			return r
		}
	}
}

// holds runs a check that must pass on the engine, and once more on a database
// of its own with a guard taken out, where it must fail.
func holds(t *testing.T, b Backend, o Options, check func(*instance) error, weaken func(Engine) Engine) {
	t.Helper()
	if err := check(start(t, b, o)); err != nil {
		t.Error(err)
	}
	control := start(t, b, o)
	control.Engine = weaken(control.Engine)
	if err := check(control); err == nil {
		t.Error("negative control: without the guard the check still passes")
	} else {
		t.Logf("negative control: %v", err)
	}
}

func taking(without func(context.Context, Engine, *ledger.Change)) func(Engine) Engine {
	return func(e Engine) Engine { return weakened{e, without} }
}
