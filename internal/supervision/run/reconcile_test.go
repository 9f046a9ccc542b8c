package run_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
	"countersign/internal/supervision/stopcontext"
)

// unconfirmed is a hosted run that does not know what became of its entry.
func unconfirmed(entry string) stage {
	return kept("unconfirmed "+entry, func(t rapid.TB) *world {
		w := dispatched(run.TargetHosted, entry)(t)
		w.do(func(d *decide.Deciding) { d.Unconfirmed(d.State().Execution.ID, "timeout") })
		return w
	})
}

// stated is unconfirmed with the owner's statement, taken as late as a statement is.
func stated(entry, finding string) stage {
	return kept("stated "+entry+" "+finding, func(t rapid.TB) *world {
		w := unconfirmed(entry)(t)
		w.after(90 * time.Second)
		if reason := w.states(finding); reason != "" {
			t.Fatal(reason)
		}
		return w
	})
}

// states has the owner state what became of the newest execution.
func (w *world) states(finding string) string {
	w.Helper()
	return w.says(w.read().Execution.ID, finding)
}

func (w *world) says(id, finding string) string {
	w.Helper()
	return w.denied(func(d *decide.Deciding) *authority.Denial {
		return d.Reconcile(decide.Statement{ExecutionID: id, Finding: finding, Note: "I asked them."})
	})
}

// found is what the store answers a look-up about x with.
func (w *world) found(d *decide.Deciding, x run.Execution, result string) decide.Look {
	w.Helper()
	o := decide.Outcome{Kind: run.ReceiptHosted, Result: result, Status: 200, BodySHA256: elsewhere, ObservedBy: run.ByLookUp}
	var order, amount *string
	sent := *x.Dispatch
	switch result {
	case run.ResultApplied:
		if x.Class == propose.ClassCommit {
			names := authority.NewFresh(sha256.Sum256([]byte(x.ID)), x.DispatchedAt)
			order, amount = pointer(names.ID()), pointer(x.AmountCents.String())
		}
		o.OrderID = order
	case run.ResultClosed:
		sent.URI, sent.BodySHA256 = sent.Audience+dispatch.ClosePath, dispatch.HashBody(dispatch.CloseBody(x.ID))
		o.Cause = "closed"
	default:
		o.Cause = "refused"
	}
	o.Receipt = w.receipt(d, x.ID, x.PermitID, x.EffectDigest, sent, dispatch.Result(result), order, amount)
	return decide.Look{ProbeID: d.NewID(), Answer: state.AnswerReceipt, Receipt: &o.Receipt, Outcome: o}
}

// look probes x, and the store answers so.
func (w *world) look(x run.Execution, result string) string {
	w.Helper()
	if result == run.ResultApplied {
		w.shop.apply(x.OperationID)
	}
	return w.denied(func(d *decide.Deciding) *authority.Denial { return d.Probe(x.ID, w.found(d, x, result)) })
}

