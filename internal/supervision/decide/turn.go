package decide

import (
	"countersign/internal/authority"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
	"countersign/internal/supervision/stopcontext"
)

// Propose takes a well-formed report in and applies the hard checks. A denial
// means that the run takes no report now.
func (d *Deciding) Propose(r *propose.Report, catalog []propose.Entry) (policy.Review, *authority.Denial) {
	s := d.s
	switch {
	case s.Unresolved():
		return policy.Review{}, unresolved()
	case s.Status != run.StatusReady && !d.doors.Ready:
		return policy.Review{}, notReady(s)
	case s.Permit != nil && !d.doors.Outstanding:
		return policy.Review{}, &authority.Denial{Reason: authority.PermitOutstanding, Detail: "A permit is live; use it, or wait until it expires."}
	}
	if s.Turns >= run.MaxTurns || d.full() {
		d.pause(authority.TurnLimit, stopcontext.SourceRuntime)
		return policy.Review{}, atLimit()
	}
	return d.take(nil, r, catalog), nil
}

// take records a report, of a managed attempt or a direct one, and applies the hard
// checks.
func (d *Deciding) take(attemptID *string, r *propose.Report, catalog []propose.Entry) policy.Review {
	s, turnID := d.s, d.fresh.ID()
	reported := propose.NewReported(r, catalog, d.text)
	d.emit(&run.Proposed{TurnID: turnID, AttemptID: attemptID, Report: reported, ReportDigest: authority.Digest(authority.DomainReport, reported), ContextTurn: d.context})
	review := policy.Check(s, catalog, r, d.now, d.doors.Checks...)
	checked := policy.NewChecked(s, turnID, review)
	d.emit(&checked)
	if review.Reason != "" {
		d.stopAfter(review.Reason, stopcontext.SourceHardPolicy)
	}
	return review
}

// Judge takes the guardian's verdict on the report that passed every hard check
// and, for an ALLOW, issues the one permit. It returns that permit or nil. What
// is no verdict counts as a PAUSE for a malformed answer.
func (d *Deciding) Judge(review policy.Review, v Verdict) *run.Permit {
	if !v.wellFormed() {
		v = Verdict{
			Decision: run.Pause, ReasonCode: authority.GuardianMalformed, Explanation: "What the guardian answered is no verdict, so it counts as a pause.",
			Provider: d.s.Config.Interrogator, Provenance: run.ByRuntime,
		}
	}
	decided := run.Decided{TurnID: d.s.Turn.ID, Decision: v.Decision, ReasonCode: v.ReasonCode, Explanation: d.text(v.Explanation), Provider: v.Provider, Provenance: v.Provenance}
	if v.ClarificationRequest != nil {
		request := d.text(*v.ClarificationRequest)
		decided.ClarificationRequest = &request
	}
	d.emit(&decided)
	switch v.Decision {
	case run.Allow:
		return d.issue(review)
	case run.Terminate:
		stop := d.s.NewStop(authority.GuardianTerminated, stopcontext.SourceGuardian, d.fresh.ID())
		d.revokeGrants(run.CauseTerminate)
		d.emit(&run.Terminated{Stop: *stop})
	default:
		d.stopAfter(v.ReasonCode, state.PauseSource(v.ReasonCode))
	}
	return nil
}

// stopAfter pauses the run after a decision that is no ALLOW, unless its
// category lets a direct consumer try again (G-04).
func (d *Deciding) stopAfter(reason, source string) {
	direct := d.s.Turn.AttemptID == nil
	if direct && stopcontext.Category(reason) == stopcontext.CategoryRetry && d.s.RetryStreak < run.MaxRetryStreak {
		return
	}
	if reason == authority.ApprovalRequired {
		source = stopcontext.SourceRuntime // nothing is wrong with the report (G-02)
	}
	if d.s.Status == run.StatusReady {
		d.pause(reason, source)
	}
}

func (d *Deciding) issue(review policy.Review) *run.Permit {
	s, entry, grant := d.s, review.Entry, review.Grant
	if entry == nil || grant == nil {
		return nil // only behind an open door; the machine has refused policy.checked
	}
	permit := authority.Permit{
		ID: d.fresh.ID(), EffectDigest: s.Turn.EffectDigest, ExpiresAt: authority.PermitExpiry(d.now, grant.ExpiresAt),
		Bindings: bindings(s, s.Turn.ID, grant.ID, entry, s.Turn.ActionDigest),
	}
	d.emit(&run.Issued{Permit: permit, EntryID: entry.EntryID, Class: entry.Effect.Class, AmountCents: entry.Amount()})
	d.notAfter(permit.ExpiresAt)
	return s.Permit
}

func bindings(s *run.State, turnID, grantID string, entry *propose.Entry, actionDigest string) authority.Bindings {
	return authority.Bindings{
		RunID: s.ID, Goal: s.GoalDigest, TurnID: turnID, GrantID: grantID, ObservationID: s.Observation.ID,
		DocumentEpoch: s.DocumentEpoch, StateRevision: s.StateRevision, ActionDigest: actionDigest,
		OperationID: entry.OperationID, TransactionProposalID: entry.Effect.TransactionProposalID,
	}
}
