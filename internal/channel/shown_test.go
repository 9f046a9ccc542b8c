package channel_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/channel"
)

// H-093 H-126 H-185: the view of a run is whole, at rest and stopped; its stop has the members
// of version 1, and its timeline is every event of the evidence.
func TestWholeView(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ready := h.agent("local")
	ready.cycle("merchant.catalog")
	stopped := h.misreported()
	waiting, _ := h.prepared()
	for what, c := range map[string]*consumer{"ready": ready, "stopped": stopped, "waiting": waiting} {
		v := h.view(c.run)
		for _, member := range strings.Fields(`runId workspace instruction terms service target channel mode executionMode executor interrogator reasoningEvidence
			trafficActor budgetCents status stage grants observation modelCalls proposal executions lastDecision pendingPermit clarifications timeline stopContext`) {
			if _, there := v[member]; !there {
				t.Errorf("%s: the view has no %s", what, member)
			}
		}
		var told, recorded []string
		for _, line := range v["timeline"].([]any) {
			e := line.(map[string]any)
			told = append(told, fmt.Sprint(e["sequence"], e["type"]))
		}
		for _, e := range h.exported(c.run) {
			recorded = append(recorded, fmt.Sprint(float64(e.Sequence), e.Type))
		}
		if len(told) == 0 || !slices.Equal(told, recorded) {
			t.Errorf("%s: the timeline is %v, evidence %v", what, told, recorded)
		}
		stop, _ := v["stopContext"].(map[string]any)
		if c == ready {
			if v["stopContext"] != nil {
				t.Errorf("%s: stopped by %v", what, v["stopContext"])
			}
			continue
		}
		want := []string{"attemptId", "category", "dispatch", "message", "observationId", "reasonCode", "recovery", "source", "version"}
		if got := sortedKeys(stop); !slices.Equal(got, want) || stop["version"] != 1.0 {
			t.Errorf("%s: stopContext %v, want version 1 with %v", what, stop, want)
		}
		observation := v["observation"].(map[string]any)
		if stop["observationId"] != observation["observationId"] || stop["attemptId"] == "" || stop["message"] == "" {
			t.Errorf("%s: stopContext %v of an observation %v", what, stop, observation["observationId"])
		}
	}
	if reason, _ := stopped.stopped(); reason != "ARGUMENT_MISMATCH" {
		t.Errorf("the stopped run is stopped for %s", reason)
	}
}

// H-072 H-078: a decision has four members, whatever it says, and permits nothing by itself.
func TestDecisionMembers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	altered := func(r map[string]any) { args(r)["quantity"] = 2 }
	for want, edit := range map[string]func(map[string]any){"ALLOW": func(map[string]any) {}, "PAUSE": altered} {
		c := h.agent("local")
		report := c.report("merchant.catalog")
		edit(report)
		a := c.ask("POST", "/turns", report)
		a.is(t, want, 200, "")
		d, _ := a.members()["decision"].(map[string]any)
		if names := sortedKeys(d); !slices.Equal(names, []string{"clarificationRequest", "decision", "explanation", "reasonCode"}) || d["decision"] != want || d["reasonCode"] == "" {
			t.Errorf("%s: decision %v", want, d)
		}
		if _, text := d["explanation"].(string); !text || d["clarificationRequest"] != nil {
			t.Errorf("%s: decision %v", want, d)
		}
		// The verdict, the turn and the id of the permit are no permit; the token is.
		turn, p := a.text("turnId"), permitOf(a)
		if (p != nil) != (want == "ALLOW") {
			t.Fatalf("%s: permit %v", want, p)
		}
		tokens := []string{"ALLOW", turn, turn + "." + strings.Repeat("A", 43)}
		if p != nil {
			tokens = append(tokens, p.id, p.token[:len(p.token)-1])
		}
		body := map[string]any{"action": action(report)}
		for i, token := range tokens {
			c.ask("POST", "/operation", body, set("X-Step-Permit", token), set("X-Idempotency-Key", fmt.Sprintf("key-of-no-permit-%d", i))).is(t, want+" with "+token, 403, "PERMIT_MISMATCH")
		}
		if n := h.events(c.run)["execution.dispatched"]; n != 0 {
			t.Errorf("%s: %d executions", want, n)
		}
		if p != nil {
			c.operate(p).is(t, "control: the permit", 200, "")
		}
	}
}

