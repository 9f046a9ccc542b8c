package project_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/contextturn/project"
)

func named(kind, id string) evidence.Subject {
	s := subject
	s.Format, s.Kind, s.ID, s.Machine = evidence.Format, kind, id, project.Machine
	return s
}

type event interface{ EventType() string }

func drafts(events ...event) (list []evidence.Draft) {
	for _, e := range events {
		list = append(list, evidence.Draft{Type: e.EventType(), Data: e})
	}
	return list
}

func replayed[R replay](r R, events []evidence.Event) (R, []string) {
	for _, e := range events {
		r.Apply(e)
	}
	var rules []string
	for _, u := range r.Unlawful() {
		rules = append(rules, u.Rule)
	}
	return r, rules
}

// changed is e with one more change.
func changed[E any](e E, f func(*E)) *E { f(&e); return &e }

// one is a chain that breaks a rule, or none.
type one struct {
	rule   string
	drafts []evidence.Draft
	times  []time.Duration
}

// judge replays chains whose events are all hashed and signed, and counts the rules that
// they break.
func judge(t *testing.T, fresh func() replay, chains []one, rules ...string) {
	t.Helper()
	var broken []string
	for i, c := range chains {
		r, got := replayed(fresh(), of(t, c.drafts, c.times))
		switch {
		case !r.Known():
			t.Errorf("chain %d is of no known machine", i)
		case c.rule == "" && len(got) != 0:
			t.Errorf("control: the lawful chain %d breaks %v", i, got)
		case c.rule != "" && (len(got) == 0 || got[0] != c.rule):
			t.Errorf("chain %d breaks %v, want %s first", i, got, c.rule)
		}
		broken = append(broken, c.rule)
	}
	for _, rule := range rules {
		if !slices.Contains(broken, rule) {
			t.Errorf("no chain breaks %s", rule)
		}
	}
}

func TestUnlawfulProject(t *testing.T) {
	opened := project.Opened{Subject: named("project", projectID), Handle: "acme", Slug: "help", Session: session}
	build := func(number int64, f ...func(*project.BuildRef)) project.BuildRef {
		b := project.BuildRef{Number: number, Digest: hash("a"), Documents: 0, Cases: 0, Bytes: 0, PublishedAt: dawn}
		for _, f := range f {
			f(&b)
		}
		return b
	}
	published := func(environment string, b project.BuildRef) *project.Published {
		return &project.Published{Environment: environment, Build: b, Session: session}
	}
	saved := func(environment string, b project.BuildRef) *project.Saved {
		return &project.Saved{Environment: environment, Draft: b, Session: session}
	}
	chain := func(events ...event) []evidence.Draft { return drafts(append([]event{&opened}, events...)...) }
	judge(t, func() replay { return project.NewReplay() }, []one{
		{"", chain(published("production", build(1)), published("production", build(2)), published("staging", build(1)), saved("staging", build(0)), saved("staging", build(0)), published("staging", build(2))), nil},
		{"subject-id", drafts(changed(opened, func(e *project.Opened) { e.Subject.ID = "prj_" + hash("a")[:32] })), nil},
		{"subject-id", drafts(changed(opened, func(e *project.Opened) { e.Slug = "other" })), nil},
		{"project-path", drafts(changed(opened, func(e *project.Opened) { e.Handle, e.Subject.ID = "api", project.ProjectID("api", "help") })), nil},
		{"project-path", drafts(changed(opened, func(e *project.Opened) { e.Slug, e.Subject.ID = "A", project.ProjectID("acme", "A") })), nil},
		{"session", drafts(changed(opened, func(e *project.Opened) { e.Session = "owner" })), nil},
		{"session", chain(changed(*published("production", build(1)), func(e *project.Published) { e.Session = "" })), nil},
		{"session", chain(changed(*saved("staging", build(0)), func(e *project.Saved) { e.Session = "" })), nil},
		{"first-event", chain(&opened), nil},
		{"time-order", chain(published("staging", build(1, func(b *project.BuildRef) { b.PublishedAt = dawn - 1 }))), []time.Duration{0, -time.Millisecond}},
		{"environment", chain(published("elsewhere", build(1))), nil},
		{"build-number", chain(published("production", build(2))), nil},
		{"build-number", chain(published("production", build(0))), nil},
		{"build-number", chain(published("production", build(1)), published("production", build(1))), nil},
		{"build-number", chain(published("production", build(1)), published("staging", build(2))), nil},
		{"build", chain(published("production", build(1, func(b *project.BuildRef) { b.Digest = "a" }))), nil},
		{"build", chain(published("production", build(1, func(b *project.BuildRef) { b.Documents = -1 }))), nil},
		{"build", chain(published("production", build(1, func(b *project.BuildRef) { b.Cases = -1 }))), nil},
		{"build", chain(saved("staging", build(0, func(b *project.BuildRef) { b.Bytes = -1 }))), nil},
		{"build-time", chain(published("production", build(1, func(b *project.BuildRef) { b.PublishedAt = dawn - 1 }))), nil},
		{"build-time", chain(saved("staging", build(0, func(b *project.BuildRef) { b.PublishedAt = dawn + 1 }))), nil},
		{"draft-environment", chain(saved("production", build(0))), nil},
		{"draft-number", chain(saved("staging", build(1))), nil},
		{"event-type", chain(&project.RevokedEvent{Session: session}), nil},
		{"event-data", append(chain(), evidence.Draft{Type: "draft.saved", Data: map[string]any{"session": session}}), nil},
	}, "subject-id", "project-path", "session", "first-event", "time-order", "environment", "build-number", "build", "build-time", "draft-environment", "draft-number", "event-type", "event-data")
}

