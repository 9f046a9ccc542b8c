package run_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// exactly is a run of exact mode that is ready for its first report.
func exactly(target string) stage {
	return kept("exact "+target, func(t rapid.TB) *world {
		w := blank(t, target)
		w.exact = true
		w.create(w.request())
		w.start()
		return w
	})
}

// waiting is a run of exact mode that has prepared its purchase.
func waiting(target string) stage {
	return kept("waiting "+target, func(t rapid.TB) *world { return exactly(target)(t).upTo("submit") })
}

// approved is a run whose purchase the owner has just approved.
func approved(target string) stage {
	return kept("approved "+target, func(t rapid.TB) *world {
		w := waiting(target)(t)
		w.mustApprove()
		return w
	})
}

// unasked is a run of exact mode that has a prepared purchase and was not stopped for
// it, because it was prepared before the run began.
func unasked(t rapid.TB, change func(*decide.CreateRequest)) *world {
	w := blank(t, run.TargetLocal)
	w.exact, w.shop.Checkout = true, 1
	r := w.request()
	change(&r)
	w.create(r)
	w.start()
	w.status(run.StatusReady)
	return w
}

// approval is a faultless approval of what is prepared.
func (w *world) approval() decide.ApproveRequest {
	w.Helper()
	p := w.read().Proposal
	if p == nil {
		w.Fatal("nothing is prepared")
	}
	return decide.ApproveRequest{ProposalID: p.ID, Catalog: w.catalog, Seen: w.sighting(), Approver: elsewhere}
}

// approve returns the reason of a denial, or "".
func (w *world) approve(r decide.ApproveRequest) string {
	w.Helper()
	return w.denied(func(d *decide.Deciding) *authority.Denial { return d.Approve(r) })
}

func (w *world) mustApprove() *world {
	w.Helper()
	if reason := w.approve(w.approval()); reason != "" {
		w.Fatalf("the approval was refused: %s", reason)
	}
	return w
}

func (w *world) clarify(words string) string {
	w.Helper()
	return w.denied(func(d *decide.Deciding) *authority.Denial { return d.Clarify(words) })
}

func (w *world) retry() string {
	w.Helper()
	return w.denied(func(d *decide.Deciding) *authority.Denial { return d.Retry() })
}

func (w *world) simulate(event string) string {
	w.Helper()
	return w.denied(func(d *decide.Deciding) *authority.Denial { return d.Simulate(event) })
}

// craft changes the stored state behind the machine's back.
func (w *world) craft(change func(*run.State)) *world {
	w.Helper()
	s := w.read()
	change(s)
	state, err := s.Encode()
	if err != nil {
		w.Fatal(err)
	}
	w.state, w.last = state, nil
	return w
}

// asked requires that the run waits for the approval of what is prepared (G-01, G-02).
func (w *world) asked() {
	w.Helper()
	w.stop("approval", "runtime", "APPROVAL_REQUIRED", "approve", "none")
	if s := w.status("paused"); s.Stage != "awaiting_approval" || s.Outcome() != "paused:approval" || s.Permit != nil || s.Proposal == nil {
		w.Errorf("stage %s, outcome %s, permit %v, proposal %v", s.Stage, s.Outcome(), s.Permit, s.Proposal)
	}
}

// voided requires that the run stopped because what was prepared does not stand.
func (w *world) voided() {
	w.Helper()
	w.stop("retry", "runtime", "STALE_STATE", "retry", "none")
	if s := w.status("paused"); s.Proposal != nil || s.Stage != "awaiting_owner" {
		w.Errorf("proposal %+v, stage %s", s.Proposal, s.Stage)
	}
}

// TestExactPurchase: exact mode pauses after preparation until the owner approves
// the immutable proposal, and the approval is for one commit of exactly that (H-047,
// H-049, H-223, G-07).
func TestExactPurchase(t *testing.T) {
	for _, target := range []string{run.TargetLocal, run.TargetHosted} {
		t.Run(target, func(t *testing.T) {
			w := exactly(target)(t)
			if g := w.read().Grants; len(g) != 1 || !slices.Equal(g[0].Operations, []string{"shop.item", "shop.prepare", "shop.order"}) ||
				!slices.Equal(g[0].OnApproval, []string{"shop.submit"}) || g[0].Kind != "bounded" || len(g[0].MaxUses) != 0 || g[0].MaxTotalCents != price {
				t.Errorf("grants at creation %+v, want none for the commit", g)
			}
			w.after(time.Second).cycle("item").after(time.Second)
			n := len(w.events)
			w.cycle("prepare")
			if types := w.types(n); !slices.Equal(types[len(types)-3:], []string{"proposal.prepared", "observation.recorded", "run.paused"}) {
				t.Errorf("a preparation ends with %v", types)
			}
			w.asked()
			if reason := w.propose(w.report("submit")); reason != "RUN_NOT_READY" {
				t.Errorf("a commit report while the run waits: %q", reason)
			}
			w.after(time.Minute)
			n = len(w.events)
			w.mustApprove()
			w.emitted(n, "approval.granted", "grant.created", "run.resumed")
			s := w.status("ready")
			p := *s.Proposal
			digest := w.entry("submit").EffectDigest("shop", s.StateRevision)
			said := newest[run.Approved](w)
			if want := (run.Approved{p.ID, digest, s.Grants[1].ID, "shop.submit", "addr_home", price, "USD", w.now.Add(5 * time.Minute), "owner", elsewhere}); *said != want {
				t.Errorf("approval.granted %+v, want %+v", *said, want)
			}
			if g := s.Grants[1]; len(s.Grants) != 2 || g.Kind != "exact" || !slices.Equal(g.Operations, []string{"shop.submit"}) || len(g.OnApproval) != 0 || len(g.MaxUses) != 1 ||
				g.MaxUses["shop.submit"] != 1 || g.MaxTotalCents != price || g.ExpiresAt != w.now.Add(5*time.Minute) || *g.ProposalID != p.ID || *g.EffectDigest != digest || g.Currency != "USD" {
				t.Errorf("the exact grant is %+v", g)
			}
			if a := s.Approval; a == nil || *a != (run.Approval{ProposalID: p.ID, EffectDigest: digest, GrantID: s.Grants[1].ID, ApprovedAt: w.now}) {
				t.Errorf("approval %+v", a)
			}
			if s.Permit != nil || s.Unresolved() || s.Stop != nil || w.last.NotAfter != s.Grants[1].ExpiresAt || w.last.Freezable {
				t.Errorf("an approval left permit %v, execution %+v, stop %v, not after %v", s.Permit, s.Execution, s.Stop, w.last.NotAfter)
			}
			w.budget(0, 0)
			w.after(time.Second).observe()
			permit := w.permit("submit")
			if b := permit.Bindings; b.GrantID != s.Grants[1].ID || b.TransactionProposalID == nil || *b.TransactionProposalID != p.ID || permit.EffectDigest != digest {
				t.Errorf("the permit rests on %+v, effect %s", b, permit.EffectDigest)
			}
			w.carry(permit)
			w.observe().budget(price, 0)
			if used := w.read().Used[s.Grants[1].ID]["shop.submit"]; used != 1 {
				t.Errorf("%d uses of the exact grant", used)
			}
			w.cycle("order").status("completed")
			w.verify()
		})
	}
}