// L-4, G-14: what a look-up, a late receipt and a statement make of an unconfirmed
// effect, each alone and a receipt after a statement.
func TestReconciliation(t *testing.T) {
	probed := []string{"execution.probed", "hosted.receipt", "execution.receipt", "permit.consumed"}
	with := func(more ...string) []string { return append(slices.Clone(probed), more...) }
	for _, c := range []struct {
		said, told      string // what the owner stated, what the store's receipt says; "" for neither
		events          []string
		status, stop    string // after it
		execution       string
		spent, reserved money.Cents
		uses            int64 // of the grant
	}{
		{"", run.ResultApplied, with("run.resumed"), run.StatusReady, "", run.ExecutionReceipted, price, 0, 1},
		{"", run.ResultRefused, with("execution.not_applied", "run.paused"), run.StatusPaused, authority.ExecutionNotApplied, run.ExecutionNotApplied, 0, 0, 0},
		{"", run.ResultClosed, with("execution.not_applied", "run.paused"), run.StatusPaused, authority.ExecutionNotApplied, run.ExecutionNotApplied, 0, 0, 0},
		{"unknown", "", []string{"execution.reconciled"}, run.StatusPaused, authority.DispatchUnconfirmed, run.ExecutionUnconfirmed, 0, price, 1},
		{"applied", "", []string{"execution.reconciled"}, run.StatusPaused, authority.DispatchUnconfirmed, run.ExecutionReconciled, price, 0, 1},
		{"not_applied", "", []string{"execution.reconciled", "run.paused"}, run.StatusPaused, authority.ExecutionNotApplied, run.ExecutionReconciled, 0, 0, 0},
		{"unknown", run.ResultApplied, with("run.resumed"), run.StatusReady, "", run.ExecutionReceipted, price, 0, 1},
		{"applied", run.ResultApplied, with("run.resumed"), run.StatusReady, "", run.ExecutionReceipted, price, 0, 1},
		{"not_applied", run.ResultClosed, with("execution.not_applied"), run.StatusPaused, authority.ExecutionNotApplied, run.ExecutionNotApplied, 0, 0, 0},
		{"not_applied", run.ResultRefused, with("execution.not_applied"), run.StatusPaused, authority.ExecutionNotApplied, run.ExecutionNotApplied, 0, 0, 0},
		{"not_applied", run.ResultApplied, []string{"execution.probed", "hosted.receipt", "execution.contradicted", "execution.receipt", "permit.consumed", "run.paused"}, run.StatusPaused, authority.VerificationDiffers, run.ExecutionReceipted, price, 0, 1},
		{"applied", run.ResultClosed, []string{"execution.probed", "hosted.receipt", "execution.contradicted", "execution.receipt", "permit.consumed", "execution.not_applied", "run.paused"}, run.StatusPaused, authority.VerificationDiffers, run.ExecutionNotApplied, 0, 0, 0},
		{"applied", run.ResultRefused, []string{"execution.probed", "hosted.receipt", "execution.contradicted", "execution.receipt", "permit.consumed", "execution.not_applied", "run.paused"}, run.StatusPaused, authority.VerificationDiffers, run.ExecutionNotApplied, 0, 0, 0},
	} {
		for _, ended := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s, revoked %t", c.said, c.told, ended), func(t *testing.T) {
				w := unconfirmed("submit")(t)
				x, grant := *w.read().Execution, w.read().Grants[0].ID
				if ended {
					w.do(func(d *decide.Deciding) { d.Revoke() })
				}
				w.after(90 * time.Second)
				n := len(w.events)
				if c.said != "" {
					if reason := w.states(c.said); reason != "" {
						t.Fatal(reason)
					}
				}
				if c.told != "" {
					n = len(w.events)
					if reason := w.look(x, c.told); reason != "" {
						t.Fatal(reason)
					}
				}
				want := c.events
				if ended { // then nothing moves but the money and what is known
					want = slices.DeleteFunc(slices.Clone(want), func(e string) bool { return e == "run.paused" || e == "run.resumed" })
				}
				w.emitted(n, want...)
				w.budget(c.spent, c.reserved)
				s := w.read()
				if s.Execution.State != c.execution || s.Used[grant]["shop.submit"] != c.uses {
					t.Errorf("execution %s, %d uses", s.Execution.State, s.Used[grant]["shop.submit"])
				}
				switch {
				case ended:
					w.status(run.StatusRevoked)
					if unknown := c.execution == run.ExecutionUnconfirmed; (s.Outcome() == "unconfirmed_effect") != unknown {
						t.Errorf("outcome %s", s.Outcome())
					}
				case c.stop == "":
					w.status(c.status)
				default:
					if w.status(c.status); s.Stop.ReasonCode != c.stop {
						t.Errorf("stop %s, want %s", s.Stop.ReasonCode, c.stop)
					}
				}
				w.verify()
				// The same look-up again, by somebody who began before: nothing happens twice.
				if c.told != "" {
					n = len(w.events)
					if reason := w.look(x, c.told); reason != "" {
						t.Errorf("again: %s", reason)
					}
					w.emitted(n)
				}
			})
		}
	}
}

// L-4: what was found applied is verified like any receipt, and the run completes.
func TestFoundAppliedCompletes(t *testing.T) {
	w := unconfirmed("submit")(t)
	w.look(*w.read().Execution, run.ResultApplied)
	w.observe()
	w.cycle("order") // the workflow's last step
	w.status(run.StatusCompleted)
	w.verify()
}

// The same when the grant ended while nobody knew: there is time to see what was
// applied, and nothing else.
func TestFoundAppliedAfterTheGrant(t *testing.T) {
	w := unconfirmed("prepare")(t)
	w.after(2 * time.Hour)
	w.look(*w.read().Execution, run.ResultApplied)
	w.after(time.Second).observe()
	if x := w.read().Execution; x.State != run.ExecutionVerified {
		t.Errorf("execution %s", x.State)
	}
	w.settle()
	if s := w.status(run.StatusPaused); s.Stop.ReasonCode != authority.GrantExpired {
		t.Errorf("stop %+v", s.Stop)
	}
	w.verify()
	w = unconfirmed("prepare")(t)
	w.after(2 * time.Hour)
	w.look(*w.read().Execution, run.ResultApplied)
	w.after(run.LeaseLife).settle() // nobody looked
	w.status(run.StatusPaused)
	w.verify()
}

// L-4: any answer but a receipt is recorded and changes nothing.
func TestProbeWithoutReceipt(t *testing.T) {
	for _, answer := range state.Answers[1:] {
		w := unconfirmed("submit")(t)
		before := w.read()
		x := *before.Execution
		n := len(w.events)
		if reason := w.denied(func(d *decide.Deciding) *authority.Denial {
			return d.Probe(x.ID, decide.Look{ProbeID: d.NewID(), Answer: answer})
		}); reason != "" {
			t.Fatal(reason)
		}
		w.emitted(n, "execution.probed")
		if after := w.read(); after.Status != before.Status || after.Execution.State != x.State || after.Budget != before.Budget {
			t.Errorf("%s changed %+v", answer, after)
		}
		w.verify()
	}
}

