package run_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/chain"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// TestRefusedMutation: the store's signed refusal is a definite no-effect; the
// run stops for a retry and everything held is given back (G-08, L-11).
func TestRefusedMutation(t *testing.T) {
	w := before(run.TargetHosted, "submit")(t)
	w.claim(w.permit("submit"))
	w.budget(0, price)
	n := len(w.events)
	w.receive(run.ResultRefused)
	w.emitted(n, "hosted.receipt", "execution.receipt", "permit.consumed", "execution.not_applied", "run.paused")
	s := w.status(run.StatusPaused)
	w.stop(stopcontext.CategoryRetry, stopcontext.SourceRuntime, authority.ExecutionNotApplied, "retry", "none")
	w.budget(0, 0)
	if s.Used[s.Grants[0].ID]["shop.submit"] != 0 || s.Execution.State != run.ExecutionNotApplied || s.Committed || s.Outcome() != "paused:retry" {
		t.Errorf("after a refusal %+v", s)
	}
	w.verify()
}

// TestFailedRead is a definite no-effect and leaves the run ready, but not
// without a fresh observation (design, section 4; H-046).
func TestFailedRead(t *testing.T) {
	for _, target := range []string{run.TargetLocal, run.TargetHosted} {
		w := begun(t, target)
		x := w.claim(w.permit("item"))
		n := len(w.events)
		w.do(func(d *decide.Deciding) {
			if denial := d.NotApplied(x.ID, "read_failed"); denial != nil {
				t.Fatal(denial)
			}
		})
		w.emitted(n, "execution.not_applied", "run.resumed")
		if s := w.status(run.StatusReady); s.Observation != nil || s.Lease != nil {
			t.Errorf("%s: observation %+v, lease %+v", target, s.Observation, s.Lease)
		}
		w.observe().cycle("item").status(run.StatusReady)
		w.verify()
	}
}

// TestRefusedLocalMutation has no signed receipt and stops for a retry.
func TestRefusedLocalMutation(t *testing.T) {
	w := begun(t, run.TargetLocal)
	p := w.permit("prepare")
	w.do(func(d *decide.Deciding) {
		if _, denial := d.Claim(w.use(d, p)); denial != nil {
			t.Fatal(denial)
		}
		if denial := d.NotApplied(d.State().Execution.ID, "local_failed"); denial != nil {
			t.Fatal(denial)
		}
	})
	w.status(run.StatusPaused)
	w.stop(stopcontext.CategoryRetry, stopcontext.SourceRuntime, authority.ExecutionNotApplied, "retry", "none")
	w.verify()
}

// TestUnconfirmed: a dispatch without a receipt is unknown; the reservation
// stays and the run waits for reconciliation (H-146, H-147, G-08).
func TestUnconfirmed(t *testing.T) {
	w := before(run.TargetHosted, "submit")(t)
	p := w.permit("submit")
	x := w.claim(p)
	unconfirmed := func(d *decide.Deciding) *authority.Denial { return d.Unconfirmed(x.ID, "timeout") }
	n := len(w.events)
	if reason := w.denied(unconfirmed); reason != "" {
		t.Fatal(reason)
	}
	w.emitted(n, "execution.unconfirmed", "run.paused")
	w.stop(stopcontext.CategoryReconciliation, stopcontext.SourceHosted, authority.DispatchUnconfirmed, "reconcile", "dispatched")
	w.budget(0, price)
	if s := w.status(run.StatusPaused); s.Outcome() != "unconfirmed_effect" {
		t.Errorf("outcome %s", s.Outcome())
	}
	n = len(w.events)
	if reason := w.denied(unconfirmed); reason != "" {
		t.Errorf("again: %s", reason)
	}
	w.emitted(n)
	// Nothing else is possible now.
	if reason := w.denied(func(d *decide.Deciding) *authority.Denial {
		return d.Void(x.ID, "unreachable", authority.HostedUnreachable)
	}); reason != authority.UnresolvedEffect {
		t.Errorf("void: %q", reason)
	}
	if reason := w.propose(reportOn(w.entry("item"), nil)); reason != authority.UnresolvedEffect {
		t.Errorf("propose: %q", reason)
	}
	if reason := w.denied(func(d *decide.Deciding) *authority.Denial { _, denial := d.Claim(w.use(d, p)); return denial }); reason != authority.UnresolvedEffect {
		t.Errorf("claim: %q", reason)
	}
	// A late receipt is recorded and settles the money. Nothing is unknown any more, so
	// the run goes on to see what the receipt says (L-4).
	w.receive(run.ResultApplied)
	w.budget(price, 0)
	if s := w.status(run.StatusReady); s.Outcome() != "active" || s.Execution.State != run.ExecutionReceipted || s.Stop != nil {
		t.Errorf("outcome %s, execution %s, stop %v", s.Outcome(), s.Execution.State, s.Stop)
	}
	w.observe()
	if s := w.read(); s.Execution.State != run.ExecutionVerified {
		t.Errorf("execution %s", s.Execution.State)
	}
	w.verify()
}

// TestLateRefusal after an unconfirmed dispatch gives back what was held.
func TestLateRefusal(t *testing.T) {
	w := before(run.TargetHosted, "submit")(t)
	x := w.claim(w.permit("submit"))
	w.do(func(d *decide.Deciding) { d.Unconfirmed(x.ID, "disconnected") })
	n := len(w.events)
	w.receive(run.ResultRefused)
	w.emitted(n, "hosted.receipt", "execution.receipt", "permit.consumed", "execution.not_applied", "run.paused")
	w.stop(stopcontext.CategoryRetry, stopcontext.SourceRuntime, authority.ExecutionNotApplied, "retry", "none")
	w.budget(0, 0)
	w.verify()
}

// TestVoided: the intent was stored and nothing was sent, a definite no-effect
// (L-3).
func TestVoided(t *testing.T) {
	for _, c := range []struct{ cause, reason, category, stop string }{
		{"unreachable", authority.HostedUnreachable, stopcontext.CategoryConfiguration, authority.HostedUnreachable},
		{"recheck", authority.Frozen, stopcontext.CategoryConfiguration, authority.Frozen},
		{"recheck", authority.GrantExpired, stopcontext.CategoryAuthority, authority.GrantExpired},
		{"late", authority.InProgress, stopcontext.CategoryRetry, authority.ExecutionNotApplied}, // a reason outside the table
	} {
		w := before(run.TargetHosted, "submit")(t)
		x := w.claim(w.permit("submit"))
		n := len(w.events)
		w.do(func(d *decide.Deciding) {
			if denial := d.Void(x.ID, c.cause, c.reason); denial != nil {
				t.Fatal(denial)
			}
		})
		w.emitted(n, "execution.voided", "permit.voided", "run.paused")
		recovery := "retry"
		if c.category == stopcontext.CategoryAuthority {
			recovery = "none"
		}
		w.status(run.StatusPaused)
		w.stop(c.category, stopcontext.SourceRuntime, c.stop, recovery, "none")
		w.budget(0, 0)
		s := w.read()
		if s.Used[s.Grants[0].ID]["shop.submit"] != 0 || s.Execution.State != run.ExecutionVoided {
			t.Errorf("after a void %+v", s.Execution)
		}
		w.verify()
	}
}

