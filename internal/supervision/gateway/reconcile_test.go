package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/authority"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/records"
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

// proxy stands before a store. It takes requests of one path in, loses their sender,
// and hands them on when it is told to.
type proxy struct {
	store http.Handler

	mu    sync.Mutex
	path  string // to hold back, "" for nothing
	held  []*http.Request
	asked gateway.OperateRequest // whose dispatch was held back last
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Path != p.path {
		p.store.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	late := r.Clone(context.Background())
	late.Body = io.NopCloser(bytes.NewReader(body))
	p.held = append(p.held, late)
	drop(w, "")
}

// deliver hands everything on that was held back, and returns the answers.
func (p *proxy) deliver() []*httptest.ResponseRecorder {
	p.mu.Lock()
	defer p.mu.Unlock()
	var answers []*httptest.ResponseRecorder
	for _, r := range p.held {
		rec := httptest.NewRecorder()
		p.store.ServeHTTP(rec, r)
		answers = append(answers, rec)
	}
	p.path, p.held = "", nil
	return answers
}

// cut loses every request of a path from now on, "" for none.
func (p *proxy) cut(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path, p.held = path, nil
}

// behindProxy is a house whose store stands behind a proxy, and a run whose submit is
// held back there.
func behindProxy(t *testing.T, e engine, options ...option) (h *house, p *proxy, id string, x run.Execution) {
	t.Helper()
	h = newHouse(t, e, options...)
	p = &proxy{store: h.server.Config.Handler}
	h.server.Config.Handler = p
	id, x = h.heldBack(p)
	return h, p, id, x
}

func (h *house) heldBack(p *proxy) (id string, x run.Execution) {
	h.t.Helper()
	id, permit := h.toSubmit()
	p.mu.Lock()
	p.path = "/api/orders"
	p.mu.Unlock()
	p.asked = request(id, permit)
	if _, err := h.Operate(h.t.Context(), p.asked); reason(err) != authority.DispatchUnconfirmed {
		h.t.Fatal(err)
	}
	return id, *h.state(id).Execution
}

func (h *house) orders(id string) int {
	h.t.Helper()
	return countOrders(h.t, h.storeDir(), h.state(id).Hosted.ID)
}

// L-4: the original request is under way for longer than the look-up. The store has
// closed it by then and refuses it, so that nothing happens behind what was found.
func TestOriginalBehindTheLookUp(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, p, id, x := behindProxy(t, e)
		must(t, h.Probe(t.Context(), id, x.ID))
		late := p.deliver()
		if len(late) != 1 || late[0].Code != http.StatusConflict {
			t.Fatalf("%d late answers, %d", len(late), late[0].Code)
		}
		receipt, err := dispatch.ParseReceipt(late[0].Header().Get(dispatch.ReceiptHeader), []dispatch.TrustedKey{h.store.ReceiptKey()})
		if err != nil || receipt.Result != dispatch.Closed || receipt.ID != x.ID {
			t.Errorf("%+v, %v", receipt, err)
		}
		if n := h.orders(id); n != 0 {
			t.Errorf("%d orders", n)
		}
		must(t, h.Retry(t.Context(), id))
		h.do(id, "merchant.checkout.submit")
		if s := h.state(id); s.Status != run.StatusCompleted || h.orders(id) != 1 || s.Budget.Spent != 13700 {
			t.Errorf("status %s, %d orders, %+v", s.Status, h.orders(id), s.Budget)
		}
		h.verify(id)
	})
}

// The control of the close: a store that answers and does not keep it takes the late
// original, and its order is seen.
func TestOriginalBehindTheLookUpControl(t *testing.T) {
	h, p, id, x := behindProxy(t, engines[0])
	must(t, h.Probe(t.Context(), id, x.ID))
	_, err := storeDatabase(t, h.storeDir()).ExecContext(t.Context(), `DELETE FROM dispatch_ledger WHERE jti = ?`, x.ID)
	must(t, err)
	if late := p.deliver(); late[0].Code != http.StatusCreated || h.orders(id) != 1 {
		t.Errorf("the late original is answered with %d, %d orders", late[0].Code, h.orders(id))
	}
}

