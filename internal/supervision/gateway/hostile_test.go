package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/authority"
	"countersign/internal/money"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// impatient reaches its deadline as soon as the shop says that it hangs, so that
// the test does not take the whole 8 s.
type impatient struct {
	gateway.Sender
	shop **farShop
}

func (s impatient) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	if !strings.HasSuffix(r.URL, "/api/orders") {
		return s.Sender.Send(ctx, r)
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	said := (*s.shop).lines
	go func() {
		select {
		case _, hangs := <-said:
			if hangs {
				giveUp(context.DeadlineExceeded)
			}
		case <-ctx.Done():
		}
	}()
	a, err := s.Sender.Send(ctx, r)
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return a, err
}

// farHouse is a house whose shop is another process.
func farHouse(t *testing.T, e engine, options ...option) (*house, *farShop) {
	t.Helper()
	h := emptyHouse(t, e)
	shop := startShop(t, filepath.Join(h.dir, "shop"), h.dispatchKeys())
	h.open(append([]option{shop.use}, options...)...)
	return h, shop
}

// mutation is what a shop can be told to spoil, and how a run comes to it.
type mutation struct {
	request  string   // to the shop
	steps    []string // before it
	entry    string
	table    string // where the shop keeps its effect
	reserved money.Cents
}

var (
	submit = mutation{
		"POST /api/orders", []string{"merchant.catalog", "add:fieldwork-keyboard:1", "checkout:addr_home"}, "merchant.checkout.submit", "orders", 13700,
	}
	addToCart = mutation{"POST /api/cart/items", []string{"merchant.catalog"}, "add:fieldwork-keyboard:1", "cart_lines", 0}
)

// toPermit takes a new hosted run to the permit of a mutation.
func (h *house) toPermit(m mutation) (string, *gateway.Permit) {
	h.t.Helper()
	id := h.create(run.TargetHosted)
	for _, entry := range m.steps {
		h.do(id, entry)
	}
	return id, h.allow(id, m.entry)
}

// toSubmit takes a new hosted run to the permit of its submit.
func (h *house) toSubmit() (string, *gateway.Permit) {
	h.t.Helper()
	return h.toPermit(submit)
}

// H-145 to H-148: design 1 and 4: whatever a shop does instead of answering with
// its receipt, the request is sent once, the effect is unknown, the reservation is
// kept, and the run waits for reconciliation.
func TestHostileShop(t *testing.T) {
	cases := []struct {
		mutation
		how     string
		effects int // that it has all the same
		dies    bool
	}{
		{submit, dropBefore, 0, false},
		{submit, commitAndDrop, 1, false},
		{submit, error500, 0, false},
		{submit, commitAnd500, 1, false},
		{submit, redirect, 0, false},
		{submit, otherPermit, 1, false},
		{submit, alteredReceipt, 1, false},
		{submit, otherKey, 1, false},
		{submit, otherAmount, 1, false},
		{submit, otherEffect, 1, false},
		{submit, otherBody, 1, false},
		{submit, noReceipt, 1, false},
		{submit, twoReceipts, 1, false},
		{submit, hangs, 1, false},
		{submit, halfAnswer, 1, false},
		{submit, hugeAnswer, 1, false},
		{submit, killedBefore, 0, true},
		{submit, killedAfter, 1, true},
		{addToCart, dropBefore, 0, false},
		{addToCart, commitAndDrop, 1, false},
		{addToCart, error500, 0, false},
		{addToCart, commitAnd500, 1, false},
	}
	onEach(t, func(t *testing.T, e engine) {
		var h *house
		var shop *farShop
		h, shop = farHouse(t, e, func(c *gateway.Config) { c.Sender = impatient{c.Sender, &shop} })
		ids := make([]string, len(cases))
		check := func(i int, when string) {
			t.Helper()
			c, s := cases[i], h.state(ids[i])
			how := c.request + ", " + c.how + when
			if s.Execution.State != run.ExecutionUnconfirmed || s.Status != run.StatusPaused || s.Outcome() != "unconfirmed_effect" {
				t.Errorf("%s: execution %s, status %s, outcome %s", how, s.Execution.State, s.Status, s.Outcome())
			}
			if stop := s.Stop; stop == nil || stop.Category != stopcontext.CategoryReconciliation || stop.ReasonCode != authority.DispatchUnconfirmed || stop.Source != stopcontext.SourceHosted || stop.Dispatch != "dispatched" {
				t.Errorf("%s: stop %+v", how, stop)
			}
			if s.Budget.Reserved != c.reserved || s.Budget.Spent != 0 {
				t.Errorf("%s: reserved %s, spent %s", how, s.Budget.Reserved, s.Budget.Spent)
			}
			if n := shop.rows(c.table, s.Hosted.ID); n != c.effects {
				t.Errorf("%s: %d effects, want %d", how, n, c.effects)
			}
			if n := shop.arrivals(s.Execution.ID); n != 1 {
				t.Errorf("%s: the request arrived %d times", how, n)
			}
		}
		for i, c := range cases {
			id, p := h.toPermit(c.mutation)
			ids[i] = id
			o, entry := h.entry(id, c.entry)
			shop.spoil(c.how, c.request)
			_, err := h.Operate(t.Context(), request(id, p))
			if reason(err) != authority.DispatchUnconfirmed {
				t.Errorf("%s: %v", c.how, err)
			}
			if c.dies {
				shop.wait()
				shop.restart()
			} else {
				shop.spoil(honest, "")
			}
			// Nothing goes on, and asking again sends nothing.
			if _, err := h.Operate(t.Context(), request(id, p)); reason(err) != authority.DispatchUnconfirmed {
				t.Errorf("%s: replay: %v", c.how, err)
			}
			if _, err := h.operate(id, p, "another-key-of-sixteen"); reason(err) != authority.UnresolvedEffect {
				t.Errorf("%s: another key: %v", c.how, err)
			}
			if _, err := h.Propose(t.Context(), id, "", report(o, entry)); reason(err) != authority.UnresolvedEffect {
				t.Errorf("%s: another report: %v", c.how, err)
			}
			check(i, "")
		}
		h.clock.Move(time.Minute)
		h.SettleDue(t.Context())
		for i, c := range cases {
			check(i, ", later")
			must(t, h.Revoke(t.Context(), ids[i]))
			if s := h.state(ids[i]); s.Outcome() != "unconfirmed_effect" || s.Budget.Reserved != c.reserved {
				t.Errorf("%s, %s: a revoke cleared the unknown effect: %+v", c.request, c.how, s.Budget)
			}
			h.verify(ids[i])
		}
		if n := shop.arrivals(elsewhere); n != 0 {
			t.Errorf("%d requests followed a redirect", n)
		}
	})
}

