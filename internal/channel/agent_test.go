package channel_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// H-130 H-131 H-132 H-134: a whole purchase over HTTP at both targets, and everything an
// agent is told on the way.
func TestPurchase(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, target := range []string{"local", "hosted"} {
		t.Run(target, func(t *testing.T) {
			c := h.agent(target)
			origin := map[string]string{"local": "local", "hosted": h.store}[target]
			capabilities := c.ask("GET", "/capabilities", nil).members()
			if capabilities["runId"] != c.run || capabilities["position"] != "read" || capabilities["terms"].(map[string]any)["origin"] != origin ||
				fmt.Sprint(capabilities["grants"]) != fmt.Sprint(h.view(c.run)["grants"]) {
				t.Errorf("capabilities %v", capabilities)
			}
			if capabilities["instruction"] != h.view(c.run)["instruction"] || capabilities["instruction"] == "" || len(capabilities["clarifications"].([]any)) != 0 { // H-030
				t.Errorf("instruction %q, clarifications %v", capabilities["instruction"], capabilities["clarifications"])
			}
			if want := map[string]any{"limitCents": "13700", "spentCents": "0", "reservedCents": "0"}; !maps.Equal(capabilities["budget"].(map[string]any), want) {
				t.Errorf("budget %v", capabilities["budget"])
			}
			observation := c.ask("GET", "/observation", nil).members()
			if fmt.Sprint(observation["catalog"]) != fmt.Sprint(capabilities["catalog"]) {
				t.Error("capabilities and observation show two catalogs")
			}
			for _, e := range observation["catalog"].([]any) {
				if e := e.(map[string]any); e["kind"] != "service" || e["transport"] != "service" { // L-19
					t.Errorf("entry %v", e)
				}
			}
			for _, entry := range purchase[:4] {
				c.cycle(entry)
			}
			submitted := c.cycle(purchase[4])
			receipt := submitted.members()["receipt"].(map[string]any)
			if receipt["result"] != "applied" || receipt["amountCents"] != "13700" || receipt["orderId"] == nil || receipt["kind"] != target || (receipt["jws"] != nil) != (target == "hosted") {
				t.Errorf("receipt %v", receipt)
			}
			v := h.view(c.run)
			if v["status"] != "completed" || v["spentCents"] != "13700" || v["reservedCents"] != "0" {
				t.Errorf("status %v, spent %v, reserved %v", v["status"], v["spentCents"], v["reservedCents"])
			}
			c.ask("POST", "/turns", c.report("merchant.cart")).is(t, "another report", 409, "RUN_NOT_READY")
		})
	}
}

// H-046 H-131 G-11 L-12: the observation stands until something changes, and lasts 30 s.
func TestObservation(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	c := h.agent("local")
	id := func() string { return c.ask("GET", "/observation", nil).text("observationId") }
	first := id()
	h.clock.Move(30*time.Second - time.Millisecond)
	if id() != first {
		t.Error("a new observation before 30 s")
	}
	h.clock.Move(time.Millisecond)
	second := id()
	if second == first {
		t.Error("no new observation at 30 s")
	}
	before := c.report("merchant.catalog")
	verified := c.cycle("merchant.catalog").text("observationId")
	if verified == second || id() != verified {
		t.Error("the observation that verified an operation is not the newest")
	}
	a := c.ask("POST", "/turns", before)
	a.is(t, "a report on an old observation", 200, "")
	if d := a.members()["decision"].(map[string]any); d["decision"] != "PAUSE" || d["reasonCode"] != "MISSING_EVIDENCE" || a.members()["permit"] != nil {
		t.Errorf("decision %v", d)
	}
	v := h.view(c.run)
	if v["status"] != "ready" {
		t.Errorf("the run is %v after a decision that may be corrected", v["status"])
	}
	// H-020: what the service says is marked as untrusted.
	if view, _ := c.ask("GET", "/observation", nil).members()["view"].(map[string]any); view["untrusted"] != true || !strings.Contains(view["body"].(string), "fieldwork-keyboard") {
		t.Errorf("view %v", view)
	}
}

// H-133 L-19: GET /decision is the answer to the newest report, with the permit
// while it is live.
func TestDecision(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	c := h.agent("local")
	c.ask("GET", "/decision", nil).is(t, "before any report", 404, "NOT_FOUND")
	answer := c.ask("POST", "/turns", c.report("merchant.catalog"))
	again := c.ask("GET", "/decision", nil)
	if !bytes.Equal(answer.body, again.body) {
		t.Errorf("decision %s, first %s", again.body, answer.body)
	}
	if names := slices.Sorted(maps.Keys(again.members())); !slices.Equal(names, []string{"decision", "permit", "turnId"}) {
		t.Errorf("members %v", names)
	}
	if names := slices.Sorted(maps.Keys(again.members()["permit"].(map[string]any))); !slices.Equal(names, []string{"action", "expiresAt", "permitId", "token"}) {
		t.Errorf("members of the permit %v", names)
	}
	p := permitOf(again)
	c.operate(p).is(t, "the permit of GET /decision", 200, "")
	if after := c.ask("GET", "/decision", nil); after.members()["permit"] != nil || after.text("turnId") != again.text("turnId") {
		t.Errorf("after its use: %s", after.body)
	}
	p = c.allow("merchant.cart")
	h.clock.Move(30 * time.Second) // H-080
	if after := c.ask("GET", "/decision", nil); permitOf(after) != nil {
		t.Errorf("an expired permit is still shown: %s", after.body)
	}
	c.operate(p).is(t, "an expired permit", 403, "PERMIT_EXPIRED")
}

