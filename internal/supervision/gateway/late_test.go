package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

// tardy says of a claim that its fate is unknown and keeps it for later.
type tardy struct {
	gateway.Ledger
	held []ledger.Change
}

func (l *tardy) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if c.Record == nil {
		return l.Ledger.Commit(ctx, c)
	}
	l.held = append(l.held, c)
	return ledger.Result{Outcome: ledger.Unknown, Cause: errors.New("it takes too long")}
}

// TestIntentThatIsStoredLate: a claim that is stored only after its request was
// answered is voided as soon as it shows up. Nothing was sent, and it never becomes
// an unknown outcome (L-3).
func TestIntentThatIsStoredLate(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetHosted)
		h.do(id, "merchant.catalog")
		late, sent := &tardy{Ledger: h.config.Ledger}, &counting{Sender: h.config.Sender}
		g := h.another(func(c *gateway.Config) { c.Ledger, c.Sender = late, sent })
		p := h.allow(id, "add:fieldwork-keyboard:1")
		if _, err := g.Operate(t.Context(), request(id, p)); !errors.Is(err, gateway.ErrUnknown) {
			t.Fatal(err)
		}
		watcher := h.Watch(id)
		defer watcher.Close()
		if r := h.ledger.Commit(t.Context(), late.held[0]); r.Outcome != ledger.Stored {
			t.Fatal(r)
		}
		for h.state(id).Execution.State == run.ExecutionDispatched {
			<-watcher.C
		}
		if s := h.state(id); s.Execution.State != run.ExecutionVoided || s.Budget.Reserved != 0 || sent.posts != 0 {
			t.Errorf("execution %s, %d requests left", s.Execution.State, sent.posts)
		}
		h.verify(id)
	})
}

// doubtful does not know what became of any commit, and counts what is read.
type doubtful struct {
	gateway.Ledger
	loads int
}

func (l *doubtful) Load(ctx context.Context, key ledger.Key) (ledger.Subject, time.Time, error) {
	l.loads++
	return l.Ledger.Load(ctx, key)
}

func (l *doubtful) Commit(context.Context, ledger.Change) ledger.Result {
	return ledger.Result{Outcome: ledger.Unknown, Cause: errors.New("the answer is lost")}
}

// TestUnknownRefusalIsNotLookedFor: there is no intent behind a refusal whose commit
// has an unknown fate.
func TestUnknownRefusalIsNotLookedFor(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		p := h.allow(id, "merchant.catalog")
		l := &doubtful{Ledger: h.config.Ledger}
		g := h.another(func(c *gateway.Config) { c.Ledger = l })
		r := request(id, p)
		r.Token = ""
		if _, err := g.Operate(t.Context(), r); !errors.Is(err, gateway.ErrUnknown) || l.loads != 1 {
			t.Errorf("%v after %d reads of the run, want one", err, l.loads)
		}
	})
}
