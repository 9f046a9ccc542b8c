package run

import (
	"countersign/internal/authority"
)

// Verdict is a guardian's answer.
type Verdict struct {
	Decision             string
	ReasonCode           string
	Explanation          string
	ClarificationRequest *string
	Provider             string
	Provenance           string
}

// Propose takes a well-formed report in and applies the hard checks. A denial
// means that the run takes no report now.
func (d *Deciding) Propose(r *Report, catalog []Entry) (Review, *authority.Denial) {
	s := d.s
	switch {
	case s.Unresolved():
		return Review{}, unresolved()
	case s.Status != StatusReady && !d.doors.Ready:
		return Review{}, notReady(s)
	case s.Permit != nil && !d.doors.Outstanding:
		return Review{}, &authority.Denial{Reason: authority.PermitOutstanding, Detail: "A permit is live; use it, or wait until it expires."}
	}
	if s.Turns >= MaxTurns || s.Events > MaxEvents-eventReserve {
		d.pause(authority.TurnLimit, SourceRuntime)
		return Review{}, &authority.Denial{Reason: authority.TurnLimit, Detail: "The run has reached its bound of turns or events; create a new run."}
	}
	turnID := d.fresh.ID()
	reported := NewReported(r, d.text)
	d.emit(&Proposed{turnID, reported, authority.Digest(authority.DomainReport, reported)})
	review := Check(s, catalog, r, d.now, d.doors.Checks...)
	checked := newChecked(s, turnID, review)
	d.emit(&checked)
	if review.Reason != "" {
		d.stopAfter(review.Reason, SourceHardPolicy)
	}
	return review, nil
}

// Judge takes the guardian's verdict on the report that passed every hard check
// and, for an ALLOW, issues the one permit. It returns that permit or nil. What
// is no verdict counts as a PAUSE for a malformed answer.
func (d *Deciding) Judge(review Review, v Verdict) *Permit {
	if !LawfulVerdict(v.Decision, v.ReasonCode) {
		v.Decision, v.ReasonCode, v.Provenance = Pause, authority.GuardianMalformed, ByRuntime
	}
	decided := Decided{TurnID: d.s.Turn.ID, Decision: v.Decision, ReasonCode: v.ReasonCode, Explanation: d.text(v.Explanation), Provider: v.Provider, Provenance: v.Provenance}
	if v.ClarificationRequest != nil {
		request := d.text(*v.ClarificationRequest)
		decided.ClarificationRequest = &request
	}
	d.emit(&decided)
	switch v.Decision {
	case Allow:
		return d.issue(review)
	case Terminate:
		stop := d.s.newStop(authority.GuardianTerminated, SourceGuardian, d.fresh.ID())
		d.revokeGrants(CauseTerminate)
		d.emit(&Terminated{*stop})
	default:
		d.stopAfter(v.ReasonCode, PauseSource(v.ReasonCode))
	}
	return nil
}

// stopAfter pauses the run after a decision that is no ALLOW, unless its
// category lets a direct consumer try again (G-04).
func (d *Deciding) stopAfter(reason, source string) {
	if Category(reason) == CategoryRetry && d.s.RetryStreak < MaxRetryStreak {
		return
	}
	if d.s.Status == StatusReady {
		d.pause(reason, source)
	}
}

func (d *Deciding) issue(review Review) *Permit {
	s, entry, grant := d.s, review.Entry, review.Grant
	if entry == nil || grant == nil {
		return nil // only behind an open door; the machine has refused policy.checked
	}
	permit := authority.Permit{
		ID: d.fresh.ID(), EffectDigest: s.Turn.EffectDigest, ExpiresAt: authority.PermitExpiry(d.now, grant.ExpiresAt),
		Bindings: bindings(s, s.Turn.ID, grant.ID, entry, s.Turn.ActionDigest),
	}
	d.emit(&Issued{permit, entry.EntryID, entry.Effect.Class, entry.Amount()})
	d.out.Freezable = true
	d.notAfter(permit.ExpiresAt)
	return s.Permit
}

func bindings(s *State, turnID, grantID string, entry *Entry, actionDigest string) authority.Bindings {
	return authority.Bindings{
		RunID: s.ID, Goal: s.GoalDigest, TurnID: turnID, GrantID: grantID, ObservationID: s.Observation.ID,
		DocumentEpoch: s.DocumentEpoch, StateRevision: s.StateRevision, ActionDigest: actionDigest,
		OperationID: entry.OperationID, TransactionProposalID: entry.Effect.TransactionProposalID,
	}
}
