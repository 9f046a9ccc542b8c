package run_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"countersign/internal/authority"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// simulated are the events of G-19, and ours.
var simulated = []string{"expire_grant", "expire_approval", "expire_permit", "revise_state", "navigate", "price_change", "drop_receipt", "provider_timeout"}

// unlike names the members in which two states differ that a simulated event could
// change.
func unlike(a, b *run.State) []string {
	var found []string
	add := func(same bool, name string) {
		if !same {
			found = append(found, name)
		}
	}
	add(a.Status == b.Status, "status")
	add((a.Stop == nil) == (b.Stop == nil) && (a.Stop == nil || a.Stop.AttemptID == b.Stop.AttemptID), "stop")
	add(a.DocumentEpoch == b.DocumentEpoch, "epoch")
	add(a.StateRevision == b.StateRevision, "revision")
	add((a.Observation == nil) == (b.Observation == nil), "observation")
	add((a.Permit == nil) == (b.Permit == nil), "permit")
	add((a.Proposal == nil) == (b.Proposal == nil), "proposal")
	add(slices.EqualFunc(a.Grants, b.Grants, func(x, y authority.Grant) bool { return x.ExpiresAt == y.ExpiresAt }), "grants")
	add(a.DropReceipt == b.DropReceipt, "receipt")
	add(a.GoalDigest == b.GoalDigest && a.Budget == b.Budget && a.RetryStreak == b.RetryStreak, "more")
	return found
}

// TestSimulate: each event of G-19 is followed by exactly what the real thing brings
// about.
func TestSimulate(t *testing.T) {
	type list = []string
	local := run.TargetLocal
	expired, stale, timeout := list{"authority", "runtime", "GRANT_EXPIRED", "none"}, list{"retry", "runtime", "STALE_STATE", "retry"}, list{"retry", "provider", "PROVIDER_TIMEOUT", "retry"}
	for _, c := range []struct {
		event, name string
		stage       stage
		follows     list // after simulate.applied
		changes     list
		stop        list   // of a run that stopped just now
		use         string // of the permit that was live
	}{
		{"expire_grant", "ready", ready(local), list{"grant.revoked", "run.paused"}, list{"status", "stop", "grants"}, expired, ""},
		{"expire_grant", "permitted", permitted(local, "item"), list{"permit.revoked", "grant.revoked", "run.paused"}, list{"status", "stop", "permit", "grants"}, expired, "PERMIT_REVOKED"},
		{"expire_grant", "approved", approved(local), list{"grant.revoked", "grant.revoked", "run.paused"}, list{"status", "stop", "grants"}, expired, ""},
		{"expire_grant", "waiting", waiting(local), list{"grant.revoked"}, list{"grants"}, nil, ""},
		{"expire_grant", "stopped", paused, list{"grant.revoked"}, list{"grants"}, nil, ""},
		{"expire_approval", "approved", approved(local), list{"grant.revoked"}, list{"grants"}, nil, ""},
		{"expire_approval", "about to commit", approvedUpTo("submit"), list{"permit.revoked", "grant.revoked"}, list{"permit", "grants"}, nil, "PERMIT_REVOKED"},
		{"expire_approval", "about to look", approvedUpTo("item"), list{"grant.revoked"}, list{"grants"}, nil, ""},
		{"expire_permit", "permitted", permitted(local, "item"), list{"permit.expired"}, list{"permit"}, nil, "PERMIT_EXPIRED"},
		{"expire_permit", "managed", managedPermit, list{"permit.expired", "run.paused"}, list{"status", "stop", "permit"}, list{"retry", "runtime", "PERMIT_EXPIRED", "retry"}, "PERMIT_EXPIRED"},
		{"revise_state", "ready", ready(local), nil, list{"revision"}, nil, ""},
		{"revise_state", "permitted", permitted(local, "item"), list{"permit.revoked"}, list{"revision", "permit"}, nil, "STALE_STATE"},
		{"revise_state", "prepared", before(local, "submit"), list{"proposal.voided"}, list{"revision", "proposal"}, nil, ""},
		{"revise_state", "about to commit", permitted(local, "submit"), list{"permit.revoked", "proposal.voided"}, list{"revision", "permit", "proposal"}, nil, "STALE_STATE"},
		{"revise_state", "waiting", waiting(local), list{"proposal.voided", "run.paused"}, list{"stop", "revision", "proposal"}, stale, ""},
		{"revise_state", "stopped", paused, nil, list{"revision"}, nil, ""},
		{"navigate", "ready", ready(local), nil, list{"epoch"}, nil, ""},
		{"navigate", "permitted", permitted(local, "item"), list{"permit.revoked"}, list{"epoch", "permit"}, nil, "STALE_STATE"},
		{"navigate", "waiting", waiting(local), list{"proposal.voided", "run.paused"}, list{"stop", "epoch", "proposal"}, stale, ""},
		{"navigate", "approved", approved(local), list{"proposal.voided"}, list{"epoch", "proposal"}, nil, ""},
		{"price_change", "ready", ready(local), nil, list{"observation"}, nil, ""},
		{"price_change", "about to commit", permitted(local, "submit"), list{"permit.revoked", "proposal.voided"}, list{"observation", "permit", "proposal"}, nil, "STALE_STATE"},
		{"price_change", "waiting", waiting(local), list{"proposal.voided", "run.paused"}, list{"stop", "observation", "proposal"}, stale, ""},
		{"drop_receipt", "ready", ready(local), nil, list{"receipt"}, nil, ""},
		{"drop_receipt", "waiting", waiting(local), nil, list{"receipt"}, nil, ""},
		{"provider_timeout", "ready", ready(local), list{"run.paused"}, list{"status", "stop"}, timeout, ""},
		{"provider_timeout", "permitted", permitted(local, "item"), list{"permit.revoked", "run.paused"}, list{"status", "stop", "permit"}, timeout, "PERMIT_REVOKED"},
	} {
		w := c.stage(t)
		was, n := w.read(), len(w.events)
		if reason := w.simulate(c.event); reason != "" {
			t.Errorf("%s, %s: %s", c.event, c.name, reason)
			continue
		}
		w.emitted(n, append(list{"simulate.applied"}, c.follows...)...)
		if e := newest[run.Simulated](w); *e != (run.Simulated{c.event, "owner"}) {
			t.Errorf("simulate.applied %+v", e)
		}
		s := w.read()
		if got := unlike(was, s); !slices.Equal(got, c.changes) {
			t.Errorf("%s, %s: changed %v, want %v", c.event, c.name, got, c.changes)
		}
		if c.stop != nil {
			w.status("paused")
			if got := (list{s.Stop.Category, s.Stop.Source, s.Stop.ReasonCode, s.Stop.Recovery}); !slices.Equal(got, c.stop) {
				t.Errorf("%s, %s: stop %v, want %v", c.event, c.name, got, c.stop)
			}
		}
		if was.Permit != nil {
			if reason := w.denied(func(d *decide.Deciding) *authority.Denial { _, denial := d.Claim(w.use(d, was.Permit)); return denial }); reason != c.use {
				t.Errorf("%s, %s: the permit afterwards is %q, want %s", c.event, c.name, reason, c.use)
			}
		}
		w.verify()
	}
}

