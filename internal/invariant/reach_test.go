package invariant_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"countersign/internal/supervision/stopcontext"
)

// A place is where a run can stop or end (G-01, G-02).
type place struct{ status, category string }

// places are all of them.
var places = []place{
	{"paused", "approval"}, {"paused", "clarification"}, {"paused", "refusal"}, {"paused", "retry"}, {"paused", "configuration"},
	{"paused", "authority"}, {"paused", "limit"}, {"paused", "reconciliation"},
	{"completed", ""}, {"revoked", "terminal"}, {"terminated", "terminal"}, {"failed", "configuration"}, {"failed", "reconciliation"},
}

// Why nothing here comes to a reason.
const (
	noModel    = "only a model as executor comes to it, and this build has the authored one alone"
	noGuardian = "only a model as guardian says so, and this build has the authored one alone"
)

// beyond are the reasons of G-02 that no request can bring a run of this build to.
var beyond = map[string]string{
	"IRRELEVANT_ACTION": noGuardian, "GOAL_DRIFT": noGuardian, "UNSAFE": noGuardian, "INJECTION_SUSPECTED": noGuardian, "GUARDIAN_MALFORMED": noGuardian, "GUARDIAN_TERMINATED": noGuardian,
	"EXECUTOR_REFUSED": noModel, "PROVIDER_REFUSED": noModel, "MALFORMED_MODEL_REPORT": noModel, "PROVIDER_ERROR": noModel, "PROVIDER_UNCONFIGURED": noModel,
	"AUTHORIZATION_REQUIRED": noModel, "MODEL_CALL_LIMIT": noModel,
	"MALFORMED_PROPOSAL": "a malformed report of an agent stores nothing; those of the attack catalog, which do, are played there",
	"PERMIT_EXPIRED":     "a managed attempt uses its permit at once: only a server that dies in between leaves one that expires",
	"RECEIPT_MISSING":    "a receipt that is missing is DISPATCH_UNCONFIRMED",
	"GRANT_EXHAUSTED":    "the one use of a commit completes the run, or stops it until it is known what became of it",
}

// unreachable are the places that none of the cases comes to, with the reason.
var unreachable = map[place]string{
	{"paused", "refusal"}: noModel,
}

// A case brings a run to where it stops for the reason, which is "" for completed.
type arrival struct {
	reason string
	play   func(h *house, s *shop) (run string)
}

// again reports on an entry of the catalog with a change, so often.
func (a *agent) again(times int, prefix string, change func(report map[string]any)) {
	o := a.observe()
	e, _ := o.find(prefix)
	report := reportOn(o.ObservationID, e)
	change(report)
	for range times {
		a.ask("POST", "/turns", report).is(a.t, "report", ok)
	}
}

func actionOf(report map[string]any) map[string]any {
	return report["candidates"].([]any)[0].(map[string]any)["action"].(map[string]any)
}

func effectOf(report map[string]any) map[string]any {
	return report["expectedEffect"].(map[string]any)
}

func (a *agent) simulate(event string) {
	a.t.Helper()
	a.act("simulate", map[string]any{"event": event})
}

// act does what only the owner of the run can.
func (a *agent) act(route string, body any) heard {
	a.t.Helper()
	return a.owner("POST", "/runs/"+a.run+"/"+route, body).is(a.t, route, ok)
}

// execution names the run's newest.
func (a *agent) execution() map[string]any {
	s, _ := a.house.stored(a.run, 1<<30)
	return map[string]any{"executionId": s.Execution.ExecutionID}
}

func (a *agent) state(finding string) {
	body := a.execution()
	body["finding"] = finding
	a.act("reconcile", body)
}

// purchase is what a purchase consists of, to where it can be committed.
var purchase = []string{"catalog", "add:fieldwork-keyboard:1", "checkout:addr_home"}

