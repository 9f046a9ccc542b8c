package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
)

// desk signs chains of the context perimeter that are made up here: all are hashed and
// signed, whatever they tell.
type desk struct {
	t   *testing.T
	key evidence.SigningKey
}

// began is when every event of such a chain happened; see exported.
var began = evidence.TimeOf(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC))

const (
	someID    = "0123456789abcdef0123456789abcdef"
	someHash  = someID + someID
	otherHash = "fedcba98765432100123456789abcdef" + someID
)

// subject names a chain of the context perimeter.
func (d desk) subject(kind, id string) evidence.Subject {
	return evidence.Subject{Format: evidence.Format, Kind: kind, ID: id, Workspace: "default", Issuer: "http://localhost:8420", Machine: 1}
}

type event interface{ EventType() string }

// later is an event that happens that long after the beginning.
type later struct {
	event
	after time.Duration
}

// export tells the events as the chain of the subject.
func (d desk) export(s evidence.Subject, events ...event) []byte {
	d.t.Helper()
	head := evidence.Link{Hash: evidence.Genesis}
	var chain []evidence.Event
	for i, e := range events {
		at := began
		if l, ok := e.(later); ok {
			e, at = l.event, began.Add(l.after)
		}
		draft := evidence.Draft{ID: fmt.Sprintf("01980000-0000-7000-9000-%012d", i), Type: e.EventType(), Data: e}
		sealed := got(evidence.Seal(d.key, s.ID, head, at.Time(), []evidence.Draft{draft}))(d.t)
		chain, head = append(chain, sealed...), evidence.Link{Sequence: sealed[0].Sequence, Hash: sealed[0].Hash}
	}
	var b bytes.Buffer
	must(d.t, evidence.WriteExport(&b, d.key, began.Add(time.Hour).Time(), evidence.Source{
		Subject: s, Head: head,
		Events: func(yield func(evidence.Event, error) bool) {
			for _, e := range chain {
				if !yield(e, nil) {
					return
				}
			}
		},
	}))
	return b.Bytes()
}

func (d desk) verify(raw []byte) *audit.Report {
	d.t.Helper()
	return verify(d.t, raw, audit.Options{Keys: evidence.Keys{{Public: d.key.Public()}}})
}

// told is one chain: what it comes to when it is lawful, or the one rule that it breaks.
// The name becomes that of its file in vectors/context.
type told struct {
	name, status, says, rule string
	raw                      []byte
}

// holds verifies chains. All are signed, so that nothing but the replay can tell which of
// them are lawful.
func (d desk) holds(boundary []string, chains []told) {
	d.t.Helper()
	for _, c := range chains {
		r := d.verify(c.raw)
		switch {
		case !r.Report.OK():
			d.t.Errorf("%s: integrity: %s", c.name, printed(d.t, r))
		case c.rule != "" && (r.OK() || r.Lawfulness.Proved || r.Lawfulness.Failures != 1 || r.Lawfulness.Unlawful[0].Rule != c.rule):
			d.t.Errorf("%s: %+v, want it to break %s and nothing else", c.name, r.Lawfulness, c.rule)
		case c.rule == "" && (!r.OK() || r.Lawfulness.Status != c.status || r.Lawfulness.Reason != "every transition is lawful; "+c.says):
			d.t.Errorf("%s: %+v, want %q: %s", c.name, r.Lawfulness, c.status, c.says)
		}
		if !slices.Equal(r.Boundary, boundary) {
			d.t.Errorf("%s: the report says %q, want %q", c.name, r.Boundary, boundary)
		}
	}
	// One changed byte anywhere, and the signatures do not hold.
	for _, c := range chains {
		for at := 7; at < len(c.raw); at += len(c.raw)/7 + 1 {
			raw := bytes.Clone(c.raw)
			raw[at] ^= 1
			if r, err := audit.Verify(bytes.NewReader(raw), audit.Options{Keys: evidence.Keys{{Public: d.key.Public()}}}); err == nil && r.OK() {
				d.t.Errorf("%s: byte %d can be changed", c.name, at)
			}
		}
	}
}

// newDesk signs with the key of vectors/context, whose seed is the hash of a public
// sentence.
func newDesk(t *testing.T) desk {
	seed := sha256.Sum256([]byte("countersign test vectors: evidence key, not for use"))
	return desk{t, evidence.NewSigningKey(ed25519.NewKeyFromSeed(seed[:]))}
}