// L-4: a look-up and the original arrive together. Whichever the store takes first, the
// run comes to what the store did, and nobody counts twice.
func TestLookUpAndOriginalTogether(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, p, _, _ := behindProxy(t, e)
		for range 8 {
			p.deliver()
			id, x := h.heldBack(p)
			var together sync.WaitGroup
			together.Go(func() { p.deliver() })
			together.Go(func() {
				if err := h.Probe(t.Context(), id, x.ID); err != nil {
					t.Error(err)
				}
			})
			together.Wait()
			s := h.state(id)
			switch orders := h.orders(id); {
			case orders == 1 && s.Status == run.StatusCompleted && s.Budget.Spent == 13700:
			case orders == 0 && s.Status == run.StatusPaused && s.Budget.Spent == 0:
			default:
				t.Errorf("%d orders, status %s, %+v", orders, s.Status, s.Budget)
			}
			if s.Budget.Reserved != 0 {
				t.Errorf("reserved %s", s.Budget.Reserved)
			}
			h.verify(id)
		}
	})
}

// Several owners' clicks at once, and one afterwards: the store may be asked several
// times, and what it says is recorded once.
func TestManyProbes(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		for _, how := range []string{commitAndDrop, dropBefore} {
			id, x := h.lost(shop, how)
			var together sync.WaitGroup
			for range 4 {
				g := h.another(shop.use) // as many processes
				together.Go(func() {
					if err := g.Probe(t.Context(), id, x.ID); err != nil && reason(err) != authority.RecoveryNotEligible {
						t.Errorf("%s: %v", how, err)
					}
				})
			}
			together.Wait()
			if n := h.count(id, "execution.receipt") - h.count(id, "permit.consumed"); n != 0 || h.count(id, "execution.probed") != 1 {
				t.Errorf("%s: %d probes recorded", how, h.count(id, "execution.probed"))
			}
			asked := shop.arrivals("POST " + dispatch.ClosePath)
			if err := h.Probe(t.Context(), id, x.ID); reason(err) != authority.RecoveryNotEligible {
				t.Errorf("%s: once more: %v", how, err)
			}
			if n := shop.arrivals("POST " + dispatch.ClosePath); n != asked {
				t.Errorf("%s: a known outcome was asked for", how)
			}
			if err := h.Probe(t.Context(), id, id); reason(err) != authority.NotFound {
				t.Errorf("%s: no execution: %v", how, err)
			}
			h.verify(id)
		}
	})
}

// L-4: a revoked run's unknown effect can still be found out; the run stays revoked.
func TestProbeOfARevokedRun(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		for how, spent := range map[string]int64{commitAndDrop: 13700, dropBefore: 0} {
			id, x := h.lost(shop, how)
			must(t, h.Revoke(t.Context(), id))
			if s := h.state(id); s.Outcome() != "unconfirmed_effect" {
				t.Errorf("%s: outcome %s", how, s.Outcome())
			}
			must(t, h.Probe(t.Context(), id, x.ID))
			s := h.state(id)
			if s.Status != run.StatusRevoked || s.Outcome() != run.StatusRevoked || int64(s.Budget.Spent) != spent || s.Budget.Reserved != 0 {
				t.Errorf("%s: status %s, outcome %s, %+v", how, s.Status, s.Outcome(), s.Budget)
			}
			h.verify(id)
		}
	})
}

