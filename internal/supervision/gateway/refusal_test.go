package gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/authority"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// request is the good request for a permit.
func request(id string, p *gateway.Permit) gateway.OperateRequest {
	return gateway.OperateRequest{RunID: id, Token: p.Token, Key: "key-of-" + p.PermitID, Body: body(p.Action)}
}

// H-006 H-028 G-09 G-12 L-3 H-082: each refusal of POST /operation has its code and, unless it
// is malformed, exactly one event; it leaves no effect, and the permit it was
// tried with still does what it is for.
func TestOperationRefused(t *testing.T) {
	cases := []struct {
		name, want string
		events     int
		edit       func(h *house, r *gateway.OperateRequest)
	}{
		{"no permit", authority.PermitRequired, 1, func(_ *house, r *gateway.OperateRequest) { r.Token = "" }},
		{"forged permit", authority.PermitMismatch, 1, func(_ *house, r *gateway.OperateRequest) {
			r.Token = strings.Split(r.Token, ".")[0] + "." + strings.Repeat("A", 43)
		}},
		{"no token at all", authority.PermitMismatch, 1, func(_ *house, r *gateway.OperateRequest) { r.Token = "\x00'; --" }},
		{"permit of another run", authority.PermitMismatch, 1, func(h *house, r *gateway.OperateRequest) {
			r.Token = h.allow(h.create(run.TargetLocal), "merchant.catalog").Token
		}},
		{"body swapped", authority.PermitMismatch, 1, func(h *house, r *gateway.OperateRequest) {
			_, other := h.entry(r.RunID, "merchant.cart")
			r.Body = body(other.Action())
		}},
		{"argument added", authority.PermitMismatch, 1, func(_ *house, r *gateway.OperateRequest) {
			r.Body = bytes.Replace(r.Body, []byte(`"args":{}`), []byte(`"args":{"quantity":2}`), 1)
		}},
		{"no key", authority.InvalidRequest, 0, func(_ *house, r *gateway.OperateRequest) { r.Key = "" }},
		{"short key", authority.InvalidRequest, 0, func(_ *house, r *gateway.OperateRequest) { r.Key = strings.Repeat("k", 15) }},
		{"long key", authority.InvalidRequest, 0, func(_ *house, r *gateway.OperateRequest) { r.Key = strings.Repeat("k", 161) }},
		{"key with a blank", authority.InvalidRequest, 0, func(_ *house, r *gateway.OperateRequest) { r.Key = "sixteen or more letters" }},
		{"unknown member", authority.InvalidRequest, 0, func(_ *house, r *gateway.OperateRequest) {
			r.Body = append([]byte(`{"permit":"x",`), r.Body[1:]...)
		}},
		{"duplicate member", authority.InvalidRequest, 0, func(_ *house, r *gateway.OperateRequest) {
			r.Body = append(slices.Clone(r.Body[:len(r.Body)-1]), `,"action":{}}`...)
		}},
		{"trailing bytes", authority.InvalidRequest, 0, func(_ *house, r *gateway.OperateRequest) { r.Body = append(slices.Clone(r.Body), '1') }},
		{"not JSON", authority.InvalidRequest, 0, func(_ *house, r *gateway.OperateRequest) { r.Body = []byte("\xff") }},
		{"empty", authority.InvalidRequest, 0, func(_ *house, r *gateway.OperateRequest) { r.Body = nil }},
	}
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		want := []string{}
		for _, c := range cases {
			p := h.allow(id, "merchant.catalog")
			good := request(id, p)
			bad := good
			c.edit(h, &bad)
			if _, err := h.Operate(t.Context(), bad); reason(err) != c.want {
				t.Errorf("%s: %v, want %s", c.name, err, c.want)
			}
			for range c.events {
				want = append(want, c.want)
			}
			if got := h.refusals(id); !slices.Equal(got, want) {
				t.Fatalf("%s: refusals %v, want %v", c.name, got, want)
			}
			if x := h.state(id).Execution; x != nil && x.PermitID == p.PermitID {
				t.Errorf("%s: it was executed", c.name)
			}
			if out, err := h.Operate(t.Context(), good); err != nil || out.State != run.ExecutionVerified || out.Replayed {
				t.Fatalf("%s: the good request: %+v, %v", c.name, out, err)
			}
		}
		h.verify(id)
	})
}