// called is a call of find with n items.
func called(nth, n int) turn.Call {
	c := turn.Call{
		InteractionID: fmt.Sprintf("int_%032x", nth), Tool: "find", Build: &turn.Build{Environment: "staging", Number: 4, Digest: someHash}, Items: []turn.Item{},
		Request: evidence.Commitment{Text: someHash, Length: 9}, Answer: evidence.Commitment{Text: otherHash, Length: 9},
	}
	for i := range n {
		c.Items = append(c.Items, turn.Item{Ref: fmt.Sprintf("refunds-%d", i+1), SHA256: someHash})
	}
	return c
}

// The chain of a context turn is replayed by its own machine. The report says what was
// observed, what was reported, and what neither shows.
//
// S-004: no verification of a turn says anything of a model or of what is outside the gateway.
// S-009: an observation is called an intention, and nothing that came of it.
// S-046: that a model read or understood a delivery is called not observed.
// S-061: a completion is called reported by the application.
// S-076: what is not observed is listed.
func TestTurnChain(t *testing.T) {
	d := newDesk(t)
	d.holds([]string{
		"This is what passed through the HTTP context gateway. It does not control a model, does not show that a model read or used anything, and sees no tool and no source outside the gateway.",
		"Handed to the HTTP response. Whether the application received it, or a model read or understood it, was not observed.",
		"A hook reported an intention before a tool was to run. That the tool ran, what it did and what became of its result was not observed, and the id is not matched with any call.",
		"Reported by the application. It is a technical status, no statement about reasoning or about what a user saw.",
		"Not observed: whether a tool was invoked or what came of it, requests made after a hook, use of results, the model's reasoning or comprehension, its final answer.",
	}, d.turns())
}

// turns are chains of context turns.
func (d desk) turns() []told {
	s := d.subject("contextturn", "trn_"+someID)
	opened := &turn.Opened{
		Subject: s, Project: "prj_" + someID, Client: "cli_" + someID, Profile: "support", Environment: "staging", Via: "http", ExpiresAt: began.Add(15 * time.Minute),
	}
	observed := &turn.Observed{Event: "pre_tool_use", Tool: "mcp__seif__find", ToolUseID: "t", Class: "observed"}
	complete := func(reported, state string, deliveries, observations int64) *turn.Complete {
		return &turn.Complete{Reported: reported, State: state, Deliveries: deliveries, Observations: observations, Class: "reported"}
	}
	without := complete("completed", "COMPLETED_WITHOUT_CONTEXT_DELIVERY", 0, 0)
	delivered, end := &turn.Delivered{Call: called(1, 2)}, 15*time.Minute
	// shared is the start of a turn with the shared token, which names no invoker.
	shared, claimed := *opened, *complete("failed", "REPORTED_FAILED", 0, 0)
	shared.Client, claimed.Class = "shr_"+someID, "observed"
	return []told{
		{name: "turn-open", status: "OPEN", raw: d.export(s, opened), says: "the turn is OPEN with 0 context deliveries, 0 observations and 0 late reports. A start was received; no completion was observed yet."},
		{
			name: "turn-with-delivery", status: "COMPLETED_WITH_CONTEXT_DELIVERY",
			raw:  d.export(s, opened, delivered, &turn.Answered{Call: called(2, 0)}, observed, complete("completed", "COMPLETED_WITH_CONTEXT_DELIVERY", 1, 1)),
			says: "the turn is COMPLETED_WITH_CONTEXT_DELIVERY with 1 context delivery, 1 observation and 0 late reports. The client reported completion, and at least one context delivery was correlated to the turn.",
		},
		{
			name: "turn-without-delivery", status: "COMPLETED_WITHOUT_CONTEXT_DELIVERY", raw: d.export(s, opened, later{without, end - time.Millisecond}),
			says: "the turn is COMPLETED_WITHOUT_CONTEXT_DELIVERY with 0 context deliveries, 0 observations and 0 late reports. The client reported completion, and no context delivery was observed through this perimeter during the turn. That says nothing about what the model used, answered or left aside.",
		},
		{
			name: "turn-expired", status: "EXPIRED_OR_INCOMPLETE", raw: d.export(s, opened, delivered, later{&turn.Expiry{}, end}, later{&turn.Late{Reported: "completed"}, 2 * end}),
			says: "the turn is EXPIRED_OR_INCOMPLETE with 1 context delivery, 0 observations and 1 late report. Fifteen minutes passed before a completion was reported. The outcome is inconclusive.",
		},
		{
			name: "turn-cancelled", status: "REPORTED_CANCELLED", raw: d.export(s, opened, complete("cancelled", "REPORTED_CANCELLED", 0, 0)),
			says: "the turn is REPORTED_CANCELLED with 0 context deliveries, 0 observations and 0 late reports. The client reported that the turn was cancelled: a technical status, no statement about reasoning or about what a user saw.",
		},
		{
			name: "turn-failed", status: "REPORTED_FAILED", raw: d.export(s, opened, delivered, complete("failed", "REPORTED_FAILED", 1, 0)),
			says: "the turn is REPORTED_FAILED with 1 context delivery, 0 observations and 0 late reports. The client reported that the turn failed: a technical status, no statement about reasoning or about what a user saw.",
		},
		{name: "turn-delivery-left-out", rule: "state", raw: d.export(s, opened, complete("completed", "COMPLETED_WITH_CONTEXT_DELIVERY", 0, 0))},
		{name: "turn-delivery-kept-silent", rule: "state", raw: d.export(s, opened, delivered, complete("completed", "COMPLETED_WITHOUT_CONTEXT_DELIVERY", 1, 0))},
		{name: "turn-delivery-twice", rule: "twice", raw: d.export(s, opened, delivered, delivered)},
		{name: "turn-observation-made-up", rule: "counts", raw: d.export(s, opened, complete("completed", "COMPLETED_WITHOUT_CONTEXT_DELIVERY", 0, 1))},
		{name: "turn-delivery-behind-the-end", rule: "closed", raw: d.export(s, opened, without, delivered)},
		{name: "turn-observation-behind-the-end", rule: "closed", raw: d.export(s, opened, later{&turn.Expiry{}, end}, later{observed, end})},
		{name: "turn-completed-late", rule: "closed", raw: d.export(s, opened, later{without, end})},
		{name: "turn-completed-twice", rule: "closed", raw: d.export(s, opened, without, without)},
		{name: "turn-report-as-observed", rule: "class", raw: d.export(s, opened, &claimed)},
		{name: "turn-expired-early", rule: "expired", raw: d.export(s, opened, later{&turn.Expiry{}, end - time.Millisecond})},
		{name: "turn-late-and-open", rule: "late", raw: d.export(s, opened, &turn.Late{Reported: "completed"})},
		{name: "turn-of-shared-token", rule: "client", raw: d.export(s, &shared)},
	}
}