// G-14, L-4: each statement, and then a look-up that says otherwise or the same.
func TestStatementAndReceipt(t *testing.T) {
	cases := []struct {
		how, finding  string
		contradicted  bool
		status, stop  string
		spent         int64
		beforeReceipt int64 // spent by the statement alone
	}{
		{commitAndDrop, "applied", false, run.StatusCompleted, "", 13700, 13700},
		{commitAndDrop, "unknown", false, run.StatusCompleted, "", 13700, 0},
		{commitAndDrop, "not_applied", true, run.StatusPaused, authority.VerificationDiffers, 13700, 0},
		{dropBefore, "applied", true, run.StatusPaused, authority.VerificationDiffers, 0, 13700},
		{dropBefore, "unknown", false, run.StatusPaused, authority.ExecutionNotApplied, 0, 0},
		{dropBefore, "not_applied", false, run.StatusPaused, authority.ExecutionNotApplied, 0, 0},
	}
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		for _, c := range cases {
			what := c.how + ", " + c.finding
			id, x := h.lost(shop, c.how)
			if c.finding == "not_applied" { // it is a statement only while the store cannot be reached
				shop.spoil(dropBefore, "POST "+dispatch.ClosePath)
				h.clock.Move(90 * time.Second)
			}
			must(t, h.Reconcile(t.Context(), id, decide.Statement{ExecutionID: x.ID, Finding: c.finding, Note: "I asked them."}))
			shop.spoil(honest, "")
			if c.finding == "not_applied" {
				h.clock.Move(-90 * time.Second)
			}
			s := h.state(id)
			if s.Status != run.StatusPaused || int64(s.Budget.Spent) != c.beforeReceipt || (s.Budget.Reserved > 0) != (c.finding == "unknown") {
				t.Errorf("%s: status %s, %+v", what, s.Status, s.Budget)
			}
			h.verify(id)
			must(t, h.Probe(t.Context(), id, x.ID))
			s = h.state(id)
			if s.Status != c.status || s.Stop != nil && s.Stop.ReasonCode != c.stop || int64(s.Budget.Spent) != c.spent || s.Budget.Reserved != 0 {
				t.Errorf("%s: then status %s, stop %+v, %+v", what, s.Status, s.Stop, s.Budget)
			}
			if n := h.count(id, "execution.contradicted"); (n == 1) != c.contradicted {
				t.Errorf("%s: %d contradictions", what, n)
			}
			h.verify(id)
		}
	})
}

// L-4: the run went on after a false not_applied and bought again. When the store can
// be asked at last, the receipt counts: the overspending is shown and the run stops.
func TestContradictionAfterTheRunWentOn(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, p, id, x := behindProxy(t, e)
		p.deliver()
		p.cut(dispatch.ClosePath)
		h.clock.Move(90 * time.Second)
		must(t, h.Reconcile(t.Context(), id, decide.Statement{ExecutionID: x.ID, Finding: "not_applied"}))
		// The agent that repeats its request is told what is known, as it gets known.
		answered := func(state string, receipt bool) {
			t.Helper()
			out, err := h.Operate(t.Context(), p.asked)
			if err != nil || !out.Replayed || out.State != state || (out.Receipt != nil) != receipt {
				t.Errorf("asked again: %+v, %v, want %s", out, err, state)
			}
		}
		answered(run.ExecutionReconciled, false)
		must(t, h.Retry(t.Context(), id))
		// The cart is empty: the order is there. The agent does all of it once more.
		for _, entry := range []string{"add:fieldwork-keyboard:1", "checkout:addr_home", "merchant.checkout.submit"} {
			h.do(id, entry)
		}
		if s := h.state(id); s.Status != run.StatusCompleted || h.orders(id) != 2 {
			t.Fatalf("status %s, %d orders", s.Status, h.orders(id))
		}
		p.cut("")
		answered(run.ExecutionReconciled, false)
		must(t, h.Probe(t.Context(), id, x.ID))
		answered(run.ExecutionReceipted, true)
		s := h.state(id)
		if s.Status != run.StatusCompleted || s.Budget.Spent != 27400 || s.Overspent != 13700 || h.count(id, "execution.contradicted") != 1 {
			t.Errorf("status %s, %+v, overspent %s", s.Status, s.Budget, s.Overspent)
		}
		h.verify(id)
		v, err := h.View(t.Context(), id)
		must(t, err)
		i := slices.IndexFunc(v.Executions, func(o records.Execution) bool { return o.ExecutionID == x.ID })
		if first := v.Executions[i]; first.State != run.ExecutionReceipted || first.Receipt == nil || first.Receipt.Result != run.ResultApplied || first.Finding == nil || *first.Finding != "not_applied" {
			t.Errorf("the view says %s, %+v", first.State, first.Receipt)
		}
	})
}