// H-152: proposal, verdict and permit of one turn name it; dispatch, receipts and the end of the
// permit name the permit. Each turn of the purchase has its own.
func TestEventsAreLinked(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.agent("hosted")
	for _, entry := range purchase {
		c.cycle(entry)
	}
	count := map[string]int{}
	var turn, permit, execution string
	turns, permits := map[string]bool{}, map[string]bool{}
	for _, e := range h.exported(c.run) {
		count[e.Type]++
		var data map[string]any
		must(t, json.Unmarshal(e.Data, &data))
		name := func(member string) string { s, _ := data[member].(string); return s }
		switch e.Type {
		case "turn.proposed":
			turn, permit, execution = name("turnId"), "", ""
			turns[turn] = true
		case "policy.checked", "guardian.decided":
			if name("turnId") != turn {
				t.Errorf("%d %s is of the turn %q, want %q", e.Sequence, e.Type, name("turnId"), turn)
			}
		case "permit.issued":
			p := data["permit"].(map[string]any)
			permit = p["permitId"].(string)
			permits[permit] = true
			if bound := p["bindings"].(map[string]any)["turnId"]; bound != turn {
				t.Errorf("%d %s is bound to the turn %v, want %q", e.Sequence, e.Type, bound, turn)
			}
		case "execution.dispatched":
			if execution = name("executionId"); name("turnId") != turn || name("permitId") != permit {
				t.Errorf("%d %s: %v, want turn %q and permit %q", e.Sequence, e.Type, data, turn, permit)
			}
		case "permit.claimed", "hosted.receipt", "execution.receipt", "permit.consumed":
			if name("permitId") != permit || e.Type != "permit.claimed" && name("executionId") != execution {
				t.Errorf("%d %s: %v, want permit %q and execution %q", e.Sequence, e.Type, data, permit, execution)
			}
		}
	}
	// The first two are reads, which a store answers without a receipt of its own.
	for event, want := range map[string]int{"turn.proposed": 5, "guardian.decided": 5, "permit.issued": 5, "permit.claimed": 5, "execution.dispatched": 5, "execution.receipt": 5, "permit.consumed": 5, "hosted.receipt": 3} {
		if count[event] != want {
			t.Errorf("%d times %s, want %d", count[event], event, want)
		}
	}
	if turns[""] || permits[""] || len(turns) != 5 || len(permits) != 5 {
		t.Errorf("turns %v, permits %v", turns, permits)
	}
}

// H-077 H-033 H-068 H-071: what an agent submits by itself is the report alone. The envelope of
// managed outcomes is malformed there, and an alternative that the report considered and rejected
// stays without permit and effect.
func TestDirectReports(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.agent("local")
	report := c.report("merchant.catalog")
	before := c.total(c.run)
	for what, body := range map[string]any{
		"a proposal in an envelope": map[string]any{"version": 1, "outcome": map[string]any{"kind": "proposal", "report": report}},
		"a bare outcome":            map[string]any{"kind": "proposal", "report": report},
		"a question":                map[string]any{"version": 1, "outcome": map[string]any{"kind": "clarification", "question": "Which one?"}},
		"a version beside it":       withMember(report, "version", 1),
	} {
		c.ask("POST", "/turns", body).is(t, what, 400, "MALFORMED_PROPOSAL")
	}
	if n := c.total(c.run); n != before {
		t.Errorf("%d events, before %d", n, before)
	}
	_, other := c.entry("merchant.cart")
	considered := actionOf(other)
	report["candidates"] = append(report["candidates"].([]any), map[string]any{
		"id": "candidate-2", "action": considered, "purpose": "Look into the cart.", "disposition": "rejected", "rejectionReason": "There is nothing in it yet.",
	})
	a := c.ask("POST", "/turns", report)
	a.is(t, "the report", 200, "")
	p := permitOf(a)
	if p == nil || fmt.Sprint(p.action) != fmt.Sprint(action(report)) {
		t.Fatalf("permit %+v, want one for %v", p, action(report))
	}
	c.ask("POST", "/operation", map[string]any{"action": considered}, set("X-Step-Permit", p.token), set("X-Idempotency-Key", "key-of-the-alternative")).is(t, "the rejected alternative", 403, "PERMIT_MISMATCH")
	c.operate(p).is(t, "the selected one", 200, "")
	executions := h.view(c.run)["executions"].([]any)
	if len(executions) != 1 || executions[0].(map[string]any)["operationId"] != "merchant.catalog" {
		t.Errorf("executions %v", executions)
	}
}

func withMember(body map[string]any, name string, value any) map[string]any {
	body = maps.Clone(body)
	body[name] = value
	return body
}

