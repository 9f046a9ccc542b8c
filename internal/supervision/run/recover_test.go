package run_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
)

// clarified is a run that went on after a clarification.
func clarified(t rapid.TB) *world {
	w := paused(t)
	if reason := w.clarify("the black one"); reason != "" {
		t.Fatalf("clarify: %s", reason)
	}
	return w
}

// unanswered is a run that stopped for another try, after ten in a row.
func unanswered(t rapid.TB) *world {
	w := begun(t, run.TargetLocal)
	for range 10 {
		w.judged("item", pauseFor(authority.ProviderError))
	}
	w.stop("retry", "provider", "PROVIDER_ERROR", "retry", "none")
	return w
}

// unreached is a hosted run that stopped because the store was not there.
func unreached(t rapid.TB) *world {
	w := dispatched(run.TargetHosted, "prepare")(t)
	w.do(func(d *decide.Deciding) { d.Void(d.State().Execution.ID, "unreachable", authority.HostedUnreachable) })
	w.stop("configuration", "runtime", "HOSTED_UNREACHABLE", "retry", "none")
	return w
}

// retried is a run that went on after it stopped for another try.
func retried(t rapid.TB) *world {
	w := unanswered(t)
	if reason := w.retry(); reason != "" {
		t.Fatalf("retry: %s", reason)
	}
	return w
}

// unknown is a local run with an effect that nobody knows.
func unknown(t rapid.TB) *world {
	w := begun(t, run.TargetLocal)
	if reason := w.simulate("drop_receipt"); reason != "" {
		t.Fatalf("drop_receipt: %s", reason)
	}
	x := w.claim(w.permit("prepare"))
	w.do(func(d *decide.Deciding) { d.Unconfirmed(x.ID, "simulated") })
	return w
}

// goal is the digest of instruction, terms and clarifications as api/events.md writes it
// down.
func goal(s *run.State) string {
	fields := map[string]any{"instruction": s.Instruction, "terms": s.Terms, "clarifications": append([]evidence.Commitment{}, s.Clarifications...)}
	sum := sha256.Sum256(append([]byte("countersign/goal/1\x00"), canon.MustMarshal(fields)...))
	return hex.EncodeToString(sum[:])
}

// TestClarify adds the owner's words and changes no authority (H-174, H-189, H-192,
// G-03, G-07).
func TestClarify(t *testing.T) {
	w := paused(t)
	before := w.read()
	grants := canon.MustMarshal(before.Grants)
	if before.GoalDigest != goal(before) {
		t.Errorf("goal %s, want %s", before.GoalDigest, goal(before))
	}
	n := len(w.events)
	if reason := w.clarify("the black one"); reason != "" {
		t.Fatal(reason)
	}
	w.emitted(n, "clarification.added", "run.resumed")
	s := w.status("ready")
	if len(s.Clarifications) != 1 || len(w.last.Texts) != 1 || w.last.Texts[0].Text != "the black one" || w.last.Texts[0].Commit() != s.Clarifications[0] {
		t.Errorf("clarifications %+v, texts %+v", s.Clarifications, w.last.Texts)
	}
	if s.GoalDigest == before.GoalDigest || s.GoalDigest != goal(s) {
		t.Errorf("goal %s, want %s", s.GoalDigest, goal(s))
	}
	if !bytes.Equal(canon.MustMarshal(s.Grants), grants) {
		t.Errorf("the grants changed to %s", canon.MustMarshal(s.Grants))
	}
	if s.Stop != nil || !s.Decision.Answered || s.Outcome() != "active" || s.Stage != "observing" {
		t.Errorf("stop %v, decision %+v, outcome %s, stage %s", s.Stop, s.Decision, s.Outcome(), s.Stage)
	}
	if p := w.permit("item"); p.Bindings.Goal != s.GoalDigest {
		t.Errorf("the next permit binds %s", p.Bindings.Goal)
	}
	w.carry(w.read().Permit)
	w.observe().verify()
}

