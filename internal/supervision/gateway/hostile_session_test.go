package gateway_test

import (
	"errors"
	"testing"
	"time"

	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

const openSession = "POST /api/sessions"

// H-145 to H-148, design 1 and 4: a shop that does not prove that it opened a session
// is asked once. The run has failed and says so, holds no session and sends nothing
// more; the next run is another matter.
func TestHostileShopSession(t *testing.T) {
	cases := []struct {
		how      string
		sessions int // that it opens all the same
	}{
		{dropBefore, 0},
		{commitAndDrop, 1},
		{error500, 0},
		{commitAnd500, 1},
		{redirect, 0},
		{otherKey, 1},
		{otherEffect, 1},
		{noReceipt, 1},
		{twoReceipts, 1},
		{halfAnswer, 1},
	}
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		ids := make([]string, len(cases))
		for i, c := range cases {
			shop.spoil(c.how, openSession)
			id, err := h.Create(t.Context(), createRequest(run.TargetHosted))
			shop.spoil(honest, "")
			if reason(err) != authority.DispatchUnconfirmed || id == "" {
				t.Fatalf("%s: run %q, %v", c.how, id, err)
			}
			ids[i] = id
		}
		everything := shop.arrivals("")
		h.clock.Move(time.Minute)
		h.SettleDue(t.Context())
		for i, c := range cases {
			id := ids[i]
			if _, err := h.Observe(t.Context(), id); reason(err) != authority.RunNotReady {
				t.Errorf("%s: observation: %v", c.how, err)
			}
			s := h.state(id)
			if s.Status != run.StatusFailed || s.Hosted.Phase != run.SessionFailed || s.Execution != nil || s.Lease != nil {
				t.Errorf("%s: status %s, session %s, execution %+v, lease %+v", c.how, s.Status, s.Hosted.Phase, s.Execution, s.Lease)
			}
			if s.Stop == nil || s.Stop.ReasonCode != authority.DispatchUnconfirmed || s.Stop.Category != stopcontext.CategoryReconciliation {
				t.Errorf("%s: stop %+v", c.how, s.Stop)
			}
			if s.Budget.Reserved != 0 || s.Budget.Spent != 0 {
				t.Errorf("%s: budget %+v", c.how, s.Budget)
			}
			if n := shop.arrivals(s.Hosted.ExecutionID); n != 1 {
				t.Errorf("%s: the request arrived %d times", c.how, n)
			}
			if n := shop.rows("sessions", s.Hosted.ID); n != c.sessions {
				t.Errorf("%s: %d sessions, want %d", c.how, n, c.sessions)
			}
			if _, err := h.ledger.SealedValue(t.Context(), h.Key(id), "hosted-session"); !errors.Is(err, ledger.ErrNotFound) {
				t.Errorf("%s: a cookie is kept: %v", c.how, err)
			}
			h.verify(id)
		}
		if n := shop.arrivals(""); n != everything || n != len(cases) {
			t.Errorf("%d requests, later %d, want %d", everything, n, len(cases))
		}
		if n := shop.arrivals(elsewhere); n != 0 {
			t.Errorf("%d requests followed a redirect", n)
		}
		h.clock.Move(-time.Minute)
		h.do(h.create(run.TargetHosted), "merchant.catalog")
	})
}

// The control of the count: a client that sends again is seen.
func TestHostileShopSessionControl(t *testing.T) {
	h, shop := farHouse(t, engines[0], func(c *gateway.Config) { c.Sender = insistent{c.Sender} })
	shop.spoil(commitAndDrop, openSession)
	id, _ := h.Create(t.Context(), createRequest(run.TargetHosted))
	if n := shop.arrivals(h.state(id).Hosted.ExecutionID); n != 2 {
		t.Errorf("the request arrived %d times, want 2", n)
	}
}
