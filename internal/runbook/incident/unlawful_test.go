package incident_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/runbook/incident"
)

// blocked is the world whose newest receipt is a blocked execution of what is staged.
func blocked(w *world, want string) *world {
	w.t.Helper()
	if _, got := w.ask("execute", "webmcp", w.execution(), incident.Seen{}); got != want {
		w.t.Fatalf("blocked as %q, want %q", got, want)
	}
	return w
}

// pretend makes a blocked execution one that was let through.
func pretend(r *incident.Receipt) {
	r.Event, r.Outcome, r.Result.ReasonCode = "mitigation.executed", "success", nil
	r.Result.Execution = &incident.Execution{ID: "01980000-0000-7000-8000-0000000000ff"}
}

// every rule of a chain of receipts is broken by a chain that is lawful but
// for one receipt, hashed and signed like the others, and is named.
func TestUnlawful(t *testing.T) {
	read := func() *world { w := begun(t); w.read(); return w }
	reset := func() *world { w := executed(t); w.reset(); return w }
	replay := func() *world { w := executed(t); w.execute(); return w }
	replayAfter := func() *world { w := reset(); w.ask("execute", "api", w.first(), incident.Seen{}); return w }
	conflict := func() *world {
		w := executed(t)
		w.ask("execute", "api", digest(hash("a"))(w.execution()), incident.Seen{})
		return w
	}
	repeated := func() *world { w := approved(t); w.approve(); return w }
	frozen := func() *world {
		w := approved(t)
		w.ask("execute", "api", w.execution(), incident.Seen{Frozen: true})
		return w
	}
	foreign := func() *world {
		w := approved(t)
		w.ask("execute", "api", otherKey(w.execution()), incident.Seen{Foreign: true})
		return w
	}
	invalid := func() *world {
		w := staged(t)
		w.ask("compare", "api", incident.Input{MitigationID: to("drop-tables")}, incident.Seen{})
		return w
	}
	stale := func(operation, reason, detail string, in incident.Input) func(*incident.Receipt) {
		return func(r *incident.Receipt) {
			r.Operation, r.Event, r.Outcome, r.Result.ReasonCode, r.Detail, r.Input, r.ActionDigest = operation, "request.blocked", "blocked", &reason, detail, in, in.ActionDigest
			r.Tool = nil
			if tool := incident.ToolOf(operation); tool != "" {
				r.Tool = &tool
			}
			r.Channel = "human"
		}
	}
	readIn := func(w *world) *world { w.read(); return w }
	seen := map[string]bool{}
	for _, c := range []struct {
		name   string
		world  *world
		change func(*incident.Receipt)
		rules  string
	}{
		// What was let through.
		{"executed without approval", blocked(staged(t), "approval_required"), pretend, "allowed"},
		{"executed after expiry", blocked(approved(t).after(5*time.Minute), "approval_expired"), pretend, "allowed"},
		{"executed twice", replay(), func(r *incident.Receipt) {
			r.Event, r.Result.Execution.ID = "mitigation.executed", "01980000-0000-7000-8000-0000000000ff"
		}, "record-first allowed"},
		{"executed with an approval that was used", func() *world {
			w := executed(t)
			w.ask("execute", "api", otherKey(w.execution()), incident.Seen{})
			return w
		}(), pretend, "allowed"},
		{"executed with another's key", foreign(), pretend, "allowed"},
		{"executed another digest", conflict(), pretend, "record-conflict allowed"},
		{"approved by a tool", approved(t), func(r *incident.Receipt) { r.Channel = "webmcp" }, "allowed"},
		{"approved by a program", approved(t), func(r *incident.Receipt) { r.Channel = "api" }, "allowed"},
		{"approved by the simulator", approved(t), func(r *incident.Receipt) { r.Channel = "simulator" }, "allowed"},
		{"armed again", func() *world {
			w := executed(t)
			w.ask("approve", "human", w.approval(), incident.Seen{Form: true})
			return w
		}(), func(r *incident.Receipt) {
			r.Event, r.Outcome, r.Result.ReasonCode = "approval.granted", "success", nil
		}, "allowed"},
		{"approved anew while one lives", repeated(), func(r *incident.Receipt) {
			r.Event = "approval.granted"
			r.Detail = "Exactly this action is approved for one use, through the form of the page. That a person pressed the button is not proved."
			r.Result.Approval.Grant.ID = "01980000-0000-7000-8000-0000000000ff"
		}, "approval-again"},
		{"repeated what has ended", func() *world { w := approved(t).after(5 * time.Minute); w.approve(); return w }(), func(r *incident.Receipt) {
			r.Event, r.Detail = "approval.repeated", "The approval is still active; the same record is returned."
			a := *r.Result.Approval
			a.ApprovedAt, a.Grant.ExpiresAt = dawn, dawn.Add(5*time.Minute)
			r.Result.Approval = &a
		}, "approval-again receipt"},
		{"staged after a partial failure", func() *world {
			w := failed(t)
			w.ask("stage", "api", incident.Input{MitigationID: to(mitigated), ExpectedVersion: to(int64(3))}, incident.Seen{})
			return w
		}(), func(r *incident.Receipt) {
			r.Event, r.Outcome, r.Result.ReasonCode = "mitigation.staged", "success", nil
		}, "allowed"},
		{"staged at an old version", staged(t), func(r *incident.Receipt) { r.Input.ExpectedVersion = to(int64(2)) }, "allowed"},
		{"reset at an old version", reset(), func(r *incident.Receipt) { r.Input.ExpectedVersion = to(int64(2)) }, "allowed"},
		{"compared what is not there", invalid(), func(r *incident.Receipt) {
			r.Event, r.Outcome, r.Result.ReasonCode = "mitigations.compared", "success", nil
		}, "allowed"},
		{"after the session's end", readIn(staged(t).after(24 * time.Hour)), func(*incident.Receipt) {}, "session-over"},

		// What it came to.
		{"version not incremented", staged(t), func(r *incident.Receipt) { r.ResourceVersion = 1 }, "receipt"},
		{"digest of another version", staged(t), func(r *incident.Receipt) {
			d := incident.Digest(mitigated, 3)
			r.Result.Staged.Digest, r.ActionDigest = d, &d
		}, "receipt"},
		{"key of another session", staged(t), func(r *incident.Receipt) {
			r.Result.Staged.IdempotencyKey = incident.Key(session+"0", r.Result.Staged.Digest)
		}, "receipt"},
		{"approval longer than five minutes", approved(t), func(r *incident.Receipt) { r.Result.Approval.Grant.ExpiresAt++ }, "receipt"},
		{"approval for two uses", approved(t), func(r *incident.Receipt) { r.Result.Approval.Grant.MaxUses["execute_approved_mitigation"] = 2 }, "receipt"},
		{"approval of another effect", approved(t), func(r *incident.Receipt) { r.Result.Approval.Grant.EffectDigest = to(hash("a")) }, "receipt"},
		{"approval of another session", approved(t), func(r *incident.Receipt) { r.Result.Approval.Session += "0" }, "receipt"},
		{"metrics altered", executed(t), func(r *incident.Receipt) { r.Result.Metrics.LatencyMillis-- }, "receipt"},
		{"effect altered", executed(t), func(r *incident.Receipt) { r.Result.Execution.After.ErrorsPerMille = 0 }, "receipt"},
		{"status altered", executed(t), func(r *incident.Receipt) { r.Result.Status = "monitoring" }, "receipt"},
		{"failed in part and called mitigated", failed(t), func(r *incident.Receipt) { r.Outcome = "success" }, "receipt"},
		{"detail altered", reset(), func(r *incident.Receipt) { r.Detail = "Everything is fine." }, "receipt"},
		{"a tool that approves", approved(t), func(r *incident.Receipt) { r.Tool = to("approve") }, "receipt"},
		{"a person's identity", approved(t), func(r *incident.Receipt) { r.Identity = "an operator" }, "receipt"},

		// What was answered again.
		{"a replay of what never was", blocked(staged(t), "approval_required"), func(r *incident.Receipt) {
			pretend(r)
			r.Event, r.Detail = "execution.replayed", "This execution was stored before: the same record is returned, and nothing was applied."
			x := r.Result.Execution
			x.Outcome, x.Digest, x.Version, x.IdempotencyKey = "success", *r.Input.ActionDigest, *r.Input.ResourceVersion, *r.Input.IdempotencyKey
			r.Result.Status, r.Result.Metrics = x.Status, x.After
		}, "record-first"},
		{"a replay with another record", replay(), func(r *incident.Receipt) {
			r.Result.Execution.Status, r.Result.Status = "monitoring", "monitoring"
		}, "replayed-record"},
		{"a replay that tells the status of now", replayAfter(), func(r *incident.Receipt) { r.Result.Status = "investigating" }, "receipt"},
		{"a replay that tells the measures of now", replayAfter(), func(r *incident.Receipt) { r.Result.Metrics = incident.TheIncident.Baseline }, "receipt"},
		{"a replay that tells the version of then", replayAfter(), func(r *incident.Receipt) { r.ResourceVersion = 3 }, "receipt"},
		{"a replay without its record", replay(), func(r *incident.Receipt) { r.Result.Execution = nil }, "replayed-record replayed replayed-outcome"},
		{"a replay of another key's record", replay(), func(r *incident.Receipt) { r.Result.Execution.IdempotencyKey = "rr_" + hash("a")[:32] }, "replayed-record replayed"},
		{"a replay of another digest", replay(), func(r *incident.Receipt) { r.Result.Execution.Digest = hash("a") }, "replayed-record replayed"},
		{"a replay of another version", replay(), func(r *incident.Receipt) { r.Result.Execution.Version++ }, "replayed-record replayed"},
		{"a replay that failed in part", replay(), func(r *incident.Receipt) { r.Outcome = "partial_failure" }, "replayed-outcome"},
		{"an exact retry that was blocked", replay(), func(r *incident.Receipt) {
			r.Event, r.Outcome, r.Result.ReasonCode, r.Result.Execution, r.Detail = "request.blocked", "blocked", to("approval_consumed"), nil, "The approval was used; an approval is used once."
		}, "record-first"},
		{"a conflict that was none", frozen(), func(r *incident.Receipt) {
			r.Result.ReasonCode, r.Detail = to("idempotency_conflict"), "The key was used for another action."
		}, "record-conflict"},
		{"a conflict called stale", conflict(), func(r *incident.Receipt) {
			r.Result.ReasonCode, r.Detail = to("stale_execution"), "The request names another action than the staged one."
		}, "record-conflict"},

		// What was blocked.
		{"blocked for a reason that there was not", frozen(), func(r *incident.Receipt) { r.Result.ReasonCode = to("approval_required") }, "blocked"},
		{"blocked for another reason", blocked(staged(t), "approval_required"), func(r *incident.Receipt) { r.Result.ReasonCode = to("approval_expired") }, "blocked"},
		{"its own key called another's", frozen(), func(r *incident.Receipt) {
			r.Result.ReasonCode, r.Detail = to("identity_mismatch"), "The key was given to another session."
		}, "blocked"},
		{"a read called another's", readIn(staged(t)), stale("snapshot", "identity_mismatch", "The key was given to another session.", incident.Input{}), "blocked"},
		{"an approval called another's", readIn(staged(t)), stale("approve", "identity_mismatch", "x", incident.Input{ActionDigest: to(incident.Digest(mitigated, 2)), ResourceVersion: to(int64(2))}), "blocked"},
		{"blocked with other words", blocked(staged(t), "approval_required"), func(r *incident.Receipt) { r.Detail = "Not today." }, "blocked-detail"},
		{"blocked and called an error", blocked(staged(t), "approval_required"), func(r *incident.Receipt) { r.Outcome = "error" }, "blocked-outcome"},
		{"an error called blocked", invalid(), func(r *incident.Receipt) { r.Outcome = "blocked" }, "blocked-outcome"},
		{"a stale staging", readIn(staged(t)), stale("stage", "stale_state", "The incident is not at that version.", incident.Input{MitigationID: to(mitigated), ExpectedVersion: to(int64(1))}), "blocked-silent"},
		{"a stale reset", readIn(staged(t)), stale("reset", "stale_reset", "The incident is not at that version.", incident.Input{ExpectedVersion: to(int64(1))}), "blocked-silent"},
		{"a stale approval", readIn(staged(t)), stale("approve", "stale_approval", "The request names another action than the staged one.", incident.Input{ActionDigest: to(hash("a")), ResourceVersion: to(int64(2))}), "blocked-silent"},

		// The form.
		{"another session's receipt", readIn(staged(t)), func(r *incident.Receipt) { r.Session += "0" }, "session"},
		{"another operation", read(), func(r *incident.Receipt) { r.Operation = "delete" }, "request event"},
		{"another channel", read(), func(r *incident.Receipt) { r.Channel = "phone" }, "request"},
		{"a member that is not taken", read(), func(r *incident.Receipt) { r.Input.ExpectedVersion = to(int64(1)) }, "input"},
		{"a member left out", approved(t), func(r *incident.Receipt) { r.Input.ResourceVersion = nil }, "input"},
		{"another event", read(), func(r *incident.Receipt) { r.Event = "incident.reset" }, "event"},
		{"no event", read(), func(r *incident.Receipt) { r.Event = "" }, "event"},
		{"another outcome", read(), func(r *incident.Receipt) { r.Outcome = "partial_failure" }, "event"},
		{"a reason without a block", read(), func(r *incident.Receipt) { r.Result.ReasonCode = to("FROZEN") }, "reason"},
		{"a block without a reason", frozen(), func(r *incident.Receipt) { r.Result.ReasonCode = nil }, "reason"},
		{"no name of what was staged", staged(t), func(r *incident.Receipt) { r.Result.Staged.ProposalID = "x" }, "name"},
		{"nothing staged", staged(t), func(r *incident.Receipt) { r.Result.Staged = nil }, "name receipt"},
		{"no name of what was approved", approved(t), func(r *incident.Receipt) { r.Result.Approval.Grant.ID = "x" }, "name"},
		{"nothing approved", approved(t), func(r *incident.Receipt) { r.Result.Approval = nil }, "name receipt"},
		{"no name of what was executed", executed(t), func(r *incident.Receipt) { r.Result.Execution.ID = "x" }, "name"},
		{"nothing executed", executed(t), func(r *incident.Receipt) { r.Result.Execution = nil }, "name receipt"},
		{"an approval under a used one's name", func() *world { w := reset(); w.stage(mitigated); w.approve(); return w }(), func(r *incident.Receipt) {
			r.Result.Approval.Grant.ID = approved(t).told[1].Result.Approval.Grant.ID
		}, "name-again"},

		// The chain.
		{"the subject of another time", read(), func(r *incident.Receipt) {
			r.Subject.ID = incident.SessionID(dawn.Add(time.Millisecond), cookieHash)
			r.Session = r.Subject.ID
		}, "subject-id"},
		{"a subject that is no session", read(), func(r *incident.Receipt) {
			r.Subject.ID, r.Session, r.Identity = "some-other-session", "some-other-session", "anonymous browser session ther-session"
		}, "subject-id"},
		{"a subject too short for a session", read(), func(r *incident.Receipt) {
			r.Subject.ID, r.Session, r.Identity = "ses", "ses", "anonymous browser session ses"
		}, "subject-id"},
		{"a second beginning", readIn(staged(t)), func(r *incident.Receipt) {
			s := *approved(t).told[0].Subject
			r.Subject = &s
		}, "first-event"},
	} {
		got := rules(c.world.forged(c.change))
		if strings.Join(got, " ") != c.rules {
			t.Errorf("%s: breaks %v, want %s", c.name, got, c.rules)
		}
		if c.rules != "session-over" {
			c.world.lawful() // control: it was, before the change
		}
		for _, rule := range got {
			seen[rule] = true
		}
	}
	if got := rules(reads(t, 9_000)); len(got) > 0 {
		t.Errorf("9,000 reads break %v", got)
	}
	if got := rules(reads(t, 9_001)); !slices.Equal(got, []string{"receipt-room"}) {
		t.Errorf("a read in a place that is spared breaks %v", got)
	}
	seen["receipt-room"] = true
	// Every rule that the package has is broken by a chain above.
	if missing := slices.DeleteFunc(ruleNames(t), func(rule string) bool { return seen[rule] }); len(missing) > 0 {
		t.Errorf("no chain breaks %v", missing)
	}
}