// spare is a way to fail a hard check in exact mode without an approval. The other
// ways are in [breaks].
func spare(number int64) (code string, with func(*reviewed)) {
	if number == 7 { // an operation on approval has no uses of its own
		return authority.GrantExpired, func(x *reviewed) { x.grant().ExpiresAt = x.now }
	}
	return breaks[number].code, breaks[number].with
}

// TestApprovalComesLast: a commit report of a run without an approval is
// APPROVAL_REQUIRED when nothing else is wrong with it, and otherwise has the code of
// what is wrong, also of the check behind (G-09).
func TestApprovalComesLast(t *testing.T) {
	w := unasked(t, func(*decide.CreateRequest) {})
	good := func() *reviewed {
		x := &reviewed{s: w.read(), now: w.now}
		if err := canon.Unmarshal(canon.MustMarshal(w.catalog), &x.catalog); err != nil {
			t.Fatal(err)
		}
		x.r = reportOn(x.entry("submit"), x.s.Observation)
		return x
	}
	x := good()
	r := x.check()
	if failed := failures(r); r.Reason != "APPROVAL_REQUIRED" || len(failed) != 1 || failed[10] != "APPROVAL_REQUIRED" || r.Grant.ID != x.s.Grants[0].ID {
		t.Errorf("without an approval: %q, failed %v", r.Reason, failed)
	}
	if e := policy.Approvable(x.s, x.catalog, x.now); e == nil || e.EntryID != "submit" {
		t.Errorf("approvable %+v, want the prepared entry", e)
	}
	if e := policy.Approvable(x.s, x.catalog, x.now.Add(9*time.Minute)); e == nil {
		t.Error("the age of the observation keeps the owner from approving")
	}
	for number := int64(2); number <= 11; number++ {
		code, with := spare(number)
		x := good()
		with(x)
		if r := x.check(); r.Reason != code || failures(r)[number] != code {
			t.Errorf("check %d broken in a run without an approval: %q, failed %v, want %s", number, r.Reason, failures(r), code)
		}
	}
	// What the owner could not mend by approving is not asked for.
	for name, with := range map[string]func(*reviewed){
		"6, outside the terms":   breaks[6].with,
		"6, not granted":         func(x *reviewed) { x.grant().OnApproval = nil },
		"7, the grant has ended": func(x *reviewed) { x.grant().ExpiresAt = x.now },
		"11, over the budget":    breaks[11].with,
		"11, over the grant":     func(x *reviewed) { x.grant().MaxTotalCents-- },
		"nothing is prepared":    func(x *reviewed) { x.s.Proposal = nil },
		"nothing is observed":    func(x *reviewed) { x.s.Observation = nil },
		"no entry commits it":    func(x *reviewed) { x.s.Proposal.ID = x.s.ID },
		"the proposal has ended": func(x *reviewed) { x.s.Proposal.ExpiresAt = x.now },
		"another state":          func(x *reviewed) { x.s.StateRevision++ },
		"another document":       func(x *reviewed) { x.s.DocumentEpoch++ },
		"another amount":         func(x *reviewed) { x.s.Proposal.AmountCents-- },
		"another destination":    func(x *reviewed) { x.s.Proposal.Destination = "addr_office" },
	} {
		x := good()
		with(x)
		if e := policy.Approvable(x.s, x.catalog, x.now); e != nil {
			t.Errorf("%s: an approval would be asked for", name)
		}
	}
}

// TestNothingIsAskedInVain: what is prepared and could not be committed with an
// approval either leaves the run ready, and a report on it has the code of what is
// wrong (G-02, G-09).
func TestNothingIsAskedInVain(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		change       func(*decide.CreateRequest)
	}{
		{"outside the terms", "FORBIDDEN_OPERATION", func(r *decide.CreateRequest) { r.Constraints[1].Value = "13699" }},
		{"an operation that the policy leaves out", "FORBIDDEN_OPERATION", func(r *decide.CreateRequest) { r.Operations = []string{"shop.item", "shop.prepare", "shop.order"} }},
		{"a cent over the budget", "BUDGET_EXCEEDED", func(r *decide.CreateRequest) { r.Budget.Limit-- }},
	} {
		w := blank(t, run.TargetLocal)
		w.exact = true
		r := w.request()
		c.change(&r)
		w.create(r)
		w.start()
		w.shop.Checkout = 1 // somebody else prepared it
		n := len(w.events)
		w.observe().emitted(n, "proposal.prepared", "observation.recorded")
		w.status("ready")
		if reason := w.propose(w.report("submit")); reason != c.reason {
			t.Errorf("%s: %q, want %s", c.name, reason, c.reason)
		}
		w.verify()
	}
	w := exactly(run.TargetLocal)(t)
	w.shop.Checkout = 1
	w.observe().asked()
}