// TestMismatch: what was observed differs from what was promised.
func TestMismatch(t *testing.T) {
	w := before(run.TargetHosted, "submit")(t)
	w.claim(w.permit("submit"))
	w.receive(run.ResultApplied)
	w.shop.Ordered = false // the store said applied and shows no order
	n := len(w.events)
	w.observe()
	w.emitted(n, "execution.mismatch", "observation.recorded", "run.paused")
	w.stop(stopcontext.CategoryReconciliation, stopcontext.SourceRuntime, authority.VerificationDiffers, "reconcile", "receipted")
	w.budget(price, 0)
	if s := w.status(run.StatusPaused); s.Execution.State != run.ExecutionMismatch || s.Position() != "commit" {
		t.Errorf("execution %s, position %s", s.Execution.State, s.Position())
	}
	w.verify()
}

// TestLeaseEnds in every state of an execution. At intent + 10 s the lease is
// over; a holder that is gone ends it at once.
func TestLeaseEnds(t *testing.T) {
	receipt := func(w *world) { w.receive(run.ResultApplied) }
	none := func(*world) {}
	revoke := func(w *world) { w.do(func(d *decide.Deciding) { d.Revoke() }) }
	for _, c := range []struct {
		name, target, entry string
		then                func(*world)
		emitted             []string
		status, execution   string
	}{
		{"hosted dispatched", run.TargetHosted, "prepare", none, []string{"execution.unconfirmed", "run.paused"}, run.StatusPaused, run.ExecutionUnconfirmed},
		{"hosted receipted", run.TargetHosted, "prepare", receipt, []string{"run.resumed"}, run.StatusReady, run.ExecutionReceipted},
		{"hosted read", run.TargetHosted, "item", none, []string{"execution.not_applied", "run.resumed"}, run.StatusReady, run.ExecutionNotApplied},
		{"local dispatched", run.TargetLocal, "prepare", none, []string{"execution.not_applied", "run.paused"}, run.StatusPaused, run.ExecutionNotApplied},
		{"local read", run.TargetLocal, "item", none, []string{"execution.not_applied", "run.resumed"}, run.StatusReady, run.ExecutionNotApplied},
		{"revoked while dispatched", run.TargetHosted, "prepare", revoke, []string{"execution.unconfirmed"}, run.StatusRevoked, run.ExecutionUnconfirmed},
		{"revoked while a read is out", run.TargetHosted, "item", revoke, []string{"execution.not_applied"}, run.StatusRevoked, run.ExecutionNotApplied},
		{"revoked, local", run.TargetLocal, "prepare", revoke, []string{"execution.not_applied"}, run.StatusRevoked, run.ExecutionNotApplied},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := func() *world {
				w := begun(t, c.target)
				w.claim(w.permit(c.entry))
				c.then(w)
				return w
			}
			over := func(w *world, want bool) {
				t.Helper()
				n := len(w.events)
				w.settle()
				if !want {
					w.emitted(n)
					return
				}
				w.emitted(n, c.emitted...)
				if s := w.status(c.status); s.Execution.State != c.execution || s.Lease != nil {
					t.Errorf("execution %s, lease %+v", s.Execution.State, s.Lease)
				}
				n = len(w.events)
				w.settle()
				w.emitted(n)
				w.verify()
			}
			over(start().after(10*time.Second-time.Millisecond), false)
			over(start().after(10*time.Second), true)
			over(start().after(10*time.Second+time.Millisecond), true)
			w := start()
			w.dead = true
			over(w, true)
		})
	}
}

// TestRevoke ends a run from every status, once; what was dispatched stays as it
// is, and its receipt is recorded later (H-148, G-03).
func TestRevoke(t *testing.T) {
	revoke := func(d *decide.Deciding) *authority.Denial { return d.Revoke() }
	for _, c := range []struct {
		name       string
		world      func(*testing.T) *world
		emitted    []string
		dispatched string
	}{
		{"created", func(t *testing.T) *world { w := blank(t, run.TargetHosted); w.create(w.request()); return w }, []string{"grant.revoked", "run.revoked"}, "dispatched"},
		{"ready", func(t *testing.T) *world { return begun(t, run.TargetLocal) }, []string{"grant.revoked", "run.revoked"}, "none"},
		{"permitted", func(t *testing.T) *world { w := begun(t, run.TargetLocal); w.permit("item"); return w }, []string{"permit.revoked", "grant.revoked", "run.revoked"}, "permitted"},
		{"dispatched", func(t *testing.T) *world { w := begun(t, run.TargetHosted); w.claim(w.permit("prepare")); return w }, []string{"grant.revoked", "run.revoked"}, "dispatched"},
		{"receipted", func(t *testing.T) *world {
			w := begun(t, run.TargetHosted)
			w.claim(w.permit("prepare"))
			w.receive(run.ResultApplied)
			return w
		}, []string{"grant.revoked", "run.revoked"}, "receipted"},
		{"paused", func(t *testing.T) *world {
			w := begun(t, run.TargetLocal)
			w.judged("item", pauseFor(authority.GoalDrift))
			return w
		}, []string{"grant.revoked", "run.revoked"}, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world(t)
			n := len(w.events)
			if reason := w.denied(revoke); reason != "" {
				t.Fatal(reason)
			}
			w.emitted(n, c.emitted...)
			s := w.status(run.StatusRevoked)
			w.stop(stopcontext.CategoryTerminal, stopcontext.SourceOwner, authority.OwnerRevoked, "none", c.dispatched)
			if s.Permit != nil || s.Grants[0].Live(w.now) {
				t.Error("authority is left after a revoke")
			}
			n = len(w.events)
			if reason := w.denied(revoke); reason != "" {
				t.Errorf("again: %s", reason)
			}
			w.emitted(n)
			w.verify()
		})
	}
	w := begun(t, run.TargetLocal)
	p := w.permit("item")
	w.do(func(d *decide.Deciding) { d.Revoke() })
	if f := w.fates[p.ID]; f.Fate != decide.FateRevoked || f.Cause != run.CauseOwner {
		t.Errorf("fate %+v", f)
	}
	if reason := w.denied(func(d *decide.Deciding) *authority.Denial { _, denial := d.Claim(w.use(d, p)); return denial }); reason != authority.PermitRevoked {
		t.Errorf("the permit after the revoke: %q, want PERMIT_REVOKED", reason)
	}
	w = before(run.TargetLocal, "done")(t)
	if reason := w.denied(revoke); reason != authority.RunNotReady {
		t.Errorf("revoke after completion: %q", reason)
	}
}

// TestReceiptAfterRevoke: receipts and their refusals are lawful in a run that
// has ended, and clear its lease.
func TestReceiptAfterRevoke(t *testing.T) {
	for result, want := range map[string]struct {
		spent money.Cents
		types []string
	}{
		run.ResultApplied: {price, []string{"hosted.receipt", "execution.receipt", "permit.consumed"}},
		run.ResultRefused: {0, []string{"hosted.receipt", "execution.receipt", "permit.consumed", "execution.not_applied"}},
	} {
		w := before(run.TargetHosted, "submit")(t)
		w.claim(w.permit("submit"))
		w.do(func(d *decide.Deciding) { d.Revoke() })
		if s := w.read(); s.Lease == nil || s.Outcome() != "unconfirmed_effect" {
			t.Errorf("revoked while dispatched: lease %+v, outcome %s", s.Lease, s.Outcome())
		}
		n := len(w.events)
		w.receive(result)
		w.emitted(n, want.types...)
		w.budget(want.spent, 0)
		if s := w.status(run.StatusRevoked); s.Lease != nil || s.Outcome() != "revoked" || s.Stage != "done" {
			t.Errorf("lease %+v, outcome %s, stage %s", s.Lease, s.Outcome(), s.Stage)
		}
		w.verify()
	}
	w := begun(t, run.TargetHosted)
	x := w.claim(w.permit("prepare"))
	w.do(func(d *decide.Deciding) { d.Revoke() })
	n := len(w.events)
	w.do(func(d *decide.Deciding) { d.Void(x.ID, "recheck", authority.OwnerRevoked) })
	w.emitted(n, "execution.voided", "permit.voided")
	w.verify()
}

