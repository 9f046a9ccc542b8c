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

// told is the chain so far, its newest receipt changed.
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
	return d.export(d.subject("incident", r.id), list...)
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

// incidents are chains of sessions.
func (d desk) incidents() []told {
	read, executed := newRelay(d.t), newRelay(d.t)
	read.read()
	executed.read()
	executed.stage("restore-pool")
	executed.wait(time.Minute).execute(incident.Seen{}) // blocked: nobody approved
	executed.approve()
	x := executed.wait(time.Minute).execute(incident.Seen{})
	executed.wait(time.Hour).execute(incident.Seen{Record: x.Result.Execution})
	executed.reset()
	blind := newRelay(d.t)
	blind.stage("shift-traffic")
	blind.approve()
	blind.execute(incident.Seen{})
	return []told{
		{name: "incident-read", status: "investigating", says: "the incident is investigating at version 1 after 0 approvals, 0 executions and 1 receipt", raw: read.told(d)},
		{name: "incident-reset", status: "investigating", says: "the incident is investigating at version 4 after 1 approval, 1 execution and 7 receipts", raw: executed.told(d)},
		{name: "incident-executed", status: "monitoring", says: "the incident is monitoring at version 3 after 1 approval, 1 execution and 3 receipts", raw: blind.told(d)},
		{name: "incident-nobody-approved", rule: "allowed", raw: d.unapproved()},
	}
}

// unapproved tells that something was executed that nobody approved.
func (d desk) unapproved() []byte {
	r := newRelay(d.t)
	r.stage("restore-pool")
	staged := *r.s.Staged
	r.execute(incident.Seen{})
	return r.told(d, func(e *incident.Receipt) {
		e.Event, e.Outcome, e.Result.ReasonCode, e.Detail = "mitigation.executed", "success", nil, "The mitigation was applied once; every target is met."
		e.Result.Execution = &incident.Execution{
			ID: "01980000-0000-7000-8000-000000000001", MitigationID: "restore-pool", Digest: staged.Digest, Version: 2, IdempotencyKey: staged.IdempotencyKey,
			ApprovalID: "01980000-0000-7000-8000-000000000002", Outcome: "success", Status: "mitigated", Before: e.Result.Metrics, After: incident.Metrics{LatencyMillis: 1200, ErrorsPerMille: 6, PoolPercent: 31}, ExecutedAt: began,
		}
		e.Result.Status, e.Result.Metrics, e.ResourceVersion = "mitigated", e.Result.Execution.After, 3
	})
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