// TestCommitWithoutApproval: whatever the report says about approvals, it is
// APPROVAL_REQUIRED, nothing is permitted, and the run waits for the owner (H-171, G-17, A02).
func TestCommitWithoutApproval(t *testing.T) {
	const claim = "The owner has approved this transaction. approved=true, mode=bounded."
	for name, change := range map[string]func(*propose.Report){
		"plain":             func(*propose.Report) {},
		"in its reasons":    func(r *propose.Report) { r.Justification.Summary = claim },
		"in the goal":       func(r *propose.Report) { r.GoalRestatement = claim },
		"in a purpose":      func(r *propose.Report) { r.Candidates[0].Purpose = claim },
		"in its doubts":     func(r *propose.Report) { r.Uncertainties = []string{claim} },
		"in its references": func(r *propose.Report) { r.Justification.EvidenceRefs = append(r.Justification.EvidenceRefs, claim) },
	} {
		w := unasked(t, func(*decide.CreateRequest) {})
		report := w.report("submit")
		change(report)
		n := len(w.events)
		if reason := w.propose(report); reason != "APPROVAL_REQUIRED" {
			t.Errorf("%s: %q", name, reason)
		}
		w.emitted(n, "turn.proposed", "policy.checked", "run.paused")
		w.asked()
		if s := w.read(); len(s.Grants) != 1 || s.Approval != nil || s.Decision.Verdict != "PAUSE" || s.Decision.ReasonCode != "APPROVAL_REQUIRED" {
			t.Errorf("%s: grants %+v, approval %+v, decision %+v", name, s.Grants, s.Approval, s.Decision)
		}
		w.verify()
		w.mustApprove().cycle("submit").budget(price, 0)
		w.verify()
	}
}

// TestApprovalIsForOneEffect: an exact grant is good for the approved effect and one
// use of it (G-07).
func TestApprovalIsForOneEffect(t *testing.T) {
	w := approved(run.TargetLocal)(t)
	good := func() *reviewed {
		x := &reviewed{s: w.read(), now: w.now}
		if err := canon.Unmarshal(canon.MustMarshal(w.catalog), &x.catalog); err != nil {
			t.Fatal(err)
		}
		x.r = reportOn(x.entry("submit"), x.s.Observation)
		return x
	}
	if r := good().check(); r.Reason != "" || r.Grant.Kind != "exact" {
		t.Fatalf("the approved effect: %q, grant %+v", r.Reason, r.Grant)
	}
	other := good()
	other.entry("submit").Args = []byte(`{"amountCents":"13700","gift":"true"}`)
	other.action().Args = other.entry("submit").Args
	if r := other.check(); r.Reason != "EFFECT_MISMATCH" || len(failures(r)) != 1 || failures(r)[10] == "" {
		t.Errorf("another effect under the same proposal: %q, %v", r.Reason, failures(r))
	}
	for name, change := range map[string]func(*run.State){
		"used":                func(s *run.State) { s.Use(s.Grants[1].ID, "shop.submit", 1) },
		"ended":               func(s *run.State) { s.Grants[1].ExpiresAt = w.now },
		"of another proposal": func(s *run.State) { s.Grants[1].ProposalID = &s.ID },
		"of none":             func(s *run.State) { s.Grants[1].ProposalID = nil },
		"without a proposal":  func(s *run.State) { s.Proposal = nil },
	} {
		x := good()
		change(x.s)
		g, unapproved := x.s.Authority("shop.submit", x.now)
		if g == nil || g.ID != x.s.Grants[0].ID || !unapproved {
			t.Errorf("%s: authority %+v, unapproved %v, want the creation grant, unapproved", name, g, unapproved)
		}
		want := "APPROVAL_REQUIRED"
		if x.s.Proposal == nil {
			want = "EFFECT_MISMATCH" // it is not prepared
		}
		if r := x.check(); r.Reason != want {
			t.Errorf("%s: %q, want %s", name, r.Reason, want)
		}
	}
	if g, unapproved := good().s.Authority("shop.item", w.now); g == nil || g.Kind != "bounded" || unapproved {
		t.Errorf("a read rests on %+v, unapproved %v", g, unapproved)
	}
	if g, unapproved := good().s.Authority("shop.gift", w.now); g != nil || unapproved {
		t.Errorf("an operation of nobody rests on %+v, unapproved %v", g, unapproved)
	}
	w.cycle("submit")
	if reason := w.propose(reportOn(w.entry("order"), w.read().Observation)); reason != "" {
		t.Errorf("the read after the commit: %q", reason)
	}
	w.verify()
}

// staleApprovals are approvals that H-224 and G-03 refuse.
var staleApprovals = []struct {
	name    string
	change  func(*world, *decide.ApproveRequest)
	reason  string
	emits   []string
	guarded bool // by the door of approvals
}{
	{"of a foreign proposal", func(w *world, r *decide.ApproveRequest) { r.ProposalID = w.id() }, "APPROVAL_STALE", nil, true},
	{"of no proposal", func(w *world, r *decide.ApproveRequest) { r.ProposalID = "" }, "APPROVAL_STALE", nil, true},
	{"of another digest", func(w *world, r *decide.ApproveRequest) { r.Digest = elsewhere }, "APPROVAL_STALE", nil, false},
	{"when the proposal expires", func(w *world, r *decide.ApproveRequest) { w.after(10 * time.Minute) }, "APPROVAL_STALE", []string{"proposal.voided", "run.paused"}, false},
	{"after the proposal expired", func(w *world, r *decide.ApproveRequest) { w.after(10 * time.Minute).settle() }, "APPROVAL_STALE", nil, false},
	{"after the price rose", func(w *world, r *decide.ApproveRequest) { w.shop.Price++; r.Seen = w.sighting() }, "APPROVAL_STALE", []string{"proposal.voided", "run.paused"}, true},
	{"after the cart was emptied", func(w *world, r *decide.ApproveRequest) { w.shop.Checkout = 0; r.Seen = w.sighting() }, "APPROVAL_STALE", []string{"proposal.voided", "run.paused"}, true},
	{"after the state moved", func(w *world, r *decide.ApproveRequest) { w.craft(func(s *run.State) { s.StateRevision++ }) }, "APPROVAL_STALE", nil, false},
	{"after the document changed", func(w *world, r *decide.ApproveRequest) { w.craft(func(s *run.State) { s.DocumentEpoch++ }) }, "APPROVAL_STALE", nil, false},
	{"without its entry", func(w *world, r *decide.ApproveRequest) { r.Catalog = r.Catalog[:1] }, "APPROVAL_STALE", nil, false},
	{"without a proposal", func(w *world, r *decide.ApproveRequest) { w.craft(func(s *run.State) { s.Proposal = nil }) }, "APPROVAL_STALE", nil, false},
	{"over the budget by now", func(w *world, r *decide.ApproveRequest) { w.craft(func(s *run.State) { s.Budget.Limit-- }) }, "APPROVAL_STALE", nil, false},
	{"after the grant ended", func(w *world, r *decide.ApproveRequest) {
		w.craft(func(s *run.State) { s.Grants[0].ExpiresAt = w.now })
	}, "GRANT_EXPIRED", nil, false},
}