// The guard behind the body swap: without it the swapped request executes.
func TestBodySwapControl(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e, func(c *gateway.Config) { c.Doors.PermitBinding = true })
		id := h.create(run.TargetLocal)
		r := request(id, h.allow(id, "merchant.catalog"))
		_, other := h.entry(id, "merchant.cart")
		r.Body = body(other.Action())
		if _, err := h.Operate(t.Context(), r); err != nil {
			t.Errorf("%v; the door should let it through", err)
		}
	})
}

// H-043 H-082 G-12 L-13: a spent permit, and a key that was used for something else.
func TestSpentPermitAndTakenKey(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		first := request(id, h.allow(id, "merchant.catalog"))
		done, err := h.Operate(t.Context(), first)
		must(t, err)

		again := first
		again.Key = "another-key-of-sixteen"
		if _, err := h.Operate(t.Context(), again); reason(err) != authority.PermitConsumed {
			t.Errorf("consumed permit under a new key: %v", err)
		}
		otherBody := first
		_, cart := h.entry(id, "merchant.cart")
		otherBody.Body = body(cart.Action())
		if _, err := h.Operate(t.Context(), otherBody); reason(err) != authority.IdempotencyConflict {
			t.Errorf("other body under a taken key: %v", err)
		}
		otherPermit := first
		second := h.allow(id, "merchant.cart")
		otherPermit.Token = second.Token
		if _, err := h.Operate(t.Context(), otherPermit); reason(err) != authority.IdempotencyConflict {
			t.Errorf("other permit under a taken key: %v", err)
		}
		want := []string{authority.PermitConsumed, authority.IdempotencyConflict, authority.IdempotencyConflict}
		if got := h.refusals(id); !slices.Equal(got, want) {
			t.Errorf("refusals %v, want %v", got, want)
		}
		if out, err := h.Operate(t.Context(), request(id, second)); err != nil || out.ExecutionID == done.ExecutionID {
			t.Errorf("the live permit: %+v, %v", out, err)
		}
		if n := h.count(id, "execution.dispatched"); n != 2 {
			t.Errorf("%d executions, want 2", n)
		}
		h.verify(id)
	})
}

// L-19 design 3: the same request has the same content in every later state.
func TestReplayInEveryState(t *testing.T) {
	later := []struct {
		name string
		to   func(h *house, id string)
		want string
	}{
		{"ready", func(*house, string) {}, run.StatusReady},
		{"paused", func(h *house, id string) {
			o, e := h.entry(id, "add:fieldworks-keyboard:1")
			turn, err := h.Propose(h.t.Context(), id, "", report(o, e))
			must(h.t, err)
			if turn.Permit != nil {
				h.t.Error("the look-alike got a permit")
			}
		}, run.StatusPaused},
		{"completed", func(h *house, id string) { h.buy(id) }, run.StatusCompleted},
		{"revoked", func(h *house, id string) { must(h.t, h.Revoke(h.t.Context(), id)) }, run.StatusRevoked},
	}
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, l := range later {
			id := h.create(run.TargetLocal)
			r := request(id, h.allow(id, "merchant.catalog"))
			first, err := h.Operate(t.Context(), r)
			must(t, err)
			l.to(h, id)
			if s := h.state(id); s.Status != l.want {
				t.Fatalf("%s: status %s", l.name, s.Status)
			}
			before := h.count(id, "operation.refused")
			again, err := h.Operate(t.Context(), r)
			must(t, err)
			if !again.Replayed || first.Replayed {
				t.Errorf("%s: replayed %t, first %t", l.name, again.Replayed, first.Replayed)
			}
			again.Replayed = false
			if !reflect.DeepEqual(first, again) {
				t.Errorf("%s: replay %+v, first %+v", l.name, again, first)
			}
			if h.count(id, "operation.refused") != before {
				t.Errorf("%s: a replay was recorded as a refusal", l.name)
			}
		}
	})
}