// TestOutcomeIsRecordedOnce: an outcome needs its execution, and there is one.
func TestOutcomeIsRecordedOnce(t *testing.T) {
	w := begun(t, run.TargetHosted)
	x := w.claim(w.permit("prepare"))
	outcomes := map[string]func(d *decide.Deciding, id string) *authority.Denial{
		"receive":     func(d *decide.Deciding, id string) *authority.Denial { return d.Receive(id, decide.Outcome{}) },
		"not applied": func(d *decide.Deciding, id string) *authority.Denial { return d.NotApplied(id, "refused") },
		"unconfirmed": func(d *decide.Deciding, id string) *authority.Denial { return d.Unconfirmed(id, "timeout") },
		"void": func(d *decide.Deciding, id string) *authority.Denial {
			return d.Void(id, "late", authority.HostedUnreachable)
		},
	}
	for name, ask := range outcomes {
		if reason := w.denied(func(d *decide.Deciding) *authority.Denial { return ask(d, x.PermitID) }); reason != authority.NotFound {
			t.Errorf("%s of another execution: %q", name, reason)
		}
		if reason := begun(t, run.TargetLocal).denied(func(d *decide.Deciding) *authority.Denial { return ask(d, x.ID) }); reason != authority.NotFound {
			t.Errorf("%s without an execution: %q", name, reason)
		}
	}
	w.receive(run.ResultApplied)
	for name, ask := range outcomes {
		if reason := w.denied(func(d *decide.Deciding) *authority.Denial { return ask(d, x.ID) }); reason != authority.InProgress {
			t.Errorf("%s after the receipt: %q", name, reason)
		}
	}
	w.verify()
}

// TestGuardian: only ALLOW gives a permit; a PAUSE pauses unless a direct
// consumer may try again; TERMINATE ends the run (H-075, H-076, G-04, G-10).
func TestGuardian(t *testing.T) {
	for _, reason := range []string{authority.AmbiguousGoal, authority.IrrelevantAction, authority.GoalDrift, authority.InjectionSuspected, authority.Unsafe} {
		w := begun(t, run.TargetLocal)
		n := len(w.events)
		if w.judged("item", pauseFor(reason)) != nil {
			t.Fatal("a PAUSE gave a permit")
		}
		w.emitted(n, "turn.proposed", "policy.checked", "guardian.decided", "run.paused")
		w.status(run.StatusPaused)
		w.stop(stopcontext.CategoryClarification, stopcontext.SourceGuardian, reason, "clarify", "none")
		w.verify()
	}
	for reason, source := range map[string]string{
		authority.MissingEvidence: stopcontext.SourceGuardian, authority.GuardianMalformed: stopcontext.SourceRuntime, authority.ProviderTimeout: stopcontext.SourceProvider, authority.ProviderError: stopcontext.SourceProvider,
	} {
		w := begun(t, run.TargetLocal)
		for range 9 {
			w.judged("item", pauseFor(reason))
			w.status(run.StatusReady)
		}
		w.judged("item", pauseFor(reason))
		w.status(run.StatusPaused)
		w.stop(stopcontext.CategoryRetry, source, reason, "retry", "none")
		w.verify()
	}

	w := begun(t, run.TargetLocal)
	n := len(w.events)
	if w.judged("item", terminate) != nil {
		t.Fatal("a TERMINATE gave a permit")
	}
	w.emitted(n, "turn.proposed", "policy.checked", "guardian.decided", "grant.revoked", "run.terminated")
	w.status(run.StatusTerminated)
	w.stop(stopcontext.CategoryTerminal, stopcontext.SourceGuardian, authority.GuardianTerminated, "none", "none")
	if reason := w.denied(func(d *decide.Deciding) *authority.Denial { return d.Revoke() }); reason != authority.RunNotReady {
		t.Errorf("revoke after a TERMINATE: %q", reason)
	}
	w.verify()
}

// TestGuardianAnswersThatAreNone count as malformed, never as ALLOW: what G-10 does not
// know, and texts that are longer or that evidence could not hold (H-016, H-042).
func TestGuardianAnswersThatAreNone(t *testing.T) {
	said := func(f func(*decide.Verdict)) decide.Verdict {
		v := allow
		f(&v)
		return v
	}
	for _, v := range []decide.Verdict{
		{Decision: run.Allow, ReasonCode: authority.Unsafe}, {Decision: run.Allow}, {Decision: run.Pause, ReasonCode: authority.Relevant},
		{Decision: run.Pause, ReasonCode: authority.OwnerRevoked}, {Decision: "allow", ReasonCode: authority.Relevant}, {},
		{Decision: run.Terminate}, {Decision: run.Terminate, ReasonCode: authority.Relevant}, {Decision: run.Terminate, ReasonCode: "BECAUSE"},
		said(func(v *decide.Verdict) { v.Explanation = strings.Repeat("x", 1001) }),
		said(func(v *decide.Verdict) { v.Explanation = "half a character \xe2\x82" }),
		said(func(v *decide.Verdict) { v.Explanation = "\x00" }),
		said(func(v *decide.Verdict) { v.ClarificationRequest = pointer(strings.Repeat("x", 501)) }),
		said(func(v *decide.Verdict) { v.ClarificationRequest = pointer("\xff") }),
		said(func(v *decide.Verdict) { v.Provider = strings.Repeat("x", 65) }),
		said(func(v *decide.Verdict) { v.Provenance = run.ByHardPolicy }),
		said(func(v *decide.Verdict) { v.Provenance = "" }),
	} {
		w := begun(t, run.TargetLocal)
		if w.judged("item", v) != nil {
			t.Errorf("%+v gave a permit", v)
		}
		d := w.status(run.StatusReady).Decision
		if d.Verdict != run.Pause || d.ReasonCode != authority.GuardianMalformed || d.Provenance != run.ByRuntime {
			t.Errorf("%+v was decided as %+v", v, d)
		}
		w.verify()
	}
	w := begun(t, run.TargetLocal)
	w.judged("item", terminate)
	w.status(run.StatusTerminated)
	// Control: the longest lawful texts are a verdict.
	w = begun(t, run.TargetLocal)
	if w.judged("item", said(func(v *decide.Verdict) {
		v.Explanation, v.Provider = strings.Repeat("€", 1000), strings.Repeat("x", 64)
		v.ClarificationRequest = pointer(strings.Repeat("€", 500))
	})) == nil {
		t.Error("a lawful verdict gave no permit")
	}
}