// TestTenClarifications: ten are allowed, the eleventh is refused (G-03).
func TestTenClarifications(t *testing.T) {
	w := begun(t, run.TargetLocal)
	grants := canon.MustMarshal(w.read().Grants)
	goals := map[string]bool{w.read().GoalDigest: true}
	for i := range 10 {
		w.judged("item", pauseFor(authority.AmbiguousGoal))
		if reason := w.clarify("the black one"); reason != "" {
			t.Fatalf("clarification %d: %s", i+1, reason)
		}
		goals[w.read().GoalDigest] = true
	}
	w.judged("item", pauseFor(authority.AmbiguousGoal))
	n := len(w.events)
	if reason := w.clarify("the black one"); reason != "RECOVERY_NOT_ELIGIBLE" {
		t.Errorf("the eleventh: %q", reason)
	}
	w.emitted(n)
	if s := w.status("paused"); len(s.Clarifications) != 10 || len(goals) != 11 || !bytes.Equal(canon.MustMarshal(s.Grants), grants) || slices.Contains(decide.Eligible(s, w.now, false), "clarify") {
		t.Errorf("%d clarifications, %d goals, grants %s", len(s.Clarifications), len(goals), canon.MustMarshal(s.Grants))
	}
	w.verify()
}

// TestClarificationsAreNotShared: two decisions on one state add to it apart.
func TestClarificationsAreNotShared(t *testing.T) {
	w := begun(t, run.TargetLocal)
	for range 3 { // so that the list has room to grow in place
		w.judged("item", pauseFor(authority.AmbiguousGoal))
		w.clarify("the black one")
	}
	w.judged("item", pauseFor(authority.AmbiguousGoal))
	kept := w.last.State
	decided := func(words string) *run.State {
		d := decide.Begin(kept.Clone(), w.now, w.fresh(), true, decide.Doors{})
		if denial := d.Clarify(words); denial != nil {
			t.Fatal(denial)
		}
		return d.State()
	}
	a := decided("the black one")
	said := a.Clarifications[3]
	if b := decided("the white one"); a.Clarifications[3] != said || b.Clarifications[3] == said {
		t.Error("the words of one decision are in the other")
	}
}

// TestRetry lets a run go on that stopped for another try or for its configuration,
// forces a fresh observation and dispatches nothing (H-097, H-188, G-03).
func TestRetry(t *testing.T) {
	for name, stopped := range map[string]stage{"another try": unanswered, "configuration": unreached} {
		w := stopped(t)
		was, n := w.read(), len(w.events)
		if reason := w.denied(func(d *decide.Deciding) *authority.Denial { return d.CanRetry() }); reason != "" {
			t.Errorf("%s: cannot be retried: %s", name, reason)
		}
		if reason := w.retry(); reason != "" {
			t.Fatalf("%s: %s", name, reason)
		}
		w.emitted(n, "retry.accepted", "run.resumed")
		s := w.status("ready")
		if s.Observation != nil || s.RetryStreak != 0 || s.Stop != nil || s.Permit != nil || s.Unresolved() || s.Lease != nil || s.GoalDigest != was.GoalDigest {
			t.Errorf("%s: %+v", name, s)
		}
		if !decide.Begin(w.read(), w.now, w.fresh(), true, decide.Doors{}).NeedsObservation() {
			t.Errorf("%s: no fresh observation is needed", name)
		}
		if reason := w.propose(reportOn(w.entry("item"), was.Observation)); was.Observation != nil && reason != "MISSING_EVIDENCE" {
			t.Errorf("%s: a report on the former observation: %q", name, reason)
		}
		w.observe().cycle("item").status("ready")
		w.verify()
	}
	// The row of retries begins anew: nine more leave the run ready, the tenth stops it.
	w := retried(t).observe()
	for i := range 9 {
		w.judged("item", pauseFor(authority.ProviderError))
		if s := w.status("ready"); s.RetryStreak != int64(i+1) {
			t.Errorf("row of %d, want %d", s.RetryStreak, i+1)
		}
	}
	w.judged("item", pauseFor(authority.ProviderError))
	w.status("paused")
}