// hosted employs an agent for a purchase at the shop.
func (h *house) hosted(s *shop, mode string) *agent {
	return h.employ("merchant", mode, 13700, map[string]any{
		"target": "hosted", "terms": map[string]any{"origin": s.where.Origin, "productId": "fieldwork-keyboard", "quantity": 1, "addressRef": "addr_home", "maxTotalCents": "13700"},
	})
}

// attempt uses a permit and does not care what that comes to.
func (a *agent) attempt(s slip) heard { return a.operate(s, "op-"+rand.Text()) }

// arrivals are the cases.
var arrivals = []arrival{
	{"", func(h *house, _ *shop) string {
		a := h.employ("bank", "bounded", 5000, nil)
		a.do("accounts", "transfer:acct_checking:payee_utility", "submit:")
		return a.run
	}},
	{"APPROVAL_REQUIRED", func(h *house, _ *shop) string {
		a := h.employ("bank", "exact", 5000, nil)
		a.do("accounts", "transfer:acct_checking:payee_utility")
		return a.run
	}},
	{"FORBIDDEN_OPERATION", func(h *house, _ *shop) string {
		a := h.employ("bank", "exact", 5000, nil)
		a.again(1, "transfer:acct_checking:payee_landlord", func(map[string]any) {})
		return a.run
	}},
	{"ARGUMENT_MISMATCH", func(h *house, _ *shop) string {
		a := h.employ("broker", "exact", 10000, nil)
		a.again(1, "quote:SYNA", func(r map[string]any) { actionOf(r)["args"] = map[string]any{"symbol": "SYNB"} })
		return a.run
	}},
	{"EFFECT_MISMATCH", func(h *house, _ *shop) string {
		a := h.employ("broker", "exact", 10000, nil)
		a.again(1, "quote:SYNA", func(r map[string]any) { effectOf(r)["disclosedFields"] = []string{"symbol"} })
		return a.run
	}},
	{"BUDGET_EXCEEDED", func(h *house, _ *shop) string {
		a := h.employ("broker", "exact", 9999, nil)
		a.do("quote:SYNA")
		a.again(1, "order:SYNA:buy:2:5000", func(map[string]any) {})
		return a.run
	}},
	{"AMBIGUOUS_GOAL", func(h *house, _ *shop) string { // something can be committed, and nothing of it was verified
		a := h.lost("not_applied")
		a.act("retry", nil)
		a.again(1, "submit:", func(map[string]any) {})
		return a.run
	}},
	{"CLARIFICATION_REQUESTED", func(h *house, _ *shop) string {
		a := h.employ("bank", "bounded", 6000, nil)
		a.do("accounts", "transfer:acct_checking:payee_utility")
		a.simulate("price_change")
		a.act("step", nil)
		return a.run
	}},
	{"INVALID_SELECTION", func(h *house, _ *shop) string {
		a := h.employ("bank", "bounded", 5000, nil)
		a.again(10, "accounts", func(r map[string]any) { r["selectedCandidateId"] = "c2" })
		return a.run
	}},
	{"STALE_TARGET", func(h *house, _ *shop) string {
		a := h.employ("bank", "bounded", 5000, nil)
		a.again(10, "accounts", func(r map[string]any) { actionOf(r)["targetRef"] = "tgt_none" })
		return a.run
	}},
	{"MISSING_EVIDENCE", func(h *house, _ *shop) string {
		a := h.employ("bank", "bounded", 5000, nil)
		a.again(10, "accounts", func(r map[string]any) {
			r["justification"] = map[string]any{"summary": "None.", "evidenceRefs": []string{newID()}}
		})
		return a.run
	}},
	{"STALE_STATE", func(h *house, _ *shop) string { // what waits for approval has changed
		a := h.employ("bank", "exact", 5000, nil)
		a.do("accounts", "transfer:acct_checking:payee_utility")
		a.simulate("price_change")
		return a.run
	}},
	{"PROVIDER_TIMEOUT", func(h *house, _ *shop) string {
		a := h.employ("bank", "exact", 5000, nil)
		a.simulate("provider_timeout")
		return a.run
	}},
	{"DISPATCH_UNCONFIRMED", func(h *house, _ *shop) string { return h.lost("unknown").run }},
	{"EXECUTION_NOT_APPLIED", func(h *house, _ *shop) string { return h.lost("not_applied").run }},
	{"GRANT_EXPIRED", func(h *house, _ *shop) string {
		a := h.employ("bank", "exact", 5000, nil)
		a.simulate("expire_grant")
		return a.run
	}},
	{"TURN_LIMIT", func(h *house, _ *shop) string {
		a := h.employ("bank", "bounded", 5000, nil)
		for range 50 { // nine that may be tried again, and one that is allowed
			a.again(9, "accounts", func(r map[string]any) { r["selectedCandidateId"] = "c2" })
			a.allowed("accounts")
			a.simulate("expire_permit")
		}
		o := a.observe()
		e, _ := o.find("accounts")
		a.ask("POST", "/turns", reportOn(o.ObservationID, e)).is(a.t, "report 501", "409 TURN_LIMIT")
		return a.run
	}},
	{"OWNER_REVOKED", func(h *house, _ *shop) string {
		a := h.employ("bank", "exact", 5000, nil)
		a.act("revoke", nil)
		return a.run
	}},
	{"FROZEN", func(h *house, _ *shop) string {
		a := h.employ("bank", "exact", 5000, nil)
		h.owner("POST", "/freeze", map[string]any{"reason": "To see what stops."}).is(h.t, "freeze", ok)
		a.act("step", nil)
		h.owner("POST", "/unfreeze", map[string]any{"reason": "It was seen."}).is(h.t, "unfreeze", ok)
		return a.run
	}},
	{"CREDENTIAL_MISUSE", func(h *house, _ *shop) string { // a token at another origin than its own
		a := h.employ("bank", "exact", 5000, nil)
		h.move("http://elsewhere.test")
		a.ask("GET", "/observation", nil).is(h.t, "a token from elsewhere", "403 CREDENTIAL_MISUSE")
		h.move(origin)
		return a.run
	}},
	{"HOSTED_UNREACHABLE", func(h *house, s *shop) string { // nobody listens when the request should leave
		a := h.hosted(s, "bounded")
		a.do(purchase[0])
		p := a.allowed(purchase[1])
		s.closed(func() { a.attempt(p).is(h.t, "operate", "503 HOSTED_UNREACHABLE") })
		return a.run
	}},
	{"VERIFICATION_MISMATCH", func(h *house, s *shop) string { // the shop's receipt contradicts the owner
		a := h.hosted(s, "bounded")
		a.do(purchase...)
		p := a.allowed("submit:")
		s.loses("/api/orders", true)
		a.attempt(p).is(h.t, "operate", "502 DISPATCH_UNCONFIRMED")
		s.loses("", false)
		a.state("applied")
		a.act("probe", a.execution())
		return a.run
	}},
	{"failed HOSTED_UNREACHABLE", func(h *house, s *shop) string {
		s.closed(func() { h.refusedHosted(s, "503 HOSTED_UNREACHABLE") })
		return h.newest()
	}},
	{"failed DISPATCH_UNCONFIRMED", func(h *house, s *shop) string {
		s.loses("/api/sessions", false)
		h.refusedHosted(s, "502 DISPATCH_UNCONFIRMED")
		s.loses("", false)
		return h.newest()
	}},
}

