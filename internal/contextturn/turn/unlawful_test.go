package turn_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/contextturn/turn"
	"countersign/internal/machine"
)

func named(kind, id string) evidence.Subject {
	s := subject
	s.Format, s.Kind, s.ID, s.Machine = evidence.Format, kind, id, turn.Machine
	return s
}

// told is an event of a made-up chain, at its time behind dawn.
type told struct {
	event interface{ EventType() string }
	after time.Duration
}

// chained is a chain of made-up events: all are hashed and signed.
func chained(t *testing.T, events []told) (out []evidence.Event) {
	t.Helper()
	head := evidence.Link{Hash: evidence.Genesis}
	for i, e := range events {
		kind := e.event.EventType()
		sealed, err := evidence.Seal(key, turnID, head, dawn.Add(e.after).Time(), []evidence.Draft{{ID: fmt.Sprintf("e%d", i), Type: kind, Data: e.event}})
		must(t, err)
		out, head = append(out, sealed...), evidence.Link{Sequence: sealed[0].Sequence, Hash: sealed[0].Hash}
	}
	return out
}

func broken(kind string, events []evidence.Event) (rules []string, known bool) {
	r := map[string]interface {
		Apply(evidence.Event)
		Known() bool
		Unlawful() []machine.Unlawful
	}{turn.Kind: turn.NewReplay(), turn.KindInteraction: turn.NewInteractionReplay(), turn.KindBridge: turn.NewReceiptReplay()}[kind]
	for _, e := range events {
		r.Apply(e)
	}
	for _, u := range r.Unlawful() {
		rules = append(rules, u.Rule)
	}
	return rules, r.Known()
}

// raw is an event of any form.
type raw struct {
	kind string
	data map[string]any
}

func (r raw) EventType() string            { return r.kind }
func (r raw) MarshalJSON() ([]byte, error) { return json.Marshal(r.data) }

func changed[E any](e E, changes ...func(*E)) *E {
	for _, f := range changes {
		f(&e)
	}
	return &e
}

var (
	request = evidence.Commitment{Text: hash("a"), Length: 10}
	opened  = turn.Opened{
		Subject: named("contextturn", turnID), Project: projectID, Client: clientID, Profile: "support", Environment: "production", Via: "http",
		ClientRef: &evidence.Commitment{Text: hash("a"), Length: 512}, ExpiresAt: dawn.Add(15 * time.Minute),
	}
	observed = turn.Observed{Event: "pre_tool_use", Tool: "mcp__seif__find", ToolUseID: "t-1", Class: "observed"}
)

// call is a call of compass with n items, the nth of its turn.
func call(nth, n int, changes ...func(*turn.Call)) turn.Call {
	a := compass(n)
	c := turn.Call{InteractionID: fmt.Sprintf("int_%032x", nth), Tool: a.Tool, Build: a.Build, Verdict: a.Verdict, Items: append([]turn.Item{}, a.Items...), Request: request, Answer: request}
	return *changed(c, changes...)
}

func delivered(nth int, changes ...func(*turn.Call)) *turn.Delivered {
	return &turn.Delivered{Call: call(nth, 1, changes...)}
}

func answered(nth int, changes ...func(*turn.Call)) *turn.Answered {
	return &turn.Answered{Call: call(nth, 0, changes...)}
}

func completed(reported, state string, deliveries, observations int64, changes ...func(*turn.Complete)) *turn.Complete {
	return changed(turn.Complete{Reported: reported, State: state, Deliveries: deliveries, Observations: observations, Class: "reported"}, changes...)
}

// with makes a call of another tool.
func with(tool string, items []turn.Item) func(*turn.Call) {
	return func(c *turn.Call) { c.Tool, c.Verdict, c.Items = tool, nil, append([]turn.Item{}, items...) }
}

// one is a chain and the rule that it breaks first; none when it is lawful.
type one struct {
	rule   string
	events []told
}

// at puts every event behind the first at the same time.
func at(after time.Duration, events ...interface{ EventType() string }) []told {
	list := []told{{&opened, 0}}
	for _, e := range events {
		list = append(list, told{e, after})
	}
	return list
}

func chain(events ...interface{ EventType() string }) []told { return at(0, events...) }

