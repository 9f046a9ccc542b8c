package decide

import (
	"slices"
	"strings"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
	"countersign/internal/supervision/stopcontext"
)

// ApproveRequest is an owner's approval of a prepared proposal.
type ApproveRequest struct {
	ProposalID string
	Digest     string          // the effect digest that the owner saw; "" when not given
	Catalog    []propose.Entry // of the newest observation
	Seen       Sighting        // the service as it is now
	Approver   string          // the hash that names the owner's session
}

// Approve creates the single-use grant for exactly the prepared effect and lets the
// run go on. Nothing is dispatched. A proposal that is not the one that stands, has
// ended, or was prepared in another state than the service is in now cannot be approved
// (G-03, H-224); in the last case the run stops for another try.
func (d *Deciding) Approve(r ApproveRequest) *authority.Denial {
	s := d.s
	if denial := d.CanApprove(); denial != nil {
		return denial
	}
	p := s.Proposal
	switch {
	case p == nil || p.ID != r.ProposalID && !d.doors.Approval:
		return approvalStale("The proposal is not the one that stands.")
	case !p.Live(d.now):
		return approvalStale("The proposal has expired.")
	case authority.Digest(authority.DomainState, r.Seen.State) != s.StateDigest && !d.doors.Approval:
		d.voidProposal("state")
		return approvalStale("The service has changed since the proposal was prepared; nothing was approved.")
	}
	entry := policy.Approvable(s, r.Catalog, d.now)
	if entry == nil {
		return d.unapprovable(p)
	}
	digest := entry.EffectDigest(s.Config.Service, s.StateRevision)
	if r.Digest != "" && r.Digest != digest {
		return approvalStale("The digest is not that of the effect that stands.")
	}
	base, _ := s.Authority(p.OperationID, d.now)
	grant := authority.Grant{
		ID: d.fresh.ID(), Kind: authority.KindExact, Operations: []string{p.OperationID}, OnApproval: []string{}, Constraints: base.Constraints, Currency: p.Currency,
		MaxTotalCents: p.AmountCents, MaxUses: map[string]int64{p.OperationID: 1}, ExpiresAt: min(d.now.Add(run.ApprovalLife), p.ExpiresAt, base.ExpiresAt),
		ProposalID: &p.ID, EffectDigest: &digest,
	}
	d.emit(&run.Approved{
		ProposalID: p.ID, EffectDigest: digest, GrantID: grant.ID, OperationID: p.OperationID, Destination: p.Destination,
		AmountCents: p.AmountCents, Currency: p.Currency, ExpiresAt: grant.ExpiresAt, ApprovedBy: "owner", Approver: r.Approver,
	})
	d.emit(&run.Granted{Grant: grant, CreatedBy: "owner"})
	d.emit(&run.Resumed{Cause: run.CauseApproved})
	d.notAfter(grant.ExpiresAt)
	return nil
}

// CanApprove reports whether the run waits for an approval, so that the service is
// looked at only then. When what waited for it has ended, whoever noticed that first,
// the approval is stale.
func (d *Deciding) CanApprove() *authority.Denial {
	if s := d.s; s.Config.Mode == run.ModeExact && s.Proposal == nil && s.Recoverable(stopcontext.CategoryRetry) == "" && s.Stop.ReasonCode == authority.StaleState {
		return approvalStale("What was prepared has expired or changed; let the run go on, and it is prepared anew.")
	}
	return d.recoverable(stopcontext.CategoryApproval)
}

// unapprovable says which hard check an approval would not help over.
func (d *Deciding) unapprovable(p *run.Proposal) *authority.Denial {
	if base, _ := d.s.Authority(p.OperationID, d.now); base != nil && !base.Live(d.now) {
		return &authority.Denial{Reason: authority.GrantExpired, Detail: "The run's grant has expired; nothing can be approved within it."}
	}
	return approvalStale("The prepared effect does not pass every hard check any more.")
}

func approvalStale(detail string) *authority.Denial {
	return &authority.Denial{Reason: authority.ApprovalStale, Detail: detail}
}

// askApproval stops a run of exact mode for the approval of what was just prepared,
// when nothing else is missing for it.
func (d *Deciding) askApproval(catalog []propose.Entry) {
	if d.s.Config.Mode == run.ModeExact && policy.Approvable(d.s, catalog, d.now) != nil {
		d.pause(authority.ApprovalRequired, stopcontext.SourceRuntime)
	}
}

// voidProposal ends the prepared proposal, and with it a stop that waited for its
// approval.
func (d *Deciding) voidProposal(cause string) {
	if d.s.Proposal == nil {
		return
	}
	d.emit(&run.ProposalVoided{ProposalID: d.s.Proposal.ID, Cause: cause})
	if d.s.Status == run.StatusPaused && d.s.Stop.Category == stopcontext.CategoryApproval {
		d.pause(authority.StaleState, stopcontext.SourceRuntime)
	}
}