// lost brings a run to an effect whose receipt is lost, about which its owner then states
// something.
func (h *house) lost(finding string) *agent {
	a := h.employ("bank", "bounded", 5000, nil)
	a.do("accounts")
	a.simulate("drop_receipt")
	a.attempt(a.allowed("transfer:acct_checking:payee_utility")).is(h.t, "operate", "502 DISPATCH_UNCONFIRMED")
	a.state(finding)
	return a
}

// move serves the installation at another origin.
func (h *house) move(to string) {
	h.stop()
	h.config.Origin = to
	h.serve()
	h.signIn()
}

// refusedHosted tries to create a hosted run.
func (h *house) refusedHosted(s *shop, want string) {
	h.t.Helper()
	h.config.Clock.Move(time.Millisecond) // runs of one millisecond are listed in any order
	h.owner("POST", "/runs", map[string]any{
		"service": "merchant", "target": "hosted", "mode": "exact", "budgetCents": "13700", "channel": "http", "instruction": "Do what the terms say.",
	}).is(h.t, "create", want)
}

// newest is the id of the newest run.
func (h *house) newest() string {
	var list struct{ Runs []struct{ RunID string } }
	h.owner("GET", "/runs?limit=1", nil).is(h.t, "list", ok).into(h.t, &list)
	return list.Runs[0].RunID
}