func judge(t *testing.T, kind string, chains []one, rules ...string) {
	t.Helper()
	var seen []string
	for i, c := range chains {
		got, known := broken(kind, chained(t, c.events))
		switch {
		case !known:
			t.Errorf("chain %d is of no known machine", i)
		case c.rule == "" && len(got) != 0:
			t.Errorf("control: the lawful chain %d breaks %v", i, got)
		case c.rule != "" && (len(got) == 0 || got[0] != c.rule):
			t.Errorf("chain %d breaks %v, want %s first", i, got, c.rule)
		}
		seen = append(seen, c.rule)
	}
	for _, rule := range rules {
		if !slices.Contains(seen, rule) {
			t.Errorf("no chain breaks %s", rule)
		}
	}
}

// Every rule of a turn names the chain that breaks it.
func TestUnlawfulTurn(t *testing.T) {
	start := func(f func(*turn.Opened)) []told { return []told{{changed(opened, f), 0}} }
	many := func(n int, f func(nth int) interface{ EventType() string }) (list []interface{ EventType() string }) {
		for i := range n {
			list = append(list, f(i))
		}
		return list
	}
	observe := func(f func(*turn.Observed)) []told { return chain(changed(observed, f)) }
	expired := func(events ...interface{ EventType() string }) []told {
		return at(15*time.Minute, append([]interface{ EventType() string }{&turn.Expiry{}}, events...)...)
	}
	late := func(n int) []interface{ EventType() string } {
		return many(n, func(int) interface{ EventType() string } { return &turn.Late{Reported: "completed"} })
	}
	other := runID[:35] + "x"
	run := runID
	brief := func(n int) *evidence.Commitment { return &evidence.Commitment{Text: hash("a"), Length: n} }
	judge(t, turn.Kind, []one{
		{"", chain(delivered(1), answered(2), &observed, completed("completed", "COMPLETED_WITH_CONTEXT_DELIVERY", 1, 1))},
		{"", at(15*time.Minute-time.Millisecond, completed("completed", "COMPLETED_WITHOUT_CONTEXT_DELIVERY", 0, 0, func(c *turn.Complete) { c.Note = brief(2000) }))},
		{"", chain(completed("cancelled", "REPORTED_CANCELLED", 0, 0))},
		{"", chain(delivered(1), completed("failed", "REPORTED_FAILED", 1, 0))},
		{"", expired(late(100)...)},
		{"", start(func(e *turn.Opened) { e.Via, e.Run, e.ClientRef, e.Environment = "supervision", &run, nil, "staging" })},
		{"", chain(many(100, func(n int) interface{ EventType() string } { return delivered(n) })...)},
		{"", chain(many(200, func(int) interface{ EventType() string } { return &observed })...)},
		{"subject", start(func(e *turn.Opened) { e.Subject.ID = "int_" + turnID[4:] })},
		{"client", start(func(e *turn.Opened) { e.Project = "prj_acme" })},
		{"client", start(func(e *turn.Opened) { e.Client = sharedID })},
		{"client", start(func(e *turn.Opened) { e.Environment = "moon" })},
		{"profile", start(func(e *turn.Opened) { e.Profile = "" })},
		{"expiry", start(func(e *turn.Opened) { e.ExpiresAt++ })},
		{"expiry", start(func(e *turn.Opened) { e.ExpiresAt-- })},
		{"via", start(func(e *turn.Opened) { e.Via = "mcp" })},
		{"via", start(func(e *turn.Opened) { e.Via = "supervision" })},
		{"via", start(func(e *turn.Opened) { e.Run = &run })},
		{"via", start(func(e *turn.Opened) { e.Via, e.Run = "supervision", &other })},
		{"length", start(func(e *turn.Opened) { e.ClientRef = brief(513) })},
		{"first-event", chain(&opened)},
		{"time-order", at(-time.Millisecond, &observed)},
		{"event-type", chain(&turn.Bridged{})},
		{"event-data", chain(raw{"contextturn.late", map[string]any{}})},
		{"event-data", chain(raw{"contextturn.expired", map[string]any{"why": "time"}})},

		{"closed", at(15*time.Minute, delivered(1))},
		{"closed", at(15*time.Minute, answered(1))},
		{"closed", at(15*time.Minute, &observed)},
		{"closed", at(15*time.Minute, completed("completed", "COMPLETED_WITHOUT_CONTEXT_DELIVERY", 0, 0))},
		{"closed", expired(delivered(1))},
		{"closed", expired(completed("failed", "REPORTED_FAILED", 0, 0))},
		{"closed", chain(completed("failed", "REPORTED_FAILED", 0, 0), delivered(1))},
		{"closed", chain(completed("failed", "REPORTED_FAILED", 0, 0), &observed)},
		{"closed", chain(completed("failed", "REPORTED_FAILED", 0, 0), completed("failed", "REPORTED_FAILED", 0, 0))},

		{"delivery", chain(&turn.Delivered{Call: call(1, 0)})},
		{"delivery", chain(&turn.Delivered{Call: call(1, 0, with("doctor", nil))})},
		{"no-delivery", chain(&turn.Answered{Call: call(1, 1)})},
		{"interaction", chain(delivered(1, func(c *turn.Call) { c.InteractionID = turnID }))},
		{"twice", chain(delivered(1), delivered(1))},
		{"twice", chain(answered(1), answered(1))},
		{"twice", chain(answered(1), delivered(1))},
		{"calls", chain(many(101, func(n int) interface{ EventType() string } { return answered(n) })...)},
		{"tool", chain(answered(1, with("guess", nil)))},
		{"items", chain(&turn.Delivered{Call: call(1, 6)})},
		{"items", chain(&turn.Delivered{Call: call(1, 2, with("resolve", items(2)))})},
		{"items", chain(&turn.Delivered{Call: call(1, 21, with("find", items(21)))})},
		{"items", chain(&turn.Delivered{Call: call(1, 21, with("why", items(21)))})},
		{"item-twice", chain(&turn.Delivered{Call: call(1, 2, with("find", append(items(1), items(1)...)))})},
		{"verdict-conflict", chain(delivered(1, func(c *turn.Call) { c.Verdict = text("conflict") }))},
		{"build", chain(answered(1, func(c *turn.Call) { c.Build = nil }))},
		{"build", chain(answered(1, with("resolve", nil), func(c *turn.Call) { c.Build = nil }))},
		{"build", chain(answered(1, with("find", nil), func(c *turn.Call) { c.Build = nil }))},
		{"build", chain(answered(1, with("test", nil), func(c *turn.Call) { c.Build = nil }))},
		{"event-data", chain(raw{"context.answered", map[string]any{
			"interactionId": "int_" + turnID[4:], "tool": "doctor", "build": nil, "verdict": nil, "items": nil, "gap": nil, "request": request, "answer": request,
		}})},
		{"items-tool", chain(&turn.Answered{Call: call(1, 1, with("test", items(1)))})},
		{"items-tool", chain(&turn.Answered{Call: call(1, 1, with("doctor", items(1)))})},
		{"item", chain(delivered(1, func(c *turn.Call) { c.Items[0].Ref = "" }))},
		{"item", chain(delivered(1, func(c *turn.Call) { c.Items[0].SHA256 = "c" }))},
		{"build", chain(delivered(1, func(c *turn.Call) { c.Build = nil }))},
		{"build", chain(delivered(1, func(c *turn.Call) { c.Build = changed(build, func(b *turn.Build) { b.Environment = "staging" }) }))},
		{"build", chain(delivered(1, func(c *turn.Call) { c.Build = changed(build, func(b *turn.Build) { b.Digest = "" }) }))},
		{"build", chain(delivered(1, func(c *turn.Call) { c.Build = changed(build, func(b *turn.Build) { b.Draft = true }) }))},
		{"build", chain(delivered(1, func(c *turn.Call) { c.Build = changed(build, func(b *turn.Build) { b.Number = 0 }) }))},
		{"build", chain(delivered(1, func(c *turn.Call) { c.Build = changed(build, func(b *turn.Build) { b.Number, b.Draft = 0, true }) }))},
		{"build", chain(delivered(1, func(c *turn.Call) { c.Build = changed(build, func(b *turn.Build) { b.Number = -1 }) }))},
		{"verdict", chain(delivered(1, func(c *turn.Call) { c.Verdict = nil }))},
		{"verdict", chain(delivered(1, func(c *turn.Call) { c.Verdict = text("fine") }))},
		{"verdict", chain(delivered(1, func(c *turn.Call) { c.Tool = "find" }))},
		{"verdict-gap", chain(delivered(1, func(c *turn.Call) { c.Verdict = text("gap") }))},
		{"verdict-gap", chain(answered(1, func(c *turn.Call) { c.Verdict = text("partial") }))},
		{"gap", chain(answered(1, with("report-gap", nil)))},
		{"gap", chain(answered(1, with("report-gap", nil), func(c *turn.Call) { c.Gap = text("gap_1") }))},
		{"gap", chain(answered(1, func(c *turn.Call) { c.Gap = text("gap_" + turnID[4:]) }))},

		{"observation", observe(func(o *turn.Observed) { o.Event = "post_tool_use" })},
		{"observation", observe(func(o *turn.Observed) { o.Tool = "Bash" })},
		{"observation", observe(func(o *turn.Observed) { o.ToolUseID = "" })},
		{"observation", observe(func(o *turn.Observed) { o.Class = "reported" })},
		{"observations", chain(many(201, func(int) interface{ EventType() string } { return &observed })...)},

		{"state", chain(completed("completed", "COMPLETED_WITH_CONTEXT_DELIVERY", 0, 0))},
		{"state", chain(delivered(1), completed("completed", "COMPLETED_WITHOUT_CONTEXT_DELIVERY", 1, 0))},
		{"state", chain(completed("cancelled", "REPORTED_FAILED", 0, 0))},
		{"state", chain(completed("failed", "OPEN", 0, 0))},
		{"state", chain(completed("done", "", 0, 0))},
		{"counts", chain(delivered(1), completed("completed", "COMPLETED_WITH_CONTEXT_DELIVERY", 2, 0))},
		{"counts", chain(&observed, completed("completed", "COMPLETED_WITHOUT_CONTEXT_DELIVERY", 0, 0))},
		{"class", chain(completed("failed", "REPORTED_FAILED", 0, 0, func(c *turn.Complete) { c.Class = "observed" }))},
		{"length", chain(completed("failed", "REPORTED_FAILED", 0, 0, func(c *turn.Complete) { c.Note = brief(2001) }))},

		{"expired", at(15*time.Minute-time.Millisecond, &turn.Expiry{})},
		{"expired", expired(&turn.Expiry{})},
		{"expired", []told{{&opened, 0}, {completed("failed", "REPORTED_FAILED", 0, 0), 0}, {&turn.Expiry{}, time.Hour}}},
		{"late", chain(&turn.Late{Reported: "completed"})},
		{"late", chain(completed("failed", "REPORTED_FAILED", 0, 0), &turn.Late{Reported: "completed"})},
		{"late-status", expired(&turn.Late{Reported: "done"})},
		{"late-reports", expired(late(101)...)},
	}, "subject", "client", "profile", "expiry", "via", "length", "first-event", "time-order", "event-type", "event-data", "closed", "delivery", "no-delivery", "interaction", "twice", "calls",
		"tool", "items", "items-tool", "item", "item-twice", "build", "verdict", "verdict-gap", "verdict-conflict", "gap", "observation", "observations", "state", "counts", "class", "expired", "late", "late-status", "late-reports")
}