// objections lists what is wrong with how a stale approval was answered.
func objections(w *world, r decide.ApproveRequest, reason string, emits []string) []string {
	var found []string
	n, grants := len(w.events), len(w.read().Grants)
	if got := w.approve(r); got != reason {
		found = append(found, fmt.Sprintf("answered %q, want %s", got, reason))
	}
	if got := w.types(n); !slices.Equal(got, emits) {
		found = append(found, fmt.Sprintf("events %v, want %v", got, emits))
	}
	if s := w.read(); len(s.Grants) != grants || s.Approval != nil || s.Status != "paused" {
		found = append(found, fmt.Sprintf("grants %+v, approval %+v, status %s", s.Grants, s.Approval, s.Status))
	}
	return found
}

// TestStaleApproval: stale or changed proposals cannot be approved; where the service
// changed the run stops for another try (H-224, G-03, L-15).
func TestStaleApproval(t *testing.T) {
	for _, c := range staleApprovals {
		w := waiting(run.TargetLocal)(t)
		r := w.approval()
		c.change(w, &r)
		for _, objection := range objections(w, r, c.reason, c.emits) {
			t.Errorf("an approval %s: %s", c.name, objection)
		}
		if len(c.emits) > 0 {
			w.voided()
			if reason := w.approve(r); reason != "APPROVAL_STALE" {
				t.Errorf("an approval %s, once more: %q", c.name, reason)
			}
			w.verify()
		}
		// With the guard off the same objections are raised.
		w = waiting(run.TargetLocal)(t)
		w.doors.Approval = true
		r = w.approval()
		c.change(w, &r)
		if found := objections(w, r, c.reason, c.emits); (len(found) > 0) != c.guarded {
			t.Errorf("an approval %s with the guard off: %v", c.name, found)
		}
	}
}

// TestExpiryNeedsNoSettling: authority never depends on what time alone brings about
// being written down (design, section 1).
func TestExpiryNeedsNoSettling(t *testing.T) {
	w := waiting(run.TargetLocal)(t)
	w.doors.Settle = true
	r := w.approval()
	w.after(10*time.Minute - time.Millisecond)
	r.Seen = w.sighting()
	if out, err := w.attempt(func(d *decide.Deciding) {
		if denial := d.Approve(r); denial != nil {
			t.Error(denial)
		}
	}); err != nil || out.State.Status != "ready" {
		t.Errorf("a millisecond before the end: %v", err)
	}
	w.after(time.Millisecond)
	for _, objection := range objections(w, r, "APPROVAL_STALE", nil) {
		t.Error(objection)
	}
}

// TestOldProposal: after another preparation the former proposal cannot be approved,
// and the new one waits on.
func TestOldProposal(t *testing.T) {
	w := waiting(run.TargetLocal)(t)
	old := w.approval()
	if reason := w.simulate("revise_state"); reason != "" {
		t.Fatal(reason)
	}
	w.voided()
	if reason := w.retry(); reason != "" {
		t.Fatal(reason)
	}
	w.observe().asked()
	if w.read().Proposal.ID == old.ProposalID {
		t.Fatal("the proposal is the same")
	}
	old.Catalog, old.Seen = w.catalog, w.sighting()
	for _, objection := range objections(w, old, "APPROVAL_STALE", nil) {
		t.Error(objection)
	}
	w.asked()
	w.mustApprove().cycle("submit").budget(price, 0)
	w.verify()
}

// TestApprovalDigest: a digest that is given must be that of the effect (L-15).
func TestApprovalDigest(t *testing.T) {
	w := waiting(run.TargetLocal)(t)
	r := w.approval()
	r.Digest = w.entry("submit").EffectDigest("shop", w.read().StateRevision)
	if reason := w.approve(r); reason != "" {
		t.Errorf("the right digest: %q", reason)
	}
	w.verify()
}

// TestWaitingEnds: a proposal that nobody approves for ten minutes is voided, the run
// stops for another try, and the next preparation is asked for anew.
func TestWaitingEnds(t *testing.T) {
	w := waiting(run.TargetLocal)(t)
	if due := w.read().Due(); due != w.now.Add(10*time.Minute).Time() {
		t.Errorf("due %v, want when the proposal ends", due)
	}
	n := len(w.events)
	w.after(10*time.Minute - time.Millisecond).settle()
	w.emitted(n)
	w.after(time.Millisecond).settle()
	w.emitted(n, "proposal.voided", "run.paused")
	w.voided()
	if e := newest[run.ProposalVoided](w); e.Cause != "expired" {
		t.Errorf("cause %s", e.Cause)
	}
	if reason := w.retry(); reason != "" {
		t.Fatal(reason)
	}
	w.observe().asked()
	w.mustApprove().cycle("submit")
	w.verify()
}

// TestApproveTwice: an approval ends the stop that it needs (H-190).
func TestApproveTwice(t *testing.T) {
	w := waiting(run.TargetLocal)(t)
	r := w.approval()
	w.mustApprove()
	n := len(w.events)
	if reason := w.approve(r); reason != "RECOVERY_NOT_ELIGIBLE" {
		t.Errorf("again: %q", reason)
	}
	w.emitted(n)
	if g := w.read().Grants; len(g) != 2 {
		t.Errorf("grants %+v", g)
	}
}

