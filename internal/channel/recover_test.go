package channel_test

import (
	"strings"
	"testing"
	"time"
)

// in is a consumer of a new run whose create body is changed.
func (h *house) in(edits map[string]any) *consumer {
	h.t.Helper()
	body := createBody("local")
	for name, value := range edits {
		body[name] = value
	}
	a := h.owner("POST", "/runs", body)
	a.is(h.t, "create", 201, "")
	c := &consumer{house: h, run: a.text("runId")}
	c.token = h.issue(c.run)
	return c
}

// prepared is an exact run that waits for its approval, and that approval's body.
func (h *house) prepared() (*consumer, map[string]any) {
	h.t.Helper()
	c := h.in(map[string]any{"mode": "exact"})
	for _, id := range purchase[:4] {
		c.cycle(id)
	}
	p := h.view(c.run)["proposal"].(map[string]any)
	return c, map[string]any{"proposalId": p["proposalId"], "digest": p["effectDigest"]}
}

func (c *consumer) act(route string, body any) answer {
	c.t.Helper()
	return c.house.owner("POST", "/runs/"+c.run+"/"+route, body)
}

// stopped is why the run is paused.
func (c *consumer) stopped() (reason, recovery string) {
	c.t.Helper()
	stop, ok := c.view(c.run)["stopContext"].(map[string]any)
	if !ok {
		return "", ""
	}
	return stop["reasonCode"].(string), stop["recovery"].(string)
}

// misreported is a local run that stopped for a clarification: its report altered the
// arguments of the entry.
func (h *house) misreported() *consumer {
	h.t.Helper()
	c := h.in(nil)
	r := c.report(purchase[0])
	r["candidates"].([]any)[0].(map[string]any)["action"].(map[string]any)["args"] = map[string]any{"altered": "yes"}
	c.ask("POST", "/turns", r).is(h.t, "report", 200, "")
	return c
}

// lost is a local run whose receipt got lost.
func (h *house) lost() *consumer {
	h.t.Helper()
	c := h.in(nil)
	for _, id := range purchase[:2] {
		c.cycle(id)
	}
	c.act("simulate", map[string]any{"event": "drop_receipt"}).is(h.t, "simulate", 200, "")
	c.operate(permitOf(c.ask("POST", "/turns", c.report(purchase[2])))).is(h.t, "operate", 502, "DISPATCH_UNCONFIRMED")
	return c
}

// doubt names the newest execution of the run.
func (c *consumer) doubt() map[string]any {
	c.t.Helper()
	list := c.view(c.run)["executions"].([]any)
	return map[string]any{"executionId": list[len(list)-1].(map[string]any)["executionId"]}
}

type recovery struct {
	name   string
	body   any
	answer answer
}

// recoveries are one good use of every recovery, by operation of the document.
func (h *house) recoveries() map[string]recovery {
	h.t.Helper()
	exact, approval := h.prepared()
	clarified, retried := h.misreported(), h.in(nil)
	words, event := map[string]any{"clarification": "The keyboard is meant for the home office."}, map[string]any{"event": "provider_timeout"}
	lost := h.lost()
	asked, stated := lost.doubt(), lost.doubt()
	stated["finding"], stated["note"] = "not_applied", "The shop's own list of orders does not have it."
	return map[string]recovery{
		"probe-run":     {"cannot-be-closed", asked, lost.act("probe", asked)},
		"reconcile-run": {"not-applied", stated, lost.act("reconcile", stated)},
		"approve-run":   {"prepared-checkout", approval, exact.act("approve", approval)},
		"clarify-run":   {"arguments-differed", words, clarified.act("clarify", words)},
		"simulate-run":  {"provider-timeout", event, retried.act("simulate", event)},
		"retry-run":     {"after-a-timeout", map[string]any{}, retried.act("retry", map[string]any{})},
	}
}