// A draft is of staging, verdicts are four, and each tool has its own bound.
func TestLawfulCalls(t *testing.T) {
	staging := changed(opened, func(e *turn.Opened) { e.Environment = "staging" })
	draft := turn.Build{Environment: "staging", Digest: hash("b"), Draft: true}
	events := []told{{staging, 0}}
	for n, verdict := range []string{"covered", "partial", "conflict"} {
		events = append(events, told{&turn.Delivered{Call: call(n, 2, func(c *turn.Call) { c.Build, c.Verdict = &draft, &verdict })}, 0})
	}
	// Of each tool the most that it hands out.
	for n, most := range map[int]turn.Call{3: call(3, 5), 4: call(4, 1, with("resolve", items(1))), 5: call(5, 1, with("find", items(20))), 6: call(6, 1, with("why", items(20)))} {
		most.InteractionID, most.Build = call(n, 0).InteractionID, &draft
		events = append(events, told{&turn.Delivered{Call: most}, 0})
	}
	// What looks into no Build is asked before there is one.
	for n, tool := range []string{"doctor", "why", "report-gap"} {
		events = append(events, told{answered(10+n, with(tool, nil), func(c *turn.Call) {
			if c.Build = nil; tool == "report-gap" {
				c.Gap = text("gap_" + turnID[4:])
			}
		}), 0})
	}
	if got, known := broken(turn.Kind, chained(t, events)); len(got) > 0 || !known {
		t.Errorf("broken rules %v", got)
	}
}