// H-159 H-080 G-12: at exactly expiresAt a permit is expired; 1 ms before it works.
// PostgreSQL's clock cannot be stopped, so there the margin is seconds.
func TestPermitExpiry(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		margin := 5 * time.Second
		if e.name == "sqlite" {
			still := time.Now()
			h.clock.Source = func() time.Time { return still }
			margin = time.Millisecond
		}
		id := h.create(run.TargetLocal)
		move := func(p *gateway.Permit, d time.Duration) {
			now, err := h.ledger.Now(t.Context())
			must(t, err)
			h.clock.Move(p.ExpiresAt.Time().Add(d).Sub(now))
		}
		p := h.allow(id, "merchant.catalog")
		if e.name == "sqlite" {
			if life := p.ExpiresAt.Time().Sub(h.clock.Now()); life != 30*time.Second {
				t.Errorf("the permit lives %s, want 30 s", life)
			}
		}
		move(p, -margin)
		if out, err := h.Operate(t.Context(), request(id, p)); err != nil || out.State != run.ExecutionVerified {
			t.Errorf("%s before its end: %+v, %v", margin, out, err)
		}
		p = h.allow(id, "merchant.catalog")
		move(p, 0)
		if turn, err := h.Decision(t.Context(), id); err != nil || turn.Permit != nil {
			t.Errorf("the decision still shows an expired permit: %+v, %v", turn, err)
		}
		if _, err := h.Operate(t.Context(), request(id, p)); reason(err) != authority.PermitExpired {
			t.Errorf("at its end: %v", err)
		}
		if n := h.count(id, "permit.expired"); n != 1 {
			t.Errorf("%d permit.expired, want 1", n)
		}
		if got := h.refusals(id); !slices.Equal(got, []string{authority.PermitExpired}) {
			t.Errorf("refusals %v", got)
		}
		// L-11: an unclaimed permit that expires leaves a direct run ready.
		h.do(id, "merchant.catalog")
		h.verify(id)
	})
}

// H-082 H-096 G-12: a revoked permit authorizes nothing, and the run is over.
func TestRevokedPermit(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		p := h.allow(id, "merchant.catalog")
		o, entry := h.entry(id, "merchant.catalog")
		must(t, h.Revoke(t.Context(), id))
		must(t, h.Revoke(t.Context(), id))
		if n := h.count(id, "run.revoked"); n != 1 {
			t.Errorf("%d run.revoked after two revokes", n)
		}
		if _, err := h.Operate(t.Context(), request(id, p)); reason(err) != authority.PermitRevoked {
			t.Errorf("operate: %v", err)
		}
		if _, err := h.Propose(t.Context(), id, "", report(o, entry)); reason(err) != authority.RunNotReady {
			t.Errorf("propose: %v", err)
		}
		if got := h.refusals(id); !slices.Equal(got, []string{authority.PermitRevoked, authority.RunNotReady}) {
			t.Errorf("refusals %v", got)
		}
		if n := h.count(id, "execution.dispatched"); n != 0 {
			t.Errorf("%d executions", n)
		}
		h.verify(id)
	})
}

// H-081 G-09: a report under a live permit; H-133: a lost answer is found again.
func TestPermitOutstanding(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		o, entry := h.entry(id, "merchant.catalog")
		lost, err := h.Propose(t.Context(), id, "", report(o, entry))
		must(t, err)
		if _, err := h.Propose(t.Context(), id, "", report(o, entry)); reason(err) != authority.PermitOutstanding {
			t.Errorf("a second report: %v", err)
		}
		found, err := h.Decision(t.Context(), id)
		must(t, err)
		if !reflect.DeepEqual(found, lost) {
			t.Errorf("decision %+v, answer was %+v", found, lost)
		}
		if n := h.count(id, "permit.issued"); n != 1 {
			t.Errorf("%d permits", n)
		}
		if _, err := h.operate(id, found.Permit, "key-of-the-found-permit"); err != nil {
			t.Error(err)
		}
	})
}