// G-14, L-4: who may state what, and when.
func TestWhoMayState(t *testing.T) {
	w := dispatched(run.TargetHosted, "submit")(t)
	if reason := w.states("applied"); reason != authority.InProgress {
		t.Errorf("under its lease: %q", reason)
	}
	if reason := w.says(w.id(), "applied"); reason != authority.NotFound {
		t.Errorf("of nothing: %q", reason)
	}
	w = receipted(run.TargetHosted, "submit")(t)
	if reason := w.states("unknown"); reason != authority.RecoveryNotEligible {
		t.Errorf("against a receipt: %q", reason)
	}
	w = unconfirmed("submit")(t)
	for wait, want := range map[time.Duration]string{0: authority.PermitStillLive, 90*time.Second - time.Millisecond: authority.PermitStillLive, 90 * time.Second: ""} {
		w := unconfirmed("submit")(t)
		w.now = w.read().Execution.DispatchedAt.Add(max(wait, time.Millisecond))
		if reason := w.states("not_applied"); reason != want {
			t.Errorf("not_applied after %v: %q, want %q", wait, reason, want)
		}
	}
	if reason := w.states("applied"); reason != "" {
		t.Errorf("applied at once: %q", reason)
	}
	n := len(w.events)
	if reason := w.states("applied"); reason != "" {
		t.Errorf("the same again: %q", reason)
	}
	w.emitted(n)
	for _, finding := range []string{"not_applied", "unknown"} {
		if reason := w.after(time.Hour).states(finding); reason != authority.RecoveryNotEligible {
			t.Errorf("%s after applied: %q", finding, reason)
		}
	}
	// Only a revoke follows applied.
	for name, ask := range map[string]func(*decide.Deciding) *authority.Denial{
		"retry": (*decide.Deciding).Retry, "clarify": func(d *decide.Deciding) *authority.Denial { return d.Clarify("go on") },
	} {
		if reason := w.denied(ask); reason != authority.RecoveryNotEligible {
			t.Errorf("%s after applied: %q", name, reason)
		}
	}
	w.do(func(d *decide.Deciding) { d.Revoke() })
	if s := w.status(run.StatusRevoked); s.Outcome() != run.StatusRevoked {
		t.Errorf("outcome %s", s.Outcome())
	}
	w.verify()
}

// L-4: a store is asked before a statement that nothing happened, and only then.
func TestWhatIsAskedFirst(t *testing.T) {
	local := dispatched(run.TargetLocal, "prepare")(t)
	local.do(func(d *decide.Deciding) {
		d.State().DropReceipt = true
		d.Unconfirmed(d.State().Execution.ID, "simulated")
	})
	for name, w := range map[string]*world{"hosted": unconfirmed("submit")(t), "local": local} {
		for _, finding := range []string{"applied", "not_applied", "unknown"} {
			d := decide.Begin(w.read(), w.now, w.fresh(), true, decide.Doors{})
			x, denial := d.CanReconcile(decide.Statement{ExecutionID: w.read().Execution.ID, Finding: finding})
			if asks := name == "hosted" && finding == "not_applied"; denial != nil || (x != nil) != asks {
				t.Errorf("%s, %s: asks %v, %v", name, finding, x, denial)
			}
		}
	}
}

// G-14: the receipt of a mismatch stands; what an owner says beside it moves nothing.
func TestStatementAboutAMismatch(t *testing.T) {
	w := dispatched(run.TargetHosted, "prepare")(t)
	w.do(func(d *decide.Deciding) { d.Receive(d.State().Execution.ID, w.outcome(d, run.ResultApplied)) }) // and the shop does not show it
	w.observe()
	if x := w.read().Execution; x.State != run.ExecutionMismatch {
		t.Fatal(x.State)
	}
	if reason := w.after(time.Hour).states("not_applied"); reason != authority.RecoveryNotEligible {
		t.Errorf("not_applied: %q", reason)
	}
	before := w.read().Budget
	for _, finding := range []string{"applied", "unknown"} {
		if reason := w.states(finding); reason != "" {
			t.Errorf("%s: %q", finding, reason)
		}
	}
	if s := w.status(run.StatusPaused); s.Execution.State != run.ExecutionMismatch || s.Budget != before || s.Stop.Category != stopcontext.CategoryReconciliation {
		t.Errorf("%s, %+v, %+v", s.Execution.State, s.Budget, s.Stop)
	}
	w.verify()
}

// retried is the run after a not_applied, let go on.
func (w *world) retried() *world {
	w.Helper()
	if reason := w.denied((*decide.Deciding).Retry); reason != "" {
		w.Fatal(reason)
	}
	return w.observe()
}