// TestDecisionIsKept for GET /decision, with its texts.
func TestDecisionIsKept(t *testing.T) {
	w := begun(t, run.TargetLocal)
	w.judged("item", decide.Verdict{Decision: run.Pause, ReasonCode: authority.AmbiguousGoal, Explanation: "Which one?", ClarificationRequest: pointer("Which keyboard?"), Provenance: run.ByReplay})
	d := w.read().Decision
	texts := map[string]string{}
	for _, text := range w.texts {
		texts[text.Commitment] = text.Text
	}
	if d.Verdict != run.Pause || d.TurnID != w.read().Turn.ID || texts[d.Explanation.Text] != "Which one?" || texts[d.ClarificationRequest.Text] != "Which keyboard?" {
		t.Errorf("decision %+v", d)
	}
	w = begun(t, run.TargetLocal)
	bad := w.report("item")
	bad.ExpectedEffect.OperationID = "shop.order"
	w.propose(bad)
	if d := w.read().Decision; d.Verdict != run.Pause || d.ReasonCode != authority.EffectMismatch || d.Provenance != run.ByHardPolicy || d.Explanation != nil {
		t.Errorf("decision %+v", d)
	}
}

// TestRetryStreak: the tenth retry-category decision in a row pauses a direct
// run, and anything else begins the row anew (G-04).
func TestRetryStreak(t *testing.T) {
	w := begun(t, run.TargetLocal)
	stale := func() *propose.Report { r := w.report("item"); r.Justification.EvidenceRefs = nil; return r }
	for i := 1; i <= 9; i++ {
		if reason := w.propose(stale()); reason != authority.MissingEvidence {
			t.Fatal(reason)
		}
		if s := w.status(run.StatusReady); s.RetryStreak != int64(i) {
			t.Errorf("streak %d, want %d", s.RetryStreak, i)
		}
	}
	w.carry(w.permit("item"))
	w.observe()
	if s := w.read(); s.RetryStreak != 0 {
		t.Errorf("an ALLOW leaves a streak of %d", s.RetryStreak)
	}
	for range 9 {
		w.propose(stale())
	}
	w.status(run.StatusReady)
	n := len(w.events)
	w.propose(stale())
	w.emitted(n, "turn.proposed", "policy.checked", "run.paused")
	w.stop(stopcontext.CategoryRetry, stopcontext.SourceHardPolicy, authority.MissingEvidence, "retry", "none")
	if reason := w.propose(stale()); reason != authority.RunNotReady {
		t.Errorf("the eleventh: %q", reason)
	}
	w.verify()
}

// TestPermitLife: 30 s, never longer than the grant, and over at its end.
func TestPermitLife(t *testing.T) {
	claim := func(w *world, p *run.Permit) string {
		return w.denied(func(d *decide.Deciding) *authority.Denial { _, denial := d.Claim(w.use(d, p)); return denial })
	}
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{30*time.Second - time.Millisecond, ""}, {30 * time.Second, authority.PermitExpired}, {30*time.Second + time.Millisecond, authority.PermitExpired}} {
		w := begun(t, run.TargetLocal)
		p := w.permit("item")
		w.after(c.after)
		if got := claim(w, p); got != c.want {
			t.Errorf("after %v: %q, want %q", c.after, got, c.want)
		}
		if c.want != "" {
			if s := w.status(run.StatusReady); s.Permit != nil { // an unclaimed permit that expires leaves a direct run ready (L-11)
				t.Errorf("permit %+v", s.Permit)
			}
			if f := w.fates[p.ID]; f.Fate != decide.FateExpired {
				t.Errorf("fate %+v", f)
			}
			if got := claim(w, p); got != authority.PermitExpired {
				t.Errorf("later: %q", got)
			}
		}
		w.verify()
	}
	// The grant ends one millisecond before, at, and after the permit's 30 s.
	for _, c := range []struct{ left, want time.Duration }{
		{30*time.Second - time.Millisecond, 30*time.Second - time.Millisecond}, {30 * time.Second, 30 * time.Second}, {30*time.Second + time.Millisecond, 30 * time.Second},
	} {
		w := begun(t, run.TargetLocal)
		w.after(60*time.Minute - c.left).observe()
		if p := w.permit("item"); p.ExpiresAt != w.now.Add(c.want) {
			t.Errorf("with %v of the grant left the permit lives %v, want %v", c.left, p.ExpiresAt.Sub(w.now), c.want)
		}
		w.verify()
	}
}

// TestGrantEnds at 60 minutes: the run stops, for good (G-02 authority).
func TestGrantEnds(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{60*time.Minute - time.Millisecond, run.StatusReady}, {60 * time.Minute, run.StatusPaused}, {60*time.Minute + time.Millisecond, run.StatusPaused}} {
		w := begun(t, run.TargetLocal).after(c.after)
		w.settle()
		w.status(c.want)
		w.verify()
	}
	w := begun(t, run.TargetLocal)
	if due := w.read().Due(); due != w.now.Add(60*time.Minute).Time() {
		t.Errorf("due %v", due)
	}
	w.after(time.Hour).settle()
	w.stop(stopcontext.CategoryAuthority, stopcontext.SourceRuntime, authority.GrantExpired, "none", "none")
	if due := w.read().Due(); !due.IsZero() {
		t.Errorf("due %v, want never", due)
	}
	if reason := w.denied(func(d *decide.Deciding) *authority.Denial { return d.IssueSession(issuer) }); reason != authority.GrantExpired {
		t.Errorf("a session after the grant: %q", reason)
	}
}

// TestGrantEndsDuringAnAttempt: the attempt ends first.
func TestGrantEndsDuringAnAttempt(t *testing.T) {
	w := begun(t, run.TargetHosted)
	w.after(60*time.Minute - 5*time.Second).observe()
	w.claim(w.permit("item"))
	w.after(5 * time.Second).settle()
	w.status(run.StatusRunning)
	n := len(w.events)
	w.after(5 * time.Second).settle()
	w.emitted(n, "execution.not_applied", "run.resumed", "run.paused")
	w.verify()
}

// TestProposalEnds at 10 minutes.
func TestProposalEnds(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		voids bool
	}{{10*time.Minute - time.Millisecond, false}, {10 * time.Minute, true}, {10*time.Minute + time.Millisecond, true}} {
		w := before(run.TargetLocal, "submit")(t)
		if due := w.read().Due(); due != w.now.Add(10*time.Minute).Time() {
			t.Errorf("due %v", due)
		}
		n := len(w.events)
		w.after(c.after).settle()
		if c.voids {
			w.emitted(n, "proposal.voided")
		} else {
			w.emitted(n)
		}
		if (w.read().Proposal == nil) != c.voids {
			t.Errorf("after %v the proposal is %+v", c.after, w.read().Proposal)
		}
		// The offer still stands, so the next observation prepares it anew.
		w.observe()
		if w.read().Proposal == nil {
			t.Error("no new proposal")
		}
		w.verify()
	}
	// A permit for a proposal that has ended is stale.
	w := before(run.TargetLocal, "submit")(t).after(10*time.Minute - 10*time.Second)
	w.observe()
	p := w.permit("submit")
	w.after(9999 * time.Millisecond)
	if _, err := w.attempt(func(d *decide.Deciding) {
		if _, denial := d.Claim(w.use(d, p)); denial != nil {
			t.Error(denial)
		}
	}); err != nil {
		t.Error(err)
	}
	w.after(time.Millisecond)
	if reason := w.denied(func(d *decide.Deciding) *authority.Denial { _, denial := d.Claim(w.use(d, p)); return denial }); reason != authority.StaleState {
		t.Errorf("claim at the proposal's end: %q, want STALE_STATE", reason)
	}
	w.verify()
}