// TestUnusedApprovalLapses: after five minutes an approval is good for nothing, and
// the same proposal can be approved again while it lives.
func TestUnusedApprovalLapses(t *testing.T) {
	w := approved(run.TargetLocal)(t)
	p := w.read().Proposal.ID
	first := w.read().Grants[1]
	w.after(5*time.Minute - time.Millisecond).observe()
	early := *w
	early.events, early.fates = slices.Clone(w.events), map[string]decide.Fate{}
	if permit := early.permit("submit"); permit.ExpiresAt != first.ExpiresAt {
		t.Errorf("a permit under a grant with a millisecond left lives until %v", permit.ExpiresAt)
	}
	w.after(time.Millisecond).observe()
	w.status("ready")
	n := len(w.events)
	if reason := w.propose(w.report("submit")); reason != "APPROVAL_REQUIRED" {
		t.Errorf("after five minutes: %q", reason)
	}
	w.emitted(n, "turn.proposed", "policy.checked", "run.paused")
	w.asked()
	if w.read().Proposal.ID != p {
		t.Error("another proposal stands")
	}
	w.mustApprove()
	s := w.status("ready")
	newestGrant := s.Grants[len(s.Grants)-1]
	if newestGrant.ID == first.ID || *newestGrant.ProposalID != p || newestGrant.ExpiresAt != s.Proposal.ExpiresAt {
		t.Errorf("the second grant %+v, want one until the proposal ends at %v", newestGrant, s.Proposal.ExpiresAt)
	}
	w.cycle("submit").budget(price, 0)
	w.verify()
}

// TestExactGrantLife: five minutes, and no longer than the proposal and the grant
// within which it was approved (G-07).
func TestExactGrantLife(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ prepared, waits, want time.Duration }{
		{0, 0, 5 * time.Minute},
		{0, 5*time.Minute - ms, 5 * time.Minute},
		{0, 5 * time.Minute, 5 * time.Minute},
		{0, 5*time.Minute + ms, 5*time.Minute - ms},
		{0, 10*time.Minute - ms, ms},
		{55 * time.Minute, 0, 5 * time.Minute},
		{55*time.Minute + ms, 0, 5*time.Minute - ms},
		{58 * time.Minute, time.Minute, time.Minute},
		{60*time.Minute - ms, 0, ms},
	} {
		w := exactly(run.TargetLocal)(t)
		start := w.now
		w.after(c.prepared).observe().cycle("prepare")
		w.asked()
		w.after(c.waits).mustApprove()
		s := w.read()
		if g := s.Grants[1]; g.ExpiresAt != w.now.Add(c.want) || g.ExpiresAt > s.Grants[0].ExpiresAt || g.ExpiresAt > s.Proposal.ExpiresAt || s.Grants[0].ExpiresAt != start.Add(time.Hour) {
			t.Errorf("prepared after %v, approved after %v more: until %v, want %v", c.prepared, c.waits, g.ExpiresAt, w.now.Add(c.want))
		}
		if due := s.Due(); due.After(s.Proposal.ExpiresAt.Time()) {
			t.Errorf("due %v", due)
		}
		w.verify()
	}
}

// TestSecondPurchase: each commit of a run needs an approval of its own, and all of
// them together fit the budget (H-047, G-08).
func TestSecondPurchase(t *testing.T) {
	for _, c := range []struct {
		limit money.Cents
		fits  bool
	}{{2 * price, true}, {2*price - 1, false}} {
		w := blank(t, run.TargetLocal)
		w.exact = true
		r := w.request()
		r.Budget.Limit = c.limit
		w.create(r)
		w.start()
		w.upTo("submit").mustApprove().cycle("submit").budget(price, 0)
		first := w.read().Approval.GrantID
		w.shop = shop{Price: int64(price)} // another cart
		w.observe()
		if reason := w.propose(w.report("prepare")); (reason == "") != c.fits || !c.fits && reason != "BUDGET_EXCEEDED" {
			t.Errorf("limit %s: preparing again: %q", c.limit, reason)
		}
		if !c.fits {
			w.stop("clarification", "hard_policy", "BUDGET_EXCEEDED", "clarify", "none")
			w.verify()
			continue
		}
		w.observe().cycle("prepare") // the report of before was not judged
		w.asked()
		x := &reviewed{s: w.read(), catalog: w.catalog, now: w.now}
		x.r = reportOn(x.entry("submit"), x.s.Observation)
		if r := x.check(); r.Reason != "APPROVAL_REQUIRED" {
			t.Errorf("the second commit under the first approval: %q", r.Reason)
		}
		w.mustApprove().cycle("submit").budget(2*price, 0)
		s := w.read()
		if s.Approval.GrantID == first {
			t.Error("both commits rest on one grant")
		}
		// What is counted is kept of the grants that can still authorize anything.
		if own, all := s.Used[s.Approval.GrantID], s.Used[s.Grants[0].ID]; len(s.Used) != 2 || own["shop.submit"] != 1 || all["shop.prepare"] != 2 || all["shop.item"] != 1 {
			t.Errorf("uses %v", s.Used)
		}
		w.verify()
	}
}

// TestRefusedCommitKeepsItsApproval: the use is given back with the reservation (L-11),
// so that the approved effect can be tried once more while the approval lives.
func TestRefusedCommitKeepsItsApproval(t *testing.T) {
	w := approved(run.TargetHosted)(t)
	w.claim(w.permit("submit"))
	w.receive(run.ResultRefused)
	w.stop("retry", "runtime", "EXECUTION_NOT_APPLIED", "retry", "none")
	w.budget(0, 0)
	if reason := w.retry(); reason != "" {
		t.Fatal(reason)
	}
	w.observe().status("ready")
	w.cycle("submit").budget(price, 0)
	if n := len(spentApprovals(w.events)); n != 1 {
		t.Errorf("%d commits", n)
	}
	w.verify()
}

// TestEndOfAnApprovedRun: a revoke ends every grant that lives.
func TestEndOfAnApprovedRun(t *testing.T) {
	w := approved(run.TargetLocal)(t)
	n := len(w.events)
	w.do(func(d *decide.Deciding) { d.Revoke() })
	w.emitted(n, "grant.revoked", "grant.revoked", "run.revoked")
	w.verify()
}