// L-4, G-14: while the store cannot be reached nothing is found out, and that nothing
// happened can be stated only when the dispatch permit has long expired.
func TestStoreDown(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		id, x := h.lost(shop, dropBefore)
		shop.kill()
		for range 2 {
			if err := h.Probe(t.Context(), id, x.ID); reason(err) != authority.HostedUnreachable {
				t.Errorf("probe: %v", err)
			}
		}
		statement := decide.Statement{ExecutionID: x.ID, Finding: "not_applied"}
		if err := h.Reconcile(t.Context(), id, statement); reason(err) != authority.PermitStillLive {
			t.Errorf("at once: %v", err)
		}
		if got, want := h.answers(id), []string{"unreachable", "unreachable", "unreachable"}; !slices.Equal(got, want) {
			t.Errorf("answers %q", got)
		}
		if s := h.state(id); s.Execution.State != run.ExecutionUnconfirmed || s.Budget.Reserved != 13700 || s.Outcome() != "unconfirmed_effect" {
			t.Errorf("execution %s, %+v", s.Execution.State, s.Budget)
		}
		h.clock.Move(80 * time.Second)
		if err := h.Reconcile(t.Context(), id, statement); reason(err) != authority.PermitStillLive {
			t.Errorf("after 80 s: %v", err)
		}
		h.clock.Move(10 * time.Second)
		must(t, h.Reconcile(t.Context(), id, statement))
		if s := h.state(id); s.Status != run.StatusPaused || s.Stop.Category != "retry" || s.Execution.State != run.ExecutionReconciled || s.Budget.Reserved != 0 {
			t.Errorf("status %s, stop %+v, execution %s, %+v", s.Status, s.Stop, s.Execution.State, s.Budget)
		}
		h.verify(id)
	})
}

// G-14, L-4: at a store not_applied closes the dispatch first. What comes back is used in
// place of the statement, also when it says the same.
func TestStatementAsksFirst(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		for how, want := range map[string]string{commitAndDrop: run.StatusCompleted, dropBefore: run.StatusPaused} {
			id, x := h.lost(shop, how)
			must(t, h.Reconcile(t.Context(), id, decide.Statement{ExecutionID: x.ID, Finding: "not_applied"}))
			if s := h.state(id); s.Status != want || s.Execution.State == run.ExecutionReconciled || h.count(id, "execution.reconciled") != 0 || h.count(id, "execution.probed") != 1 {
				t.Errorf("%s: status %s, execution %s", how, s.Status, s.Execution.State)
			}
			h.verify(id)
		}
		asked := shop.arrivals("POST " + dispatch.ClosePath)
		for _, finding := range []string{"applied", "unknown"} { // these send nothing
			id, x := h.lost(shop, dropBefore)
			must(t, h.Reconcile(t.Context(), id, decide.Statement{ExecutionID: x.ID, Finding: finding}))
			if n := shop.arrivals("POST " + dispatch.ClosePath); n != asked {
				t.Errorf("%s asked the store", finding)
			}
		}
	})
}

