package freeze_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/machine"
	"countersign/internal/supervision/freeze"
)

const dawn evidence.Time = 1_700_000_000_000

// session names an owner's session.
var session = strings.Repeat("5", 64)

var subject = evidence.Subject{Workspace: "default", Issuer: "http://localhost:8420"}

// chain is a workspace with the events that were stored for it.
type chain struct {
	t      *testing.T
	state  freeze.State
	events []evidence.Event
	texts  []evidence.Text
	key    evidence.SigningKey
}

func begin(t *testing.T) *chain {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &chain{t: t, key: evidence.NewSigningKey(private)}
}

// decide makes one decision from the stored bytes of the state, and stores what came of it.
func (c *chain) decide(at time.Duration, f func(*freeze.Deciding) *authority.Denial) string {
	c.t.Helper()
	s := c.state
	d := freeze.Begin(&s, subject, dawn.Add(at), [32]byte(bytes.Repeat([]byte{byte(len(c.events) + 1)}, 32)))
	if denial := f(d); denial != nil {
		return denial.Reason
	}
	out, err := d.Done()
	if err != nil {
		c.t.Fatal(err)
	}
	if len(out.Drafts) > 0 {
		c.seal(d.Now(), out.Drafts)
		c.texts = append(c.texts, out.Texts...)
		stored, err := freeze.DecodeState(canon.MustMarshal(&s))
		if err != nil {
			c.t.Fatal(err)
		}
		c.state = *stored
	}
	return ""
}

func (c *chain) seal(at evidence.Time, drafts []evidence.Draft) {
	c.t.Helper()
	head := evidence.Link{Hash: evidence.Genesis}
	if n := len(c.events); n > 0 {
		head = evidence.Link{Sequence: c.events[n-1].Sequence, Hash: c.events[n-1].Hash}
	}
	sealed, err := evidence.Seal(c.key, subject.Workspace, head, at.Time(), drafts)
	if err != nil {
		c.t.Fatal(err)
	}
	c.events = append(c.events, sealed...)
}

func (c *chain) freeze(at time.Duration, reason string) string {
	return c.decide(at, func(d *freeze.Deciding) *authority.Denial { return d.Freeze(reason, session) })
}

func (c *chain) unfreeze(at time.Duration, reason string, epoch int64) string {
	return c.decide(at, func(d *freeze.Deciding) *authority.Denial { return d.Unfreeze(reason, epoch, session) })
}

// list lists what is open in the freeze of that number.
func (c *chain) list(at time.Duration, epoch int64, open ...freeze.Intent) string {
	return c.decide(at, func(d *freeze.Deciding) *authority.Denial { d.List(epoch, open); return nil })
}

func (c *chain) types() (list []string) {
	for _, e := range c.events {
		list = append(list, e.Type)
	}
	return list
}

func replayed(events []evidence.Event) *freeze.Replay {
	r := freeze.NewReplay()
	for _, e := range events {
		r.Apply(e)
	}
	return r
}

func rules(list []machine.Unlawful) (names []string) {
	for _, u := range list {
		names = append(names, u.Rule)
	}
	return names
}

// L-8: a freeze has a reason, counts, and is lifted by another event; asking for what is
// there changes nothing. The chain replays to the state that was stored.
func TestFreezeAndUnfreeze(t *testing.T) {
	c := begin(t)
	if got := c.unfreeze(0, "nothing is frozen", 0); got != "" || len(c.events) != 0 {
		t.Errorf("unfreezing a workspace that was never frozen: %q, %v", got, c.types())
	}
	for _, step := range []struct {
		name   string
		do     func() string
		epoch  int64
		frozen bool
		events string
	}{
		{"freeze", func() string { return c.freeze(time.Second, "an agent went astray") }, 1, true, "workspace.opened workspace.frozen"},
		{"freeze again", func() string { return c.freeze(2*time.Second, "another reason") }, 1, true, "workspace.opened workspace.frozen"},
		{"unfreeze", func() string { return c.unfreeze(3*time.Second, "found it", 1) }, 1, false, "workspace.opened workspace.frozen workspace.unfrozen"},
		{"unfreeze again", func() string { return c.unfreeze(4*time.Second, "once more", 1) }, 1, false, "workspace.opened workspace.frozen workspace.unfrozen"},
		{"freeze once more", func() string { return c.freeze(5*time.Second, "again") }, 2, true, "workspace.opened workspace.frozen workspace.unfrozen workspace.frozen"},
	} {
		if got := step.do(); got != "" {
			t.Fatalf("%s: %s", step.name, got)
		}
		if s := c.state; s.Epoch != step.epoch || (s.Frozen != nil) != step.frozen || strings.Join(c.types(), " ") != step.events {
			t.Errorf("%s: %+v, %v", step.name, s, c.types())
		}
	}
	if since := c.state.Frozen.Since; since != dawn.Add(5*time.Second) || c.texts[0].Text != "an agent went astray" || len(c.texts) != 3 {
		t.Errorf("since %v, texts %v", since, c.texts)
	}
	for _, e := range c.events {
		if strings.Contains(string(e.Data), "astray") {
			t.Errorf("the reason stands in the event: %s", e.Data)
		}
	}
	r := replayed(c.events)
	if got := string(canon.MustMarshal(r.State())); !r.Known() || len(r.Unlawful()) != 0 || got != string(canon.MustMarshal(&c.state)) {
		t.Errorf("replayed: %s, %v; stored: %s", got, r.Unlawful(), canon.MustMarshal(&c.state))
	}
	if s, err := c.events[0].Subject(); err != nil || s.Kind != "workspace" || s.ID != "default" || s.Machine != 1 || s.Format != evidence.Format {
		t.Errorf("the chain's subject is %+v, %v", s, err)
	}
}