func TestPermitOutstandingControl(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e, func(c *gateway.Config) { c.Doors.Outstanding = true })
		id := h.create(run.TargetLocal)
		h.allow(id, "merchant.catalog")
		o, entry := h.entry(id, "merchant.cart")
		if _, err := h.Propose(t.Context(), id, "", report(o, entry)); reason(err) == authority.PermitOutstanding {
			t.Error("the door should let a second report through")
		}
	})
}

// H-008 H-135 H-159 H-160 H-073 G-09: what each hard check answers at POST /turns: 200 with a PAUSE,
// no permit, and whether the run goes on.
func TestReportDecisions(t *testing.T) {
	cases := []struct {
		name, entry, want, status string
		edit                      func(*propose.Report)
		move                      time.Duration
	}{
		{"selection of nothing", "merchant.catalog", authority.InvalidSelection, run.StatusReady, func(r *propose.Report) { r.SelectedCandidateID = "candidate-2" }, 0},
		{"no evidence", "merchant.catalog", authority.MissingEvidence, run.StatusReady, func(r *propose.Report) { r.Justification.EvidenceRefs = []string{} }, 0},
		{"old observation", "merchant.catalog", authority.StaleState, run.StatusReady, nil, 61 * time.Second},
		{"foreign target", "merchant.catalog", authority.StaleTarget, run.StatusReady, func(r *propose.Report) { r.Candidates[0].Action.TargetRef = "tgt_AAAA" }, 0},
		{"unlisted operation", "merchant.catalog", authority.ForbiddenOperation, run.StatusPaused, func(r *propose.Report) { r.Candidates[0].Action.OperationID = "merchant.refund" }, 0},
		{"look-alike product", "add:fieldworks-keyboard:1", authority.ForbiddenOperation, run.StatusPaused, nil, 0},
		{"two instead of one", "add:fieldwork-keyboard:2", authority.ForbiddenOperation, run.StatusPaused, nil, 0},
		{"altered argument", "add:fieldwork-keyboard:1", authority.ArgumentMismatch, run.StatusPaused, func(r *propose.Report) {
			r.Candidates[0].Action.Args = []byte(`{"productId":"fieldwork-keyboard","quantity":2}`)
		}, 0},
		{"url that is not listed", "merchant.catalog", authority.ArgumentMismatch, run.StatusPaused, func(r *propose.Report) {
			u := "http://elsewhere.example/"
			r.Candidates[0].Action.URL = &u
		}, 0},
		{"field disclosed in secret", "add:fieldwork-keyboard:1", authority.EffectMismatch, run.StatusPaused, func(r *propose.Report) { r.ExpectedEffect.DisclosedFields = []string{} }, 0},
		{"proposal that is none", "merchant.catalog", authority.EffectMismatch, run.StatusPaused, func(r *propose.Report) {
			id := "0192f0c1-2b3c-7d4e-8f50-616263646566"
			r.ExpectedEffect.TransactionProposalID = &id
		}, 0},
		{"too early for the guardian", "add:fieldwork-keyboard:1", authority.MissingEvidence, run.StatusReady, nil, 0},
	}
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, c := range cases {
			id := h.create(run.TargetLocal)
			o, entry := h.entry(id, c.entry)
			edits := []func(*propose.Report){}
			if c.edit != nil {
				edits = append(edits, c.edit)
			}
			h.clock.Move(c.move)
			turn, err := h.Propose(t.Context(), id, "", report(o, entry, edits...))
			must(t, err)
			if turn.Decision.Decision != run.Pause || turn.Decision.ReasonCode != c.want || turn.Permit != nil {
				t.Errorf("%s: %+v, permit %v; want PAUSE %s and none", c.name, turn.Decision, turn.Permit, c.want)
			}
			s := h.state(id)
			if s.Status != c.status || h.count(id, "permit.issued") != 0 {
				t.Errorf("%s: status %s, want %s; %d permits", c.name, s.Status, c.status, h.count(id, "permit.issued"))
			}
			if c.status == run.StatusReady {
				h.do(id, "merchant.catalog")
			} else if _, err := h.Propose(t.Context(), id, "", report(o, entry)); reason(err) != authority.RunNotReady {
				t.Errorf("%s: the paused run answers %v", c.name, err)
			}
			h.verify(id)
		}
	})
}