// A receipt that is older than the one before it is named, and so is a chain whose first
// receipt states no subject.
func TestUnlawfulTimes(t *testing.T) {
	w := begun(t)
	w.read()
	w.after(time.Minute).read()
	var first, second incident.Receipt
	must(t, canon.Unmarshal(w.events[0].Data, &first))
	must(t, canon.Unmarshal(w.events[1].Data, &second))
	if got := rules(sealed(t, []any{&first, &second}, []evidence.Time{dawn, dawn - 1})); !slices.Equal(got, []string{"time-order"}) {
		t.Errorf("a receipt from before: %v", got)
	}
	if r := replayed(sealed(t, []any{&second}, []evidence.Time{dawn})); r.Known() {
		t.Error("a chain without a subject is known")
	}
}

// reads is a chain of so many reads.
func reads(t *testing.T, n int) []evidence.Event {
	t.Helper()
	w := begun(t)
	w.read()
	w.read()
	chain := make([]any, n)
	for i := range chain {
		chain[i] = w.told[min(i, 1)]
	}
	return sealed(t, chain, slices.Repeat([]evidence.Time{dawn}, n))
}

// ruleNames are the rules in the source of the package.
func ruleNames(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`f\.Must\(.*, "([a-z-]+)", "`).FindAllStringSubmatch(source(t), -1) {
		names = append(names, m[1])
	}
	if len(names) < 15 {
		t.Fatalf("%d rules found in the source", len(names))
	}
	return names
}