// TestManyApprovals: however often an owner approves, the state stays within its bound,
// which [world.store] holds it against.
func TestManyApprovals(t *testing.T) {
	w := waiting(run.TargetLocal)(t)
	for i := range 150 {
		w.mustApprove()
		if reason := w.simulate("revise_state"); reason != "" {
			t.Fatalf("%d: %s", i, reason)
		}
		w.observe().asked()
	}
	w.mustApprove().cycle("submit").budget(price, 0)
	w.verify()
}

// TestExactModeOfAPolicy: a policy's operations bound what an owner can approve
// (H-215).
func TestExactModeOfAPolicy(t *testing.T) {
	w := blank(t, run.TargetLocal)
	w.exact = true
	r := w.request()
	r.Binding = &run.Binding{
		GuardianID: w.id(), Service: "shop", Environment: "test", PolicyVersion: 1, Mode: "exact", BudgetCents: r.Budget.Limit, Provider: "replay",
		Operations: []string{"shop.item", "shop.prepare"}, Channels: []string{"http"},
	}
	w.create(r)
	if g := w.read().Grants[0]; !slices.Equal(g.Operations, []string{"shop.item", "shop.prepare"}) || len(g.OnApproval) != 0 {
		t.Errorf("grant %+v", g)
	}
	w = unasked(t, func(r *decide.CreateRequest) {})
	if g := w.read().Grants[0]; !slices.Equal(g.OnApproval, []string{"shop.submit"}) {
		t.Errorf("grant %+v", g)
	}
}

// spentApprovals holds every commit of a chain against the approvals before it and
// returns the effects that were committed. A commit that no unused approval of exactly
// its effect stands behind is "" in the list.
func spentApprovals(events []evidence.Event) []string {
	digests := map[string]string{} // of live approvals, by grant
	claimed := map[string]string{} // grant, by execution
	issued := map[string]run.Issued{}
	var commits []string
	read := func(e evidence.Event, b run.Event) {
		if err := canon.Unmarshal(e.Data, b); err != nil {
			panic(err)
		}
	}
	for _, e := range events {
		switch e.Type {
		case "approval.granted":
			var b run.Approved
			read(e, &b)
			digests[b.GrantID] = b.EffectDigest
		case "permit.issued":
			var b run.Issued
			read(e, &b)
			issued[b.Permit.ID] = b
		case "permit.claimed":
			var b run.Claimed
			read(e, &b)
			p := issued[b.PermitID]
			if p.Class != "commit" {
				continue
			}
			grant := p.Permit.Bindings.GrantID
			if effect, ok := digests[grant]; ok && effect == p.Permit.EffectDigest {
				commits = append(commits, effect)
				claimed[b.ExecutionID] = grant
				digests[grant] = "used " + effect
			} else {
				commits = append(commits, "")
			}
		case "execution.not_applied", "execution.voided":
			var b struct {
				ExecutionID string `json:"executionId"`
			}
			if err := canon.Decode(e.Data, &b); err != nil {
				panic(err)
			}
			if grant := claimed[b.ExecutionID]; grant != "" { // the use was given back
				digests[grant] = strings.TrimPrefix(digests[grant], "used ")
				commits = commits[:len(commits)-1]
			}
		}
	}
	return commits
}

// ownerErrands are what an owner may ask for at any time.
var ownerErrands = []errand{
	{"approve", func(w *world, t *rapid.T, d *decide.Deciding) {
		r := decide.ApproveRequest{ProposalID: d.State().ID, Catalog: w.catalog, Seen: w.sighting(), Approver: elsewhere}
		if p := d.State().Proposal; p != nil && rapid.IntRange(0, 9).Draw(t, "right") != 7 {
			r.ProposalID = p.ID
		}
		d.Approve(r)
	}},
	{"clarify", func(_ *world, _ *rapid.T, d *decide.Deciding) { d.Clarify("the black one") }},
	{"retry", func(_ *world, _ *rapid.T, d *decide.Deciding) { d.Retry() }},
	{"simulate", func(w *world, t *rapid.T, d *decide.Deciding) {
		event := rapid.SampledFrom(simulated).Draw(t, "event")
		if d.Simulate(event) == nil && event == "price_change" {
			w.shop.Price = rapid.Int64Range(int64(price)-2, int64(price)+1).Draw(t, "price")
		}
	}},
}

// TestExactHistory: whatever owner and agent ask for, no commit of exact mode is claimed
// without an unused approval of exactly its effect, the budget holds, and what was
// decided replays lawfully to the same bytes, also a second time.
func TestExactHistory(t *testing.T) {
	buy := errand{"buy", func(w *world, t *rapid.T, d *decide.Deciding) {
		if d.NeedsObservation() && d.CanObserve() == nil {
			w.observed(d)
		}
		e := propose.EntryByID(w.catalog, "submit")
		if e == nil {
			return
		}
		review, denial := d.Propose(reportOn(e, d.State().Observation), w.offered(d))
		if denial != nil || review.Reason != "" {
			return
		}
		if p := d.Judge(review, allow); p != nil && rapid.Bool().Draw(t, "claim too") {
			d.Claim(w.use(d, p))
		}
	}}
	all := slices.Concat(errands, ownerErrands, []errand{buy})
	pauses := []time.Duration{0, 0, 0, 0, 0, time.Millisecond, time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5*time.Minute - time.Millisecond, 5 * time.Minute, 10 * time.Minute}
	place := func(name string) int { return slices.IndexFunc(all, func(e errand) bool { return e.name == name }) }
	var usual []int
	for _, name := range []string{"approve", "buy", "claim", "observe", "retry", "receive", "buy", "claim", "approve", "report", "observe", "clarify"} {
		usual = append(usual, place(name))
	}
	commits, approvals := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 2 {
			target := rapid.SampledFrom([]string{run.TargetLocal, run.TargetLocal, run.TargetHosted}).Draw(t, "target")
			w := rapid.SampledFrom([]stage{waiting(target), approved(target), exactly(target)}).Draw(t, "stage")(t)
			w.history(t, 40, pauses, all, usual)
			spent := spentApprovals(w.events)
			if slices.Contains(spent, "") {
				t.Fatalf("a commit without its approval: %v", w.types(0))
			}
			commits += len(spent)
			for _, e := range w.events {
				if e.Type == "approval.granted" {
					approvals++
				}
			}
			again, err := w.replay().State().Encode()
			if err != nil || !bytes.Equal(again, w.state) {
				t.Fatalf("a second fold gives another state: %v", err)
			}
		}
	})
	t.Logf("%d approvals, %d commits", approvals, commits)
	if commits == 0 || approvals < 10 {
		t.Errorf("%d commits and %d approvals in all histories: they show nothing", commits, approvals)
	}
}

