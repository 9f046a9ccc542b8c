package gateway_test

import (
	"encoding/json"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/supervision/run"
)

// lost takes a hosted run to a submit whose answer, or whose request, is lost.
func (h *house) lost(shop *farShop, how string) (id string, x run.Execution) {
	h.t.Helper()
	id, p := h.toSubmit()
	shop.spoil(how, submit.request)
	if _, err := h.Operate(h.t.Context(), request(id, p)); reason(err) != authority.DispatchUnconfirmed {
		h.t.Fatalf("%s: %v", how, err)
	}
	shop.spoil(honest, "")
	return id, *h.state(id).Execution
}

// answers are the answers of the chain's probes.
func (h *house) answers(id string) []string {
	h.t.Helper()
	list := []string{}
	for _, e := range h.events(id) {
		if e.Type == "execution.probed" {
			var d run.Probed
			must(h.t, json.Unmarshal(e.Data, &d))
			list = append(list, d.Answer)
		}
	}
	return list
}

// L-4: the answer got lost, and the order is there. A probe finds the receipt that the
// store signed then; the run is verified and completed.
func TestProbeFindsWhatWasApplied(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		id, x := h.lost(shop, commitAndDrop)
		must(t, h.Probe(t.Context(), id, x.ID))
		s := h.state(id)
		if s.Status != run.StatusCompleted || s.Execution.State != run.ExecutionVerified || s.Budget.Spent != 13700 || s.Budget.Reserved != 0 || s.Outcome() != "completed" {
			t.Errorf("status %s, execution %s, budget %+v", s.Status, s.Execution.State, s.Budget)
		}
		if n := shop.orders(s.Hosted.ID); n != 1 {
			t.Errorf("%d orders", n)
		}
		h.verify(id)
	})
}

// L-4: the request got lost. A probe closes its dispatch, what was held is given back,
// and the run may be tried again.
func TestProbeClosesWhatNeverArrived(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		id, x := h.lost(shop, dropBefore)
		must(t, h.Probe(t.Context(), id, x.ID))
		s := h.state(id)
		if s.Status != run.StatusPaused || s.Stop.Category != "retry" || s.Stop.ReasonCode != authority.ExecutionNotApplied || s.Execution.State != run.ExecutionNotApplied {
			t.Errorf("status %s, stop %+v, execution %s", s.Status, s.Stop, s.Execution.State)
		}
		if s.Budget.Spent != 0 || s.Budget.Reserved != 0 || s.Used[x.GrantID]["merchant.checkout.submit"] != 0 {
			t.Errorf("budget %+v, used %v", s.Budget, s.Used)
		}
		h.verify(id)
		must(t, h.Retry(t.Context(), id))
		h.do(id, "merchant.checkout.submit")
		if s := h.state(id); s.Status != run.StatusCompleted || shop.orders(s.Hosted.ID) != 1 {
			t.Errorf("status %s, %d orders", s.Status, shop.orders(s.Hosted.ID))
		}
		h.verify(id)
	})
}