// approvedUpTo is a run with an approved purchase and a permit for an entry.
func approvedUpTo(entry string) stage {
	return func(t rapid.TB) *world {
		w := approved(run.TargetLocal)(t)
		w.permit(entry)
		return w
	}
}

// TestLapsedApprovalIsAskedForAgain: after a simulated lapse it is as after the real one:
// the commit needs an approval, and gets it while its proposal stands.
func TestLapsedApprovalIsAskedForAgain(t *testing.T) {
	w := approved(run.TargetLocal)(t)
	if reason := w.simulate("expire_approval"); reason != "" {
		t.Fatal(reason)
	}
	w.status("ready")
	if reason := w.propose(w.report("submit")); reason != "APPROVAL_REQUIRED" {
		t.Errorf("%q, want APPROVAL_REQUIRED", reason)
	}
	w.asked()
	w.mustApprove().cycle("submit").budget(price, 0)
	w.verify()
}

// TestSimulatedStateIsSeen: after a simulated change the next observation is of the
// next state or document, and a preparation is asked for anew.
func TestSimulatedStateIsSeen(t *testing.T) {
	for event, want := range map[string]struct{ epoch, revision int64 }{"revise_state": {0, 1}, "navigate": {1, 0}, "price_change": {0, 1}} {
		w := approved(run.TargetLocal)(t)
		was := w.read()
		if reason := w.simulate(event); reason != "" {
			t.Fatal(reason)
		}
		if event == "price_change" {
			w.shop.Price--
		}
		w.observe().asked()
		s := w.read()
		if s.DocumentEpoch != was.DocumentEpoch+want.epoch || s.StateRevision != was.StateRevision+want.revision || s.Observation.DocumentEpoch != s.DocumentEpoch ||
			s.Proposal.ID == was.Proposal.ID || s.Proposal.StateRevision != s.StateRevision || s.Proposal.DocumentEpoch != s.DocumentEpoch {
			t.Errorf("%s: epoch %d, revision %d, proposal %+v", event, s.DocumentEpoch, s.StateRevision, s.Proposal)
		}
		w.mustApprove().cycle("submit")
		w.verify()
	}
}