// Every rule of a call outside a turn names the chain that breaks it.
func TestUnlawfulInteraction(t *testing.T) {
	recorded := turn.Recorded{
		Subject: named("interaction", call(1, 1).InteractionID), Project: projectID, Client: clientID, Profile: "support", Environment: "production", Call: call(1, 1),
	}
	start := func(f func(*turn.Recorded)) []told { return []told{{changed(recorded, f), 0}} }
	judge(t, turn.KindInteraction, []one{
		{"", []told{{&recorded, 0}}},
		{"", start(func(e *turn.Recorded) { e.Client = sharedID })},
		{"subject", start(func(e *turn.Recorded) { e.Subject.ID = turnID })},
		{"client", start(func(e *turn.Recorded) { e.Client = projectID })},
		{"client", start(func(e *turn.Recorded) { e.Project = "" })},
		{"profile", start(func(e *turn.Recorded) { e.Profile = "" })},
		{"interaction", start(func(e *turn.Recorded) { e.Call.InteractionID = call(2, 0).InteractionID })},
		{"build", start(func(e *turn.Recorded) { e.Environment = "staging" })},
		{"verdict-gap", start(func(e *turn.Recorded) { e.Call = call(1, 1, func(c *turn.Call) { c.Verdict = text("gap") }) })},
		{"first-event", []told{{&recorded, 0}, {&recorded, 0}}},
		{"event-type", []told{{&recorded, 0}, {delivered(2), 0}}},
	}, "subject", "client", "profile", "interaction", "build", "first-event", "event-type")
}