// The negative control: with that guard off a statement is taken while the store could
// still act. The original arrives, the run has gone on, and there are two orders.
func TestStatementControl(t *testing.T) {
	for _, off := range []bool{false, true} {
		h, p, id, x := behindProxy(t, engines[0], func(c *gateway.Config) { c.Doors.Statement, c.Doors.Machine = off, off })
		must(t, h.Reconcile(t.Context(), id, decide.Statement{ExecutionID: x.ID, Finding: "not_applied"}))
		must(t, h.Retry(t.Context(), id))
		late := p.deliver()
		if took := late[0].Code == http.StatusCreated; took != off || (h.orders(id) == 1) != off {
			t.Errorf("guard off %t: the late original is answered with %d, %d orders", off, late[0].Code, h.orders(id))
		}
	}
}

// L-4: whatever a store answers a probe with that is not its receipt about exactly this
// dispatch, nothing changes; the next honest answer decides.
func TestHostileAnswersToAProbe(t *testing.T) {
	closing := "POST " + dispatch.ClosePath
	cases := map[string]string{
		dropBefore: "unreachable", commitAndDrop: "unreachable", halfAnswer: "unreachable", hugeAnswer: "unreachable",
		error500: "unverifiable", commitAnd500: "unverifiable", redirect: "unverifiable", otherPermit: "unverifiable", alteredReceipt: "unverifiable",
		otherKey: "unverifiable", otherAmount: "unverifiable", otherEffect: "unverifiable", noReceipt: "unverifiable", twoReceipts: "unverifiable",
	}
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		for how, answer := range cases {
			id, x := h.lost(shop, commitAndDrop)
			shop.spoil(how, closing)
			err := h.Probe(t.Context(), id, x.ID)
			if want := map[string]string{"unreachable": authority.HostedUnreachable, "unverifiable": "<nil>"}[answer]; reason(err) != want {
				t.Errorf("%s: %v", how, err)
			}
			s := h.state(id)
			if got := h.answers(id); !slices.Equal(got, []string{answer}) || s.Execution.State != run.ExecutionUnconfirmed || s.Budget.Reserved != 13700 || s.Status != run.StatusPaused {
				t.Errorf("%s: answers %q, execution %s, %+v", how, got, s.Execution.State, s.Budget)
			}
			h.verify(id)
			shop.spoil(honest, "")
			must(t, h.Probe(t.Context(), id, x.ID))
			if s := h.state(id); s.Status != run.StatusCompleted {
				t.Errorf("%s: then %s", how, s.Status)
			}
			h.verify(id)
		}
		if n := shop.arrivals(elsewhere); n != 0 {
			t.Errorf("%d requests followed a redirect", n)
		}
	})
}

// answering is a sender whose probes are answered so.
type answering struct {
	gateway.Sender
	dispatch.Answer
}

func (s answering) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	if r.Method == http.MethodPost && bytes.Contains(r.Body, []byte("jti")) {
		return s.Answer, nil
	}
	return s.Sender.Send(ctx, r)
}

// L-4, design 4: a store that cannot close, and one that does not know any more.
func TestStoresThatCannotTell(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		for _, c := range []struct {
			status       int
			body, answer string
		}{
			{404, `{}`, "not_seen"},
			{405, `{}`, "not_seen"},
			{501, `{}`, "not_seen"},
			{410, `{"reasonCode":"BEYOND_RETENTION"}`, "beyond_retention"},
			{410, `{"reasonCode":"GONE"}`, "unverifiable"},
			{200, `{"result":"closed"}`, "unverifiable"},
		} {
			id, x := h.lost(shop, dropBefore)
			g := h.another(shop.use, func(cfg *gateway.Config) {
				cfg.Sender = answering{cfg.Sender, dispatch.Answer{Status: c.status, Body: []byte(c.body)}}
			})
			must(t, g.Probe(t.Context(), id, x.ID))
			if got := h.answers(id); !slices.Equal(got, []string{c.answer}) || h.state(id).Execution.State != run.ExecutionUnconfirmed {
				t.Errorf("%d %s: %q", c.status, c.body, got)
			}
			h.verify(id)
		}
	})
}

