package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/authority"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// halted hands a request on as it reaches the connection when the process was
// stopped for a while between the intent and here.
type halted struct {
	gateway.Sender
	how   func(dispatch.Request) bool // which requests
	stood time.Duration
	last  dispatch.Request // as the gateway made it
	err   error
}

func (s *halted) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	if !s.how(r) {
		return s.Sender.Send(ctx, r)
	}
	s.last = r
	if !r.NotAfter.IsZero() {
		r.NotAfter = r.NotAfter.Add(-s.stood)
	}
	var a dispatch.Answer
	a, s.err = s.Sender.Send(ctx, r)
	return a, s.err
}

func posts(r dispatch.Request) bool { return r.Method == http.MethodPost }

// L-3: a process that was stopped for 2 s between its last look at the ledger and
// the first byte, and went on when the run had been revoked, sends nothing: the
// intent is voided and the reservation released. With the window open it sends.
func TestStoppedBeforeTheFirstByte(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		for _, open := range []bool{false, true} {
			h := newHouse(t, e)
			id, p := h.toSubmit()
			sent := &halted{Sender: h.config.Sender, how: posts, stood: 2 * time.Second}
			g := h.another(func(c *gateway.Config) {
				c.Doors.Window, c.Sender = open, sent
				c.Fault = func(point string) {
					if point == "before-send" {
						must(t, h.Revoke(t.Context(), id))
					}
				}
			})
			out, err := g.Operate(t.Context(), request(id, p))
			must(t, err)
			s, orders := h.state(id), countOrders(t, h.storeDir(), h.state(id).Hosted.ID)
			switch {
			case open && (orders != 1 || out.State != run.ExecutionReceipted && out.State != run.ExecutionVerified):
				t.Errorf("control: %d orders, execution %s, %v", orders, out.State, sent.err)
			case !open && (orders != 0 || !errors.Is(sent.err, dispatch.ErrLate) || s.Execution.State != run.ExecutionVoided):
				t.Errorf("%d orders, execution %s, %v", orders, s.Execution.State, sent.err)
			case !open && (s.Budget.Reserved != 0 || s.Budget.Spent != 0 || s.Status != run.StatusRevoked):
				t.Errorf("reserved %s, spent %s, status %s", s.Budget.Reserved, s.Budget.Spent, s.Status)
			}
			h.verify(id)
			must(t, h.ledger.Close())
		}
	})
}

// A run that nobody revoked is paused for another try, not for the operator.
func TestLateIntentMayBeTriedAgain(t *testing.T) {
	h := newHouse(t, engines[0])
	id, p := h.toSubmit()
	sent := &halted{Sender: h.config.Sender, how: posts, stood: 2 * time.Second}
	g := h.another(func(c *gateway.Config) { c.Doors.Window, c.Sender = false, sent })
	_, err := g.Operate(t.Context(), request(id, p))
	must(t, err)
	s := h.state(id)
	if s.Execution.State != run.ExecutionVoided || s.Stop == nil || s.Stop.ReasonCode != authority.ExecutionNotApplied || s.Stop.Category != stopcontext.CategoryRetry {
		t.Errorf("execution %s, stop %+v", s.Execution.State, s.Stop)
	}
	h.verify(id)
}

// L-3: the window begins no later than the intent, so that it counts for whatever
// stops the process after that: opening a session, a read and a mutation. The clock
// of the ledger stands still: only the gateway's own could make the window longer.
func TestWindowBeginsWithTheIntent(t *testing.T) {
	h := newHouse(t, engines[0])
	still := time.Now()
	h.clock.Source = func() time.Time { return still }
	sent := &halted{Sender: h.config.Sender, stood: -time.Hour} // the bound is read, and not met by a busy machine
	var stopped time.Time                                       // the last moment before the request is sent
	g := h.another(func(c *gateway.Config) {
		c.Doors.Window, c.Sender = false, sent
		c.Fault = func(point string) {
			if point == "session-intent" || point == "before-send" {
				stopped = time.Now()
			}
		}
	})
	check := func(what string) {
		t.Helper()
		if left := sent.last.NotAfter.Sub(stopped); sent.last.NotAfter.IsZero() || left >= run.SendWindow || sent.err != nil {
			t.Errorf("%s: at the last moment %v of %v are left; %v", what, left, run.SendWindow, sent.err)
		}
		sent.last = dispatch.Request{}
	}
	sent.how = posts
	id, err := g.Create(t.Context(), createRequest(run.TargetHosted))
	must(t, err)
	check("session")

	sent.how = func(r dispatch.Request) bool { return !r.NotAfter.IsZero() } // not those that observe
	p := h.allow(id, "merchant.catalog")
	_, err = g.Operate(t.Context(), request(id, p))
	must(t, err)
	check("read")

	p = h.allow(id, "add:fieldwork-keyboard:1")
	_, err = g.Operate(t.Context(), request(id, p))
	must(t, err)
	check("mutation")
}

// A read that would begin late is not sent either, and definitely had no effect.
func TestLateReadIsNotApplied(t *testing.T) {
	h := newHouse(t, engines[0])
	id := h.create(run.TargetHosted)
	sent := &halted{Sender: h.config.Sender, how: func(r dispatch.Request) bool { return !r.NotAfter.IsZero() }, stood: 2 * time.Second}
	g := h.another(func(c *gateway.Config) { c.Doors.Window, c.Sender = false, sent })
	out, err := g.Operate(t.Context(), request(id, h.allow(id, "merchant.catalog")))
	if err != nil || out.State != run.ExecutionNotApplied || !errors.Is(sent.err, dispatch.ErrLate) {
		t.Errorf("%+v, %v, %v", out, err, sent.err)
	}
	h.verify(id)
}

// A session that would be opened late is not: the run fails and says so.
func TestLateSessionIsNotOpened(t *testing.T) {
	h := newHouse(t, engines[0])
	sent := &halted{Sender: h.config.Sender, how: posts, stood: 2 * time.Second}
	g := h.another(func(c *gateway.Config) { c.Doors.Window, c.Sender = false, sent })
	id, err := g.Create(t.Context(), createRequest(run.TargetHosted))
	if reason(err) != authority.HostedUnreachable || !errors.Is(sent.err, dispatch.ErrLate) {
		t.Errorf("%v, %v", err, sent.err)
	}
	if s := h.state(id); s.Status != run.StatusFailed {
		t.Errorf("status %s", s.Status)
	}
	h.verify(id)
}