// TestApproveAfterExpiredGrant: within a grant that has ended nothing can be approved.
func TestApproveAfterExpiredGrant(t *testing.T) {
	w := waiting(run.TargetLocal)(t)
	w.simulate("expire_grant")
	n := len(w.events)
	if reason := w.approve(w.approval()); reason != "GRANT_EXPIRED" {
		t.Errorf("approve: %q", reason)
	}
	w.emitted(n)
	w.verify()
}

// TestLostReceipt: a dropped receipt makes the next local mutation an unknown effect,
// and no read (G-19).
func TestLostReceipt(t *testing.T) {
	w := begun(t, run.TargetLocal)
	w.simulate("drop_receipt")
	w.cycle("item")
	if !w.read().DropReceipt {
		t.Error("a read used it up")
	}
	x := w.claim(w.permit("prepare"))
	n := len(w.events)
	w.do(func(d *decide.Deciding) { d.Unconfirmed(x.ID, "simulated") })
	w.emitted(n, "execution.unconfirmed", "run.paused")
	if s := w.status("paused"); s.DropReceipt || s.Outcome() != "unconfirmed_effect" || s.Stop.Category != "reconciliation" || s.Stop.ReasonCode != "DISPATCH_UNCONFIRMED" || s.Stop.Recovery != "reconcile" || s.Stop.Dispatch != "dispatched" {
		t.Errorf("drop %v, outcome %s, stop %+v", s.DropReceipt, s.Outcome(), s.Stop)
	}
	w.verify()
}

// TestSimulateIsRefused where nothing synthetic may happen (H-100, G-19).
func TestSimulateIsRefused(t *testing.T) {
	refuse := func(name string, w *world, event, want string) {
		t.Helper()
		n := len(w.events)
		if reason := w.simulate(event); reason != want {
			t.Errorf("%s, %s: %q, want %s", name, event, reason, want)
		}
		w.emitted(n)
	}
	for _, event := range simulated {
		refuse("hosted", ready(run.TargetHosted)(t), event, "RECOVERY_NOT_ELIGIBLE")
		refuse("hosted, dispatched", dispatched(run.TargetHosted, "prepare")(t), event, "RECOVERY_NOT_ELIGIBLE")
		refuse("created", bare(run.TargetLocal)(t), event, "RECOVERY_NOT_ELIGIBLE")
		refuse("running", receipted(run.TargetLocal, "item")(t), event, "RECOVERY_NOT_ELIGIBLE")
		refuse("dispatched", dispatched(run.TargetLocal, "item")(t), event, "UNRESOLVED_EFFECT")
		refuse("unknown effect", unknown(t), event, "UNRESOLVED_EFFECT")
		for status, stage := range ended {
			refuse(status, stage(t), event, "RECOVERY_NOT_ELIGIBLE")
		}
		full := permitted(run.TargetLocal, "item")(t).craft(func(s *run.State) { s.Events = 4801 })
		refuse("full", full, event, "TURN_LIMIT")
	}
	refuse("no permit", ready(run.TargetLocal)(t), "expire_permit", "RECOVERY_NOT_ELIGIBLE")
	refuse("no permit, paused", waiting(run.TargetLocal)(t), "expire_permit", "RECOVERY_NOT_ELIGIBLE")
	refuse("no approval", ready(run.TargetLocal)(t), "expire_approval", "RECOVERY_NOT_ELIGIBLE")
	lapsed := approved(run.TargetLocal)(t)
	if reason := lapsed.simulate("expire_approval"); reason != "" {
		t.Fatal(reason)
	}
	refuse("no approval any more", lapsed, "expire_approval", "RECOVERY_NOT_ELIGIBLE")
	refuse("no approval yet", waiting(run.TargetLocal)(t), "expire_approval", "RECOVERY_NOT_ELIGIBLE")
	refuse("paused", waiting(run.TargetLocal)(t), "provider_timeout", "RECOVERY_NOT_ELIGIBLE")
	w := ready(run.TargetLocal)(t)
	if out, err := w.attempt(func(d *decide.Deciding) { d.Simulate("earthquake") }); out != nil || rule(err) != "simulate-event" {
		t.Errorf("an unknown event: %v, %v", out, err)
	}
}