// L-4: a statement is remembered when the run has gone on. A receipt that contradicts
// it counts, even over the budget, revokes the live permit and stops the run for good.
func TestLateContradiction(t *testing.T) {
	for _, moment := range []string{"ready", "permitted", "dispatched", "unconfirmed", "receipted", "completed"} {
		t.Run(moment, func(t *testing.T) {
			w := stated("submit", "not_applied")(t)
			old := *w.read().Execution
			w.retried()
			var p *run.Permit
			if moment != "ready" {
				p = w.permit("submit")
			}
			switch moment {
			case "dispatched", "unconfirmed":
				w.claim(p)
				if moment == "unconfirmed" {
					w.do(func(d *decide.Deciding) { d.Unconfirmed(d.State().Execution.ID, "timeout") })
				}
			case "receipted", "completed":
				w.carry(p)
				if moment == "completed" {
					w.observe().cycle("order")
				}
			}
			before := w.read()
			n := len(w.events)
			if reason := w.look(old, run.ResultApplied); reason != "" {
				t.Fatal(reason)
			}
			want := []string{"execution.probed", "hosted.receipt", "execution.contradicted", "execution.receipt", "permit.consumed"}
			if moment == "permitted" {
				want = append(want, "permit.revoked")
			}
			if moment != "completed" {
				want = append(want, "run.paused")
			}
			w.emitted(n, want...)
			if got := newest[run.Contradicted](w).OverspentCents; got != max(before.Budget.Spent+before.Budget.Reserved, 0) {
				t.Errorf("overspent %s", got)
			}
			w.budget(before.Budget.Spent+price, before.Budget.Reserved)
			s := w.read()
			if moment != "completed" {
				w.stop(stopcontext.CategoryReconciliation, stopcontext.SourceHosted, authority.VerificationDiffers, "reconcile", s.Stop.Dispatch)
			}
			w.verify()
			// What is under way ends as it ends; the run stays stopped and can be revoked.
			switch moment {
			case "dispatched":
				if s.Lease == nil {
					t.Error("nothing tells when the dispatch becomes unconfirmed")
				}
				w.after(run.LeaseLife).settle()
				fallthrough
			case "unconfirmed":
				if x := w.read().Execution; x.State != run.ExecutionUnconfirmed {
					t.Errorf("execution %s", x.State)
				}
				w.look(*w.read().Execution, run.ResultApplied)
				w.budget(2*price, 0)
			}
			if moment == "completed" {
				w.status(run.StatusCompleted)
				return
			}
			if s := w.status(run.StatusPaused); s.Stop.ReasonCode != authority.VerificationDiffers {
				t.Errorf("stop %s", s.Stop.ReasonCode)
			}
			if reason := w.denied((*decide.Deciding).Retry); reason != authority.RecoveryNotEligible {
				t.Errorf("retry: %q", reason)
			}
			w.do(func(d *decide.Deciding) { d.Revoke() })
			w.verify()
		})
	}
}

// A receipt that confirms a remembered statement moves nothing, whatever the run does
// meanwhile: a live permit stays good.
func TestLateConfirmation(t *testing.T) {
	w := stated("submit", "not_applied")(t)
	old := *w.read().Execution
	p := w.retried().permit("submit")
	before := w.read()
	if reason := w.look(old, run.ResultClosed); reason != "" {
		t.Fatal(reason)
	}
	if s := w.read(); s.Budget != before.Budget || s.Status != run.StatusReady || s.Permit == nil || s.Observation == nil {
		t.Errorf("%+v, status %s, permit %v, observation %v", s.Budget, s.Status, s.Permit, s.Observation)
	}
	w.claim(p)
	w.receive(run.ResultApplied)
	w.budget(price, 0)
	w.verify()
	// And once more while the second is out.
	w = stated("submit", "not_applied")(t)
	old = *w.read().Execution
	w.claim(w.retried().permit("submit"))
	lease := *w.read().Lease
	w.look(old, run.ResultRefused)
	if s := w.status(run.StatusRunning); s.Lease == nil || *s.Lease != lease || s.Stage != "dispatching" {
		t.Errorf("lease %v at stage %s", s.Lease, s.Stage)
	}
	w.verify()
}

// The number of statements that a run goes on after is bounded.
func TestStatementLimit(t *testing.T) {
	w := before(run.TargetHosted, "prepare")(t)
	for i := range state.MaxStated + 1 {
		w.claim(w.permit("prepare"))
		w.do(func(d *decide.Deciding) { d.Unconfirmed(d.State().Execution.ID, "timeout") })
		reason := w.after(90 * time.Second).states("not_applied")
		if i == state.MaxStated {
			if reason != authority.RecoveryNotEligible {
				t.Errorf("the ninth: %q", reason)
			}
			break
		}
		if reason != "" {
			t.Fatal(reason)
		}
		w.retried()
	}
	if n := len(w.read().Stated); n != state.MaxStated {
		t.Errorf("%d statements are remembered", n)
	}
	w.verify()
}