// A local service can be asked and has nothing to close: what got lost there is
// not_seen, and the owner's word is all there is.
func TestLocalReconciliation(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for finding, state := range map[string]string{"applied": run.ExecutionReconciled, "not_applied": run.ExecutionReconciled, "unknown": run.ExecutionUnconfirmed} {
			id := h.create(run.TargetLocal)
			h.do(id, "merchant.catalog")
			must(t, h.Simulate(t.Context(), id, run.SimulateDropReceipt))
			p := h.allow(id, "add:fieldwork-keyboard:1")
			if _, err := h.Operate(t.Context(), request(id, p)); reason(err) != authority.DispatchUnconfirmed {
				t.Fatal(err)
			}
			x := h.state(id).Execution
			must(t, h.Probe(t.Context(), id, x.ID))
			must(t, h.Reconcile(t.Context(), id, decide.Statement{ExecutionID: x.ID, Finding: finding}))
			if s := h.state(id); s.Execution.State != state || !slices.Equal(h.answers(id), []string{"not_seen"}) {
				t.Errorf("%s: execution %s, %q", finding, s.Execution.State, h.answers(id))
			}
			h.verify(id)
		}
	})
}

// answered carries the permit out until the store has answered, and holds the attempt
// before it records that; goOn lets it end and returns its error.
func (h *house) answered(shop *farShop, id string, p *gateway.Permit) (goOn func() error) {
	h.t.Helper()
	waiting, let := make(chan struct{}), make(chan struct{})
	g := h.another(shop.use, func(c *gateway.Config) {
		c.Fault = func(point string) {
			if point == "before-receipt" {
				close(waiting)
				<-let
			}
		}
	})
	done := make(chan error, 1)
	go func() { _, err := g.Operate(h.t.Context(), request(id, p)); done <- err }()
	<-waiting
	return func() error { close(let); return <-done }
}

// H-147: under the lease of the original attempt nobody is asked and nothing stated.
func TestProbeUnderTheLease(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		id, p := h.toSubmit()
		goOn := h.answered(shop, id, p)
		x := h.state(id).Execution
		if err := h.Probe(t.Context(), id, x.ID); reason(err) != authority.InProgress {
			t.Errorf("probe: %v", err)
		}
		for _, finding := range []string{"applied", "not_applied", "unknown"} {
			if err := h.Reconcile(t.Context(), id, decide.Statement{ExecutionID: x.ID, Finding: finding}); reason(err) != authority.InProgress {
				t.Errorf("%s: %v", finding, err)
			}
		}
		if n := shop.arrivals("POST " + dispatch.ClosePath); n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
		h.clock.Move(11 * time.Second) // the lease is over, and nobody has written that down yet
		v, err := h.View(t.Context(), id)
		must(t, err)
		if last := v.Executions[len(v.Executions)-1]; v.State.Stop == nil || v.State.Stop.ReasonCode != authority.DispatchUnconfirmed || last.ExecutionID != x.ID || last.State != run.ExecutionUnconfirmed {
			t.Errorf("stop %+v, execution %s is %s", v.State.Stop, last.ExecutionID, last.State)
		}
		h.clock.Move(-11 * time.Second)
		must(t, goOn())
		h.verify(id)
	})
}

// L-4: the original attempt learns its outcome only after the look-up, or after a
// statement: its receipt is recorded, against the statement when it says otherwise.
func TestLateReceiptOfTheOriginal(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		for _, first := range []string{"nothing", "probe", "applied", "not_applied"} {
			id, p := h.toSubmit()
			goOn := h.answered(shop, id, p)
			h.clock.Move(11 * time.Second) // the lease is over while the process stands still
			h.SettleDue(t.Context())
			h.clock.Move(-11 * time.Second)
			x := h.state(id).Execution
			switch first {
			case "nothing":
			case "probe":
				must(t, h.Probe(t.Context(), id, x.ID))
			case "not_applied":
				shop.spoil(dropBefore, "POST "+dispatch.ClosePath)
				h.clock.Move(90 * time.Second)
				must(t, h.Reconcile(t.Context(), id, decide.Statement{ExecutionID: x.ID, Finding: first}))
				h.clock.Move(-90 * time.Second)
				shop.spoil(honest, "")
			default:
				must(t, h.Reconcile(t.Context(), id, decide.Statement{ExecutionID: x.ID, Finding: first}))
			}
			must(t, goOn())
			s := h.state(id)
			stopped := first == "not_applied"
			if (s.Status == run.StatusCompleted) == stopped || (h.count(id, "execution.contradicted") == 1) != stopped || s.Budget.Spent != 13700 || s.Budget.Reserved != 0 {
				t.Errorf("after %s: status %s, stop %+v, %+v", first, s.Status, s.Stop, s.Budget)
			}
			if n := h.count(id, "hosted.receipt"); n != 3 {
				t.Errorf("after %s: %d receipts of the store", first, n)
			}
			h.verify(id)
		}
	})
}

