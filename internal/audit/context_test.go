package audit_test

import (
	"bytes"
	"crypto/ed25519"
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

// export tells the events as the chain of the subject.
func (d desk) export(s evidence.Subject, events ...interface{ EventType() string }) []byte {
	d.t.Helper()
	var drafts []evidence.Draft
	for i, e := range events {
		drafts = append(drafts, evidence.Draft{ID: fmt.Sprintf("01980000-0000-7000-9000-%012d", i), Type: e.EventType(), Data: e})
	}
	return exported(d.t, d.key, s, drafts)
}

func (d desk) verify(raw []byte) *audit.Report {
	d.t.Helper()
	return verify(d.t, raw, audit.Options{Keys: evidence.Keys{{Public: d.key.Public()}}})
}

// told is one chain: what it comes to when it is lawful, or the rule that it breaks.
type told struct {
	name, status, says, rule string
	raw                      []byte
}

// holds verifies chains. All are signed, so that nothing but the replay can tell which of
// them are lawful.
func (d desk) holds(cannotShow []string, chains ...told) {
	d.t.Helper()
	for _, c := range chains {
		r := d.verify(c.raw)
		switch {
		case !r.Report.OK():
			d.t.Errorf("%s: integrity: %s", c.name, printed(d.t, r))
		case c.rule != "" && (r.OK() || r.Lawfulness.Proved || r.Lawfulness.Failures == 0 || r.Lawfulness.Unlawful[0].Rule != c.rule):
			d.t.Errorf("%s: %+v, want it to break %s", c.name, r.Lawfulness, c.rule)
		case c.rule == "" && (!r.OK() || r.Lawfulness.Status != c.status || r.Lawfulness.Reason != "every transition is lawful; "+c.says):
			d.t.Errorf("%s: %+v, want %q: %s", c.name, r.Lawfulness, c.status, c.says)
		}
		for _, sentence := range cannotShow {
			if !slices.Contains(r.CannotShow, sentence) {
				d.t.Errorf("%s: the report does not say %q", c.name, sentence)
			}
		}
	}
	// One changed byte anywhere, and the signatures do not hold.
	for _, c := range chains {
		for at := 7; at < len(c.raw); at += len(c.raw)/20 + 1 {
			raw := bytes.Clone(c.raw)
			raw[at] ^= 1
			if r, err := audit.Verify(bytes.NewReader(raw), audit.Options{Keys: evidence.Keys{{Public: d.key.Public()}}}); err == nil && r.OK() {
				d.t.Errorf("%s: byte %d can be changed", c.name, at)
			}
		}
	}
}

func newDesk(t *testing.T) desk {
	return desk{t, evidence.NewSigningKey(ed25519.NewKeyFromSeed(seed(t)))}
}

// called is a call of find with n items.
func called(nth, n int) turn.Call {
	c := turn.Call{
		InteractionID: fmt.Sprintf("int_%032x", nth), Tool: "find", Build: &turn.Build{Environment: "staging", Number: 4, Digest: someHash}, Items: []turn.Item{},
		Request: evidence.Commitment{Text: someHash, Length: 9}, Answer: evidence.Commitment{Text: otherHash, Length: 9},
	}
	for range n {
		c.Items = append(c.Items, turn.Item{Ref: "refunds", SHA256: someHash})
	}
	return c
}

// The chain of a context turn is replayed by its own machine. The report says what was
// observed, what was reported, and what neither shows.
func TestTurnChain(t *testing.T) {
	d := newDesk(t)
	s := d.subject("contextturn", "trn_"+someID)
	opened := &turn.Opened{
		Subject: s, Project: "prj_" + someID, Client: "cli_" + someID, Profile: "support", Environment: "staging", Via: "http", ExpiresAt: began.Add(15 * time.Minute),
	}
	observed := &turn.Observed{Event: "pre_tool_use", Tool: "mcp__seif__find", ToolUseID: "t", Class: "observed"}
	complete := func(state string, deliveries, observations int64) *turn.Complete {
		return &turn.Complete{Reported: "completed", State: state, Deliveries: deliveries, Observations: observations, Class: "reported"}
	}
	delivered := &turn.Delivered{Call: called(1, 2)}
	// shared is the start of a turn with the shared token, which names no invoker.
	shared := *opened
	shared.Client = "shr_" + someID
	d.holds(
		[]string{
			"This is what passed through the HTTP context gateway. It does not control a model, does not show that a model read or used anything, and sees no tool and no source outside the gateway.",
			"Handed to the HTTP response. Whether the application received it, or a model read or understood it, was not observed.",
			"A hook reported an intention before a tool was to run. That the tool ran, what it did and what became of its result was not observed, and the id is not matched with any call.",
			"Reported by the application. It is a technical status, no statement about reasoning or about what a user saw.",
			"Not observed: whether a tool was invoked or what came of it, requests made after a hook, use of results, the model's reasoning or comprehension, its final answer.",
		},
		told{name: "open", status: "OPEN", raw: d.export(s, opened), says: "the turn is OPEN with 0 context deliveries, 0 observations and 0 late reports. A start was received; no completion was observed yet."},
		told{
			name: "with a delivery", status: "COMPLETED_WITH_CONTEXT_DELIVERY", raw: d.export(s, opened, delivered, &turn.Answered{Call: called(2, 0)}, observed, complete("COMPLETED_WITH_CONTEXT_DELIVERY", 1, 1)),
			says: "the turn is COMPLETED_WITH_CONTEXT_DELIVERY with 1 context delivery, 1 observation and 0 late reports. The client reported completion, and at least one context delivery was correlated to the turn.",
		},
		told{
			name: "without a delivery", status: "COMPLETED_WITHOUT_CONTEXT_DELIVERY", raw: d.export(s, opened, complete("COMPLETED_WITHOUT_CONTEXT_DELIVERY", 0, 0)),
			says: "the turn is COMPLETED_WITHOUT_CONTEXT_DELIVERY with 0 context deliveries, 0 observations and 0 late reports. The client reported completion, and no context delivery was observed through this perimeter during the turn. That says nothing about what the model used, answered or left aside.",
		},
		told{name: "a delivery is left out", rule: "state", raw: d.export(s, opened, complete("COMPLETED_WITH_CONTEXT_DELIVERY", 0, 0))},
		told{name: "a delivery is kept silent", rule: "state", raw: d.export(s, opened, delivered, complete("COMPLETED_WITHOUT_CONTEXT_DELIVERY", 1, 0))},
		told{name: "a delivery is told twice", rule: "twice", raw: d.export(s, opened, delivered, delivered)},
		told{name: "an observation is counted that was not made", rule: "counts", raw: d.export(s, opened, complete("COMPLETED_WITHOUT_CONTEXT_DELIVERY", 0, 1))},
		told{name: "a delivery behind the end", rule: "closed", raw: d.export(s, opened, complete("COMPLETED_WITHOUT_CONTEXT_DELIVERY", 0, 0), delivered)},
		told{name: "a report as if it had been observed", rule: "class", raw: d.export(s, opened, &turn.Complete{Reported: "failed", State: "REPORTED_FAILED", Class: "observed"})},
		told{name: "expired before its end", rule: "expired", raw: d.export(s, opened, &turn.Expiry{})},
		told{name: "with the shared token", rule: "client", raw: d.export(s, &shared)},
	)
}

// A call outside a turn and a bridge's receipt are verified like any chain, and neither
// claims more than it saw.
func TestCallAndReceiptChains(t *testing.T) {
	d := newDesk(t)
	s := d.subject("interaction", called(1, 0).InteractionID)
	recorded := func(c turn.Call) *turn.Recorded {
		return &turn.Recorded{Subject: s, Project: "prj_" + someID, Client: "shr_" + someID, Profile: "support", Environment: "staging", Call: c}
	}
	draft, doctor := called(1, 1), called(1, 0)
	draft.Build = &turn.Build{Environment: "staging", Digest: someHash, Draft: true}
	doctor.Tool, doctor.Items = "doctor", called(1, 1).Items
	d.holds(
		[]string{turn.HonestyPerimeter, turn.HonestyDelivery},
		told{name: "a delivery", raw: d.export(s, recorded(called(1, 2))), says: "a call of find outside a turn, which handed out 2 items of Build 4 in staging"},
		told{name: "of a draft", raw: d.export(s, recorded(draft)), says: "a call of find outside a turn, which handed out 1 item of a draft in staging"},
		told{name: "nothing found", raw: d.export(s, recorded(called(1, 0))), says: "a call of find outside a turn, which handed out nothing"},
		told{name: "another call", rule: "interaction", raw: d.export(s, recorded(called(2, 0)))},
		told{name: "two calls", rule: "first-event", raw: d.export(s, recorded(called(1, 0)), recorded(called(1, 0)))},
		told{name: "the doctor hands out", rule: "items-tool", raw: d.export(s, recorded(doctor))},
	)

	s = d.subject("bridge", "brg_"+someID)
	bridged := func(kind, class string) *turn.Bridged {
		return &turn.Bridged{Subject: s, Project: "prj_" + someID, Client: "cli_" + someID, Environment: "staging", Seen: turn.Seen{Kind: kind, Digest: someHash}, Class: class}
	}
	d.holds(
		[]string{"Bridge-observed: a local bridge reports a file, process or HTTP transition that it saw. It shows no activity of a model or of a tool."},
		told{name: "a receipt", raw: d.export(s, bridged("process.exit", "bridge-observed")), says: "a bridge reported one process.exit"},
		told{name: "a tool's activity", rule: "seen", raw: d.export(s, bridged("tool.call", "bridge-observed"))},
		told{name: "as if the gateway had seen it", rule: "class", raw: d.export(s, bridged("process.exit", "observed"))},
	)
}

// The chains of a project, of its clients and of gaps are replayed by their own machines.
func TestProjectChains(t *testing.T) {
	d := newDesk(t)
	id := project.ProjectID("acme", "help")
	s := d.subject("project", id)
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
	d.holds(nil,
		told{name: "opened", raw: d.export(s, opened), says: "the project acme/help has selected nothing in production and nothing in staging"},
		told{name: "published", raw: d.export(s, opened, published("production", 1), published("production", 2), saved("staging")), says: "the project acme/help has selected Build 2 in production and a draft in staging"},
		told{name: "a Build is left out", rule: "build-number", raw: d.export(s, opened, published("production", 2))},
		told{name: "a Build is made anew", rule: "build-number", raw: d.export(s, opened, published("production", 1), published("production", 1))},
		told{name: "a draft in production", rule: "draft-environment", raw: d.export(s, opened, saved("production"))},
		told{name: "of another path", rule: "subject-id", raw: d.export(s, &project.Opened{Subject: s, Handle: "acme", Slug: "other", Session: someHash})},
	)

	s = d.subject("contextclient", "cli_"+someID)
	created := &project.Created{
		Subject: s, Project: id, Name: "gateway", Kind: "custom", Profile: "support", Environment: "production", TurnProtocol: "required", TokenHash: someHash, Session: someHash,
	}
	rotated, revoked := &project.Rotated{Generation: 2, TokenHash: otherHash, Session: someHash}, &project.RevokedEvent{Session: someHash}
	d.holds(nil,
		told{name: "rotated", status: "active", raw: d.export(s, created, rotated), says: "the client is of kind custom in production, its turn protocol required, its token number 2"},
		told{name: "revoked", status: "revoked", raw: d.export(s, created, revoked), says: "the client is of kind custom in production, its turn protocol required, its token number 1; it is revoked since 2026-03-01T09:00:00.000Z"},
		told{name: "revoked and rotated", rule: "rotated-revoked", raw: d.export(s, created, revoked, rotated)},
		told{name: "a generation is left out", rule: "generation", raw: d.export(s, created, &project.Rotated{Generation: 3, TokenHash: otherHash, Session: someHash})},
		told{name: "the token itself", rule: "token-hash", raw: d.export(s, created, &project.Rotated{Generation: 2, TokenHash: "seif_" + someID, Session: someHash})},
	)

	s = d.subject("gap", "gap_"+someID)
	reported := func(b *project.Selection, task, ref *evidence.Commitment) *project.Reported {
		return &project.Reported{Subject: s, Project: id, Client: "cli_" + someID, Environment: "production", Build: b, Task: task, Ref: ref}
	}
	some, at := &evidence.Commitment{Text: someHash, Length: 9}, &project.Selection{Environment: "production", Number: 2, Digest: someHash}
	d.holds(
		[]string{"A gap is what a client reported to be missing. Whether it was missing is not checked."},
		told{name: "for a task", raw: d.export(s, reported(at, some, nil)), says: "a client reported a gap for a task of Build 2 in production"},
		told{name: "for a ref", raw: d.export(s, reported(nil, nil, some)), says: "a client reported a gap for a ref while nothing was selected in production"},
		told{name: "for both", rule: "gap-about", raw: d.export(s, reported(at, some, some))},
		told{name: "twice", rule: "first-event", raw: d.export(s, reported(at, some, nil), reported(at, some, nil))},
	)
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
