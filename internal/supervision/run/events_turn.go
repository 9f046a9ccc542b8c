package run

import (
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/money"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/state"
	"countersign/internal/supervision/stopcontext"
)

// Proposed is turn.proposed: a well-formed report was received.
type Proposed struct {
	TurnID       string           `json:"turnId"`
	AttemptID    *string          `json:"attemptId"` // of a managed turn
	Report       propose.Reported `json:"report"`
	ReportDigest string           `json:"reportDigest"`
	ContextTurn  *ContextTurn     `json:"contextTurn"` // that it was made in; nil: none was named
}

func (Proposed) EventType() string { return "turn.proposed" }

func (e Proposed) apply(f *fold) {
	turn := &Turn{ID: e.TurnID, AttemptID: e.AttemptID, ContextTurn: e.ContextTurn, Phase: turnProposed}
	f.answered(PurposeExecutor, turn.Attempt())
	f.status("turn-status", StatusReady)
	f.must(f.s.Permit == nil, "turn-under-permit", "no report is accepted while a permit is outstanding")
	x := f.s.Execution
	f.must(x == nil || x.State != ExecutionMismatch, "turn-unresolved", "no report is accepted after a mismatch")
	f.must(!f.s.Stopped(), "turn-after-stop", "the run went on although the last decision stopped it")
	f.must(e.ReportDigest == authority.Digest(authority.DomainReport, e.Report), "report-digest", "reportDigest is not the digest of the report")
	f.must(e.ContextTurn.Lawful(), "context-turn", "what the report was made in is no context turn, or has no class")
	f.s.Turns++
	f.must(f.s.Turns <= MaxTurns, "turn-limit", "a run has at most 500 turns")
	f.s.Turn = turn
	f.s.Stage = "checking"
}

// Results of one check.
const (
	CheckPassed  = "passed"
	CheckFailed  = "failed"
	CheckSkipped = "skipped" // an earlier failure left nothing to compare with
)

// Finding is the result of one hard check.
type Finding struct {
	Check  int64  `json:"check"` // number in G-09
	Name   string `json:"name"`
	Result string `json:"result"`
	Code   string `json:"code"` // reason code when failed, else empty
}

// Checked is policy.checked: what the hard checks found.
type Checked struct {
	TurnID        string       `json:"turnId"`
	ObservationID *string      `json:"observationId"`
	Findings      []Finding    `json:"findings"`
	Verdict       string       `json:"verdict"`    // passed or PAUSE
	ReasonCode    *string      `json:"reasonCode"` // of the first failure
	EntryID       *string      `json:"entryId"`
	GrantID       *string      `json:"grantId"`
	EffectDigest  *string      `json:"effectDigest"`
	ActionDigest  *string      `json:"actionDigest"`
	AmountCents   *money.Cents `json:"amountCents"`
	Provenance    string       `json:"provenance"`
}

func (Checked) EventType() string { return "policy.checked" }

func (e Checked) apply(f *fold) {
	t := f.s.Turn
	if !f.must(t != nil && t.ID == e.TurnID && t.Phase == turnProposed, "checked-without-turn", "the checks are not of the turn that was just proposed") {
		return
	}
	t.Phase, t.Passed = turnChecked, e.ReasonCode == nil
	if e.EntryID != nil && e.GrantID != nil && e.EffectDigest != nil && e.ActionDigest != nil && e.AmountCents != nil {
		t.EntryID, t.GrantID, t.EffectDigest, t.ActionDigest, t.AmountCents = *e.EntryID, *e.GrantID, *e.EffectDigest, *e.ActionDigest, *e.AmountCents
	} else {
		f.must(!t.Passed, "checked-incomplete", "checks passed without an entry and a grant")
	}
	if !t.Passed {
		f.s.CountRetry(*e.ReasonCode)
		f.s.Decision = &Decision{TurnID: e.TurnID, Verdict: Pause, ReasonCode: *e.ReasonCode, Provenance: ByHardPolicy}
	}
	f.s.Stage = "reviewing"
}

// Decided is guardian.decided. For a turn that failed a hard check there is
// none: the guardian was not asked.
type Decided struct {
	TurnID               string               `json:"turnId"`
	Decision             string               `json:"decision"`
	ReasonCode           string               `json:"reasonCode"`
	Explanation          evidence.Commitment  `json:"explanation"`
	ClarificationRequest *evidence.Commitment `json:"clarificationRequest"`
	Provider             string               `json:"provider"`
	Provenance           string               `json:"provenance"`
}

func (Decided) EventType() string { return "guardian.decided" }

func (e Decided) apply(f *fold) {
	t := f.s.Turn
	if !f.must(t != nil && t.ID == e.TurnID && t.Phase == turnChecked && t.Passed, "guardian-without-checks", "the guardian is asked only when every hard check passed") {
		return
	}
	f.answered(PurposeGuardian, t.Attempt())
	f.status("guardian-status", StatusReady)
	f.must(state.LawfulVerdict(e.Decision, e.ReasonCode), "guardian-verdict", "this is no verdict that a guardian can give")
	t.Phase, t.Allowed = turnDecided, e.Decision == Allow
	if t.Allowed {
		f.s.RetryStreak = 0
	} else {
		f.s.CountRetry(e.ReasonCode)
	}
	f.s.Decision = &Decision{
		TurnID: e.TurnID, Verdict: e.Decision, ReasonCode: e.ReasonCode, Explanation: &e.Explanation, ClarificationRequest: e.ClarificationRequest, Provenance: e.Provenance,
	}
	f.s.Stage = "reviewing"
}