// Design 1: an owner who hangs up changes nothing.
func TestProbeWhoseCallerHangsUp(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		id, x := h.lost(shop, commitAndDrop)
		ctx, hangUp := context.WithCancel(t.Context())
		g := h.another(shop.use, func(c *gateway.Config) {
			c.Fault = func(point string) {
				if point == gateway.PointProbed {
					hangUp()
				}
			}
		})
		if err := g.Probe(ctx, id, x.ID); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if s := h.state(id); s.Status != run.StatusCompleted {
			t.Errorf("status %s", s.Status)
		}
		h.verify(id)
	})
}

// L-4: a control plane is killed with -9 when the store has answered and nothing is
// recorded. Asking again finds the same receipt, byte for byte.
func TestKilledProbe(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		for how, status := range map[string]string{commitAndDrop: run.StatusCompleted, dropBefore: run.StatusPaused} {
			id, x := h.lost(shop, how)
			must(t, h.ledger.Close())
			child := startChild(t, task{Control: &controlTask{
				Engine: e.name, Location: h.location, Control: h.control(), Shop: shop.origin, ShopKey: string(dispatch.FormatKeys([]dispatch.TrustedKey{shop.key})),
				Point: gateway.PointProbed, Probe: &probeTask{id, x.ID},
			}})
			if l, ok := child.next(); !ok || l.Point != gateway.PointProbed {
				t.Fatalf("%s: %+v", how, l)
			}
			child.kill()
			e.gone(t, h.location)
			h.openFor(shop)
			if s := h.state(id); s.Execution.State != run.ExecutionUnconfirmed || s.Budget.Reserved != 13700 || h.count(id, "execution.probed") != 0 {
				t.Errorf("%s: execution %s, %+v", how, s.Execution.State, s.Budget)
			}
			kept := shop.receipt(x.ID)
			must(t, h.Probe(t.Context(), id, x.ID))
			if s := h.state(id); s.Status != status {
				t.Errorf("%s: status %s", how, s.Status)
			}
			v, err := h.View(t.Context(), id)
			must(t, err)
			if r := v.Executions[len(v.Executions)-1].Receipt; r == nil || r.JWS == nil || *r.JWS != kept {
				t.Errorf("%s: %+v is not the receipt that the store had stored", how, r)
			}
			h.verify(id)
		}
	})
}

// A frozen workspace can still find out: a look-up dispatches nothing, it only closes.
func TestProbeWhileFrozen(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		found, x := h.lost(shop, commitAndDrop)
		closed, y := h.lost(shop, dropBefore)
		lift := h.freeze()
		must(t, h.Probe(t.Context(), found, x.ID))
		must(t, h.Reconcile(t.Context(), closed, decide.Statement{ExecutionID: y.ID, Finding: "not_applied"}))
		lift()
		if a, b := h.state(found).Status, h.state(closed).Stop; a != run.StatusCompleted || b.ReasonCode != authority.ExecutionNotApplied {
			t.Errorf("status %s, stop %+v", a, b)
		}
		h.verify(found)
		h.verify(closed)
	})
}