// A call outside a turn is verified like any chain, and claims no more than was seen.
func TestInteractionChain(t *testing.T) {
	d := newDesk(t)
	d.holds([]string{turn.HonestyPerimeter, turn.HonestyDelivery}, d.interactions())
}

// interactions are chains of calls outside a turn.
func (d desk) interactions() []told {
	s := d.subject("interaction", called(1, 0).InteractionID)
	recorded := func(c turn.Call) *turn.Recorded {
		return &turn.Recorded{Subject: s, Project: "prj_" + someID, Client: "shr_" + someID, Profile: "support", Environment: "staging", Call: c}
	}
	draft, doctor := called(1, 1), called(1, 1)
	draft.Build = &turn.Build{Environment: "staging", Digest: someHash, Draft: true}
	doctor.Tool = "doctor"
	elsewhere := called(1, 1)
	elsewhere.Build = &turn.Build{Environment: "production", Number: 4, Digest: someHash}
	// compass is a call of compass with n items.
	compass := func(n int, verdict string) turn.Call {
		c := called(1, n)
		c.Tool, c.Verdict = "compass", &verdict
		return c
	}
	again, resolve, nowhere := called(1, 2), called(1, 2), called(1, 0)
	again.Items[1].Ref, resolve.Tool, nowhere.Build = again.Items[0].Ref, "resolve", nil
	return []told{
		{name: "interaction-delivery", raw: d.export(s, recorded(called(1, 2))), says: "the interaction is a call of find outside a turn, which handed out 2 items of Build 4 in staging"},
		{name: "interaction-draft", raw: d.export(s, recorded(draft)), says: "the interaction is a call of find outside a turn, which handed out 1 item of a draft in staging"},
		{name: "interaction-nothing", raw: d.export(s, recorded(called(1, 0))), says: "the interaction is a call of find outside a turn, which handed out nothing"},
		{name: "interaction-conflict", raw: d.export(s, recorded(compass(2, "conflict"))), says: "the interaction is a call of compass outside a turn, which handed out 2 items of Build 4 in staging"},
		{name: "interaction-conflict-alone", rule: "verdict-conflict", raw: d.export(s, recorded(compass(1, "conflict")))},
		{name: "interaction-compass-too-many", rule: "items", raw: d.export(s, recorded(compass(6, "covered")))},
		{name: "interaction-resolve-two", rule: "items", raw: d.export(s, recorded(resolve))},
		{name: "interaction-find-too-many", rule: "items", raw: d.export(s, recorded(called(1, 21)))},
		{name: "interaction-item-twice", rule: "item-twice", raw: d.export(s, recorded(again))},
		{name: "interaction-found-nowhere", rule: "build", raw: d.export(s, recorded(nowhere))},
		{name: "interaction-other-call", rule: "interaction", raw: d.export(s, recorded(called(2, 0)))},
		{name: "interaction-twice", rule: "first-event", raw: d.export(s, recorded(called(1, 0)), recorded(called(1, 0)))},
		{name: "interaction-doctor-hands-out", rule: "items-tool", raw: d.export(s, recorded(doctor))},
		{name: "interaction-other-environment", rule: "build", raw: d.export(s, recorded(elsewhere))},
	}
}