// recoveries are the three ways in which an owner mends a stop.
var recoveries = map[string]func(*world, *decide.Deciding) *authority.Denial{
	"approve": func(w *world, d *decide.Deciding) *authority.Denial {
		return d.Approve(decide.ApproveRequest{ProposalID: w.read().ID, Catalog: w.catalog, Seen: w.sighting(), Approver: elsewhere})
	},
	"clarify": func(_ *world, d *decide.Deciding) *authority.Denial { return d.Clarify("the black one") },
	"retry":   func(_ *world, d *decide.Deciding) *authority.Denial { return d.Retry() },
}

// allRefused requires that every recovery is refused with a reason and leaves nothing.
func (w *world) allRefused(what, want string) {
	w.Helper()
	n := len(w.events)
	for name, recover := range recoveries {
		if reason := w.denied(func(d *decide.Deciding) *authority.Denial { return recover(w, d) }); reason != want {
			w.Errorf("%s, %s: %q, want %s", what, name, reason, want)
		}
	}
	w.emitted(n)
}

// TestRecoveryByCategory: each stop has one way to be mended, or none (G-02, G-03).
func TestRecoveryByCategory(t *testing.T) {
	mends := map[string]string{
		"approval": "approve", "clarification": "clarify", "refusal": "clarify", "retry": "retry", "configuration": "retry",
		"authority": "", "limit": "", "reconciliation": "", "terminal": "",
	}
	for category, way := range mends {
		for name, recover := range recoveries {
			w := waiting(run.TargetLocal)(t).craft(func(s *run.State) { s.Stop.Category = category })
			want := "RECOVERY_NOT_ELIGIBLE"
			switch {
			case name != way:
			case name == "approve":
				want = "APPROVAL_STALE" // the recovery is right, the proposal of [recoveries] is not
			default:
				want = ""
			}
			if reason := w.denied(func(d *decide.Deciding) *authority.Denial { return recover(w, d) }); reason != want {
				t.Errorf("%s of a stop for %s: %q, want %q", name, category, reason, want)
			}
		}
		w := waiting(run.TargetLocal)(t).craft(func(s *run.State) { s.Stop.Category = category })
		for _, name := range []string{"approve", "clarify", "retry"} {
			if got := slices.Contains(decide.Eligible(w.read(), w.now, false), name); got != (name == way) {
				t.Errorf("%s of a stop for %s is shown as eligible: %v", name, category, got)
			}
		}
	}
}

// TestRecoveryOfUnknownStop: a stop of another version fails closed (H-187).
func TestRecoveryOfUnknownStop(t *testing.T) {
	for _, version := range []int64{0, 2, 3} {
		for name, stopped := range map[string]stage{"approval": waiting(run.TargetLocal), "clarification": paused, "retry": unanswered} {
			w := stopped(t).craft(func(s *run.State) { s.Stop.Version = version })
			w.allRefused(name, "STOP_VERSION_UNKNOWN")
			w.status("paused")
			if ways := decide.Eligible(w.read(), w.now, false); slices.Contains(ways, "approve") || slices.Contains(ways, "clarify") || slices.Contains(ways, "retry") || !slices.Contains(ways, "revoke") {
				t.Errorf("eligible %v", ways)
			}
		}
	}
}

// TestRecoveryWithUnresolvedEffect: nothing is mended while an effect is out or
// unknown, whatever the stop says (H-191).
func TestRecoveryWithUnresolvedEffect(t *testing.T) {
	out := dispatched(run.TargetHosted, "prepare")(t)
	out.allRefused("dispatched", "UNRESOLVED_EFFECT")
	out.do(func(d *decide.Deciding) { d.Unconfirmed(d.State().Execution.ID, "timeout") })
	out.allRefused("unconfirmed", "UNRESOLVED_EFFECT")
	unknown(t).allRefused("unconfirmed, local", "UNRESOLVED_EFFECT")
	for _, category := range []string{"approval", "clarification", "refusal", "retry", "configuration"} {
		w := unknown(t).craft(func(s *run.State) { s.Stop.Category = category })
		w.allRefused("unconfirmed, stopped for "+category, "UNRESOLVED_EFFECT")
		for _, way := range []string{"approve", "clarify", "retry", "step", "simulate"} {
			if slices.Contains(decide.Eligible(w.read(), w.now, false), way) {
				t.Errorf("%s is shown as eligible", way)
			}
		}
	}
	w := dispatched(run.TargetHosted, "prepare")(t)
	w.do(func(d *decide.Deciding) { d.Revoke() })
	w.allRefused("revoked with an effect out", "UNRESOLVED_EFFECT")
}