// When all but the reserve of events is used up, what decides nothing is not recorded,
// and a receipt still is.
func TestReconciliationAtTheLimit(t *testing.T) {
	w := unconfirmed("submit")(t)
	full := func(ask func(*decide.Deciding, string) *authority.Denial) (string, bool) {
		s := w.read()
		s.Events = run.MaxEvents - run.EventReserve + 1
		d := decide.Begin(s, w.now, w.fresh(), true, decide.Doors{})
		denial := ask(d, s.Execution.ID)
		if denial == nil {
			return "", d.Changed()
		}
		return denial.Reason, d.Changed()
	}
	for name, ask := range map[string]func(*decide.Deciding, string) *authority.Denial{
		"statement": func(d *decide.Deciding, id string) *authority.Denial {
			return d.Reconcile(decide.Statement{ExecutionID: id, Finding: "unknown"})
		},
		"answer": func(d *decide.Deciding, id string) *authority.Denial {
			return d.Probe(id, decide.Look{ProbeID: d.NewID(), Answer: state.AnswerUnreachable})
		},
	} {
		if reason, changed := full(ask); reason != authority.TurnLimit || changed {
			t.Errorf("%s: %q, recorded %t", name, reason, changed)
		}
	}
	x := *w.read().Execution
	if reason, changed := full(func(d *decide.Deciding, id string) *authority.Denial {
		return d.Probe(id, w.found(d, x, run.ResultClosed))
	}); reason != "" || !changed {
		t.Errorf("receipt: %q, recorded %t", reason, changed)
	}
}

// What the receipts of all false statements and a claim come to is still an amount: the
// claim that would go beyond it is refused, so that such a receipt can be recorded.
func TestContradictionsCanBeCounted(t *testing.T) {
	for room, want := range map[money.Cents]string{0: "", -1: "BUDGET_EXCEEDED"} {
		w := stated("submit", "not_applied")(t)
		w.retried()
		p := w.permit("submit")
		w.craft(func(s *run.State) { s.Execution.AmountCents = money.Max - p.AmountCents - room })
		reason := w.denied(func(d *decide.Deciding) *authority.Denial { _, denial := d.Claim(w.use(d, p)); return denial })
		if reason != want {
			t.Errorf("%d cents of room: %q, want %q", room, reason, want)
		}
		if want != "" {
			continue
		}
		w.receive(run.ResultApplied)
		x := w.read().Stated[0]
		if reason := w.denied(func(d *decide.Deciding) *authority.Denial { return d.Probe(x.ID, w.found(d, x, run.ResultApplied)) }); reason != "" {
			t.Errorf("the receipt: %q", reason)
		}
		if s := w.read(); s.Budget.Spent != money.Max {
			t.Errorf("spent %d", s.Budget.Spent)
		}
	}
}

// What was begun just before the bound of events is told to its end: a claim at the last
// moment, the receipts of everything that rests on a statement, and a revoke.
func TestReserveOfEvents(t *testing.T) {
	w := before(run.TargetHosted, "prepare")(t)
	for range state.MaxStated {
		w.claim(w.permit("prepare"))
		w.do(func(d *decide.Deciding) { d.Unconfirmed(d.State().Execution.ID, "timeout") })
		if reason := w.after(90 * time.Second).states("not_applied"); reason != "" {
			t.Fatal(reason)
		}
		w.retried()
	}
	found := func(x run.Execution) {
		if reason := w.denied(func(d *decide.Deciding) *authority.Denial { return d.Probe(x.ID, w.found(d, x, run.ResultApplied)) }); reason != "" {
			t.Fatal(reason)
		}
	}
	p := w.permit("prepare")
	w.patch(func(s *run.State) { s.Events = run.MaxEvents - run.EventReserve/2 })
	newest := *w.claim(p)
	w.do(func(d *decide.Deciding) {
		d.Unconfirmed(newest.ID, "timeout")
		d.Measure(run.Metrics{ExecutionID: &newest.ID})
	})
	found(newest)
	w.observe()
	for _, x := range w.read().Stated {
		found(x)
	}
	w.do(func(d *decide.Deciding) { d.Revoke() })
	if s := w.status(run.StatusRevoked); s.Events > run.MaxEvents {
		t.Errorf("%d events", s.Events)
	}
}