// Every rule of a bridge receipt names the chain that breaks it.
func TestUnlawfulReceipt(t *testing.T) {
	recorded := turn.Bridged{
		Subject: named("bridge", "brg_"+turnID[4:]), Project: projectID, Client: clientID, Environment: "staging", Seen: turn.Seen{Kind: "http.request", Digest: hash("d")}, Class: "bridge-observed",
	}
	start := func(f func(*turn.Bridged)) []told { return []told{{changed(recorded, f), 0}} }
	chains := []one{
		{"subject", start(func(e *turn.Bridged) { e.Subject.ID = turnID })},
		{"client", start(func(e *turn.Bridged) { e.Client = sharedID })},
		{"client", start(func(e *turn.Bridged) { e.Environment = "" })},
		{"seen", start(func(e *turn.Bridged) { e.Seen.Kind = "tool.call" })},
		{"seen", start(func(e *turn.Bridged) { e.Seen.Digest = "d" })},
		{"class", start(func(e *turn.Bridged) { e.Class = "observed" })},
		{"first-event", []told{{&recorded, 0}, {&recorded, 0}}},
	}
	for _, kind := range []string{"file.read", "file.write", "process.start", "process.exit", "http.request", "http.response"} {
		chains = append(chains, one{"", start(func(e *turn.Bridged) { e.Seen.Kind = kind })})
	}
	judge(t, turn.KindBridge, chains, "subject", "client", "seen", "class", "first-event")
}

// A chain of another kind or machine, or one without its beginning, is not proved, and
// nothing is said of it.
func TestForeign(t *testing.T) {
	w := started(t)
	w.observe()
	if _, known := broken(turn.Kind, w.events); !known {
		t.Error("control: its own chain is unknown")
	}
	for name, events := range map[string][]evidence.Event{
		"nothing": nil, "without its beginning": w.events[1:], "another kind": other(t, w.events, "kind", "run"), "another machine": other(t, w.events, "machine", 2), "another format": other(t, w.events, "format", "x"),
	} {
		if rules, known := broken(turn.Kind, events); known {
			t.Errorf("%s: known, %v", name, rules)
		}
	}
	for _, kind := range []string{turn.KindInteraction, turn.KindBridge} {
		if rules, known := broken(kind, w.events); known || len(rules) > 0 {
			t.Errorf("a turn passes for a %s: %v", kind, rules)
		}
	}
	if rules, known := broken(turn.Kind, other(t, w.events[:1], "more", nil)); known {
		t.Errorf("a subject with a member more is known: %v", rules)
	}
	first := raw{"contextturn.opened", map[string]any{"subject": opened.Subject, "more": 1}}
	if rules, known := broken(turn.Kind, chained(t, []told{{first, 0}})); !known || !slices.Equal(rules, []string{"event-data"}) {
		t.Errorf("a first event of this machine that holds something else: known %t, %v", known, rules)
	}
	late := slices.Clone(w.events)
	late[1].Timestamp = "yesterday"
	if rules, known := broken(turn.Kind, late); !known || !slices.Equal(rules, []string{"timestamp"}) {
		t.Errorf("an unreadable timestamp breaks %v", rules)
	}
}

// other is the chain with another member of its subject.
func other(t *testing.T, events []evidence.Event, member string, value any) []evidence.Event {
	t.Helper()
	var data map[string]any
	must(t, json.Unmarshal(events[0].Data, &data))
	data["subject"].(map[string]any)[member] = value
	events = slices.Clone(events)
	events[0].Data = canon.MustMarshal(data)
	return events
}