// H-160 G-17 B12: one cent less than the total, and the exact total.
func TestBudget(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		r := createRequest(run.TargetLocal)
		r.Budget = 13699
		id, err := h.Create(t.Context(), r)
		must(t, err)
		h.do(id, "merchant.catalog")
		h.do(id, "add:fieldwork-keyboard:1")
		o, entry := h.entry(id, "checkout:addr_home")
		turn, err := h.Propose(t.Context(), id, "", report(o, entry))
		must(t, err)
		if turn.Decision.ReasonCode != authority.BudgetExceeded || turn.Permit != nil {
			t.Errorf("%+v", turn.Decision)
		}
		if s := h.state(id); s.Status != run.StatusPaused || s.Stop.Category != stopcontext.CategoryClarification {
			t.Errorf("status %s, stop %+v", s.Status, s.Stop)
		}
		h.verify(id)
	})
}

func TestBudgetControl(t *testing.T) {
	h := newHouse(t, engines[0], func(c *gateway.Config) { c.Doors.Checks = []int64{11} })
	r := createRequest(run.TargetLocal)
	r.Budget = 13699
	id, err := h.Create(t.Context(), r)
	must(t, err)
	h.do(id, "merchant.catalog")
	h.do(id, "add:fieldwork-keyboard:1")
	o, entry := h.entry(id, "checkout:addr_home")
	turn, err := h.Propose(t.Context(), id, "", report(o, entry))
	must(t, err)
	if turn.Decision.ReasonCode == authority.BudgetExceeded {
		t.Error("the door should let it through")
	}
}

// G-04: the tenth retry-category decision in a row pauses the run.
func TestTenthRetryPauses(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		for n := 1; n <= 10; n++ {
			o, entry := h.entry(id, "merchant.catalog")
			turn, err := h.Propose(t.Context(), id, "", report(o, entry, func(r *propose.Report) { r.Justification.EvidenceRefs = []string{} }))
			must(t, err)
			if turn.Decision.ReasonCode != authority.MissingEvidence {
				t.Fatalf("%d: %+v", n, turn.Decision)
			}
			want := run.StatusReady
			if n == 10 {
				want = run.StatusPaused
			}
			if s := h.state(id); s.Status != want {
				t.Fatalf("after %d: %s, want %s", n, s.Status, want)
			}
		}
		h.verify(id)
	})
}

// L-11: a malformed direct report stores nothing.
func TestMalformedReport(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		o, entry := h.entry(id, "merchant.catalog")
		good := report(o, entry)
		head := len(h.events(id))
		for _, bad := range [][]byte{
			nil, []byte("{}"), []byte("null"), []byte("\xff\xfe"), append(slices.Clone(good), '0'),
			append([]byte(`{"permit":"mine",`), good[1:]...),
			bytes.Replace(good, []byte(`"goalRestatement"`), []byte(`"GoalRestatement"`), 1),
			bytes.Replace(good, []byte(`"args":{}`), []byte(`"args":{"amountCents":137}`), 1),
			bytes.Replace(good, []byte(`"args":{}`), []byte(`"args":{"n":9007199254740993}`), 1),
			bytes.Replace(good, []byte(`"args":{}`), []byte(`"args":{"n":1.5}`), 1),
			bytes.Replace(good, []byte(`"args":{}`), []byte(`"args":{"s":"\u0000"}`), 1),
			bytes.Replace(good, []byte(`"args":{}`), []byte(`"args":{"s":"\ud800"}`), 1),
			bytes.Replace(good, []byte(`"args":{}`), []byte(`"args":`+strings.Repeat(`{"a":`, 2000)+"1"+strings.Repeat("}", 2000)), 1),
		} {
			if _, err := h.Propose(t.Context(), id, "", bad); reason(err) != authority.MalformedProposal {
				t.Errorf("%.60q: %v", bad, err)
			}
		}
		if n := len(h.events(id)); n != head {
			t.Errorf("%d events were stored", n-head)
		}
		if turn, err := h.Propose(t.Context(), id, "", good); err != nil || turn.Permit == nil {
			t.Errorf("the good report: %+v, %v", turn, err)
		}
	})
}

