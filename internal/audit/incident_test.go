package audit_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/runbook/incident"
)

// relay is a session of an incident that is played by its machine.
type relay struct {
	t      *testing.T
	s      *incident.Session
	id     string
	after  time.Duration // behind began
	events []event
}

func newRelay(t *testing.T) *relay {
	return &relay{t: t, s: incident.New(), id: incident.SessionID(began, someHash)}
}

func (r *relay) wait(d time.Duration) *relay { r.after += d; return r }

// ask has a request decided and returns its receipt.
func (r *relay) ask(operation, channel string, in incident.Input, seen incident.Seen) *incident.Receipt {
	r.t.Helper()
	seed := sha256.Sum256(fmt.Append(nil, "request ", len(r.events)))
	d := incident.Begin(r.s, evidence.Subject{Workspace: "default", Issuer: "http://localhost:8420"}, r.id, began.Add(r.after), seed)
	receipt, _ := d.Do(incident.Request{Operation: operation, Channel: channel, Input: in}, seen)
	got(d.Done())(r.t)
	if receipt == nil {
		r.t.Fatalf("%s leaves no receipt", operation)
	}
	r.s, r.events = d.State(), append(r.events, later{receipt, r.after})
	return receipt
}

func (r *relay) read() *incident.Receipt {
	return r.ask(incident.Snapshot, incident.WebMCP, incident.Input{}, incident.Seen{})
}

func (r *relay) stage(mitigation string) *incident.Receipt {
	version := r.s.Version
	return r.ask(incident.Stage, incident.WebMCP, incident.Input{MitigationID: &mitigation, ExpectedVersion: &version}, incident.Seen{})
}

func (r *relay) approve() *incident.Receipt {
	in := incident.Input{ActionDigest: &r.s.Staged.Digest, ResourceVersion: &r.s.Staged.Version}
	return r.ask(incident.Approve, incident.Human, in, incident.Seen{Form: true})
}

func (r *relay) execute(seen incident.Seen) *incident.Receipt {
	in := incident.Input{ActionDigest: &r.s.Staged.Digest, ResourceVersion: &r.s.Staged.Version, IdempotencyKey: &r.s.Staged.IdempotencyKey}
	return r.ask(incident.Execute, incident.WebMCP, in, seen)
}

func (r *relay) reset() *incident.Receipt {
	version := r.s.Version
	return r.ask(incident.Reset, incident.Human, incident.Input{ExpectedVersion: &version}, incident.Seen{})
}

// told is the chain so far, its newest receipt changed. The subject of the export is that
// of the first.
func (r *relay) told(d desk, changes ...func(*incident.Receipt)) []byte {
	r.t.Helper()
	list := append([]event{}, r.events...)
	newest := list[len(list)-1].(later)
	var copied incident.Receipt
	must(r.t, canon.Unmarshal(canon.MustMarshal(newest.event), &copied))
	for _, change := range changes {
		change(&copied)
	}
	list[len(list)-1] = later{&copied, newest.after}
	id := r.id
	if copied.Subject != nil {
		id = copied.Subject.ID
	}
	return d.export(d.subject("incident", id), list...)
}

// incidentBoundary is what a report says of the session of an incident.
var incidentBoundary = []string{
	"The incident and its mitigations are a simulation; no production system is changed.",
	"The cookie keeps browser sessions apart; it authenticates no employee and does not prove that a human clicked.",
	"Human approval names the intended interaction and that no approval tool exists; an agent with general control of the page could still press the button.",
	"An approval arrives with the one-time nonce of the page's approval form: whoever approved had that page as it was shown for this action.",
	"The channel of a receipt is what the caller says it is.",
	"Verification detects modification inside the returned receipts, which are signed by this server's key; it is not independently anchored and no transparency log.",
}

// played is a session to which something happens.
func (d desk) played(play func(*relay)) *relay {
	r := newRelay(d.t)
	play(r)
	return r
}

// pretend makes a blocked execution one that was let through.
func pretend(e *incident.Receipt) {
	e.Event, e.Outcome, e.Result.ReasonCode = "mitigation.executed", "success", nil
	e.Result.Execution = &incident.Execution{ID: "01980000-0000-7000-8000-0000000000ff"}
}