// TestPermitIsOutstanding: no report while a permit is live; RUN_NOT_READY comes
// first (H-081, L-11).
func TestPermitIsOutstanding(t *testing.T) {
	w := begun(t, run.TargetLocal)
	w.permit("item")
	if reason := w.propose(w.report("item")); reason != authority.PermitOutstanding {
		t.Errorf("%q, want PERMIT_OUTSTANDING", reason)
	}
	s := w.read()
	s.Status = run.StatusPaused
	if _, denial := decide.Begin(s, w.now, w.fresh(), true, decide.Doors{}).Propose(w.report("item"), w.catalog); denial == nil || denial.Reason != authority.RunNotReady {
		t.Errorf("paused with a permit: %v, want RUN_NOT_READY", denial)
	}
	// Negative control: with the guard off the machine still refuses to decide so.
	w.doors.Outstanding = true
	if _, err := w.attempt(func(d *decide.Deciding) { d.Propose(w.report("item"), w.catalog) }); rule(err) != "turn-under-permit" {
		t.Errorf("with the guard off: %v", err)
	}
	w = begun(t, run.TargetLocal)
	w.judged("item", pauseFor(authority.GoalDrift))
	if reason := w.propose(w.report("item")); reason != authority.RunNotReady {
		t.Errorf("paused: %q", reason)
	}
	w.doors.Ready = true
	if _, err := w.attempt(func(d *decide.Deciding) { d.Propose(w.report("item"), w.catalog) }); rule(err) != "turn-status" {
		t.Errorf("with the guard off: %v", err)
	}
}

// TestStateMoved: an observation of another state revokes the permit, and its
// use says STALE_STATE (L-3).
func TestStateMoved(t *testing.T) {
	w := before(run.TargetLocal, "submit")(t)
	p := w.permit("submit")
	w.shop.Price--
	n := len(w.events)
	w.observe()
	w.emitted(n, "permit.revoked", "proposal.voided", "proposal.prepared", "observation.recorded")
	if f := w.fates[p.ID]; f.Fate != decide.FateRevoked || f.Cause != run.CauseState {
		t.Errorf("fate %+v", f)
	}
	if reason := w.denied(func(d *decide.Deciding) *authority.Denial { _, denial := d.Claim(w.use(d, p)); return denial }); reason != authority.StaleState {
		t.Errorf("%q, want STALE_STATE", reason)
	}
	w.verify()
}

// TestClaimIsDenied lists why a permit authorizes nothing (H-082, G-09, G-12).
func TestClaimIsDenied(t *testing.T) {
	ask := func(w *world, change func(*decide.ClaimRequest)) string {
		return w.denied(func(d *decide.Deciding) *authority.Denial {
			p := w.read().Permit
			if p == nil {
				p = &run.Permit{Permit: authority.Permit{ID: "none"}, EntryID: "item"}
			}
			r := w.use(d, p)
			change(&r)
			_, denial := d.Claim(r)
			return denial
		})
	}
	other := begun(t, run.TargetHosted)
	foreign := other.permit("item")
	for _, c := range []struct {
		name   string
		change func(*decide.ClaimRequest)
		want   string
	}{
		{"no permit", func(r *decide.ClaimRequest) { r.PermitID = "" }, authority.PermitRequired},
		{"permit of another run", func(r *decide.ClaimRequest) { r.PermitID = foreign.ID }, authority.PermitMismatch},
		{"other kind", func(r *decide.ClaimRequest) { r.Action.Kind = "click" }, authority.PermitMismatch},
		{"other operation", func(r *decide.ClaimRequest) { r.Action.OperationID = "shop.submit" }, authority.PermitMismatch},
		{"other target", func(r *decide.ClaimRequest) { r.Action.TargetRef = "tgt_submit" }, authority.PermitMismatch},
		{"other args", func(r *decide.ClaimRequest) { r.Action.Args = []byte(`{"item":"mouse"}`) }, authority.PermitMismatch},
		{"a url", func(r *decide.ClaimRequest) { r.Action.URL = pointer("") }, authority.PermitMismatch},
		{"a value", func(r *decide.ClaimRequest) { r.Action.Value = pointer("") }, authority.PermitMismatch},
		{"entry gone", func(r *decide.ClaimRequest) { r.Catalog = nil }, authority.StaleState},
		{"catalog altered", func(r *decide.ClaimRequest) {
			r.Catalog = slices.Clone(r.Catalog)
			r.Catalog[0].Effect.DisclosedFields = []string{"name"}
		}, authority.PermitMismatch},
		{"as permitted", func(*decide.ClaimRequest) {}, ""},
	} {
		w := begun(t, run.TargetLocal)
		w.permit("item")
		if got := ask(w, c.change); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		w.verify()
	}
	// Consumed, in each state of the execution.
	w := begun(t, run.TargetHosted)
	p := w.permit("prepare")
	w.claim(p)
	again := func(d *decide.Deciding) *authority.Denial { _, denial := d.Claim(w.use(d, p)); return denial }
	if got := w.denied(again); got != authority.UnresolvedEffect {
		t.Errorf("dispatched: %q", got)
	}
	w.receive(run.ResultApplied)
	if got := w.denied(again); got != authority.PermitConsumed {
		t.Errorf("receipted: %q", got)
	}
	w.observe()
	if got := w.denied(again); got != authority.PermitConsumed {
		t.Errorf("verified: %q", got)
	}
	// Negative controls.
	w = begun(t, run.TargetLocal)
	w.permit("item")
	w.doors.PermitBinding = true
	if got := ask(w, func(r *decide.ClaimRequest) { r.Action.Args = []byte(`{"item":"mouse"}`) }); got != "" {
		t.Errorf("a swapped body with the guard off: %q", got)
	}
	w = begun(t, run.TargetLocal)
	w.permit("item")
	w.doors.PermitState = true
	if got := ask(w, func(r *decide.ClaimRequest) { r.PermitID = foreign.ID }); got != "" {
		t.Errorf("a foreign permit with the guard off: %q", got)
	}
	if got := ask(w, func(r *decide.ClaimRequest) { r.PermitID = foreign.ID }); got != authority.RunNotReady {
		t.Errorf("no live permit, with the guard off: %q", got)
	}
}

// TestClaimRechecksAuthority: whatever happened since the permit was issued is
// found at the claim (H-044).
func TestClaimRechecksAuthority(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*run.State)
		want   string
	}{
		{"unchanged", func(*run.State) {}, ""},
		{"paused", func(s *run.State) { s.Status = run.StatusPaused }, authority.RunNotReady},
		{"no observation", func(s *run.State) { s.Observation = nil }, authority.StaleState},
		{"newer observation", func(s *run.State) { s.Observation.ID = s.ID }, authority.PermitMismatch},
		{"another document", func(s *run.State) { s.DocumentEpoch++ }, authority.PermitMismatch},
		{"another state", func(s *run.State) { s.StateRevision++ }, authority.PermitMismatch},
		{"another goal", func(s *run.State) { s.GoalDigest = s.TermsDigest }, authority.PermitMismatch},
		{"another effect", func(s *run.State) { s.Permit.EffectDigest = s.TermsDigest }, authority.PermitMismatch},
		{"no grant", func(s *run.State) { s.Grants[0].ID = s.ID }, authority.GrantExpired},
		{"grant ended", func(s *run.State) {
			s.Grants = append(s.Grants, s.Grants[0])
			s.Grants[0].ExpiresAt = base
			s.Grants[1].ID = s.ID
		}, authority.GrantExpired},
		{"grant used up", func(s *run.State) { s.Use(s.Grants[0].ID, "shop.submit", 1) }, authority.GrantExhausted},
		{"proposal gone", func(s *run.State) { s.Proposal = nil }, authority.StaleState},
		{"another proposal", func(s *run.State) { s.Proposal.ID = s.ID }, authority.StaleState},
		{"budget one cent short", func(s *run.State) { s.Budget.Spent = 1 }, authority.BudgetExceeded},
		{"grant one cent short", func(s *run.State) { s.Grants[0].MaxTotalCents-- }, authority.BudgetExceeded},
	} {
		w := before(run.TargetLocal, "submit")(t)
		p := w.permit("submit")
		s := w.read()
		c.change(s)
		d := decide.Begin(s, w.now, w.fresh(), true, decide.Doors{})
		_, denial := d.Claim(w.use(d, p))
		got := ""
		if denial != nil {
			got = denial.Reason
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if c.want != "" && d.Changed() {
			t.Errorf("%s: a denial emitted something", c.name)
		}
	}
}