// TestMoneyIsCountedOnce: over any order of statements, look-ups, late receipts,
// retries and revokes, what is spent is exactly what receipts and, where there is none,
// statements say; what is reserved is exactly what nobody knows.
func TestMoneyIsCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := before(run.TargetHosted, "submit")(t)
		truth := map[string]string{} // what the store did, by execution
		var all []run.Execution
		for range rapid.IntRange(1, 14).Draw(t, "length") {
			w.after(rapid.SampledFrom([]time.Duration{0, time.Second, 90 * time.Second}).Draw(t, "pause"))
			s := w.read()
			some := func() run.Execution { return rapid.SampledFrom(all).Draw(t, "execution") }
			switch what := rapid.SampledFrom([]string{"buy", "buy", "probe", "probe", "state", "state", "receipt", "retry", "retry", "revoke"}).Draw(t, "what"); {
			case what == "buy" && s.Status == run.StatusReady && s.Permit == nil && s.Execution.State != run.ExecutionReceipted:
				w.settle()
				if w.read().Status != run.StatusReady || s.Used[s.Grants[0].ID]["shop.submit"] > 0 {
					continue
				}
				w.observe()
				if !slices.ContainsFunc(w.catalog, func(e propose.Entry) bool { return e.EntryID == "submit" }) {
					continue
				}
				x := *w.claim(w.permit("submit"))
				w.do(func(d *decide.Deciding) { d.Unconfirmed(x.ID, "timeout") })
				truth[x.ID] = rapid.SampledFrom([]string{run.ResultApplied, run.ResultRefused, run.ResultClosed}).Draw(t, "truth")
				all = append(all, x)
			case len(all) == 0:
			case what == "probe":
				x := some()
				w.denied(func(d *decide.Deciding) *authority.Denial { return d.Probe(x.ID, w.found(d, x, truth[x.ID])) })
			case what == "receipt": // the original attempt's own, late
				x := some()
				w.denied(func(d *decide.Deciding) *authority.Denial {
					o := w.found(d, x, truth[x.ID]).Outcome
					o.ObservedBy = run.ByResponse
					return d.Receive(x.ID, o)
				})
			case what == "state":
				w.says(some().ID, rapid.SampledFrom([]string{"applied", "not_applied", "unknown"}).Draw(t, "finding"))
			case what == "retry":
				if w.denied((*decide.Deciding).Retry) == "" {
					w.observe()
				}
			case what == "revoke" && rapid.IntRange(0, 3).Draw(t, "really") == 0:
				w.do(func(d *decide.Deciding) { d.Revoke() })
			}
			w.accounts(t)
		}
		w.verify()
	})
}

// data is what an event holds.
func data[B any, P pointerTo[B]](w *world, e evidence.Event) P {
	w.Helper()
	b := P(new(B))
	if err := canon.Unmarshal(e.Data, b); err != nil {
		w.Fatal(err)
	}
	return b
}

// accounts derives from the chain alone what has to be spent and reserved, and how
// often the grant was used.
func (w *world) accounts(t *rapid.T) {
	told, said, amount := map[string]string{}, map[string]string{}, map[string]money.Cents{}
	for _, e := range w.events {
		switch e.Type {
		case "execution.dispatched":
			d := data[run.Dispatched](w, e)
			amount[d.ExecutionID] = d.AmountCents
		case "execution.receipt":
			d := data[run.Receipt](w, e)
			if _, twice := told[d.ExecutionID]; twice {
				t.Fatalf("two receipts of %s", d.ExecutionID)
			}
			told[d.ExecutionID] = d.Result
		case "execution.reconciled":
			if d := data[run.Reconciled](w, e); d.Finding != "unknown" {
				said[d.ExecutionID] = d.Finding
			}
		}
	}
	var spent, reserved money.Cents
	var uses int64
	for id, cents := range amount {
		word := told[id]
		if word == "" {
			word = said[id]
		}
		switch word {
		case "applied":
			spent += cents
		case "":
			reserved += cents
		}
		if cents > 0 && (word == "applied" || word == "") {
			uses++
		}
	}
	s := w.read()
	if s.Budget.Spent != spent || s.Budget.Reserved != reserved || s.Used[s.Grants[0].ID]["shop.submit"] != uses {
		t.Fatalf("spent %s, reserved %s, %d uses; the chain says %s, %s, %d", s.Budget.Spent, s.Budget.Reserved, s.Used[s.Grants[0].ID]["shop.submit"], spent, reserved, uses)
	}
}

// probed is the commit that records what a look-up found about the unconfirmed entry.
func probed(entry, result string) stage {
	return kept("probed "+entry+" "+result, func(t rapid.TB) *world {
		w := unconfirmed(entry)(t)
		w.look(*w.read().Execution, result)
		return w
	})
}

// otherwise is a look-up that contradicts the statement about the entry.
func otherwise(entry, finding, result string) stage {
	return kept("otherwise "+entry+" "+finding+" "+result, func(t rapid.TB) *world {
		w := stated(entry, finding)(t)
		w.look(*w.read().Execution, result)
		return w
	})
}

// statement is a faultless execution.reconciled about the newest execution.
func (w *world) statement(finding string) *run.Reconciled {
	x := w.read().Execution
	e := &run.Reconciled{ExecutionID: x.ID, Finding: finding, By: "owner"}
	switch finding {
	case "applied":
		e.SpentCents = x.AmountCents
	case "not_applied":
		e.ReleasedCents = x.AmountCents
	}
	return e
}

// eight has eight statements behind it and the ninth to be made.
func eight(t rapid.TB) *world {
	w := before(run.TargetHosted, "prepare")(t)
	for i := range state.MaxStated + 1 {
		w.claim(w.permit("prepare"))
		w.do(func(d *decide.Deciding) { d.Unconfirmed(d.State().Execution.ID, "timeout") })
		w.after(90 * time.Second)
		if i < state.MaxStated {
			w.states("not_applied")
			w.retried()
		}
	}
	return w
}