// S-089: a bridge's receipt is called the bridge's word, and no activity of a model or tool.
func TestBridgeChain(t *testing.T) {
	d := newDesk(t)
	d.holds([]string{"Bridge-observed: a local bridge reports a file, process or HTTP transition that it saw. It shows no activity of a model or of a tool."}, d.receipts())
	text := printed(t, d.verify(d.receipts()[0].raw))
	if want := "\n  What this is evidence of, and of what not:\n  - Bridge-observed: a local bridge reports"; !strings.Contains(text, want) {
		t.Errorf("for people: %s", text)
	}
}

// receipts are chains of bridge receipts.
func (d desk) receipts() []told {
	s := d.subject("bridge", "brg_"+someID)
	bridged := func(client, kind, class string) *turn.Bridged {
		return &turn.Bridged{Subject: s, Project: "prj_" + someID, Client: client + someID, Environment: "staging", Seen: turn.Seen{Kind: kind, Digest: someHash}, Class: class}
	}
	return []told{
		{name: "bridge-receipt", raw: d.export(s, bridged("cli_", "process.exit", "bridge-observed")), says: "a bridge reported one process.exit"},
		{name: "bridge-tool", rule: "seen", raw: d.export(s, bridged("cli_", "tool.call", "bridge-observed"))},
		{name: "bridge-as-observed", rule: "class", raw: d.export(s, bridged("cli_", "process.exit", "observed"))},
		{name: "bridge-shared-token", rule: "client", raw: d.export(s, bridged("shr_", "process.exit", "bridge-observed"))},
	}
}

// The chain of a project says what its environments have selected.
func TestProjectChain(t *testing.T) {
	d := newDesk(t)
	d.holds(nil, d.projects())
}

// projects are chains of projects.
func (d desk) projects() []told {
	s := d.subject("project", project.ProjectID("acme", "help"))
	opened := &project.Opened{Subject: s, Handle: "acme", Slug: "help", Session: someHash}
	build := func(number int64) project.BuildRef {
		return project.BuildRef{Number: number, Digest: someHash, Documents: 3, PublishedAt: began}
	}
	published := func(environment string, number int64) *project.Published {
		return &project.Published{Environment: environment, Build: build(number), Session: someHash}
	}
	saved := func(environment string) *project.Saved {
		return &project.Saved{Environment: environment, Draft: build(0), Session: someHash}
	}
	return []told{
		{name: "project-opened", raw: d.export(s, opened), says: "the project acme/help has selected nothing in production and nothing in staging"},
		{name: "project-published", raw: d.export(s, opened, published("production", 1), published("production", 2), saved("staging")), says: "the project acme/help has selected Build 2 in production and a draft in staging"},
		{name: "project-build-left-out", rule: "build-number", raw: d.export(s, opened, published("production", 2))},
		{name: "project-build-anew", rule: "build-number", raw: d.export(s, opened, published("production", 1), published("production", 1))},
		{name: "project-draft-in-production", rule: "draft-environment", raw: d.export(s, opened, saved("production"))},
		{name: "project-other-path", rule: "subject-id", raw: d.export(s, &project.Opened{Subject: s, Handle: "acme", Slug: "other", Session: someHash})},
		{name: "project-nobody", rule: "session", raw: d.export(s, &project.Opened{Subject: s, Handle: "acme", Slug: "help"})},
	}
}