// TestDispatchMayBeDenied after everything else passed; nothing is claimed then.
func TestDispatchMayBeDenied(t *testing.T) {
	w := begun(t, run.TargetHosted)
	p := w.permit("prepare")
	n := len(w.events)
	reason := w.denied(func(d *decide.Deciding) *authority.Denial {
		r := w.use(d, p)
		r.Dispatch = func(e *propose.Entry, q *run.Permit) (*run.Dispatch, *authority.Denial) {
			if e.EntryID != "prepare" || q.ID != p.ID {
				t.Errorf("asked to dispatch %s under %s", e.EntryID, q.ID)
			}
			return nil, &authority.Denial{Reason: authority.HostedUnreachable}
		}
		_, denial := d.Claim(r)
		return denial
	})
	w.emitted(n)
	if reason != authority.HostedUnreachable || w.read().Permit == nil {
		t.Errorf("%q, permit %+v", reason, w.read().Permit)
	}
}

// TestRefusals: one record each, at most 100 a run (L-3).
func TestRefusals(t *testing.T) {
	w := begun(t, run.TargetLocal)
	body := canon.Hash(nil)
	for i := range 101 {
		id := ""
		if i == 0 {
			id = w.read().ID
		}
		n := len(w.events)
		w.do(func(d *decide.Deciding) { d.Refuse(id, authority.PermitMismatch, body) })
		want := []string{"operation.refused"}
		if i == 100 {
			want = nil
		}
		w.emitted(n, want...)
	}
	if s := w.status(run.StatusReady); s.Refusals != 100 {
		t.Errorf("%d refusals", s.Refusals)
	}
	if !strings.Contains(string(w.events[4].Data), `"permitId":"`) || !strings.Contains(string(w.events[5].Data), `"permitId":null`) {
		t.Errorf("refusals %s, %s", w.events[4].Data, w.events[5].Data)
	}
	w.verify()
	for events, want := range map[int64]bool{4900: true, 4901: false} {
		s := begun(t, run.TargetLocal).read()
		s.Events = events
		d := decide.Begin(s, base, w.fresh(), true, decide.Doors{})
		d.Refuse("", authority.PermitMismatch, body)
		if d.Changed() != want {
			t.Errorf("at %d events a refusal is recorded: %v, want %v", events, d.Changed(), want)
		}
	}
}

// TestTurnLimit: 500 turns, and room for receipts and a revoke (design, section
// 6).
func TestTurnLimit(t *testing.T) {
	for _, c := range []struct {
		turns, events int64
		want          string
	}{
		{499, 4, ""}, {500, 4, authority.TurnLimit}, {501, 4, authority.TurnLimit},
		{0, 4799, ""}, {0, 4800, ""}, {0, 4801, authority.TurnLimit},
	} {
		w := begun(t, run.TargetLocal)
		s := w.read()
		s.Turns, s.Events = c.turns, c.events
		d := decide.Begin(s, w.now, w.fresh(), true, decide.Doors{})
		review, denial := d.Propose(w.report("item"), w.catalog)
		got := ""
		if denial != nil {
			got = denial.Reason
		}
		out, err := d.Done()
		if got != c.want || err != nil || review.Reason != "" {
			t.Errorf("turns %d, events %d: %q, want %q (%v)", c.turns, c.events, got, c.want, err)
			continue
		}
		if stop := out.State.Stop; c.want != "" && (stop == nil || stop.Category != stopcontext.CategoryLimit || stop.Recovery != "none") {
			t.Errorf("stop %+v", stop)
		}
	}
}

// TestReserve: nothing new begins in the reserve of events, so that the receipt of
// what is out and a revoke always fit (design, section 6).
func TestReserve(t *testing.T) {
	at := func(w *world, events int64) *decide.Deciding {
		s := w.read()
		s.Events = events
		return decide.Begin(s, w.now, w.fresh(), true, decide.Doors{})
	}
	for events, want := range map[int64]string{4799: "", 4800: "", 4801: authority.TurnLimit} {
		got := ""
		if denial := at(begun(t, run.TargetLocal), events).IssueSession(issuer); denial != nil {
			got = denial.Reason
		}
		if got != want {
			t.Errorf("a session at %d events: %q, want %q", events, got, want)
		}
	}
	for events, want := range map[int64]string{4899: "", 4900: "", 4901: authority.TurnLimit} {
		w := begun(t, run.TargetLocal)
		p := w.permit("item")
		d := at(w, events)
		got := ""
		if _, denial := d.Claim(w.use(d, p)); denial != nil {
			got = denial.Reason
		}
		if got != want {
			t.Errorf("a claim at %d events: %q, want %q", events, got, want)
		}
	}
	// The last claim's receipt, its verification and a revoke fit.
	w := before(run.TargetHosted, "submit")(t)
	p := w.permit("submit")
	d := at(w, 4900)
	if _, denial := d.Claim(w.use(d, p)); denial != nil {
		t.Fatal(denial)
	}
	x := d.State().Execution
	if denial := d.Receive(x.ID, decide.Outcome{Kind: run.ReceiptHosted, Result: run.ResultApplied, Receipt: "jws", ObservedBy: "response"}); denial != nil {
		t.Fatal(denial)
	}
	if denial := d.Revoke(); denial != nil {
		t.Fatal(denial)
	}
	if out, err := d.Done(); err != nil || out.State.Events > run.MaxEvents {
		t.Errorf("%v", err)
	}
}

// TestVerificationInTheReserve: what was applied can be seen to hold, also when only
// the reserve of events is left; a further observation cannot be had.
func TestVerificationInTheReserve(t *testing.T) {
	w := before(run.TargetHosted, "submit")(t)
	w.claim(w.permit("submit"))
	w.receive(run.ResultApplied)
	for _, c := range []struct {
		state func() *run.State
		want  string
	}{
		{func() *run.State { return w.read() }, ""},
		{func() *run.State { w.observe(); return w.read() }, authority.TurnLimit},
	} {
		s := c.state()
		s.Events = 4900
		got := ""
		if denial := decide.Begin(s, w.now, w.fresh(), true, decide.Doors{}).CanObserve(); denial != nil {
			got = denial.Reason
		}
		if got != c.want {
			t.Errorf("execution %s: %q, want %q", s.Execution.State, got, c.want)
		}
	}
}