// incidents are chains of sessions. Of the unlawful ones the newest receipt breaks the rule.
func (d desk) incidents() []told {
	staged := func(r *relay) { r.stage("restore-pool") }
	approved := func(r *relay) { staged(r); r.approve() }
	executed := func(r *relay) { approved(r); r.execute(incident.Seen{}) }
	failed := func(r *relay) { approved(r); r.execute(incident.Seen{Partial: true}) }
	replayed := func(r *relay) {
		approved(r)
		x := r.execute(incident.Seen{}).Result.Execution
		r.wait(time.Hour).execute(incident.Seen{Record: x})
	}
	unapproved := func(r *relay) { staged(r); r.execute(incident.Seen{}) }
	expired := func(r *relay) { approved(r); r.wait(5 * time.Minute).execute(incident.Seen{}) }
	frozen := func(r *relay) { approved(r); r.execute(incident.Seen{Frozen: true}) }
	other := func(r *relay, seen incident.Seen) {
		key := "rr_" + someID
		r.ask(incident.Execute, incident.API, incident.Input{ActionDigest: &r.s.Staged.Digest, ResourceVersion: &r.s.Staged.Version, IdempotencyKey: &key}, seen)
	}
	foreign := func(r *relay) { approved(r); other(r, incident.Seen{Foreign: true}) }
	used := func(r *relay) { executed(r); other(r, incident.Seen{}) }
	conflict := func(r *relay) {
		executed(r)
		digest := someHash
		r.ask(incident.Execute, incident.API, incident.Input{ActionDigest: &digest, ResourceVersion: &r.s.Staged.Version, IdempotencyKey: &r.s.Staged.IdempotencyKey}, incident.Seen{Conflict: true})
	}
	again := func(r *relay) {
		executed(r)
		r.ask(incident.Approve, incident.Human, incident.Input{ActionDigest: &r.s.Staged.Digest, ResourceVersion: &r.s.Staged.Version}, incident.Seen{Form: true})
	}
	invalid := func(r *relay) {
		name := "drop-tables"
		r.ask(incident.Compare, incident.WebMCP, incident.Input{MitigationID: &name}, incident.Seen{})
	}
	reset := func(r *relay) { executed(r); r.reset() }
	read := func(r *relay) { r.read() }

	comes := func(status string, version int, approvals, executions, receipts string) (string, string) {
		return status, fmt.Sprintf("the incident is %s at version %d after %s, %s and %s", status, version, approvals, executions, receipts)
	}
	lawful := func(name string, play func(*relay), status, says string) told {
		return told{name: "incident-" + name, status: status, says: says, raw: d.played(play).told(d)}
	}
	unlawful := func(name string, play func(*relay), rule string, change func(*incident.Receipt)) told {
		return told{name: "incident-" + name, rule: rule, raw: d.played(play).told(d, change)}
	}
	list := []told{}
	for _, c := range []struct {
		name                            string
		play                            func(*relay)
		status                          string
		version                         int
		approvals, executions, receipts string
	}{
		{"read", read, "investigating", 1, "0 approvals", "0 executions", "1 receipt"},
		{"no-such-mitigation", invalid, "investigating", 1, "0 approvals", "0 executions", "1 receipt"},
		{"staged", staged, "awaiting-approval", 2, "0 approvals", "0 executions", "1 receipt"},
		{"approved", approved, "awaiting-approval", 2, "1 approval", "0 executions", "2 receipts"},
		{"approved-again", func(r *relay) { approved(r); r.wait(5 * time.Minute).approve() }, "awaiting-approval", 2, "2 approvals", "0 executions", "3 receipts"},
		{"mitigated", executed, "mitigated", 3, "1 approval", "1 execution", "3 receipts"},
		{"monitoring", func(r *relay) { r.stage("shift-traffic"); r.approve(); r.execute(incident.Seen{}) }, "monitoring", 3, "1 approval", "1 execution", "3 receipts"},
		{"failed-in-part", failed, "recovery-required", 3, "1 approval", "1 execution", "3 receipts"},
		{"replayed", replayed, "mitigated", 3, "1 approval", "1 execution", "4 receipts"},
		{"unapproved", unapproved, "awaiting-approval", 2, "0 approvals", "0 executions", "2 receipts"},
		{"expired", expired, "awaiting-approval", 2, "1 approval", "0 executions", "3 receipts"},
		{"frozen", frozen, "awaiting-approval", 2, "1 approval", "0 executions", "3 receipts"},
		{"other-session", foreign, "awaiting-approval", 2, "1 approval", "0 executions", "3 receipts"},
		{"conflict", conflict, "mitigated", 3, "1 approval", "1 execution", "4 receipts"},
		{"reset", reset, "investigating", 4, "1 approval", "1 execution", "4 receipts"},
	} {
		status, says := comes(c.status, c.version, c.approvals, c.executions, c.receipts)
		list = append(list, lawful(c.name, c.play, status, says))
	}
	silent := func(e *incident.Receipt) {
		reason, name, tool, version := "stale_state", "restore-pool", "stage_mitigation", int64(1)
		e.Event, e.Operation, e.Tool, e.Outcome, e.Result.ReasonCode, e.Detail = "request.blocked", "stage", &tool, "blocked", &reason, "The incident is not at that version."
		e.Input = incident.Input{MitigationID: &name, ExpectedVersion: &version}
	}
	return append(list,
		unlawful("executed-unapproved", unapproved, "allowed", pretend),
		unlawful("executed-expired", expired, "allowed", pretend),
		unlawful("executed-used", used, "allowed", pretend),
		unlawful("executed-other-session", foreign, "allowed", pretend),
		unlawful("approved-by-tool", approved, "allowed", func(e *incident.Receipt) { e.Channel = "webmcp" }),
		unlawful("approved-by-program", approved, "allowed", func(e *incident.Receipt) { e.Channel = "api" }),
		unlawful("armed-again", again, "allowed", func(e *incident.Receipt) {
			e.Event, e.Outcome, e.Result.ReasonCode = "approval.granted", "success", nil
		}),
		unlawful("approval-of-a-name-used", func(r *relay) { reset(r); approved(r) }, "name-again", func(e *incident.Receipt) {
			e.Result.Approval.Grant.ID = d.played(approved).s.Approval.Grant.ID
		}),
		unlawful("approval-six-minutes", approved, "receipt", func(e *incident.Receipt) {
			e.Result.Approval.Grant.ExpiresAt = e.Result.Approval.ApprovedAt.Add(6 * time.Minute)
		}),
		unlawful("version-kept", staged, "receipt", func(e *incident.Receipt) { e.ResourceVersion = 1 }),
		unlawful("digest-of-another-version", staged, "receipt", func(e *incident.Receipt) {
			digest := incident.Digest("restore-pool", 3)
			e.ActionDigest, e.Result.Staged.Digest = &digest, digest
		}),
		unlawful("metrics-altered", executed, "receipt", func(e *incident.Receipt) { e.Result.Metrics.ErrorsPerMille = 0 }),
		unlawful("status-altered", failed, "receipt", func(e *incident.Receipt) { e.Result.Status = "mitigated" }),
		unlawful("identity-of-a-person", approved, "receipt", func(e *incident.Receipt) { e.Identity = "an operator" }),
		unlawful("replay-of-nothing", unapproved, "record-first", func(e *incident.Receipt) {
			pretend(e)
			e.Event, e.Detail = "execution.replayed", "This execution was stored before: the same record is returned, and nothing was applied."
			x := e.Result.Execution
			x.Outcome, x.Digest, x.Version, x.IdempotencyKey = "success", *e.Input.ActionDigest, *e.Input.ResourceVersion, *e.Input.IdempotencyKey
			e.Result.Status, e.Result.Metrics = x.Status, x.After
		}),
		unlawful("retry-blocked", replayed, "record-first", func(e *incident.Receipt) {
			reason := "approval_consumed"
			e.Event, e.Outcome, e.Result.ReasonCode, e.Result.Execution, e.Detail = "request.blocked", "blocked", &reason, nil, "The approval was used; an approval is used once."
		}),
		unlawful("replay-altered", replayed, "replayed-record", func(e *incident.Receipt) {
			e.Result.Execution.Status, e.Result.Status = "monitoring", "monitoring"
		}),
		unlawful("conflict-of-nothing", frozen, "record-conflict", func(e *incident.Receipt) {
			reason := "idempotency_conflict"
			e.Result.ReasonCode, e.Detail = &reason, "The key was used for another action."
		}),
		unlawful("blocked-for-nothing", frozen, "blocked", func(e *incident.Receipt) {
			reason := "approval_required"
			e.Result.ReasonCode = &reason
		}),
		unlawful("stale-receipt", func(r *relay) { staged(r); r.read() }, "blocked-silent", silent),
		unlawful("subject-of-another-time", read, "subject-id", func(e *incident.Receipt) {
			e.Subject.ID = incident.SessionID(began.Add(time.Millisecond), someHash)
			e.Session = e.Subject.ID
		}),
		unlawful("receipt-of-another-session", func(r *relay) { staged(r); r.read() }, "session", func(e *incident.Receipt) {
			e.Session = incident.SessionID(began, otherHash)
		}),
		unlawful("after-its-end", func(r *relay) { staged(r); r.wait(24 * time.Hour).read() }, "session-over", func(*incident.Receipt) {}),
	)
}

// The chain of an incident's session is replayed by its own machine, and the report says
// beside it what the receipts do not show.
func TestIncidentChain(t *testing.T) {
	d := newDesk(t)
	d.holds(incidentBoundary, d.incidents())
	text := printed(t, d.verify(d.incidents()[0].raw))
	for _, want := range []string{"incident session " + newRelay(t).id + ", workspace default", "no other incident session"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("printed without %q: %s", want, text)
		}
	}
}

// TestIncidentVectors holds vectors/incident against the machine: what each comes to is for
// TestIncidentChain.
func TestIncidentVectors(t *testing.T) {
	d := newDesk(t)
	d.publishes("incident", "Exports of the sessions of the incident workflow, perfectly hashed and signed. Those with a rule are unlawful: the receipt at sequence breaks that rule, and nothing else is wrong. The key is a published test key; trust it for nothing.", d.incidents(), "incident")
}