// Who lifts a freeze may say which one he means: another one that came meanwhile stays.
func TestUnfreezeNamesItsFreeze(t *testing.T) {
	c := begin(t)
	c.freeze(0, "one")
	c.unfreeze(0, "done", 1)
	c.freeze(0, "two")
	if got := c.unfreeze(0, "a late click", 1); got != authority.RevisionConflict || c.state.Frozen == nil {
		t.Errorf("lifting freeze 1 under freeze 2: %q, frozen %v", got, c.state.Frozen)
	}
	if got := c.unfreeze(0, "whichever", 0); got != "" || c.state.Frozen != nil {
		t.Errorf("control: lifting the standing one: %q, frozen %v", got, c.state.Frozen)
	}
}

// Where nothing was ever frozen there is no freeze to be mistaken for another.
func TestUnfreezeNothing(t *testing.T) {
	d := freeze.Begin(&freeze.State{}, subject, dawn, [32]byte{})
	if denial := d.Unfreeze("why", 3, session); denial == nil || denial.Reason != authority.RevisionConflict || !strings.Contains(denial.Detail, "never frozen") {
		t.Errorf("%+v", denial)
	}
}

// intent is one of many.
func intent(n int, state string) freeze.Intent {
	id := fmt.Sprintf("019cb73d-3271-7%03d-8000-000000000000", n)
	return freeze.Intent{ExecutionID: id, RunID: id, State: state}
}

// What is in flight is listed once in a freeze, and named up to a hundred; the state of
// the longest list fits into a row. With the freeze's end the list is history, and what
// remains says who froze and who lifted.
func TestInFlight(t *testing.T) {
	c := begin(t)
	c.list(0, 0, intent(0, "dispatched"))
	c.freeze(0, "one")
	c.list(0, 2, intent(0, "dispatched"))
	if got := strings.Join(c.types(), " "); got != "workspace.opened workspace.frozen" {
		t.Fatalf("without that freeze: %s", got)
	}
	var many []freeze.Intent
	for n := range 250 {
		many = append(many, intent(n, "unconfirmed"))
	}
	c.list(time.Second, 1, many...)
	c.list(2*time.Second, 1, intent(0, "dispatched"))
	open := c.state.Frozen.Open
	if got := strings.Join(c.types(), " "); got != "workspace.opened workspace.frozen workspace.inflight" || open.Count != 250 || len(open.Intents) != 100 || open.Intents[99] != many[99] {
		t.Fatalf("listed: %s, %d of %d", got, len(open.Intents), open.Count)
	}
	if n := len(canon.MustMarshal(&c.state)); n > 32<<10 {
		t.Errorf("the state has %d bytes", n)
	}
	c.unfreeze(3*time.Second, "done", 1)
	l := c.state.Lifted
	if l == nil || l.Freeze.Since != dawn || l.Until != dawn.Add(3*time.Second) || l.Freeze.Session != session || l.By != session || l.Freeze.Open != nil {
		t.Errorf("lifted: %+v", l)
	}
	if r := replayed(c.events); len(r.Unlawful()) != 0 || string(canon.MustMarshal(r.State())) != string(canon.MustMarshal(&c.state)) {
		t.Errorf("replayed: %v", r.Unlawful())
	}
	c.freeze(4*time.Second, "two")
	if c.state.Lifted != nil || c.state.Frozen.Open != nil {
		t.Errorf("in the next freeze: %+v", c.state)
	}
}

