package gateway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// settling runs a settler of every gateway until the condition holds of the run, which
// it must within a generous time: rounds are a second apart.
func settling(t *testing.T, h *house, id string, gateways []*gateway.Gateway, done func() bool) {
	t.Helper()
	watch := h.Watch(id)
	defer watch.Close()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	var wg sync.WaitGroup
	for _, g := range gateways {
		wg.Go(func() { g.Settler().Run(ctx) })
	}
	for !done() && ctx.Err() == nil {
		select {
		case <-watch.C:
		case <-ctx.Done():
		}
	}
	late := ctx.Err() != nil
	stop()
	wg.Wait()
	if late {
		t.Fatal("settling did not come to it")
	}
}

// L-11 design 1: an expired permit shows up as exactly one permit.expired without
// anybody asking, whichever of two processes settles.
func TestSettlePermit(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		h.allow(id, "merchant.catalog")
		h.SettleDue(t.Context())
		if n := h.count(id, "permit.expired"); n != 0 {
			t.Fatal("a live permit was settled")
		}
		h.clock.Move(30 * time.Second)
		settling(t, h, id, h.replicas(2), func() bool { return h.count(id, "permit.expired") > 0 })
		if n := h.count(id, "permit.expired"); n != 1 {
			t.Errorf("%d permit.expired", n)
		}
		h.do(id, "merchant.catalog")
		h.verify(id)
	})
}

// G-07: a grant that ends stops the run for good.
func TestSettleGrant(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		h.clock.Move(time.Hour)
		h.SettleDue(t.Context())
		s := h.state(id)
		if s.Status != run.StatusPaused || s.Stop.Category != stopcontext.CategoryAuthority || s.Stop.Recovery != "none" {
			t.Errorf("status %s, stop %+v", s.Status, s.Stop)
		}
		if n := h.count(id, "run.paused"); n != 1 {
			t.Errorf("%d run.paused", n)
		}
		h.verify(id)
	})
}

// The control of what settling writes: without it an expired permit, an ended grant
// and a lease that ran out leave nothing in the chain.
func TestSettleControl(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		for _, off := range []bool{false, true} {
			var h *house
			hanging := ""
			h = newHouse(t, e, func(c *gateway.Config) {
				c.Doors.Settle = off
				c.Fault = func(point string) {
					if hanging != "" && point == "before-receipt" {
						h.clock.Move(10 * time.Second)
						h.SettleDue(t.Context())
						if n := h.count(hanging, "execution.unconfirmed"); (n == 1) == off {
							t.Errorf("door %t: %d execution.unconfirmed", off, n)
						}
					}
				}
			})
			id := h.create(run.TargetLocal)
			h.allow(id, "merchant.catalog")
			h.clock.Move(30 * time.Second)
			h.SettleDue(t.Context())
			if n := h.count(id, "permit.expired"); (n == 1) == off {
				t.Errorf("door %t: %d permit.expired", off, n)
			}
			h.clock.Move(time.Hour)
			h.SettleDue(t.Context())
			if n := h.count(id, "run.paused"); (n == 1) == off {
				t.Errorf("door %t: %d run.paused", off, n)
			}
			id, p := h.toSubmit()
			hanging = id
			_, err := h.Operate(t.Context(), request(id, p))
			must(t, err)
			must(t, h.ledger.Close())
		}
	})
}

// Design 1: the lease of an attempt whose process hangs ends after ten seconds: the
// effect of a hosted mutation is unknown. The answer that comes later all the same
// is recorded.
func TestLateReceipt(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		var h *house
		var id string
		armed := false
		h = newHouse(t, e, func(c *gateway.Config) {
			c.Fault = func(point string) {
				if !armed || point != "before-receipt" {
					return
				}
				armed = false
				h.clock.Move(11 * time.Second)
				h.SettleDue(t.Context())
				s := h.state(id)
				if s.Execution.State != run.ExecutionUnconfirmed || s.Budget.Reserved != 13700 {
					t.Errorf("after the lease: execution %s, budget %+v", s.Execution.State, s.Budget)
				}
			}
		})
		var p *gateway.Permit
		id, p = h.toSubmit()
		armed = true
		out, err := h.Operate(t.Context(), request(id, p))
		if err != nil || out.Receipt == nil || out.Receipt.Result != run.ResultApplied {
			t.Errorf("%+v, %v", out, err)
		}
		s := h.state(id)
		if s.Unresolved() || s.Budget.Spent != 13700 || s.Budget.Reserved != 0 || h.count(id, "hosted.receipt") != 3 {
			t.Errorf("outcome %s, budget %+v, %d receipts", s.Outcome(), s.Budget, h.count(id, "hosted.receipt"))
		}
		h.verify(id)
	})
}