// H-012 H-015 H-027 H-089 H-128: an agent whose run waits for an approval has its token and the
// owner's own requests, and makes no grant, approval or token of them. The control is the owner.
func TestAgentGrantsItselfNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c, approval := h.prepared()
	authority := func() string {
		v := h.view(c.run)
		return string(mustJSON([]any{v["grants"], v["status"], v["session"], v["proposal"], v["budgetCents"], v["mode"]}))
	}
	before, runs, asked := authority(), h.runs(), func(edits ...edit) []edit {
		return append([]edit{set("Origin", h.origin), set("X-Halfspan-Owner", "1")}, edits...)
	}
	for path, body := range map[string]any{
		"/runs": createBody("local"), "/runs/" + c.run + "/approve": approval, "/runs/" + c.run + "/session": nil,
		"/runs/" + c.run + "/clarify": map[string]any{"clarification": "You may."}, "/runs/" + c.run + "/simulate": map[string]any{"event": "navigate"},
		"/runs/" + c.run + "/retry": map[string]any{}, "/runs/" + c.run + "/step": map[string]any{},
	} {
		c.ask("POST", "/owner"+path, body, asked()...).is(t, path+" with the token", 403, "BEARER_ON_OWNER_ROUTE")
		c.do("POST", ownerPrefix+path, body, asked(cookie(c.token))...).is(t, path+" with the token as cookie", 401, "AUTHENTICATION_REQUIRED")
		c.do("POST", ownerPrefix+path, body, asked()...).is(t, path+" with nothing", 401, "AUTHENTICATION_REQUIRED")
	}
	// The same words on the agent's own routes are no member there, or there is no such route.
	for _, word := range []string{"approve", "grant", "session", "token", "permit", "reconcile", "retry", "clarify"} {
		// Past the client that knows the document, in which there is no such route.
		answered, err := http.DefaultClient.Do(h.request("POST", "/api/v1/"+word, approval, set("Authorization", "Bearer "+c.token)))
		must(t, err)
		if answered.Body.Close(); answered.StatusCode != 404 {
			t.Errorf("an agent's /%s answers %d", word, answered.StatusCode)
		}
		c.ask("POST", "/turns", withMember(c.report("merchant.checkout.submit"), word, approval)).is(t, "a report with "+word, 400, "MALFORMED_PROPOSAL")
		body := map[string]any{"action": map[string]any{}, word: approval}
		c.ask("POST", "/operation", body, set("X-Idempotency-Key", "key-of-a-forged-member")).is(t, "an operation with "+word, 400, "INVALID_REQUEST")
	}
	if after := authority(); after != before || h.runs() != runs {
		t.Errorf("%d runs and\n%s\nbefore %d and\n%s", h.runs(), after, runs, before)
	}
	c.act("approve", approval).is(t, "control: the owner approves", 200, "")
	c.cycle("merchant.checkout.submit")
	if authority() == before {
		t.Error("control: the owner's approval is not seen")
	}
}

// H-194: who is said to act changes nothing: the same reports get the same decisions, permits for the same
// time and the same effects.
func TestAttributionDecidesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	outcome := func(actor string) string {
		a := h.owner("POST", "/runs", with("local", "trafficActor", actor))
		a.is(t, "create", 201, "")
		c := &consumer{house: h, run: a.text("runId")}
		c.token = h.issue(c.run)
		var told []any
		for _, entry := range purchase {
			a := c.ask("POST", "/turns", c.report(entry))
			p := permitOf(a)
			told = append(told, a.members()["decision"], a.members()["permit"].(map[string]any)["expiresAt"], c.operate(p).text("state"))
			h.clock.Move(time.Second)
		}
		h.clock.Move(-time.Duration(len(purchase)) * time.Second)
		v := h.view(c.run)
		if v["trafficActor"] != actor {
			t.Errorf("trafficActor %v, want %s", v["trafficActor"], actor)
		}
		return string(mustJSON(append(told, v["status"], v["spentCents"], len(v["executions"].([]any)))))
	}
	if agent, human := outcome("agent"), outcome("human"); agent != human || !strings.Contains(agent, "completed") {
		t.Errorf("agent %s\nhuman %s", agent, human)
	}
}

// H-091: a list that is not asked for less has a hundred runs, and no list has more. The document says so
// by the declaration that the server enforces; TestList asks for pages of other sizes and for too many.
func TestListHasAHundred(t *testing.T) {
	t.Parallel()
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct{ Minimum, Maximum, Default float64 }
			}
		}
	}
	made, err := channel.Document()
	must(t, err)
	must(t, json.Unmarshal(made, &document))
	for _, p := range document.Paths["/api/v1/owner/runs"]["get"].Parameters {
		if p.Name == "limit" {
			if p.Schema.Minimum != 1 || p.Schema.Maximum != 100 || p.Schema.Default != 100 {
				t.Errorf("limit %+v, want 1 to 100 and 100 when it is absent", p.Schema)
			}
			return
		}
	}
	t.Error("the list of runs has no limit")
}