// Issued is permit.issued.
type Issued struct {
	Permit      authority.Permit `json:"permit"`
	EntryID     string           `json:"entryId"`
	Class       string           `json:"class"`
	AmountCents money.Cents      `json:"amountCents"`
}

func (Issued) EventType() string { return "permit.issued" }

func (e Issued) apply(f *fold) {
	t, b := f.s.Turn, e.Permit.Bindings
	f.status("permit-status", StatusReady)
	f.must(f.s.Permit == nil, "permit-outstanding", "at most one permit is open")
	if !f.must(t != nil && t.Phase == turnDecided && t.Allowed && t.ID == b.TurnID, "permit-without-allow", "no ALLOW stands behind the permit") {
		return
	}
	g := f.s.Grant(b.GrantID)
	f.must(g != nil && b.GrantID == t.GrantID && g.Live(f.now) && g.Covers(b.OperationID), "permit-grant", "no live grant covers the operation")
	f.must(g == nil || e.Permit.ExpiresAt > f.now && e.Permit.ExpiresAt <= authority.PermitExpiry(f.now, g.ExpiresAt), "permit-life", "a permit lives at most 30 s and never longer than its grant")
	o := f.s.Observation
	f.must(o != nil && b.ObservationID == o.ID && b.DocumentEpoch == f.s.DocumentEpoch && b.StateRevision == f.s.StateRevision &&
		b.RunID == f.s.ID && b.Goal == f.s.GoalDigest && b.ActionDigest == t.ActionDigest, "permit-bindings", "a binding is not what was checked")
	f.must(e.Permit.EffectDigest == t.EffectDigest && e.EntryID == t.EntryID && e.AmountCents == t.AmountCents, "permit-effect", "the permit is not for the effect that was checked")
	f.must((e.Class == propose.ClassCommit) == (b.TransactionProposalID != nil), "permit-proposal", "a commit names the prepared proposal, anything else names none")
	f.must(b.TransactionProposalID == nil || f.s.Proposal != nil && f.s.Proposal.ID == *b.TransactionProposalID, "permit-proposal", "the permit names a proposal that is not prepared")
	if e.Class == propose.ClassCommit && f.s.Config.Mode == ModeExact {
		f.must(g == nil || b.TransactionProposalID != nil && g.Approves(*b.TransactionProposalID, e.Permit.EffectDigest), "permit-unapproved", "in exact mode a commit rests on the approval of exactly that effect")
	}
	f.s.Permit = &Permit{Permit: e.Permit, EntryID: e.EntryID, Class: e.Class, AmountCents: e.AmountCents}
	t.Allowed = false // one ALLOW, one permit
	f.s.Stage = "permitted"
}

// PermitExpired is permit.expired.
type PermitExpired struct {
	PermitID string `json:"permitId"`
}

func (PermitExpired) EventType() string { return "permit.expired" }

func (e PermitExpired) apply(f *fold) {
	p := f.s.Permit
	f.must(p != nil && p.ID == e.PermitID && !p.Live(f.now), "permit-expired", "the permit is not live or its time has not come")
	f.s.Permit = nil
	if p != nil && f.s.Status == StatusReady && f.s.Managed(p.Bindings.TurnID) {
		f.stops(stopcontext.CategoryRetry, stopcontext.CategoryAuthority)
	}
}

// Causes of a revocation.
const (
	CauseOwner     = "owner"
	CauseState     = "state"
	CauseTerminate = "terminate"
	CauseGrant     = "grant"
	CauseStop      = "stop" // an attempt was given up
	CauseFreeze    = "freeze"
	CauseSimulated = "simulated"
)

// PermitRevoked is permit.revoked.
type PermitRevoked struct {
	PermitID string `json:"permitId"`
	Cause    string `json:"cause"`
}

func (PermitRevoked) EventType() string { return "permit.revoked" }

func (e PermitRevoked) apply(f *fold) {
	f.must(f.s.Permit != nil && f.s.Permit.ID == e.PermitID, "permit-revoked", "the permit is not live")
	f.s.Permit = nil
}

// ProposalPrepared is proposal.prepared: an immutable transaction proposal.
type ProposalPrepared struct {
	Proposal Proposal `json:"proposal"`
}

func (ProposalPrepared) EventType() string { return "proposal.prepared" }

func (e ProposalPrepared) apply(f *fold) {
	p := e.Proposal
	f.status("proposal-status", StatusCreated, StatusReady, StatusRunning)
	f.must(f.s.Proposal == nil, "proposal-twice", "the former proposal was not voided")
	f.must(p.ExpiresAt > f.now && p.ExpiresAt <= f.now.Add(ProposalLife), "proposal-life", "a proposal lives at most 10 minutes")
	f.must(p.TermsDigest == f.s.TermsDigest, "proposal-terms", "the proposal is for other terms")
	f.s.Proposal = &p
}

// ProposalVoided is proposal.voided.
type ProposalVoided struct {
	ProposalID string `json:"proposalId"`
	Cause      string `json:"cause"` // state, expired, executed
}

func (ProposalVoided) EventType() string { return "proposal.voided" }

func (e ProposalVoided) apply(f *fold) {
	f.must(f.s.Proposal != nil && f.s.Proposal.ID == e.ProposalID, "proposal-voided", "the proposal is not there")
	f.s.Proposal = nil
}