// insistent sends again what was not answered, as a careless client would.
type insistent struct{ gateway.Sender }

func (s insistent) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	a, err := s.Sender.Send(ctx, r)
	if err != nil {
		a, err = s.Sender.Send(ctx, r)
	}
	return a, err
}

// The control of the count: a client that sends again is seen.
func TestHostileShopControl(t *testing.T) {
	h, shop := farHouse(t, engines[0], func(c *gateway.Config) { c.Sender = insistent{c.Sender} })
	for _, m := range []mutation{submit, addToCart} {
		id, p := h.toPermit(m)
		shop.spoil(commitAndDrop, m.request)
		h.Operate(t.Context(), request(id, p))
		if n := shop.arrivals(h.state(id).Execution.ID); n != 2 {
			t.Errorf("%s arrived %d times, want 2", m.request, n)
		}
	}
}

// Design 4: a shop that was never reached leaves a definite no-effect.
func TestShopNeverReached(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		id, p := h.toSubmit()
		shop.kill()
		if _, err := h.Operate(t.Context(), request(id, p)); reason(err) != authority.HostedUnreachable {
			t.Errorf("operate: %v", err)
		}
		shop.restart()
		if _, err := h.Operate(t.Context(), request(id, p)); reason(err) != authority.HostedUnreachable {
			t.Errorf("replay: %v", err)
		}
		s := h.state(id)
		if s.Execution.State != run.ExecutionVoided || s.Status != run.StatusPaused || s.Stop.Category != stopcontext.CategoryConfiguration || s.Budget.Reserved != 0 || s.Budget.Spent != 0 {
			t.Errorf("execution %s, status %s, stop %+v, budget %+v", s.Execution.State, s.Status, s.Stop, s.Budget)
		}
		if h.count(id, "permit.voided") != 1 || h.count(id, "execution.voided") != 1 {
			t.Error("want one permit.voided with one execution.voided")
		}
		if n := shop.arrivals(s.Execution.ID); n != 0 {
			t.Errorf("the request arrived %d times", n)
		}
		h.verify(id)
	})
}

// L-18: the shop changes a price between permit and submit. It refuses with its
// signed receipt, nothing is charged, and the run stops for a retry.
func TestPriceChanged(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		id, p := h.toSubmit()
		_, err := shop.database().ExecContext(t.Context(), `UPDATE products SET price_cents = 12901 WHERE product_id = 'fieldwork-keyboard'`)
		must(t, err)
		out, err := h.Operate(t.Context(), request(id, p))
		if err != nil || out.State != run.ExecutionNotApplied || out.Receipt == nil || out.Receipt.Result != run.ResultRefused || out.Receipt.JWS == nil {
			t.Fatalf("%+v, %v", out, err)
		}
		s := h.state(id)
		if s.Status != run.StatusPaused || s.Stop.ReasonCode != authority.ExecutionNotApplied || s.Budget.Reserved != 0 || s.Budget.Spent != 0 {
			t.Errorf("status %s, stop %+v, budget %+v", s.Status, s.Stop, s.Budget)
		}
		if n := shop.orders(s.Hosted.ID); n != 0 {
			t.Errorf("%d orders", n)
		}
		h.verify(id)
	})
}

// G-07 L-12: a price that changed on its own moves the state revision with the next
// observation and voids the prepared proposal.
func TestPriceChangeIsObserved(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		id := h.create(run.TargetHosted)
		for _, entry := range []string{"merchant.catalog", "add:fieldwork-keyboard:1", "checkout:addr_home"} {
			h.do(id, entry)
		}
		before := h.state(id)
		o, submit := h.entry(id, "merchant.checkout.submit")
		_, err := shop.database().ExecContext(t.Context(), `UPDATE products SET price_cents = 12901 WHERE product_id = 'fieldwork-keyboard'`)
		must(t, err)
		h.clock.Move(30 * time.Second)
		_, err = h.Observe(t.Context(), id)
		must(t, err)
		after := h.state(id)
		if after.StateRevision != before.StateRevision+1 || h.count(id, "proposal.voided") != 1 {
			t.Errorf("revision %d after %d, %d proposals voided", after.StateRevision, before.StateRevision, h.count(id, "proposal.voided"))
		}
		turn, err := h.Propose(t.Context(), id, "", report(o, submit))
		must(t, err)
		if turn.Permit != nil || turn.Decision.ReasonCode != authority.MissingEvidence {
			t.Errorf("a report on the old observation: %+v", turn.Decision)
		}
		h.verify(id)
	})
}