var simulateCases = []unlawfulCase{
	{rule: "simulate-target", name: "for a hosted run", stage: ready(run.TargetHosted), with: func(w *world) { w.forge(&run.Simulated{"navigate", "owner"}) }},
	{rule: "simulate-status", name: "after a revoke", stage: revoked, with: func(w *world) { w.forge(&run.Simulated{"navigate", "owner"}) }},
	{rule: "simulate-status", name: "in the middle of an attempt", stage: receipted(run.TargetLocal, "item"), with: func(w *world) { w.forge(&run.Simulated{"navigate", "owner"}) }},
	{rule: "simulate-status", name: "before the run is ready", stage: bare(run.TargetLocal), with: func(w *world) { w.forge(&run.Simulated{"navigate", "owner"}) }},
	{rule: "simulated-by", name: "by the agent", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.Simulated{"navigate", "agent"}) }},
	{rule: "simulate-unresolved", name: "while an effect is unknown", stage: unknown, with: func(w *world) { w.forge(&run.Simulated{"navigate", "owner"}) }},
	{rule: "simulate-permit", name: "no permit to expire", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.Simulated{"expire_permit", "owner"}) }},
	{rule: "simulate-event", name: "an unknown event", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.Simulated{"earthquake", "owner"}) }},
	{rule: "claim-stale", name: "of a permit from before a simulated change", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		p := w.read().Permit
		w.forge(&run.Simulated{"revise_state", "owner"}, &run.Claimed{p.ID, w.id(), 0})
	}},
	{rule: "claim-expired", name: "of a permit that was let expire", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		p := w.read().Permit
		w.forge(&run.Simulated{"expire_permit", "owner"}, &run.Claimed{p.ID, w.id(), 0})
	}},
	{rule: "unconfirmed-kind", name: "a local mutation whose receipt was not dropped", stage: dispatched(run.TargetLocal, "prepare"), with: func(w *world) {
		w.forge(&run.Unconfirmed{w.read().Execution.ID, "simulated"})
	}},
	{rule: "unconfirmed-kind", name: "a local read after a dropped receipt", stage: func(t rapid.TB) *world {
		w := begun(t, run.TargetLocal)
		w.simulate("drop_receipt")
		w.claim(w.permit("item"))
		return w
	}, with: func(w *world) { w.forge(&run.Unconfirmed{w.read().Execution.ID, "simulated"}) }},
}

// A lost receipt of the local service is this server's own doing, so the stop says
// runtime; what a store keeps to itself says hosted (G-02).
func TestSourceOfTheUnknown(t *testing.T) {
	for target, want := range map[string]string{run.TargetLocal: stopcontext.SourceRuntime, run.TargetHosted: stopcontext.SourceHosted} {
		w := before(target, "prepare")(t)
		if target == run.TargetLocal {
			w.do(func(d *decide.Deciding) {
				if denial := d.Simulate(run.SimulateDropReceipt); denial != nil {
					t.Fatal(denial)
				}
			})
		}
		x := w.claim(w.permit("prepare"))
		w.do(func(d *decide.Deciding) {
			if denial := d.Unconfirmed(x.ID, "timeout"); denial != nil {
				t.Fatal(denial)
			}
		})
		w.stop(stopcontext.CategoryReconciliation, want, authority.DispatchUnconfirmed, "reconcile", "dispatched")
	}
}

// Nothing is offered for approval when the grant that it would be within has ended.
func TestNoApprovalBeyondTheGrant(t *testing.T) {
	w, s := crafted(t, run.TargetLocal, run.StatusPaused, stopcontext.CategoryApproval, "none")
	s.Proposal.ExpiresAt = s.GrantsEnd() + 1
	if !slices.Contains(decide.Eligible(s, w.now, false), decide.RouteApprove) || slices.Contains(decide.Eligible(s, s.GrantsEnd(), false), decide.RouteApprove) {
		t.Errorf("eligible now %v, at the grant's end %v", decide.Eligible(s, w.now, false), decide.Eligible(s, s.GrantsEnd(), false))
	}
}