func TestUnlawfulClient(t *testing.T) {
	created := project.Created{
		Subject: named("contextclient", clientID), Project: projectID, Name: "gateway", Kind: "custom", Profile: "support", Environment: "production", TurnProtocol: "required", TokenHash: hash("a"), Session: session,
	}
	shared := created
	shared.Subject.ID, shared.Name, shared.Kind, shared.TurnProtocol = project.SharedID(projectID, "production"), "shared", "shared", "absent"
	rotated := func(generation int64, digit string) *project.Rotated {
		return &project.Rotated{Generation: generation, TokenHash: hash(digit), Session: session}
	}
	revoked := project.RevokedEvent{Session: session}
	chain := func(events ...event) []evidence.Draft { return drafts(append([]event{&created}, events...)...) }
	first := func(e project.Created, f func(*project.Created)) []evidence.Draft { return drafts(changed(e, f)) }
	judge(t, func() replay { return project.NewClientReplay() }, []one{
		{"", chain(rotated(2, "b"), rotated(3, "a"), &revoked), nil},
		{"", drafts(&shared, rotated(2, "b"), &revoked), nil},
		{"subject-id", first(created, func(e *project.Created) { e.Subject.ID = shared.Subject.ID }), nil},
		{"subject-id", first(shared, func(e *project.Created) { e.Subject.ID = clientID }), nil},
		{"subject-id", first(shared, func(e *project.Created) { e.Environment = "staging" }), nil},
		{"shared-protocol", first(shared, func(e *project.Created) { e.TurnProtocol = "required" }), nil},
		{"client", first(shared, func(e *project.Created) { e.Name = "gateway" }), nil},
		{"client", first(shared, func(e *project.Created) { e.Profile = "" }), nil},
		{"client", first(shared, func(e *project.Created) {
			e.Environment, e.Subject.ID = "moon", project.SharedID(projectID, "moon")
		}), nil},
		{"client", first(created, func(e *project.Created) { e.Name = "" }), nil},
		{"client", first(created, func(e *project.Created) { e.TurnProtocol = "" }), nil},
		{"client", first(created, func(e *project.Created) { e.Kind = "bridge" }), nil},
		{"client-project", first(created, func(e *project.Created) { e.Project = "acme/help" }), nil},
		{"token-hash", first(created, func(e *project.Created) { e.TokenHash = "seif_" + hash("a")[:43] }), nil},
		{"token-hash", chain(&project.Rotated{Generation: 2, Session: session}), nil},
		{"session", first(created, func(e *project.Created) { e.Session = "" }), nil},
		{"session", chain(&project.Rotated{Generation: 2, TokenHash: hash("b")}), nil},
		{"session", chain(&project.RevokedEvent{}), nil},
		{"rotated-revoked", chain(&revoked, rotated(2, "b")), nil},
		{"generation", chain(rotated(3, "b")), nil},
		{"generation", chain(rotated(1, "b")), nil},
		{"token-again", chain(rotated(2, "a")), nil},
		{"revoked-twice", chain(&revoked, &revoked), nil},
		{"first-event", chain(&created), nil},
		{"time-order", chain(&revoked), []time.Duration{time.Second, 0}},
		{"event-type", chain(&project.Reported{}), nil},
		{"event-data", append(chain(), evidence.Draft{Type: "client.revoked", Data: map[string]any{"session": session, "why": "me"}}), nil},
	}, "subject-id", "shared-protocol", "client", "client-project", "token-hash", "session", "rotated-revoked", "generation", "token-again", "revoked-twice", "first-event", "time-order", "event-type", "event-data")
}

