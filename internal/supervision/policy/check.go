// Package policy is the hard checks 2 to 11 of G-09: deterministic, applied to every
// report before anybody is asked for an opinion, and applied again to every recorded
// report when a chain is verified. All of them are asked, the first failure gives the
// reason. Everything here is pure.
package policy

import (
	"slices"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/money"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// How old an observation may be at check 4 for a direct report and for a managed one,
// whose executor may have been asked twice (L-11). Exactly this age is still fresh.
const (
	MaxObservationAge        = 60 * time.Second
	MaxManagedObservationAge = 150 * time.Second
)

// Review is the result of all hard checks. Reason is the code of the first
// failure and empty when everything passed.
type Review struct {
	Findings []run.Finding
	Reason   string
	Entry    *propose.Entry   // the catalog's entry that the target names, or nil
	Grant    *authority.Grant // the grant that covers the operation, or nil
}

// claim is the part of a report that the hard checks read.
type claim struct {
	selected     *propose.Action // nil when the selection is invalid
	evidenceRefs []string
	expected     propose.ExpectedEffect
}

func claimOf(r *propose.Report) claim {
	c := claim{evidenceRefs: r.Justification.EvidenceRefs, expected: r.ExpectedEffect}
	if s := r.Selected(); s != nil {
		c.selected = &s.Action
	}
	return c
}

// claimOfReported gives the hard checks the same material that the report gave them.
func claimOfReported(r *propose.Reported) claim {
	shape := propose.Report{SelectedCandidateID: r.SelectedCandidateID}
	for _, c := range r.Candidates {
		shape.Candidates = append(shape.Candidates, propose.Candidate{ID: c.ID, Action: c.Action, Disposition: c.Disposition})
	}
	shape.Justification.EvidenceRefs, shape.ExpectedEffect = r.Justification.EvidenceRefs, r.ExpectedEffect
	return claimOf(&shape)
}

// check names a hard check of G-09. ask returns "" when it passes, skip when
// there is nothing to compare with, or a reason code.
type check struct {
	number int64
	name   string
	ask    func(*reviewing) string
}

const skip = "skip"

// checks are in the order of G-09; check 1 is ParseReport. The first failure
// gives the reason, all are asked.
var checks = []check{
	{2, "selection", (*reviewing).selection},
	{3, "evidence", (*reviewing).evidence},
	{4, "state", (*reviewing).state},
	{5, "target", (*reviewing).target},
	{6, "operation", (*reviewing).operation},
	{7, "grant", (*reviewing).grant},
	{8, "arguments", (*reviewing).arguments},
	{9, "effect", (*reviewing).effect},
	{10, "proposal", (*reviewing).proposal},
	{11, "budget", (*reviewing).budget},
}

// reviewing is one application of the hard checks.
type reviewing struct {
	s       *run.State
	catalog []propose.Entry
	claim   claim
	now     evidence.Time
	entry   *propose.Entry
	granted *authority.Grant
	// unapproved says that granted only lets the owner approve this operation.
	unapproved bool
	ageless    bool // the age of the observation does not matter
}

// Reported applies the hard checks to a report as evidence holds it, with the same
// result as [Check] had on the report itself.
func Reported(s *run.State, catalog []propose.Entry, r *propose.Reported, now evidence.Time) Review {
	return review(s, catalog, claimOfReported(r), now, nil)
}

// Check applies hard checks 2 to 11 to a report. The catalog is that of the
// run's newest observation. Doors switches checks off by number and is nil
// outside tests.
func Check(s *run.State, catalog []propose.Entry, r *propose.Report, now evidence.Time, doors ...int64) Review {
	return review(s, catalog, claimOf(r), now, doors)
}

func review(s *run.State, catalog []propose.Entry, c claim, now evidence.Time, doors []int64) Review {
	return (&reviewing{s: s, catalog: catalog, claim: c, now: now}).review(doors)
}

// Approvable returns the entry of the prepared proposal when nothing but the owner's
// approval is missing for it: every other hard check would pass (G-07). How old the
// observation is does not count; who approves looks at the service anew.
func Approvable(s *run.State, catalog []propose.Entry, now evidence.Time) *propose.Entry {
	if s.Proposal == nil || s.Observation == nil {
		return nil
	}
	entry := propose.Committing(catalog, s.Proposal.ID)
	if entry == nil {
		return nil
	}
	action := entry.Action()
	faultless := claim{&action, []string{s.Observation.ID}, propose.ExpectedEffect{
		OperationID: entry.OperationID, TransactionProposalID: entry.Effect.TransactionProposalID,
		DisclosedFields: entry.Effect.DisclosedFields, Postconditions: entry.Effect.Postconditions,
	}}
	x := &reviewing{s: s, catalog: catalog, claim: faultless, now: now, ageless: true}
	if x.review(nil).Reason != authority.ApprovalRequired {
		return nil
	}
	return entry
}

func (x *reviewing) review(doors []int64) Review {
	if a := x.claim.selected; a != nil {
		x.entry = propose.FindEntry(x.catalog, func(e *propose.Entry) bool { return e.TargetRef == a.TargetRef })
		x.granted, x.unapproved = x.s.Authority(a.OperationID, x.now)
	}
	out := Review{Findings: make([]run.Finding, 0, len(checks))}
	for _, check := range checks {
		f := run.Finding{Check: check.number, Name: check.name, Result: run.CheckPassed}
		switch code := check.ask(x); {
		case code == skip:
			f.Result = run.CheckSkipped
		case code != "" && !slices.Contains(doors, check.number):
			f.Result, f.Code = run.CheckFailed, code
			// An approval is asked for only when nothing else is in the way.
			if out.Reason == "" || out.Reason == authority.ApprovalRequired {
				out.Reason = code
			}
		}
		out.Findings = append(out.Findings, f)
	}
	out.Entry, out.Grant = x.entry, x.granted
	return out
}

func (x *reviewing) selection() string {
	if x.claim.selected == nil {
		return authority.InvalidSelection
	}
	return ""
}

func (x *reviewing) evidence() string {
	o := x.s.Observation
	if o == nil || !slices.Contains(x.claim.evidenceRefs, o.ID) {
		return authority.MissingEvidence
	}
	return ""
}

func (x *reviewing) state() string {
	o := x.s.Observation
	if o == nil || o.DocumentEpoch != x.s.DocumentEpoch || o.StateRevision != x.s.StateRevision || !x.ageless && x.now.Sub(o.CapturedAt) > x.oldest() {
		return authority.StaleState
	}
	return ""
}

// oldest is the age of an observation that the newest turn may just rest on.
func (x *reviewing) oldest() time.Duration {
	if t := x.s.Turn; t != nil && t.AttemptID != nil {
		return MaxManagedObservationAge
	}
	return MaxObservationAge
}

func (x *reviewing) target() string {
	switch {
	case x.claim.selected == nil:
		return skip
	case x.entry == nil:
		return authority.StaleTarget
	}
	return ""
}

// operation is check 6: the operation stands in catalog and grant, it is what
// the target offers, and the entry satisfies the grant's terms.
func (x *reviewing) operation() string {
	a := x.claim.selected
	if a == nil {
		return skip
	}
	listed := propose.FindEntry(x.catalog, func(e *propose.Entry) bool { return e.OperationID == a.OperationID })
	if listed == nil || x.granted == nil {
		return authority.ForbiddenOperation
	}
	if x.entry != nil && (x.entry.OperationID != a.OperationID || !x.granted.Admits(x.entry.Facts)) {
		return authority.ForbiddenOperation
	}
	return ""
}

func (x *reviewing) grant() string {
	switch g := x.granted; {
	case g == nil:
		return skip
	case !g.Live(x.now):
		return authority.GrantExpired
	case !g.UsesLeft(x.claim.selected.OperationID, x.s.Used[g.ID]):
		return authority.GrantExhausted
	}
	return ""
}

func (x *reviewing) arguments() string {
	switch {
	case x.entry == nil:
		return skip
	case !x.entry.Matches(x.claim.selected):
		return authority.ArgumentMismatch
	}
	return ""
}

func (x *reviewing) effect() string {
	if x.entry == nil {
		return skip
	}
	e, c := x.claim.expected, x.entry.Effect
	if e.OperationID != x.entry.OperationID || !slices.Equal(e.DisclosedFields, c.DisclosedFields) || !slices.Equal(e.Postconditions, c.Postconditions) {
		return authority.EffectMismatch
	}
	return ""
}

// proposal is check 10: a commit names the prepared, unexpired proposal of the
// current state, and in exact mode the owner has approved exactly its effect; anything
// else names none.
func (x *reviewing) proposal() string {
	if x.entry == nil {
		return skip
	}
	named, offered := x.claim.expected.TransactionProposalID, x.entry.Effect.TransactionProposalID
	if (named == nil) != (offered == nil) || named != nil && *named != *offered {
		return authority.EffectMismatch
	}
	commits := x.entry.Effect.Class == propose.ClassCommit
	if commits != (named != nil) || commits && !x.prepared(*named) {
		return authority.EffectMismatch
	}
	switch g := x.granted; {
	case x.unapproved:
		return authority.ApprovalRequired
	case named != nil && g != nil && g.Kind == authority.KindExact && !g.Approves(*named, x.entry.EffectDigest(x.s.Config.Service, x.s.StateRevision)):
		return authority.EffectMismatch
	}
	return ""
}

// prepared reports whether the id names the proposal that stands now, and the
// entry commits exactly that.
func (x *reviewing) prepared(id string) bool {
	p, e := x.s.Proposal, x.entry
	return p != nil && p.ID == id && p.StateRevision == x.s.StateRevision && p.Live(x.now) &&
		p.OperationID == e.OperationID && p.AmountCents == e.Amount() &&
		e.Destination != nil && p.Destination == *e.Destination && e.Currency != nil && p.Currency == *e.Currency
}

func (x *reviewing) budget() string {
	switch {
	case x.entry == nil || x.granted == nil:
		return skip
	case !x.s.Budget.Fits(x.entry.Fit()) || !GrantFits(x.granted, x.s.Budget, x.entry.Fit()):
		return authority.BudgetExceeded
	}
	return ""
}

// GrantFits holds the grant's own total against what is spent and reserved.
func GrantFits(g *authority.Grant, b authority.Budget, amount money.Cents) bool {
	if g.Kind == authority.KindExact {
		return amount <= g.MaxTotalCents // it is for one use, whatever was spent before
	}
	b.Limit = min(b.Limit, g.MaxTotalCents)
	return b.Fits(amount)
}