// H-081 H-173 G-12: one live permit; what another run has is good for nothing.
func TestSecondPermitAndOtherRun(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	a, b := h.agent("local"), h.agent("local")
	if got := a.ask("GET", "/capabilities", nil).text("runId"); got != a.run {
		t.Errorf("the token names run %s, want %s", got, a.run)
	}
	report := a.report("merchant.catalog")
	live := a.allow("merchant.catalog")
	before := a.events(a.run)
	a.ask("POST", "/turns", report).is(t, "a second report", 409, "PERMIT_OUTSTANDING")
	if got := a.events(a.run); !maps.Equal(got, before) {
		t.Errorf("events %v, before %v", got, before)
	}

	foreign := b.allow("merchant.catalog")
	a.ask("POST", "/operation", live.body(), set("X-Step-Permit", foreign.token), set("X-Idempotency-Key", "key-of-another-run")).is(t, "another run's permit", 403, "PERMIT_MISMATCH")
	b.ask("POST", "/operation", live.body(), live.headers()...).is(t, "another run's token", 403, "PERMIT_MISMATCH")
	for _, c := range []*consumer{a, b} {
		if n := c.events(c.run)["execution.dispatched"]; n != 0 {
			t.Errorf("%d executions", n)
		}
	}
	// An observation of another run is no evidence (A08).
	third := h.agent("local")
	mixed := third.report("merchant.catalog")
	mixed["justification"].(map[string]any)["evidenceRefs"] = report["justification"].(map[string]any)["evidenceRefs"]
	if d := third.ask("POST", "/turns", mixed).members()["decision"].(map[string]any); d["reasonCode"] != "MISSING_EVIDENCE" {
		t.Errorf("decision %v", d)
	}
	// Both permits still do what they are for.
	a.operate(live).is(t, "the live permit", 200, "")
	b.operate(foreign).is(t, "the other live permit", 200, "")
}

// G-09 over HTTP, G-12: each refusal of /operation, and the good request after it.
func TestOperationRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	c := h.agent("local")
	permitHeader, keyHeader := "X-Step-Permit", "X-Idempotency-Key"
	for _, bad := range []struct {
		name   string
		status int
		reason string
		edits  []edit
		body   func(p *permit) any
	}{
		{"no permit", 403, "PERMIT_REQUIRED", []edit{drop(permitHeader)}, nil},
		{"forged permit", 403, "PERMIT_MISMATCH", []edit{set(permitHeader, "01940e2e-7c00-7000-8000-000000000001."+strings.Repeat("A", 43))}, nil},
		{"a word as permit", 403, "PERMIT_MISMATCH", []edit{set(permitHeader, "yes")}, nil},
		{"a long permit", 400, "INVALID_REQUEST", []edit{set(permitHeader, strings.Repeat("A", 201))}, nil},
		{"two permits", 400, "INVALID_REQUEST", []edit{both(func(r *http.Request) { r.Header[permitHeader] = append(r.Header[permitHeader], "x") })}, nil},
		{"no key", 400, "INVALID_REQUEST", []edit{drop(keyHeader)}, nil},
		{"15 characters", 400, "INVALID_REQUEST", []edit{set(keyHeader, strings.Repeat("k", 15))}, nil},
		{"161 characters", 400, "INVALID_REQUEST", []edit{set(keyHeader, strings.Repeat("k", 161))}, nil},
		{"a blank in the key", 400, "INVALID_REQUEST", []edit{set(keyHeader, "key with blanks in it")}, nil},
		{"two keys", 400, "INVALID_REQUEST", []edit{both(func(r *http.Request) { r.Header[keyHeader] = append(r.Header[keyHeader], strings.Repeat("l", 16)) })}, nil},
		{"another action", 403, "PERMIT_MISMATCH", nil, func(p *permit) any {
			_, e := c.entry("merchant.cart")
			return map[string]any{"action": actionOf(e)}
		}},
		{"an argument more", 403, "PERMIT_MISMATCH", nil, func(p *permit) any {
			changed := maps.Clone(p.action.(map[string]any))
			changed["args"] = map[string]any{"quantity": 2}
			return map[string]any{"action": changed}
		}},
		{"an approval in the body", 400, "INVALID_REQUEST", nil, func(p *permit) any { return map[string]any{"action": p.action, "approved": true} }},
	} {
		p := c.allow("merchant.catalog")
		executions := c.events(c.run)["execution.dispatched"]
		var body any = p.body()
		if bad.body != nil {
			body = bad.body(p)
		}
		c.ask("POST", "/operation", body, append(p.headers(), bad.edits...)...).is(t, bad.name, bad.status, bad.reason)
		if n := c.events(c.run)["execution.dispatched"]; n != executions {
			t.Errorf("%s: it was executed", bad.name)
		}
		c.operate(p).is(t, bad.name+": the next good request", 200, "")
	}
	for _, key := range []string{strings.Repeat("k", 16), strings.Repeat("Az0-_.~9", 20)} {
		c.operate(c.allow("merchant.catalog"), set(keyHeader, key)).is(t, fmt.Sprintf("a key of %d", len(key)), 200, "")
	}
}