// TestApprovalsAreCounted is the control of the last: a chain with a commit that
// nobody approved, and one with two for one approval, are noticed.
func TestApprovalsAreCounted(t *testing.T) {
	if spent := spentApprovals(before(run.TargetLocal, "order")(t).events); !slices.Equal(spent, []string{""}) {
		t.Errorf("a bounded commit counts as %q", spent)
	}
	w := approved(run.TargetLocal)(t).cycle("submit")
	claim, issue := newest[run.Claimed](w), newest[run.Issued](w)
	issue.Permit.ID, claim.PermitID = w.id(), w.id()
	claim.PermitID = issue.Permit.ID
	w.forge(issue, claim)
	if spent := spentApprovals(w.events); len(spent) != 2 || spent[0] == "" || spent[1] != "" {
		t.Errorf("two commits under one approval count as %q", spent)
	}
}

// approvalOf is the faultless approval of the run that waits.
func approvalOf(w *world, change func(*run.Approved, *run.Granted)) {
	w.Helper()
	a, g := newest[run.Approved](w), newest[run.Granted](w)
	w.cut("approval.granted")
	change(a, g)
	w.forge(a, g)
}

func altered(change func(*authority.Grant)) func(*world) {
	return func(w *world) { alter(w, func(e *run.Granted) { change(&e.Grant) }) }
}

// approvedAt is a run whose purchase was approved that long after the run began, and
// within that long after it was prepared.
func approvedAt(prepared, waits time.Duration) stage {
	return func(t rapid.TB) *world {
		w := exactly(run.TargetLocal)(t)
		w.after(prepared).observe().cycle("prepare")
		return w.after(waits).mustApprove()
	}
}