// TestSessions of the consumer: each ends the former, none outlives the grant.
func TestSessions(t *testing.T) {
	w := begun(t, run.TargetLocal)
	issue := func(d *decide.Deciding) *authority.Denial { return d.IssueSession(issuer) }
	for want := int64(1); want <= 3; want++ {
		if reason := w.denied(issue); reason != "" {
			t.Fatal(reason)
		}
		if s := w.read().Session; s != (run.Session{Generation: want, ExpiresAt: base.Add(60 * time.Minute), Origin: issuer}) {
			t.Errorf("session %+v", s)
		}
	}
	w.judged("item", pauseFor(authority.GoalDrift))
	if reason := w.denied(issue); reason != "" {
		t.Errorf("paused: %s", reason)
	}
	w.verify()
	w.do(func(d *decide.Deciding) { d.Revoke() })
	if reason := w.denied(issue); reason != authority.RunNotReady {
		t.Errorf("revoked: %q", reason)
	}
	w = blank(t, run.TargetHosted)
	w.create(w.request())
	if reason := w.denied(issue); reason != authority.RunNotReady {
		t.Errorf("created: %q", reason)
	}
}

// TestHostedSession: the session is opened by a dispatch like any other, so its
// outcome can be unknown too (L-5).
func TestHostedSession(t *testing.T) {
	created := func(t *testing.T) *world { w := blank(t, run.TargetHosted); w.create(w.request()); return w }
	open := func(w *world) func(*decide.Deciding) *authority.Denial {
		return func(d *decide.Deciding) *authority.Denial {
			h := *w.read().Hosted
			return d.OpenSession(w.receipt(d, h.ExecutionID, d.State().ID, h.EffectHash, h.Dispatch, dispatch.Applied, nil, nil))
		}
	}
	w := created(t)
	if s := w.read(); s.Lease.Until != base.Add(10*time.Second) || s.Hosted.Phase != run.SessionDispatched || !w.last.Freezable || s.Hosted.Dispatch.SessionID != s.Hosted.ID {
		t.Errorf("intent %+v under %+v", s.Hosted, s.Lease)
	}
	w.after(10*time.Second - time.Millisecond).settle()
	w.status(run.StatusCreated)
	n := len(w.events)
	w.after(time.Millisecond).settle()
	w.emitted(n, "hosted.session", "run.failed")
	w.status(run.StatusFailed)
	w.stop(stopcontext.CategoryReconciliation, stopcontext.SourceRuntime, authority.DispatchUnconfirmed, "reconcile", "dispatched")
	// The answer comes in late: the run stays ended, and what is known is recorded once.
	n = len(w.events)
	if reason := w.denied(open(w)); reason != "" || w.read().Hosted.Phase != run.SessionOpened {
		t.Errorf("the late receipt: %q", reason)
	}
	w.emitted(n, "hosted.session")
	w.status(run.StatusFailed)
	if reason := w.denied(open(w)); reason != authority.RunNotReady {
		t.Errorf("opened twice: %q", reason)
	}
	w.verify()

	// Opened, and then the creator died: nothing is in doubt.
	w = created(t)
	if reason := w.denied(open(w)); reason != "" {
		t.Fatal(reason)
	}
	if reason := w.denied(open(w)); reason != authority.RunNotReady {
		t.Errorf("opened twice: %q", reason)
	}
	n = len(w.events)
	w.dead = true
	w.settle()
	w.emitted(n, "run.failed")
	w.stop(stopcontext.CategoryConfiguration, stopcontext.SourceRuntime, authority.HostedUnreachable, "retry", "none")
	w.verify()

	// Revoked while the answer is out: it is still recorded.
	w = created(t)
	w.do(func(d *decide.Deciding) { d.Revoke() })
	if reason := w.denied(open(w)); reason != "" || w.read().Hosted.Phase != run.SessionOpened {
		t.Errorf("the session of a revoked run: %q", reason)
	}
	if s := w.status(run.StatusRevoked); s.Lease != nil {
		t.Errorf("lease %+v", s.Lease)
	}
	w.verify()

	// Revoked, and no answer ever comes: that is recorded too.
	w = created(t)
	w.do(func(d *decide.Deciding) { d.Revoke() })
	if s := w.read(); s.Outcome() != "unconfirmed_effect" || s.Due() != base.Add(10*time.Second).Time() {
		t.Errorf("outcome %s, due %v", s.Outcome(), s.Due())
	}
	n = len(w.events)
	w.after(10*time.Second - time.Millisecond).settle()
	w.emitted(n)
	w.after(time.Millisecond).settle()
	w.emitted(n, "hosted.session")
	if s := w.status(run.StatusRevoked); s.Hosted.Phase != run.SessionFailed || s.Lease != nil || s.Outcome() != "revoked" {
		t.Errorf("session %s, lease %+v, outcome %s", s.Hosted.Phase, s.Lease, s.Outcome())
	}
	w.settle()
	w.emitted(n, "hosted.session")
	w.verify()

	if reason := begun(t, run.TargetLocal).denied(func(d *decide.Deciding) *authority.Denial { return d.OpenSession("x") }); reason != authority.RunNotReady {
		t.Errorf("a local run opened a session: %q", reason)
	}
}

// TestFail ends a run that could not be initialized, and only such a run.
func TestFail(t *testing.T) {
	w := blank(t, run.TargetHosted)
	w.create(w.request())
	n := len(w.events)
	w.do(func(d *decide.Deciding) { d.Fail(authority.HostedUnreachable) })
	w.emitted(n, "hosted.session", "run.failed")
	s := w.status(run.StatusFailed)
	w.stop(stopcontext.CategoryConfiguration, stopcontext.SourceRuntime, authority.HostedUnreachable, "retry", "none")
	if s.Hosted.Phase != run.SessionFailed || s.Outcome() != "failed" {
		t.Errorf("session %s, outcome %s", s.Hosted.Phase, s.Outcome())
	}
	w.verify()

	w = blank(t, run.TargetLocal)
	w.create(w.request())
	n = len(w.events)
	w.do(func(d *decide.Deciding) { d.Fail(authority.HostedUnreachable) })
	w.emitted(n, "run.failed")
	w.verify()

	w = begun(t, run.TargetLocal)
	n = len(w.events)
	w.do(func(d *decide.Deciding) { d.Fail(authority.HostedUnreachable) })
	w.emitted(n)
}

// TestMeasure records durations in any status.
func TestMeasure(t *testing.T) {
	w := begun(t, run.TargetLocal)
	w.do(func(d *decide.Deciding) { d.Revoke() })
	n := len(w.events)
	w.do(func(d *decide.Deciding) { d.Measure(run.Metrics{PolicyMicros: pointer(int64(17))}) })
	w.emitted(n, "metrics")
	w.verify()
}

// TestTimeNeverGoesBack: a decision with an older clock is made at the time of
// the newest event.
func TestTimeNeverGoesBack(t *testing.T) {
	w := begun(t, run.TargetLocal)
	w.now = base.Add(-time.Hour)
	w.do(func(d *decide.Deciding) {
		if d.Now() != base {
			t.Errorf("now %v, want %v", d.Now(), base)
		}
		d.Refuse("", authority.PermitRequired, canon.Hash(nil))
	})
	w.verify()
}

// TestDue is when settling has work, and settling does it.
func TestDue(t *testing.T) {
	w := before(run.TargetHosted, "submit")(t)
	p := w.permit("submit")
	if due := w.read().Due(); due != p.ExpiresAt.Time() {
		t.Errorf("with a permit: due %v", due)
	}
	w.do(func(d *decide.Deciding) { d.Revoke() })
	if due := w.read().Due(); !due.IsZero() {
		t.Errorf("revoked: due %v", due)
	}
}