// H-014 H-047, H-099, H-223: in exact mode the run stops after preparation; the owner is
// shown the whole effect and approves exactly that; then the agent buys it, once.
func TestExactPurchase(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c, approval := h.prepared()
	if reason, recovery := c.stopped(); reason != "APPROVAL_REQUIRED" || recovery != "approve" {
		t.Fatalf("stopped for %s, recovery %s", reason, recovery)
	}
	view := h.view(c.run)
	p := view["proposal"].(map[string]any)
	for name, want := range map[string]string{"operationId": "merchant.checkout.submit", "destination": "addr_home", "amountCents": "13700", "currency": "USD"} {
		if p[name] != want {
			t.Errorf("%s is %v, want %s", name, p[name], want)
		}
	}
	if p["approved"] != false || len(p["scope"].([]any)) != 5 || p["expiresAt"] == nil || view["stage"] != "awaiting_approval" {
		t.Errorf("proposal %v at stage %v", p, view["stage"])
	}
	if got := view["eligible"].([]any); len(got) != 3 || got[0] != "approve" || got[1] != "simulate" || got[2] != "revoke" {
		t.Errorf("eligible %v", got)
	}
	waits := c.ask("POST", "/turns", c.report(purchase[4]))
	if waits.is(t, "report while it waits", 409, "RUN_NOT_READY"); !strings.Contains(waits.text("detail"), "approval") {
		t.Errorf("the agent is told %q", waits.text("detail"))
	}
	before := len(view["grants"].([]any))
	other := map[string]any{"proposalId": approval["proposalId"], "digest": strings.Repeat("0", 64)}
	c.act("approve", other).is(t, "another digest", 409, "APPROVAL_STALE")
	c.act("approve", map[string]any{"proposalId": c.run}).is(t, "another proposal", 409, "APPROVAL_STALE")
	c.act("retry", map[string]any{}).is(t, "retry", 409, "RECOVERY_NOT_ELIGIBLE")
	c.act("clarify", map[string]any{"clarification": "go"}).is(t, "clarify", 409, "RECOVERY_NOT_ELIGIBLE")
	if got := len(h.view(c.run)["grants"].([]any)); got != before {
		t.Fatalf("%d grants after what was refused, want %d", got, before)
	}
	a := c.act("approve", approval)
	a.is(t, "approve", 200, "")
	grants := a.members()["grants"].([]any)
	g := grants[len(grants)-1].(map[string]any)
	if len(grants) != before+1 || g["kind"] != "exact" || g["effectDigest"] != approval["digest"] || g["maxTotalCents"] != "13700" || g["maxUses"].(map[string]any)["merchant.checkout.submit"] != 1.0 {
		t.Fatalf("grants %v", grants)
	}
	if a.members()["status"] != "ready" || a.members()["stopContext"] != nil || len(a.members()["executions"].([]any)) != 4 {
		t.Errorf("after the approval: %s", a.body)
	}
	c.act("approve", approval).is(t, "approve again", 409, "RECOVERY_NOT_ELIGIBLE")
	c.cycle(purchase[4])
	if done := h.view(c.run); done["status"] != "completed" || done["spentCents"] != "13700" {
		t.Errorf("status %v, spent %v", done["status"], done["spentCents"])
	}
}

// H-224: what has changed since it was prepared cannot be approved, however it did.
func TestStaleApproval(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"price_change", "navigate", "revise_state"} {
		h := newHouse(t)
		c, approval := h.prepared()
		c.act("simulate", map[string]any{"event": event}).is(t, event, 200, "")
		c.act("approve", approval).is(t, "approve after "+event, 409, "APPROVAL_STALE")
		if reason, recovery := c.stopped(); reason != "STALE_STATE" || recovery != "retry" {
			t.Errorf("%s: stopped for %s, recovery %s", event, reason, recovery)
		}
		c.act("retry", map[string]any{}).is(t, "retry", 200, "")
		if n := len(h.view(c.run)["grants"].([]any)); n != 1 {
			t.Errorf("%s: %d grants", event, n)
		}
	}
	h := newHouse(t)
	c, approval := h.prepared()
	h.clock.Move(10 * time.Minute)
	c.act("approve", approval).is(t, "approve after ten minutes", 409, "APPROVAL_STALE")
	if reason, _ := c.stopped(); reason != "STALE_STATE" {
		t.Errorf("stopped for %s", reason)
	}
}

// H-098, H-174: a clarification is shown to the agent as the owner's words and changes
// no grant.
func TestClarify(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.misreported()
	before := mustJSON(h.view(c.run)["grants"])
	for _, bad := range []any{map[string]any{}, map[string]any{"clarification": ""}, map[string]any{"clarification": strings.Repeat("x", 2001)}, map[string]any{"clarification": "x", "grant": "all"}} {
		c.act("clarify", bad).is(t, "malformed", 400, "INVALID_REQUEST")
	}
	words := strings.Repeat("ü", 2000)
	a := c.act("clarify", map[string]any{"clarification": words})
	a.is(t, "clarify", 200, "")
	if got := a.members()["clarifications"].([]any); len(got) != 1 || got[0] != words {
		t.Errorf("clarifications %v", got)
	}
	if after := mustJSON(a.members()["grants"]); string(after) != string(before) {
		t.Errorf("grants %s, want %s", after, before)
	}
	if got := c.ask("GET", "/capabilities", nil).members()["clarifications"].([]any); len(got) != 1 || got[0] != words {
		t.Errorf("the agent sees %v", got)
	}
	c.cycle(purchase[0])
	for n := 2; n <= 11; n++ {
		r := c.report(purchase[1])
		r["candidates"].([]any)[0].(map[string]any)["action"].(map[string]any)["args"] = map[string]any{"altered": "yes"}
		c.ask("POST", "/turns", r).is(t, "report", 200, "")
		if a := c.act("clarify", map[string]any{"clarification": "again"}); (a.status == 200) != (n <= 10) || n == 11 && a.reason() != "RECOVERY_NOT_ELIGIBLE" {
			t.Fatalf("clarification %d: %d %s", n, a.status, a.body)
		}
	}
}