// reached is where the run of a case is.
func (h *house) reached(run string) (place, string) {
	s, _ := h.stored(run, 1<<30)
	if s.Stop == nil {
		return place{s.Status, ""}, ""
	}
	return place{s.Status, s.Stop.Category}, s.Stop.ReasonCode
}

// H-185 and invariant 5 of section 6: every place where a run stops or ends is reached by a
// case, and so is every reason of G-02, but for what this build cannot come to, which is
// named. Each export but that of 500 turns is lawful, and those are on SQLite alone: their bound is no
// engine's.
func TestEveryStopIsReached(t *testing.T) {
	engines(t, func(t *testing.T, database func() string) {
		h, s := openHosted(t, database())
		there, reasons := map[place]bool{}, map[string]bool{}
		for _, c := range arrivals {
			if c.reason == "TURN_LIMIT" && h.config.Database != "" {
				there[place{"paused", "limit"}], reasons[c.reason] = true, true
				continue
			}
			begun := time.Now()
			run := c.play(h, s)
			at, reason := h.reached(run)
			if want := c.reason; reason != want && "failed "+reason != want {
				t.Errorf("the case of %s comes to %v for %s", want, at, reason)
			}
			there[at], reasons[reason] = true, true
			if reason == "TURN_LIMIT" {
				continue // its 1,700 events take longer than all others together
			}
			counts := map[string]int{}
			_, events := h.stored(run, 0)
			for _, e := range events {
				counts[e.Type]++
			}
			if err := lawful(h, run, counts); err != nil {
				t.Errorf("the case of %s: %v", c.reason, err)
			}
			t.Logf("%v %s, %d events, %v", at, reason, len(events), time.Since(begun).Round(time.Millisecond))
		}
		for _, problem := range missing(there, reasons) {
			t.Error(problem)
		}
		// The control: without any of the cases its reason is missing.
		for reason := range reasons {
			fewer := maps.Clone(reasons)
			delete(fewer, reason)
			if reason != "" && len(missing(there, fewer)) == 0 {
				t.Errorf("control: that nothing comes to %s is not noticed", reason)
			}
		}
		delete(there, place{"completed", ""})
		if len(missing(there, reasons)) == 0 {
			t.Error("control: that no run completes is not noticed")
		}
	})
}

// missing says what was not reached, and what is said to be out of reach and is not, or is
// nothing that is known.
func missing(there map[place]bool, reasons map[string]bool) (problems []string) {
	for _, p := range places {
		if _, beyond := unreachable[p]; beyond == there[p] {
			problems = append(problems, fmt.Sprintf("%v: reached %v, said to be out of reach %v", p, there[p], beyond))
		}
	}
	for p := range there {
		if !slices.Contains(places, p) {
			problems = append(problems, fmt.Sprintf("%v is no place that a run should come to", p))
		}
	}
	for _, reason := range stopcontext.Reasons() {
		if _, far := beyond[reason]; far == reasons[reason] {
			problems = append(problems, fmt.Sprintf("%s: reached %v, said to be out of reach %v", reason, reasons[reason], far))
		}
	}
	return problems
}