func TestUnlawfulGap(t *testing.T) {
	length := func(n int) *evidence.Commitment { return &evidence.Commitment{Text: hash("a"), Length: n} }
	reported := project.Reported{
		Subject: named("gap", "gap_"+hash("a")[:32]), Project: projectID, Client: clientID, Environment: "staging",
		Build: &project.Selection{Environment: "staging", Number: 1, Digest: hash("b")}, Task: length(16000), Detail: length(8000),
	}
	with := func(f func(*project.Reported)) []evidence.Draft { return drafts(changed(reported, f)) }
	built := func(f func(*project.Selection)) []evidence.Draft {
		return with(func(e *project.Reported) { e.Build = changed(*e.Build, f) })
	}
	judge(t, func() replay { return project.NewGapReplay() }, []one{
		{"", drafts(&reported), nil},
		{"", with(func(e *project.Reported) { e.Build, e.Task, e.Ref, e.Detail = nil, nil, length(800), length(0) }), nil},
		{"", built(func(b *project.Selection) { b.Number, b.Draft = 0, true }), nil},
		{"subject-id", with(func(e *project.Reported) { e.Subject.ID = "gap_1" }), nil},
		{"gap-source", with(func(e *project.Reported) { e.Project = clientID }), nil},
		{"gap-source", with(func(e *project.Reported) { e.Client = projectID }), nil},
		{"gap-source", with(func(e *project.Reported) { e.Environment, e.Build = "moon", nil }), nil},
		{"gap-about", with(func(e *project.Reported) { e.Task = nil }), nil},
		{"gap-about", with(func(e *project.Reported) { e.Ref = length(1) }), nil},
		{"gap-text", with(func(e *project.Reported) { e.Task = length(0) }), nil},
		{"gap-text", with(func(e *project.Reported) { e.Task = length(16001) }), nil},
		{"gap-text", with(func(e *project.Reported) { e.Task, e.Ref = nil, length(801) }), nil},
		{"gap-text", with(func(e *project.Reported) { e.Detail = length(8001) }), nil},
		{"gap-build", built(func(b *project.Selection) { b.Environment = "production" }), nil},
		{"gap-build", built(func(b *project.Selection) { b.Digest = "" }), nil},
		{"gap-build", built(func(b *project.Selection) { b.Draft = true }), nil},
		{"gap-build", built(func(b *project.Selection) { b.Number = 0 }), nil},
		{"gap-build", built(func(b *project.Selection) { b.Number = -1 }), nil},
		{"gap-build", with(func(e *project.Reported) {
			e.Environment, e.Build = "production", &project.Selection{Environment: "production", Digest: hash("b"), Draft: true}
		}), nil},
		{"first-event", drafts(&reported, &reported), nil},
		{"event-type", drafts(&reported, &project.RevokedEvent{Session: session}), nil},
	}, "subject-id", "gap-source", "gap-about", "gap-text", "gap-build", "first-event", "event-type")
}

// A chain of another kind or machine, or one without its beginning, is not proved, and
// nothing is said of it.
func TestForeign(t *testing.T) {
	d := newDesk(t)
	d.open("acme", "help")
	d.publish("staging", hash("a"), false)
	for name, events := range map[string][]evidence.Event{
		"nothing": nil, "without its beginning": d.events[1:], "another kind": other(t, d.events, "kind", "run"), "another machine": other(t, d.events, "machine", 2),
	} {
		if r, rules := replayed(project.NewReplay(), events); r.Known() {
			t.Errorf("%s: known, %v", name, rules)
		}
	}
	if r, _ := replayed(project.NewClientReplay(), d.events); r.Known() {
		t.Error("a project passes for a client")
	}
	late := slices.Clone(d.events)
	late[1].Timestamp = "yesterday"
	if r, rules := replayed(project.NewReplay(), late); !r.Known() || !slices.Equal(rules, []string{"timestamp"}) {
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

// A chain is not longer than it may be.
func TestEventLimit(t *testing.T) {
	r := project.NewClientReplay()
	e := of(t, drafts(&project.Created{
		Subject: named("contextclient", clientID), Project: projectID, Name: "gateway", Kind: "mcp", Profile: "support", Environment: "production", TurnProtocol: "absent", TokenHash: hash("a"), Session: session,
	}, &project.RevokedEvent{Session: session}), nil)
	e[1].Sequence = project.MaxEvents + 1
	if _, rules := replayed(r, e); !slices.Equal(rules, []string{"event-limit"}) {
		t.Errorf("one event more than there may be breaks %v", rules)
	}
}