// TestRefusedDecisionIsNotStored: what the machine calls unlawful ends in an
// error and no transition.
func TestRefusedDecisionIsNotStored(t *testing.T) {
	w := begun(t, run.TargetLocal)
	out, err := w.attempt(func(d *decide.Deciding) { d.Initialize() })
	if out != nil || rule(err) != "initialized-twice" || !strings.Contains(err.Error(), "initialized-twice") {
		t.Errorf("transition %v, error %v", out, err)
	}
	// A guarded check switched off lets an unknown target pass, and the machine
	// does not: nothing is permitted without an entry.
	w.doors.Checks = []int64{5}
	_, err = w.attempt(func(d *decide.Deciding) {
		r := w.report("item")
		r.Candidates[0].Action.TargetRef = "tgt_unknown"
		review, denial := d.Propose(r, w.catalog)
		if denial != nil || review.Reason != "" || d.Judge(review, allow) != nil {
			t.Errorf("review %+v, denial %v", review, denial)
		}
	})
	if rule(err) != "checked-incomplete" {
		t.Errorf("error %v", err)
	}
}

// TestDecodeState refuses what is not a state of this machine.
func TestDecodeState(t *testing.T) {
	w := begun(t, run.TargetLocal)
	s := w.read()
	s.Machine = 2
	other, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.DecodeState(other); rule(err) != "machine" {
		t.Errorf("another machine: %v", err)
	}
	if _, err := run.DecodeState([]byte(`{"machine":1,"extra":0}`)); err == nil {
		t.Error("an unknown member was accepted")
	}
}

// TestStopTable is G-02, row by row, for every reason that can stop a run here (H-186).
func TestStopTable(t *testing.T) {
	want := map[string][]string{
		"approval approve":         {"APPROVAL_REQUIRED"},
		"clarification clarify":    {"AMBIGUOUS_GOAL", "IRRELEVANT_ACTION", "GOAL_DRIFT", "INJECTION_SUSPECTED", "UNSAFE", "FORBIDDEN_OPERATION", "ARGUMENT_MISMATCH", "EFFECT_MISMATCH", "BUDGET_EXCEEDED", "CLARIFICATION_REQUESTED"},
		"refusal clarify":          {"EXECUTOR_REFUSED", "PROVIDER_REFUSED"},
		"retry retry":              {"MALFORMED_PROPOSAL", "MALFORMED_MODEL_REPORT", "PROVIDER_TIMEOUT", "PROVIDER_ERROR", "GUARDIAN_MALFORMED", "INVALID_SELECTION", "STALE_TARGET", "STALE_STATE", "MISSING_EVIDENCE", "PERMIT_EXPIRED", "EXECUTION_NOT_APPLIED"},
		"configuration retry":      {"PROVIDER_UNCONFIGURED", "HOSTED_UNREACHABLE", "FROZEN"},
		"authority none":           {"GRANT_EXPIRED", "GRANT_EXHAUSTED", "AUTHORIZATION_REQUIRED"},
		"limit none":               {"TURN_LIMIT", "MODEL_CALL_LIMIT"},
		"reconciliation reconcile": {"DISPATCH_UNCONFIRMED", "RECEIPT_MISSING", "VERIFICATION_MISMATCH"},
		"terminal none":            {"GUARDIAN_TERMINATED", "OWNER_REVOKED", "CREDENTIAL_MISUSE"},
	}
	count := 0
	for row, reasons := range want {
		fields := strings.Fields(row)
		for _, reason := range reasons {
			count++
			if s := (&run.State{}).NewStop(reason, "", ""); s.Category != fields[0] || s.Recovery != fields[len(fields)-1] || stopcontext.Category(reason) != fields[0] {
				t.Errorf("%s: %s, %s, want %s", reason, s.Category, s.Recovery, row)
			}
		}
	}
	if count != len(stopcontext.Reasons()) {
		t.Errorf("the table has %d reasons, want %d", len(stopcontext.Reasons()), count)
	}
}

// TestGrantFor finds the newest grant that names the operation.
func TestGrantFor(t *testing.T) {
	s := &run.State{Grants: []authority.Grant{{ID: "a", Operations: []string{"x", "y"}}, {ID: "b", Operations: []string{"y"}}}}
	for operation, want := range map[string]string{"x": "a", "y": "b"} {
		if g := s.GrantFor(operation); g == nil || g.ID != want {
			t.Errorf("%s: %+v", operation, g)
		}
	}
	if s.GrantFor("z") != nil || s.Grant("c") != nil {
		t.Error("found a grant that is not there")
	}
	(&run.State{}).Use("a", "x", 1) // a state read without uses
}

// TestMisuse of a credential ends a run like a TERMINATE, with its permit (L-6).
func TestMisuse(t *testing.T) {
	w := begun(t, run.TargetLocal)
	p := w.permit("item")
	n := len(w.events)
	w.do(func(d *decide.Deciding) { d.Misuse() })
	w.emitted(n, "permit.revoked", "grant.revoked", "run.terminated")
	w.status(run.StatusTerminated)
	w.stop(stopcontext.CategoryTerminal, stopcontext.SourceRuntime, authority.CredentialMisuse, "none", "permitted")
	if f := w.fates[p.ID]; f.Fate != decide.FateRevoked || f.Cause != run.CauseTerminate {
		t.Errorf("fate %+v", f)
	}
	if reason := w.denied(func(d *decide.Deciding) *authority.Denial { _, denial := d.Claim(w.use(d, p)); return denial }); reason != authority.PermitRevoked {
		t.Errorf("the permit afterwards: %q", reason)
	}
	n = len(w.events)
	w.do(func(d *decide.Deciding) { d.Misuse() })
	w.emitted(n)
	w.verify()
}

// TestMessage is a fixed sentence for each reason that stops a run.
func TestMessage(t *testing.T) {
	for _, reason := range stopcontext.Reasons() {
		if m := stopcontext.Message(reason); m == "" || len(m) > 500 || m != (&run.State{}).NewStop(reason, "", "").Message {
			t.Errorf("%s: %q", reason, m)
		}
	}
	if stopcontext.Message("BORED") != "" {
		t.Error("a message for an unknown reason")
	}
}

// TestDecodeObserved reads back what an observation recorded.
func TestDecodeObserved(t *testing.T) {
	w := begun(t, run.TargetLocal)
	o, err := run.DecodeObserved(w.events[w.read().Observation.Sequence-1].Data)
	if err != nil || o.ObservationID != w.read().Observation.ID || propose.CatalogDigest(o.Catalog) != propose.CatalogDigest(w.catalog) {
		t.Errorf("observed %+v, %v", o, err)
	}
	if _, err := run.DecodeObserved([]byte(`{"observationId":7}`)); err == nil {
		t.Error("another type was accepted")
	}
}

// TestEventTypes are those of G-15 and L-3 that this machine writes.
func TestEventTypes(t *testing.T) {
	want := strings.Fields(`approval.granted attack.report clarification.added execution.contradicted execution.dispatched execution.mismatch execution.not_applied
		execution.probed execution.receipt execution.reconciled execution.unconfirmed execution.verified execution.voided grant.created grant.revoked
		guardian.decided hosted.receipt hosted.session metrics model.called observation.recorded operation.refused permit.claimed permit.consumed
		permit.expired permit.issued permit.revoked permit.voided policy.checked proposal.prepared proposal.voided retry.accepted run.completed run.created
		run.failed run.initialized run.paused run.resumed run.revoked run.terminated session.issued simulate.applied turn.outcome turn.proposed turn.rejected`)
	if got := chain.EventTypes(); !slices.Equal(got, want) {
		t.Errorf("types %v, want %v", got, want)
	}
}