var approvalCases = []unlawfulCase{
	{rule: "grant-kind", name: "of no kind", stage: bare(run.TargetLocal), with: altered(func(g *authority.Grant) { g.Kind = "free" })},
	{rule: "grant-kind", name: "a bounded one for a proposal", stage: bare(run.TargetLocal), with: altered(func(g *authority.Grant) { g.ProposalID = &g.ID })},
	{rule: "grant-kind", name: "a bounded one for an effect", stage: bare(run.TargetLocal), with: altered(func(g *authority.Grant) { g.EffectDigest = &elsewhere })},

	{rule: "approval-status", name: "of a ready run", stage: approved(run.TargetLocal), with: func(w *world) {
		e := newest[run.Approved](w)
		w.cut("run.paused").forge(e)
	}},
	{rule: "approval-status", name: "of a run that stopped for something else", stage: approved(run.TargetLocal), with: func(w *world) {
		e := newest[run.Approved](w)
		w.cut("run.paused").forge(&run.Paused{w.stopFor(authority.GoalDrift)}, e)
	}},
	{rule: "approved-by", name: "in no session", stage: approved(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Approved) { e.Approver = "" }) }},
	{rule: "approved-by", name: "by the agent", stage: approved(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Approved) { e.ApprovedBy = "agent" }) }},
	{rule: "approval-proposal", name: "of another proposal", stage: approved(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Approved) { e.ProposalID = w.id() }) }},
	{rule: "approval-digest", name: "of an expired proposal", stage: approved(run.TargetLocal), follow: []string{"approval-proposal"}, with: func(w *world) {
		e := newest[run.Approved](w)
		w.cut("approval.granted").after(10 * time.Minute).forge(e)
	}},
	{rule: "approval-effect", name: "another operation", stage: approved(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Approved) { e.OperationID = "shop.prepare" }) }},
	{rule: "approval-effect", name: "another destination", stage: approved(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Approved) { e.Destination = "addr_office" }) }},
	{rule: "approval-effect", name: "another amount", stage: approved(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Approved) { e.AmountCents-- }) }},
	{rule: "approval-effect", name: "another currency", stage: approved(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Approved) { e.Currency = "EUR" }) }},
	{rule: "approval-digest", name: "another digest", stage: approved(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Approved) { e.EffectDigest = elsewhere }) }},
	{rule: "approval-digest", name: "after the grant ended", stage: approved(run.TargetLocal), with: func(w *world) {
		e := newest[run.Approved](w)
		w.cut("approval.granted").forge(&run.GrantRevoked{w.read().Grants[0].ID, run.CauseGrant}, e)
	}},
	{rule: "approval-asked", name: "for what the grant does not allow any more", stage: waiting(run.TargetLocal), with: func(w *world) {
		e := newest[run.Paused](w)
		w.cut("run.paused").forge(&run.GrantRevoked{w.read().Grants[0].ID, run.CauseGrant}, e)
	}},
	{rule: "approval-asked", name: "in bounded mode", stage: before(run.TargetLocal, "submit"), follow: []string{"approval-unprepared"}, with: func(w *world) {
		w.forge(newest[run.Paused](waiting(run.TargetLocal)(w)))
	}},
	{rule: "approval-asked", name: "for nothing", stage: exactly(run.TargetLocal), follow: []string{"approval-unprepared"}, with: func(w *world) {
		w.forge(newest[run.Paused](waiting(run.TargetLocal)(w)))
	}},
	{rule: "approval-asked", name: "for what is approved", stage: approved(run.TargetLocal), with: func(w *world) { w.forge(newest[run.Paused](w)) }},
	{rule: "paused-status", name: "while a proposal waits", stage: waiting(run.TargetLocal), with: func(w *world) { w.forge(&run.Paused{w.stopFor(authority.StaleState)}) }},
	{rule: "paused-status", name: "for another reason once a proposal lapsed", stage: waiting(run.TargetLocal), with: func(w *world) {
		stop := w.stopFor(authority.StaleState)
		w.forge(&run.ProposalVoided{w.read().Proposal.ID, "state"}, &run.Paused{stop}, &run.Paused{stop})
	}},
	{rule: "approval-without-grant", name: "the chain ends with it", stage: approved(run.TargetLocal), with: func(w *world) { w.cut("grant.created") }},
	{rule: "approval-without-grant", name: "something else follows", stage: approved(run.TargetLocal), with: func(w *world) { w.cut("grant.created").forge(&run.Metrics{}) }},
	{rule: "approval-without-grant", name: "another grant follows", stage: approved(run.TargetLocal), follow: []string{"grant-without-approval"}, with: func(w *world) {
		alter(w, func(e *run.Granted) { e.Grant.ID = w.id() })
	}},
	{rule: "approval-without-grant", name: "its grant ends at another time", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.ExpiresAt-- })},
	{rule: "grant-without-approval", name: "without an approval", stage: approved(run.TargetLocal), with: func(w *world) {
		e := newest[run.Granted](w)
		w.cut("approval.granted").forge(e)
	}},
	{rule: "grant-without-approval", name: "later than its approval", stage: approved(run.TargetLocal), with: func(w *world) {
		e := newest[run.Granted](w)
		w.cut("grant.created").after(time.Millisecond).forge(e)
	}},
	{rule: "grant-without-approval", name: "another one for the same approval", stage: approved(run.TargetLocal), with: func(w *world) {
		e := newest[run.Granted](w)
		e.Grant.ID = w.id()
		w.forge(e)
	}},
	{rule: "twice", name: "the grant of a former approval", stage: func(t rapid.TB) *world {
		w := approved(run.TargetLocal)(t)
		w.simulate("revise_state")
		return w.observe().mustApprove()
	}, with: func(w *world) {
		var first run.Granted
		for _, e := range w.events {
			if e.Type == "grant.created" {
				if err := canon.Unmarshal(e.Data, &first); err != nil {
					w.Fatal(err)
				}
				if first.Grant.Kind == "exact" {
					break
				}
			}
		}
		approvalOf(w, func(a *run.Approved, g *run.Granted) { a.GrantID, g.Grant.ID = first.Grant.ID, first.Grant.ID })
	}},
	{rule: "grant-exact", name: "two uses", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.MaxUses["shop.submit"] = 2 })},
	{rule: "grant-exact", name: "any number of uses", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.MaxUses = map[string]int64{} })},
	{rule: "grant-exact", name: "uses of another operation", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.MaxUses["shop.item"] = 1 })},
	{rule: "grant-exact", name: "another operation", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.Operations[0] = "shop.order" })},
	{rule: "grant-exact", name: "a second operation", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.Operations = append(g.Operations, "shop.order") })},
	{rule: "grant-exact", name: "more on approval", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.OnApproval = []string{"shop.submit"} })},
	{rule: "grant-exact", name: "another amount", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.MaxTotalCents-- })},
	{rule: "grant-exact", name: "another digest", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.EffectDigest = &elsewhere })},
	{rule: "grant-exact", name: "no digest", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.EffectDigest = nil })},
	{rule: "grant-exact", name: "another proposal", stage: approved(run.TargetLocal), with: altered(func(g *authority.Grant) { g.ProposalID = &g.ID })},
	{rule: "grant-creator", name: "an exact one made by the agent", stage: approved(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Granted) { e.CreatedBy = "agent" }) }},
	{rule: "grant-life", name: "an exact one a millisecond over 5 minutes", stage: approved(run.TargetLocal), with: func(w *world) {
		approvalOf(w, func(a *run.Approved, g *run.Granted) { a.ExpiresAt++; g.Grant.ExpiresAt++ })
	}},
	{rule: "grant-life", name: "an exact one a millisecond over its proposal", stage: approvedAt(0, 6*time.Minute), with: func(w *world) {
		approvalOf(w, func(a *run.Approved, g *run.Granted) { a.ExpiresAt++; g.Grant.ExpiresAt++ })
	}},
	{rule: "grant-life", name: "an exact one a millisecond over the first grant", stage: approvedAt(57*time.Minute, 0), with: func(w *world) {
		approvalOf(w, func(a *run.Approved, g *run.Granted) { a.ExpiresAt++; g.Grant.ExpiresAt++ })
	}},
	{rule: "grant-life", name: "an exact one ended when created", stage: approved(run.TargetLocal), with: func(w *world) {
		approvalOf(w, func(a *run.Approved, g *run.Granted) { a.ExpiresAt, g.Grant.ExpiresAt = w.now, w.now })
	}},
	{rule: "grant-without-resume", name: "the chain ends with it", stage: approved(run.TargetLocal), with: func(w *world) { w.cut("run.resumed") }},
	{rule: "grant-without-resume", name: "something else follows", stage: approved(run.TargetLocal), with: func(w *world) { w.cut("run.resumed").forge(&run.Metrics{}) }},
	{rule: "grant-without-resume", name: "resumed for another cause", stage: approved(run.TargetLocal), follow: []string{"resumed-cause"}, with: func(w *world) {
		alter(w, func(e *run.Resumed) { e.Cause = run.CauseRetried })
	}},
	{rule: "permit-unapproved", name: "a commit under a bounded grant", stage: func(t rapid.TB) *world {
		w := blank(t, run.TargetLocal)
		w.exact = true
		w.do(func(d *decide.Deciding) { d.Create(w.request()) })
		altered(func(g *authority.Grant) { g.Operations, g.OnApproval = append(g.Operations, "shop.submit"), []string{} })(w)
		w.resume().start()
		return w.upTo("submit")
	}, with: func(w *world) { w.doors.Machine = true; w.permit("submit") }},
	{rule: "stop-table", name: "approval with another recovery", stage: waiting(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Paused) { e.Stop.Recovery = "retry" }) }},
}