// ended are runs that have ended, by their status.
var ended = map[string]stage{
	"completed": before(run.TargetLocal, "done"),
	"revoked":   revoked,
	"terminated": func(t rapid.TB) *world {
		w := begun(t, run.TargetLocal)
		w.judged("item", terminate)
		return w
	},
	"failed": func(t rapid.TB) *world {
		w := bare(run.TargetLocal)(t)
		w.do(func(d *decide.Deciding) { d.Fail(authority.HostedUnreachable) })
		return w
	},
}

// TestRecoveryNeedsAStop: a run that is not paused has nothing to mend.
func TestRecoveryNeedsAStop(t *testing.T) {
	for status, stage := range ended {
		w := stage(t)
		w.status(status)
		w.allRefused(status, "RECOVERY_NOT_ELIGIBLE")
		if ways := decide.Eligible(w.read(), w.now, false); len(ways) != 0 {
			t.Errorf("%s: eligible %v", status, ways)
		}
	}
	ready(run.TargetLocal)(t).allRefused("ready", "RECOVERY_NOT_ELIGIBLE")
	bare(run.TargetLocal)(t).allRefused("created", "RECOVERY_NOT_ELIGIBLE")
	receipted(run.TargetLocal, "item")(t).allRefused("running", "RECOVERY_NOT_ELIGIBLE")
	ready(run.TargetLocal)(t).craft(func(s *run.State) { s.Status = "paused" }).allRefused("paused without a stop", "RECOVERY_NOT_ELIGIBLE")
}

// TestRecoveryAtTheLimit: what is left of a run's events is kept for its end.
func TestRecoveryAtTheLimit(t *testing.T) {
	for name, stopped := range map[string]stage{"approve": waiting(run.TargetLocal), "clarify": paused, "retry": unanswered} {
		for events, want := range map[int64]string{4800: "", 4801: "TURN_LIMIT"} {
			w := stopped(t)
			s := w.read()
			s.Events = events
			d := decide.Begin(s, w.now, w.fresh(), true, decide.Doors{})
			var denial *authority.Denial
			if name == "approve" {
				denial = d.Approve(w.approval())
			} else {
				denial = recoveries[name](w, d)
			}
			if got := reasonOf(denial); got != want {
				t.Errorf("%s at %d events: %q, want %q", name, events, got, want)
			}
		}
	}
}

func reasonOf(denial *authority.Denial) string {
	if denial == nil {
		return ""
	}
	return denial.Reason
}

// TestRecoveryTellsWhatHelps: a refusal says what the stop takes.
func TestRecoveryTellsWhatHelps(t *testing.T) {
	for name, c := range map[string]struct {
		stage stage
		want  string
	}{
		"not paused":    {ready(run.TargetLocal), "ready, not paused"},
		"clarification": {paused, "accepted now: clarify, simulate, revoke"},
		"authority": {func(t rapid.TB) *world {
			w := begun(t, run.TargetLocal)
			w.after(time.Hour).settle()
			return w
		}, "only a new run helps"},
	} {
		w := c.stage(t)
		w.do(func(d *decide.Deciding) {
			if denial := d.Retry(); denial == nil || !strings.Contains(denial.Detail, c.want) {
				t.Errorf("%s: %v, want %q", name, denial, c.want)
			}
		})
	}
}