// The chain of a client says what it is bound to and whether its token opens anything.
func TestClientChain(t *testing.T) {
	d := newDesk(t)
	d.holds(nil, d.clients())
}

// clients are chains of clients.
func (d desk) clients() []told {
	s := d.subject("contextclient", "cli_"+someID)
	created := &project.Created{
		Subject: s, Project: project.ProjectID("acme", "help"), Name: "gateway", Kind: "custom", Profile: "support", Environment: "production", TurnProtocol: "required", TokenHash: someHash, Session: someHash,
	}
	bridge := *created
	bridge.Kind = "bridge"
	rotated, revoked := &project.Rotated{Generation: 2, TokenHash: otherHash, Session: someHash}, &project.RevokedEvent{Session: someHash}
	return []told{
		{name: "client-rotated", status: "active", raw: d.export(s, created, rotated), says: "the client is of kind custom in production, its turn protocol required, its token of generation 2"},
		{name: "client-revoked", status: "revoked", raw: d.export(s, created, revoked), says: "the client is of kind custom in production, its turn protocol required, its token of generation 1; it is revoked since 2026-03-01T09:00:00.000Z"},
		{name: "client-rotated-after-revoked", rule: "rotated-revoked", raw: d.export(s, created, revoked, rotated)},
		{name: "client-generation-left-out", rule: "generation", raw: d.export(s, created, &project.Rotated{Generation: 3, TokenHash: otherHash, Session: someHash})},
		{name: "client-token-itself", rule: "token-hash", raw: d.export(s, created, &project.Rotated{Generation: 2, TokenHash: "seif_" + someID, Session: someHash})},
		{name: "client-token-again", rule: "token-again", raw: d.export(s, created, &project.Rotated{Generation: 2, TokenHash: someHash, Session: someHash})},
		{name: "client-bridge-with-turns", rule: "client", raw: d.export(s, &bridge)},
	}
}

// The chain of a gap says what a client reported, and not that it is so.
func TestGapChain(t *testing.T) {
	d := newDesk(t)
	d.holds([]string{"A gap is what a client reported to be missing. Whether it was missing is not checked."}, d.gaps())
}

// gaps are chains of gaps.
func (d desk) gaps() []told {
	s := d.subject("gap", "gap_"+someID)
	reported := func(b *project.Selection, task, ref *evidence.Commitment) *project.Reported {
		return &project.Reported{Subject: s, Project: project.ProjectID("acme", "help"), Client: "cli_" + someID, Environment: "production", Build: b, Task: task, Ref: ref}
	}
	some, at := &evidence.Commitment{Text: someHash, Length: 9}, &project.Selection{Environment: "production", Number: 2, Digest: someHash}
	return []told{
		{name: "gap-task", raw: d.export(s, reported(at, some, nil)), says: "a client reported a gap for a task of Build 2 in production"},
		{name: "gap-ref", raw: d.export(s, reported(nil, nil, some)), says: "a client reported a gap for a ref while nothing was selected in production"},
		{name: "gap-both", rule: "gap-about", raw: d.export(s, reported(at, some, some))},
		{name: "gap-twice", rule: "first-event", raw: d.export(s, reported(at, some, nil), reported(at, some, nil))},
		{name: "gap-other-environment", rule: "gap-build", raw: d.export(s, reported(&project.Selection{Environment: "staging", Number: 2, Digest: someHash}, some, nil))},
	}
}

// A chain of these kinds by another machine is not proved.
func TestOtherContextMachine(t *testing.T) {
	d := newDesk(t)
	for _, kind := range []string{"contextturn", "interaction", "bridge", "project", "contextclient", "gap"} {
		s := d.subject(kind, "trn_"+someID)
		s.Machine = 2
		r := d.verify(d.export(s, &turn.Opened{Subject: s}))
		if r.OK() || r.Lawfulness.Known || !strings.Contains(r.Lawfulness.Reason, fmt.Sprintf("no machine 2 for a chain of kind %q", kind)) {
			t.Errorf("%s: %+v", kind, r.Lawfulness)
		}
	}
}