func TestReason(t *testing.T) {
	for reason, want := range map[string]string{
		"": authority.InvalidRequest, " \n\t": authority.InvalidRequest, "\u200b\u00a0": authority.InvalidRequest, "\xff": authority.InvalidRequest,
		strings.Repeat("ü", freeze.MaxReason+1): authority.InvalidRequest, strings.Repeat("ü", freeze.MaxReason): "", "x": "", "多": "",
	} {
		c := begin(t)
		if got := c.freeze(0, reason); got != want || (len(c.events) > 0) != (want == "") {
			t.Errorf("freezing because %.20q: %q, want %q", reason, got, want)
		}
		c.freeze(0, "well")
		if got := c.unfreeze(0, reason, 0); got != want || (c.state.Frozen == nil) != (want == "") {
			t.Errorf("unfreezing because %.20q: %q, want %q", reason, got, want)
		}
	}
}

// A decision is never before the newest event.
func TestClockBehind(t *testing.T) {
	c := begin(t)
	c.freeze(time.Hour, "one")
	c.unfreeze(0, "the clock is behind", 0)
	if r := replayed(c.events); len(r.Unlawful()) != 0 || c.events[2].Timestamp != c.events[1].Timestamp {
		t.Errorf("unlawful %v, at %s after %s", r.Unlawful(), c.events[2].Timestamp, c.events[1].Timestamp)
	}
}

// Every rule names the chain that breaks it, though every event of it is hashed and signed.
func TestUnlawful(t *testing.T) {
	opened := freeze.Opened{Subject: evidence.Subject{Format: evidence.Format, Kind: freeze.Kind, ID: "default", Workspace: "default", Issuer: "http://localhost:8420", Machine: freeze.Machine}}
	elsewhere := opened
	elsewhere.Subject.Workspace = "other"
	reason := evidence.Commitment{Text: strings.Repeat("a", 64), Length: 3}
	frozen := func(epoch int64, r evidence.Commitment) freeze.Frozen {
		return freeze.Frozen{Epoch: epoch, Reason: r, By: "owner", Session: session}
	}
	lifted := func(epoch int64, r evidence.Commitment) freeze.Unfrozen {
		return freeze.Unfrozen{Epoch: epoch, Reason: r, By: "owner", Session: session}
	}
	agents, nameless, uncounted := frozen(1, reason), frozen(1, reason), lifted(1, reason)
	agents.By, nameless.Session, uncounted.Session = "agent", "", "the owner"
	open := func(n int, count int64) freeze.InFlight {
		e := freeze.InFlight{Epoch: 1, Executions: []freeze.Intent{}, Count: count}
		for i := range n {
			e.Executions = append(e.Executions, intent(i, "dispatched"))
		}
		return e
	}
	twice, elses, known, later := open(2, 2), open(1, 1), open(1, 1), open(0, 0)
	twice.Executions[1], elses.Executions[0].RunID, known.Executions[0].State, later.Epoch = twice.Executions[0], "somebody", "verified", 2
	draft := func(e machine.Event[freeze.State]) evidence.Draft {
		return evidence.Draft{Type: e.EventType(), Data: e}
	}
	var broken []string
	for _, x := range []struct {
		rule   string
		drafts []evidence.Draft
		times  []time.Duration
	}{
		{"", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(lifted(1, reason)), draft(frozen(2, reason))}, nil},
		{"", []evidence.Draft{draft(opened), draft(frozen(1, evidence.Commitment{Text: reason.Text, Length: 2000})), draft(lifted(1, evidence.Commitment{Text: reason.Text, Length: 1}))}, nil},
		{"", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(open(100, 7000)), draft(lifted(1, reason))}, nil},
		{"by", []evidence.Draft{draft(opened), draft(agents)}, nil},
		{"by", []evidence.Draft{draft(opened), draft(nameless)}, nil},
		{"by", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(uncounted)}, nil},
		{"inflight-freeze", []evidence.Draft{draft(opened), draft(open(0, 0))}, nil},
		{"inflight-freeze", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(later)}, nil},
		{"inflight-freeze", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(lifted(1, reason)), draft(open(0, 0))}, nil},
		{"inflight-twice", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(open(1, 1)), draft(open(1, 1))}, nil},
		{"inflight-count", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(open(1, 2))}, nil},
		{"inflight-count", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(open(101, 101))}, nil},
		{"inflight-intent", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(twice)}, nil},
		{"inflight-intent", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(elses)}, nil},
		{"inflight-intent", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(known)}, nil},
		{"frozen-twice", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(frozen(2, reason))}, nil},
		{"epoch", []evidence.Draft{draft(opened), draft(frozen(2, reason))}, nil},
		{"epoch", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(lifted(2, reason))}, nil},
		{"unfrozen-open", []evidence.Draft{draft(opened), draft(lifted(0, reason))}, nil},
		{"reason", []evidence.Draft{draft(opened), draft(frozen(1, evidence.Commitment{Text: reason.Text}))}, nil},
		{"reason", []evidence.Draft{draft(opened), draft(frozen(1, reason)), draft(lifted(1, evidence.Commitment{Text: reason.Text, Length: 2001}))}, nil},
		{"first-event", []evidence.Draft{draft(opened), draft(opened)}, nil},
		{"subject", []evidence.Draft{draft(elsewhere)}, nil},
		{"time-order", []evidence.Draft{draft(opened), draft(frozen(1, reason))}, []time.Duration{time.Second, 0}},
		{"event-type", []evidence.Draft{draft(opened), {Type: "workspace.thawed", Data: frozen(1, reason)}}, nil},
		{"event-data", []evidence.Draft{draft(opened), {Type: "workspace.frozen", Data: map[string]any{"epoch": 1}}}, nil},
		{"event-data", []evidence.Draft{draft(opened), {Type: "workspace.frozen", Data: map[string]any{"epoch": 1, "reason": reason, "by": "owner", "session": session, "why": "me"}}}, nil},
	} {
		c := begin(t)
		for i, d := range x.drafts {
			d.ID = string(rune('a' + i))
			at := dawn
			if x.times != nil {
				at = dawn.Add(x.times[i])
			}
			c.seal(at, []evidence.Draft{d})
		}
		r := replayed(c.events)
		switch got := rules(r.Unlawful()); {
		case x.rule == "" && len(got) != 0:
			t.Errorf("control: a lawful chain breaks %v", got)
		case x.rule != "" && (len(got) == 0 || got[0] != x.rule):
			t.Errorf("%v breaks %v, want %s first", c.types(), got, x.rule)
		}
		broken = append(broken, x.rule)
	}
	for _, rule := range []string{"frozen-twice", "epoch", "unfrozen-open", "reason", "by", "inflight-freeze", "inflight-twice", "inflight-count", "inflight-intent", "first-event", "subject", "time-order", "event-type", "event-data"} {
		if !slices.Contains(broken, rule) {
			t.Errorf("no chain breaks %s", rule)
		}
	}
}