// TestRefusedReportTellsWhy: whoever reports to a run that takes none reads what it
// waits for, or that it has ended.
func TestRefusedReportTellsWhy(t *testing.T) {
	for want, stage := range map[string]stage{
		"The run is paused: The prepared proposal waits for the owner's approval.": waiting(run.TargetLocal),
		"The run is revoked.":   revoked,
		"The run is completed.": before(run.TargetLocal, "done"),
	} {
		w := stage(t)
		w.do(func(d *decide.Deciding) {
			if _, denial := d.Propose(reportOn(w.entry("item"), w.read().Observation), w.catalog); denial == nil || denial.Reason != "RUN_NOT_READY" || denial.Detail != want {
				t.Errorf("%+v, want %q", denial, want)
			}
		})
	}
}

// TestRecoveryAfterTheGrant: a stop that is mended when no grant lives any more gives
// way to the one that says so; the run is never ready without a grant.
func TestRecoveryAfterTheGrant(t *testing.T) {
	for name, stopped := range map[string]stage{"clarify": paused, "retry": unanswered} {
		w := stopped(t).after(time.Hour)
		if reason := w.denied(func(d *decide.Deciding) *authority.Denial { return recoveries[name](w, d) }); reason != "" {
			t.Errorf("%s: %q", name, reason)
		}
		w.stop("authority", "runtime", "GRANT_EXPIRED", "none", "none")
		w.status("paused")
		w.verify()
	}
}

// TestSeenAfterTheGrant: what was applied in time is seen, and then the run stops for
// its grant at once.
func TestSeenAfterTheGrant(t *testing.T) {
	w := begun(t, run.TargetLocal)
	w.after(time.Hour - time.Millisecond).observe()
	w.carry(w.permit("item"))
	n := len(w.events)
	w.after(time.Second).observe()
	w.emitted(n, "execution.verified", "observation.recorded", "run.paused")
	w.stop("authority", "runtime", "GRANT_EXPIRED", "none", "none")
	if due := w.read().Due(); !due.IsZero() {
		t.Errorf("due %v", due)
	}
	w.verify()
}

// TestEligible names what an owner could do (G-03, G-04, G-19).
func TestEligible(t *testing.T) {
	for name, c := range map[string]struct {
		stage stage
		want  []string
	}{
		"ready":         {ready(run.TargetLocal), []string{"step", "simulate", "revoke"}},
		"ready, hosted": {ready(run.TargetHosted), []string{"step", "revoke"}},
		"permitted":     {permitted(run.TargetLocal, "item"), []string{"simulate", "revoke"}},
		"dispatched":    {dispatched(run.TargetHosted, "prepare"), []string{"revoke"}},
		"created":       {bare(run.TargetLocal), []string{"revoke"}},
		"waiting":       {waiting(run.TargetLocal), []string{"approve", "simulate", "revoke"}},
		"clarification": {paused, []string{"clarify", "simulate", "revoke"}},
		"retry":         {unanswered, []string{"retry", "simulate", "revoke"}},
		"configuration": {unreached, []string{"retry", "revoke"}},
		"revoked":       {revoked, []string{}},
	} {
		w := c.stage(t)
		if got := decide.Eligible(w.read(), w.now, false); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		// With only the reserve of events left nothing of this is accepted but an end.
		w.craft(func(s *run.State) { s.Events = 4801 })
		for _, route := range []string{"approve", "clarify", "retry", "simulate", "reconcile"} {
			if slices.Contains(decide.Eligible(w.read(), w.now, false), route) {
				t.Errorf("%s: %s at 4801 events", name, route)
			}
		}
	}
	w := waiting(run.TargetLocal)(t)
	for after, want := range map[time.Duration]bool{10*time.Minute - time.Millisecond: true, 10 * time.Minute: false} {
		if got := slices.Contains(decide.Eligible(w.read(), w.now.Add(after), false), "approve"); got != want {
			t.Errorf("approve after %v: %v, want %v", after, got, want)
		}
	}
	w.craft(func(s *run.State) { s.Proposal = nil })
	if slices.Contains(decide.Eligible(w.read(), w.now, false), "approve") {
		t.Error("approve without a proposal")
	}
}

// clarification is a faultless clarification.added for the run as it stands.
func (w *world) clarification() *run.Clarified {
	s := w.read()
	text := evidence.NewText([16]byte{}, "the black one").Commit()
	return &run.Clarified{text, state.GoalDigest(s.Instruction, s.Terms, append(slices.Clone(s.Clarifications), text)...), "owner"}
}