// L-3: at most a hundred refusals are recorded, and the run still works.
func TestRefusalsAreBounded(t *testing.T) {
	h := newHouse(t, engines[0])
	id := h.create(run.TargetLocal)
	r := gateway.OperateRequest{RunID: id, Key: "key-without-any-permit", Body: body(propose.Action{Kind: "service", OperationID: "x", TargetRef: "t", Args: []byte("{}")})}
	for range 103 {
		if _, err := h.Operate(t.Context(), r); reason(err) != authority.PermitRequired {
			t.Fatal(err)
		}
	}
	if n := len(h.refusals(id)); n != 100 {
		t.Errorf("%d refusals are recorded, want 100", n)
	}
	h.do(id, "merchant.catalog")
	h.verify(id)
}

// L-1 G-21: what is not built is named.
func TestNotImplemented(t *testing.T) {
	h := newHouse(t, engines[0])
	for value, edit := range map[string]func(*run.Config){
		"bank": func(c *run.Config) { c.Service = "bank" }, "browser": func(c *run.Config) { c.Channel = "browser" },
		"live":   func(c *run.Config) { c.ExecutionMode = "live" },
		"openai": func(c *run.Config) { c.Executor = "openai" }, "anthropic": func(c *run.Config) { c.Interrogator = "anthropic" },
		"true": func(c *run.Config) { c.ReasoningEvidence = true },
	} {
		r := createRequest(run.TargetLocal)
		edit(&r.Config)
		_, err := h.Create(t.Context(), r)
		if denial, ok := errors.AsType[*authority.Denial](err); !ok || denial.Reason != authority.NotImplemented || !strings.Contains(denial.Detail, fmt.Sprintf("%q", value)) {
			t.Errorf("%s: %v", value, err)
		}
	}
	if list, err := h.List(t.Context(), "", 100); err != nil || len(list) != 0 {
		t.Errorf("%d runs, %v", len(list), err)
	}
}

// L-1: a hosted run without a store makes no run; with one that is down the run has
// failed and nothing was sent.
func TestHostedStoreMissing(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		without := h.another(func(c *gateway.Config) { c.Store = nil })
		if _, err := without.Create(t.Context(), createRequest(run.TargetHosted)); reason(err) != authority.HostedUnreachable {
			t.Errorf("no store: %v", err)
		}
		if list, err := h.List(t.Context(), "", 100); err != nil || len(list) != 0 {
			t.Errorf("%d runs, %v", len(list), err)
		}
		r := createRequest(run.TargetHosted)
		r.Terms = []byte(`{"origin":"http://elsewhere.example","productId":"fieldwork-keyboard","quantity":1,"addressRef":"addr_home","maxTotalCents":"13700"}`)
		if _, err := h.Create(t.Context(), r); reason(err) != authority.InvalidRequest {
			t.Errorf("terms of another origin: %v", err)
		}
		h.server.Close()
		id, err := h.Create(t.Context(), createRequest(run.TargetHosted))
		if reason(err) != authority.HostedUnreachable {
			t.Errorf("store down: %v", err)
		}
		if s := h.state(id); s.Status != run.StatusFailed {
			t.Errorf("status %s, want failed", s.Status)
		}
		h.verify(id)
	})
}