// L-13 L-19: a repeated request has the same body, the header says that it is a
// replay; another request under the key is a conflict, a spent permit is spent.
func TestReplay(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	for _, target := range []string{"local", "hosted"} {
		c := h.agent(target)
		c.cycle("merchant.catalog")
		p := c.allow("add:fieldwork-keyboard:1")
		first := c.operate(p)
		first.is(t, "first", 200, "")
		if first.header.Get("Idempotency-Replayed") != "" {
			t.Error("the first answer says that it is a replay")
		}
		if names := slices.Sorted(maps.Keys(first.members())); !slices.Equal(names, []string{"executionId", "observationId", "receipt", "state"}) {
			t.Errorf("members %v", names)
		}
		events := c.total(c.run)
		for range 3 {
			again := c.operate(p)
			again.is(t, "again", 200, "")
			if !bytes.Equal(again.body, first.body) || again.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("replay %q %s\nfirst %s", again.header.Get("Idempotency-Replayed"), again.body, first.body)
			}
		}
		if n := c.total(c.run); n != events {
			t.Errorf("replays wrote %d events", n-events)
		}
		c.operate(p, set("X-Idempotency-Key", "another-key-of-it")).is(t, "a spent permit under a new key", 409, "PERMIT_CONSUMED")
		next := c.allow("merchant.cart")
		c.operate(next, set("X-Idempotency-Key", "key-of-"+p.id)).is(t, "a taken key", 409, "IDEMPOTENCY_CONFLICT")
		c.operate(next).is(t, "the next good request", 200, "")
		// A new token changes nothing about what the run has done.
		c.token = h.issue(c.run)
		again := c.operate(p)
		again.is(t, "with a new token", 200, "")
		if !bytes.Equal(again.body, first.body) || again.header.Get("Idempotency-Replayed") != "true" {
			t.Error("the key belongs to a token, not to the run")
		}
	}
}

// G-09: a well-formed report is always 200 with a decision; what touches the goal
// or authority pauses the run, without a permit.
func TestDecisions(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	for _, d := range []struct {
		name, reason, status string
		edit                 func(r map[string]any)
	}{
		{"B03 an id twice", "INVALID_SELECTION", "ready", func(r map[string]any) {
			one := candidate(r)
			r["candidates"] = []any{one, one}
		}},
		{"B04 an absent candidate", "INVALID_SELECTION", "ready", func(r map[string]any) { r["selectedCandidateId"] = "candidate-2" }},
		{"B04 a rejected candidate", "INVALID_SELECTION", "ready", func(r map[string]any) {
			candidate(r)["disposition"], candidate(r)["rejectionReason"] = "rejected", "no"
		}},
		{"B07 no evidence", "MISSING_EVIDENCE", "ready", func(r map[string]any) { r["justification"].(map[string]any)["evidenceRefs"] = []any{} }},
		{"B09 foreign target", "STALE_TARGET", "ready", func(r map[string]any) { action(r)["targetRef"] = "tgt_" + strings.Repeat("A", 43) }},
		{"B10 altered argument", "ARGUMENT_MISMATCH", "paused", func(r map[string]any) { args(r)["quantity"] = 2 }},
		{"A11 off-catalog url", "ARGUMENT_MISMATCH", "paused", func(r map[string]any) { action(r)["url"] = "http://evil.example" }},
		{"B11 under-declared effect", "EFFECT_MISMATCH", "paused", func(r map[string]any) { r["expectedEffect"].(map[string]any)["postconditions"] = []any{} }},
		{"A12 extra disclosed field", "EFFECT_MISMATCH", "paused", func(r map[string]any) { r["expectedEffect"].(map[string]any)["disclosedFields"] = []any{"x"} }},
	} {
		c := h.agent("local")
		report := c.report("merchant.catalog")
		d.edit(report)
		a := c.ask("POST", "/turns", report)
		a.is(t, d.name, 200, "")
		decision := a.members()["decision"].(map[string]any)
		if decision["decision"] != "PAUSE" || decision["reasonCode"] != d.reason || a.members()["permit"] != nil {
			t.Errorf("%s: %s", d.name, a.body)
		}
		v := h.view(c.run)
		if v["status"] != d.status || (v["stopContext"] == nil) != (d.status == "ready") {
			t.Errorf("%s: the run is %v, stopped by %v", d.name, v["status"], v["stopContext"])
		}
		events := h.events(c.run)
		if events["permit.issued"]+events["execution.dispatched"] != 0 {
			t.Errorf("%s: events %v", d.name, events)
		}
		if d.status == "ready" {
			c.cycle("merchant.catalog")
		}
	}
}