var reconcileCases = []unlawfulCase{
	{rule: "probed-state", name: "of a receipted execution", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) {
		w.forge(&run.Probed{w.read().Execution.ID, w.id(), state.AnswerUnreachable, nil})
	}},
	{rule: "probed-state", name: "while the attempt has its lease", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) {
		w.forge(&run.Probed{w.read().Execution.ID, w.id(), state.AnswerUnreachable, nil})
	}},
	{rule: "probed-answer", name: "an unknown answer", stage: unconfirmed("prepare"), with: func(w *world) {
		w.forge(&run.Probed{w.read().Execution.ID, w.id(), "not_applied", nil})
	}},
	{rule: "probed-answer", name: "a receipt that is not there", stage: probed("prepare", run.ResultClosed), with: func(w *world) {
		alter(w, func(e *run.Probed) { e.Receipt = nil })
	}},
	{rule: "probed-without-receipt", name: "nothing follows", stage: probed("prepare", run.ResultClosed), with: func(w *world) { w.cut("hosted.receipt") }},
	{rule: "probed-without-receipt", name: "another receipt", stage: probed("prepare", run.ResultClosed), with: func(w *world) {
		alter(w, func(e *run.HostedReceipt) { e.Receipt += "x" })
	}},
	{rule: "probed-without-receipt", name: "as if it came with the response", stage: probed("prepare", run.ResultClosed), with: func(w *world) {
		alter(w, func(e *run.HostedReceipt) { e.ObservedBy = run.ByResponse })
	}},
	{rule: "outcome-without-effect", name: "applied, and the run stays stopped", stage: probed("prepare", run.ResultApplied), with: func(w *world) { w.cut("run.resumed") }},
	{rule: "outcome-without-effect", name: "applied, and something else follows", stage: probed("prepare", run.ResultApplied), with: func(w *world) { w.cut("run.resumed").forge(&run.Metrics{}) }},
	{rule: "outcome-without-effect", name: "closed, and the run stays stopped for it", stage: probed("prepare", run.ResultClosed), with: func(w *world) { w.cut("run.paused") }},
	{rule: "outcome-without-effect", name: "closed, and stopped for something else", stage: probed("prepare", run.ResultClosed), with: func(w *world) {
		w.cut("run.paused").forge(&run.Paused{w.stopFor(authority.StaleState)})
	}, follow: []string{"paused-status"}},
	{rule: "outcome-without-effect", name: "not_applied stated, and the run stays stopped", stage: stated("prepare", "not_applied"), with: func(w *world) { w.cut("run.paused") }},
	{rule: "outcome-without-effect", name: "contradicted, and the run goes on", stage: otherwise("submit", "not_applied", run.ResultApplied), with: func(w *world) { w.cut("run.paused") }},
	{rule: "outcome-without-effect", name: "contradicted, and only stopped for a retry", stage: otherwise("submit", "applied", run.ResultClosed), with: func(w *world) {
		w.cut("run.paused").forge(&run.Paused{w.stopFor(authority.ExecutionNotApplied)})
	}, follow: []string{"paused-status"}},
	{rule: "resumed-cause", name: "probed, and nothing was found", stage: unconfirmed("prepare"), with: func(w *world) { w.forge(&run.Resumed{run.CauseProbed}) }, follow: []string{"resumed-unresolved"}},
	{rule: "resumed-cause", name: "probed after applied was only stated", stage: stated("prepare", "applied"), with: func(w *world) { w.forge(&run.Resumed{run.CauseProbed}) }},
	{rule: "paused-status", name: "for a retry after applied was stated", stage: stated("prepare", "applied"), with: func(w *world) { w.forge(&run.Paused{w.stopFor(authority.ExecutionNotApplied)}) }},
	{rule: "reconciled-by", name: "the agent's statement", stage: unconfirmed("prepare"), with: func(w *world) {
		e := w.statement("applied")
		e.By = "agent"
		w.forge(e)
	}},
	{rule: "reconciled-state", name: "of a receipted execution", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) { w.forge(w.statement("unknown")) }},
	{rule: "reconciled-state", name: "a second one", stage: stated("prepare", "applied"), with: func(w *world) { w.forge(w.statement("unknown")) }},
	{rule: "reconciled-finding", name: "an unknown finding", stage: unconfirmed("prepare"), with: func(w *world) { w.forge(w.statement("lost")) }},
	{rule: "reconciled-early", name: "a millisecond before the permit is long dead", stage: unconfirmed("submit"), with: func(w *world) {
		w.after(90*time.Second - time.Millisecond).forge(w.statement("not_applied"))
	}},
	{rule: "reconciled-amount", name: "releases more", stage: stated("submit", "not_applied"), with: func(w *world) { alter(w, func(e *run.Reconciled) { e.ReleasedCents++ }) }},
	{rule: "reconciled-amount", name: "spends less", stage: stated("submit", "applied"), with: func(w *world) { alter(w, func(e *run.Reconciled) { e.SpentCents-- }) }},
	{rule: "reconciled-amount", name: "unknown releases", stage: unconfirmed("submit"), with: func(w *world) {
		e := w.statement("unknown")
		e.ReleasedCents = price
		w.forge(e)
	}},
	{rule: "statement-limit", name: "the ninth after which a run goes on", stage: eight, unfit: true, with: func(w *world) { w.forge(w.statement("not_applied")) }},
	{rule: "contradicted-state", name: "of what nobody stated", stage: unconfirmed("prepare"), with: func(w *world) {
		w.forge(&run.Contradicted{ExecutionID: w.read().Execution.ID, Statement: "not_applied", ReceiptResult: run.ResultApplied})
	}},
	{rule: "contradicted-agreeing", name: "a receipt that says the same", stage: otherwise("submit", "applied", run.ResultClosed), with: func(w *world) {
		alter(w, func(e *run.Contradicted) { e.ReceiptResult = run.ResultApplied })
	}},
	{rule: "contradicted-agreeing", name: "another statement than was made", stage: otherwise("submit", "applied", run.ResultClosed), with: func(w *world) {
		alter(w, func(e *run.Contradicted) { e.Statement = "not_applied" })
	}},
	{rule: "contradicted-agreeing", name: "without a receipt of the store", stage: stated("prepare", "not_applied"), with: func(w *world) {
		w.forge(&run.Contradicted{ExecutionID: w.read().Execution.ID, Statement: "not_applied", ReceiptResult: run.ResultApplied})
	}},
	{rule: "contradicted-amount", name: "a cent less", stage: otherwise("submit", "not_applied", run.ResultApplied), with: func(w *world) {
		alter(w, func(e *run.Contradicted) { e.AmountCents-- })
	}},
	{rule: "contradicted-amount", name: "overspent by what is not", stage: otherwise("submit", "not_applied", run.ResultApplied), with: func(w *world) {
		alter(w, func(e *run.Contradicted) { e.OverspentCents++ })
	}},
	{rule: "contradicted-without-receipt", name: "nothing follows", stage: otherwise("submit", "not_applied", run.ResultApplied), with: func(w *world) { w.cut("execution.receipt") }},
	{rule: "contradicted-without-receipt", name: "a receipt that says something else", stage: otherwise("submit", "applied", run.ResultClosed), with: func(w *world) {
		alter(w, func(e *run.Receipt) { e.Result = run.ResultRefused })
	}},
	{rule: "receipt-against-statement", name: "silently applied", stage: otherwise("submit", "not_applied", run.ResultApplied), with: func(w *world) {
		receipt := newest[run.Receipt](w)
		w.cut("execution.contradicted").forge(receipt)
	}},
	{rule: "receipt-against-statement", name: "silently closed", stage: otherwise("submit", "applied", run.ResultClosed), with: func(w *world) {
		receipt := newest[run.Receipt](w)
		w.cut("execution.contradicted").forge(receipt)
	}},
	{rule: "release", name: "what a statement has released", stage: stated("submit", "not_applied"), with: func(w *world) {
		w.look(*w.read().Execution, run.ResultClosed)
		alter(w, func(e *run.NotApplied) { e.ReleasedCents = price })
	}},
}