// Clarify adds the owner's words and lets a run go on that stopped for clarification or
// after a refusal. No grant changes (H-174).
func (d *Deciding) Clarify(words string) *authority.Denial {
	if denial := d.recoverable(stopcontext.CategoryClarification, stopcontext.CategoryRefusal); denial != nil {
		return denial
	}
	if len(d.s.Clarifications) >= run.MaxClarifications {
		return notEligible("The run has its ten clarifications already; revoke it and create a new run.")
	}
	d.revokePermit(run.CauseOwner)
	text := d.text(words)
	goal := state.GoalDigest(d.s.Instruction, d.s.Terms, append(slices.Clone(d.s.Clarifications), text)...)
	d.emit(&run.Clarified{Clarification: text, GoalDigest: goal, By: "owner"})
	d.emit(&run.Resumed{Cause: run.CauseClarified})
	d.outOfGrants()
	return nil
}

// Retry lets a run go on that stopped for another try or for its configuration. It
// dispatches nothing; the next report rests on a fresh observation (H-188).
func (d *Deciding) Retry() *authority.Denial {
	if denial := d.recoverable(stopcontext.CategoryRetry, stopcontext.CategoryConfiguration); denial != nil {
		return denial
	}
	d.revokePermit(run.CauseOwner)
	d.emit(&run.RetryAccepted{By: "owner"})
	d.emit(&run.Resumed{Cause: run.CauseRetried})
	d.outOfGrants()
	return nil
}

// CanRetry reports whether [Deciding.Retry] would be accepted, so that a dependency is
// asked for only then.
func (d *Deciding) CanRetry() *authority.Denial {
	return d.recoverable(stopcontext.CategoryRetry, stopcontext.CategoryConfiguration)
}

// recoverable denies the recovery of a run that has no stop of the categories, or has
// no room for what would follow.
func (d *Deciding) recoverable(categories ...string) *authority.Denial {
	switch reason := d.s.Recoverable(categories...); reason {
	case "":
	case authority.UnresolvedEffect:
		return unresolved()
	case authority.StopVersionUnknown:
		return &authority.Denial{Reason: reason, Detail: "The stop is of a version that this server does not know; nothing is recovered from it."}
	default:
		return notEligible(ineligible(d.s, d.now))
	}
	if d.full() {
		return atLimit()
	}
	return nil
}

func notEligible(detail string) *authority.Denial {
	return &authority.Denial{Reason: authority.RecoveryNotEligible, Detail: detail}
}

// ineligible says what a run is that this recovery does not fit.
func ineligible(s *run.State, now evidence.Time) string {
	if s.Status != run.StatusPaused || s.Stop == nil {
		return "The run is " + s.Status + ", not paused."
	}
	if s.Stop.Recovery == "none" {
		return "The run is paused for " + s.Stop.Category + "; only a new run helps."
	}
	if MetFreeze(s) { // whether a retry is accepted is not for the run to say
		return "The run is paused: " + s.Stop.Message
	}
	return "The run is paused for " + s.Stop.Category + "; accepted now: " + strings.Join(Eligible(s, now, false), ", ") + "."
}

// MetFreeze reports whether the run is stopped because the workspace was frozen. It is not
// retried while a freeze stands (L-8).
func MetFreeze(s *run.State) bool {
	return s.Status == run.StatusPaused && s.Stop != nil && s.Stop.ReasonCode == authority.Frozen
}

// Names of what an owner can do to a run; they are the last segment of its route.
const (
	RouteApprove   = "approve"
	RouteClarify   = "clarify"
	RouteRetry     = "retry"
	RouteRevoke    = "revoke"
	RouteStep      = "step"
	RouteSimulate  = "simulate"
	RouteProbe     = "probe"
	RouteReconcile = "reconcile"
)

// Eligible names what an owner could do to the run at that time, in a workspace that is
// frozen or not, for people who look at it. It promises nothing: a service can have changed
// unseen.
func Eligible(s *run.State, now evidence.Time, frozen bool) []string {
	out := []string{}
	add := func(eligible bool, route string) {
		if eligible {
			out = append(out, route)
		}
	}
	room := !full(s)
	add(room && s.Recoverable(stopcontext.CategoryApproval) == "" && s.Proposal != nil && s.Proposal.Live(now) && now < s.GrantsEnd(), RouteApprove)
	add(room && s.Recoverable(stopcontext.CategoryClarification, stopcontext.CategoryRefusal) == "" && len(s.Clarifications) < run.MaxClarifications, RouteClarify)
	add(room && s.Recoverable(stopcontext.CategoryRetry, stopcontext.CategoryConfiguration) == "" && !(frozen && MetFreeze(s)), RouteRetry)
	add(s.Status == run.StatusReady && s.Permit == nil && !s.Unresolved(), RouteStep)
	add(room && simulable(s) == nil, RouteSimulate)
	add(len(InDoubt(s)) > 0, RouteProbe)
	add(room && statable(s), RouteReconcile)
	add(!s.Terminal(), RouteRevoke)
	return out
}