// A chain of another kind or machine, or one without its beginning, is not proved.
func TestForeign(t *testing.T) {
	c := begin(t)
	c.freeze(0, "one")
	if !replayed(c.events).Known() {
		t.Error("control: its own chain is unknown")
	}
	if replayed(c.events[1:]).Known() || replayed(nil).Known() {
		t.Error("a chain without its beginning is known")
	}
	for member, value := range map[string]any{"kind": "run", "machine": 2} {
		e := c.events[0]
		var data map[string]map[string]any
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		data["subject"][member] = value
		e.Data = canon.MustMarshal(data)
		if replayed(append([]evidence.Event{e}, c.events[1:]...)).Known() {
			t.Errorf("a chain with another %s is known", member)
		}
	}
	for _, raw := range []string{`{"machine":2}`, string(canon.MustMarshal(map[string]any{"machine": 1, "more": 1}))} {
		if _, err := freeze.DecodeState([]byte(raw)); err == nil {
			t.Errorf("the state %s is read", raw)
		}
	}
	e := c.events[0]
	e.Data = canon.MustMarshal(map[string]any{"subject": map[string]any{"kind": "run"}})
	if r := replayed(append([]evidence.Event{e}, c.events[1:]...)); len(r.Unlawful()) != 0 {
		t.Errorf("of a foreign chain %v is said", rules(r.Unlawful()))
	}
	late := slices.Clone(c.events)
	late[1].Timestamp = "yesterday"
	if got := rules(replayed(late).Unlawful()); !slices.Equal(got, []string{"timestamp"}) {
		t.Errorf("an unreadable timestamp breaks %v", got)
	}
}

// A decision that breaks a rule of the machine is not handed out.
func TestBrokenDecision(t *testing.T) {
	s := freeze.State{Progress: machine.Progress{Machine: freeze.Machine, ID: "default"}} // as no chain leaves it: begun, and without an event
	d := freeze.Begin(&s, subject, dawn, [32]byte{})
	if denial := d.Freeze("why", session); denial != nil {
		t.Fatal(denial)
	}
	if out, err := d.Done(); err == nil {
		t.Errorf("handed out: %+v", out)
	}
}

func TestEventTypes(t *testing.T) {
	if got := strings.Join(freeze.EventTypes(), " "); got != "workspace.frozen workspace.inflight workspace.opened workspace.unfrozen" {
		t.Error(got)
	}
}