func init() {
	unlawfulCases = append(unlawfulCases, reconcileCases...)
	errands = append(errands, reconcileErrands...)
}

// reconcileErrands are for [TestAnyHistory]: about any execution that a run remembers.
var reconcileErrands = []errand{
	{"probe", func(w *world, t *rapid.T, d *decide.Deciding) {
		x := w.remembered(t, d)
		if x == nil || x.Dispatch == nil {
			return
		}
		result := rapid.SampledFrom([]string{run.ResultApplied, run.ResultRefused, run.ResultClosed}).Draw(t, "result")
		if result == run.ResultApplied && x.State == run.ExecutionUnconfirmed {
			w.shop.apply(x.OperationID)
		}
		d.Probe(x.ID, w.found(d, *x, result))
	}},
	{"look in vain", func(w *world, t *rapid.T, d *decide.Deciding) {
		if x := w.remembered(t, d); x != nil {
			d.Probe(x.ID, decide.Look{ProbeID: d.NewID(), Answer: rapid.SampledFrom(state.Answers[1:]).Draw(t, "answer")})
		}
	}},
	{"state", func(w *world, t *rapid.T, d *decide.Deciding) {
		if x := w.remembered(t, d); x != nil {
			d.Reconcile(decide.Statement{ExecutionID: x.ID, Finding: rapid.SampledFrom([]string{"applied", "not_applied", "not_applied", "unknown"}).Draw(t, "finding")})
		}
	}},
}

// remembered is one of the executions that the run's state holds, or nil.
func (w *world) remembered(t *rapid.T, d *decide.Deciding) *run.Execution {
	var all []run.Execution
	if x := d.State().Execution; x != nil {
		all = append(all, *x)
	}
	if all = append(all, d.State().Stated...); len(all) == 0 {
		return nil
	}
	x := rapid.SampledFrom(all).Draw(t, "execution")
	return &x
}