var recoveryCases = []unlawfulCase{
	{rule: "clarification-status", name: "in a ready run", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(w.clarification()) }},
	{rule: "clarification-status", name: "of a run that waits for approval", stage: waiting(run.TargetLocal), with: func(w *world) { w.forge(w.clarification()) }},
	{rule: "clarification-status", name: "while an effect is unknown", stage: unknown, with: func(w *world) { w.forge(w.clarification()) }},
	{rule: "clarified-by", name: "by the agent", stage: paused, with: func(w *world) { e := w.clarification(); e.By = "agent"; w.forge(e) }},
	{rule: "goal-digest", name: "of a goal without the clarification", stage: paused, with: func(w *world) {
		e := w.clarification()
		e.GoalDigest = w.read().GoalDigest
		w.forge(e)
	}},
	{rule: "goal-digest", name: "of other words", stage: paused, with: func(w *world) { e := w.clarification(); e.Clarification.Text = elsewhere; w.forge(e) }},
	{rule: "clarification-limit", name: "the eleventh", unfit: true, stage: func(t rapid.TB) *world {
		w := begun(t, run.TargetLocal)
		for range 10 {
			w.judged("item", pauseFor(authority.AmbiguousGoal))
			w.clarify("the black one")
		}
		w.judged("item", pauseFor(authority.AmbiguousGoal))
		return w
	}, with: func(w *world) { w.forge(w.clarification()) }},
	{rule: "clarification-without-resume", name: "the chain ends with it", stage: paused, with: func(w *world) { w.forge(w.clarification()) }},
	{rule: "clarification-without-resume", name: "something else follows", stage: paused, with: func(w *world) { w.forge(w.clarification(), &run.Metrics{}) }},
	{rule: "clarification-without-resume", name: "resumed for another cause", stage: paused, follow: []string{"resumed-cause"}, with: func(w *world) {
		w.forge(w.clarification(), &run.Resumed{run.CauseRetried})
	}},
	{rule: "retry-status", name: "in a ready run", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.RetryAccepted{"owner"}) }},
	{rule: "retry-status", name: "of a run that waits for approval", stage: waiting(run.TargetLocal), with: func(w *world) { w.forge(&run.RetryAccepted{"owner"}) }},
	{rule: "retry-status", name: "of a run that waits for clarification", stage: paused, with: func(w *world) { w.forge(&run.RetryAccepted{"owner"}) }},
	{rule: "retry-status", name: "after a revoke", stage: revoked, with: func(w *world) { w.forge(&run.RetryAccepted{"owner"}) }},
	{rule: "retried-by", name: "by the agent", stage: unreached, with: func(w *world) { w.forge(&run.RetryAccepted{"agent"}) }},
	{rule: "retry-without-resume", name: "the chain ends with it", stage: unreached, with: func(w *world) { w.forge(&run.RetryAccepted{"owner"}) }},
	{rule: "retry-without-resume", name: "something else follows", stage: unreached, with: func(w *world) { w.forge(&run.RetryAccepted{"owner"}, &run.Metrics{}) }},
	{rule: "retry-without-resume", name: "resumed for another cause", stage: unreached, follow: []string{"resumed-cause"}, with: func(w *world) {
		w.forge(&run.RetryAccepted{"owner"}, &run.Resumed{run.CauseApproved})
	}},
	{rule: "resumed-cause", name: "approved by nobody", stage: waiting(run.TargetLocal), with: func(w *world) { w.forge(&run.Resumed{run.CauseApproved}) }},
	{rule: "resumed-cause", name: "clarified by nobody", stage: paused, with: func(w *world) { w.forge(&run.Resumed{run.CauseClarified}) }},
	{rule: "resumed-cause", name: "retried by nobody", stage: unreached, with: func(w *world) { w.forge(&run.Resumed{run.CauseRetried}) }},
	{rule: "resumed-status", name: "a ready run mended", stage: clarified, follow: []string{"resumed-cause"}, with: func(w *world) { w.forge(newest[run.Resumed](w)) }},
}
