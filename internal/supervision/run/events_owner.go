package run

import (
	"maps"
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/state"
	"countersign/internal/supervision/stopcontext"
)

// Bounds of what an owner may add to a run (G-03, G-07).
const (
	MaxClarifications = 10
	ApprovalLife      = authority.MaxExactGrantMinutes * 60e9 // nanoseconds; and never longer than the proposal
)

// Approved is approval.granted: the owner approved exactly this effect. The exact
// grant and run.resumed follow in the same commit; nothing is dispatched.
type Approved struct {
	ProposalID   string        `json:"transactionProposalId"`
	EffectDigest string        `json:"effectDigest"`
	GrantID      string        `json:"grantId"`
	OperationID  string        `json:"operationId"`
	Destination  string        `json:"destination"`
	AmountCents  money.Cents   `json:"amountCents"`
	Currency     string        `json:"currency"`
	ExpiresAt    evidence.Time `json:"expiresAt"` // of the exact grant
	ApprovedBy   string        `json:"approvedBy"`
	Approver     string        `json:"approver"` // the hash that names the owner's session
}

func (Approved) EventType() string { return "approval.granted" }

func (e Approved) apply(f *fold) {
	f.stoppedFor("approval-status", stopcontext.CategoryApproval)
	f.must(e.ApprovedBy == "owner" && canon.IsHash(e.Approver), "approved-by", "only an owner approves, in a session that is named")
	p := f.s.Proposal
	if !f.must(p != nil && p.ID == e.ProposalID && p.Live(f.now), "approval-proposal", "the approved proposal is not the one that stands") {
		return
	}
	same := e.OperationID == p.OperationID && e.Destination == p.Destination && e.AmountCents == p.AmountCents && e.Currency == p.Currency
	f.must(same, "approval-effect", "what was approved is not what was prepared")
	f.s.Approval = &Approval{ProposalID: e.ProposalID, EffectDigest: e.EffectDigest, GrantID: e.GrantID, ApprovedAt: f.now}
	f.owe("approval-without-grant", "an approval is not followed by its exact grant", func(b Event) bool {
		g, ok := b.(*Granted)
		return ok && g.Grant.ID == e.GrantID && g.Grant.ExpiresAt == e.ExpiresAt
	}, nil)
}

// exact is the grant that an approval creates: one use of one effect.
func (f *fold) exact(g *authority.Grant) {
	a, p := f.s.Approval, f.s.Proposal
	if !f.must(a != nil && p != nil && a.GrantID == g.ID && a.ApprovedAt == f.now, "grant-without-approval", "an exact grant rests on no approval") {
		return
	}
	one := len(g.Operations) == 1 && g.Operations[0] == p.OperationID && len(g.OnApproval) == 0 && len(g.MaxUses) == 1 && g.MaxUses[p.OperationID] == 1
	f.must(one && g.Approves(a.ProposalID, a.EffectDigest) && g.MaxTotalCents == p.AmountCents, "grant-exact", "an exact grant is for more than one use of what was approved")
	base := f.s.Approvable(p.OperationID)
	f.must(base != nil && g.ExpiresAt <= min(f.now.Add(ApprovalLife), p.ExpiresAt, base.ExpiresAt), "grant-life", "an exact grant lives at most 5 minutes and no longer than its proposal and the grant that it is within")
	// What former approvals created was used, has ended, or is for a proposal that does
	// not stand; the state would outgrow its bound with it.
	f.s.Grants = slices.DeleteFunc(f.s.Grants, func(former authority.Grant) bool { return former.Kind == authority.KindExact })
	maps.DeleteFunc(f.s.Used, func(id string, _ authority.Usage) bool { return f.s.Grant(id) == nil })
	f.owe("grant-without-resume", "an exact grant is not followed by the end of the stop", resumes(CauseApproved), nil)
}

func resumes(cause string) func(Event) bool {
	return func(b Event) bool { r, ok := b.(*Resumed); return ok && r.Cause == cause }
}

// Clarified is clarification.added: the owner's words, shown to consumer and guardian.
// Grants stay as they are (H-174, H-192); the goal that permits bind is another one.
type Clarified struct {
	Clarification evidence.Commitment `json:"clarification"`
	GoalDigest    string              `json:"goalDigest"`
	By            string              `json:"by"`
}

func (Clarified) EventType() string { return "clarification.added" }

func (e Clarified) apply(f *fold) {
	f.stoppedFor("clarification-status", stopcontext.CategoryClarification, stopcontext.CategoryRefusal)
	f.must(e.By == "owner", "clarified-by", "only an owner clarifies")
	f.s.Clarifications = append(f.s.Clarifications, e.Clarification)
	f.must(len(f.s.Clarifications) <= MaxClarifications, "clarification-limit", "a run has at most 10 clarifications")
	f.s.GoalDigest = state.GoalDigest(f.s.Instruction, f.s.Terms, f.s.Clarifications...)
	f.must(e.GoalDigest == f.s.GoalDigest, "goal-digest", "goalDigest is not the digest of instruction, terms and clarifications")
	f.owe("clarification-without-resume", "a clarification is not followed by the end of the stop", resumes(CauseClarified), nil)
}

// RetryAccepted is retry.accepted: the owner lets a run go on that stopped for another
// try or for the configuration. Nothing is dispatched (H-188).
type RetryAccepted struct {
	By string `json:"by"`
}

func (RetryAccepted) EventType() string { return "retry.accepted" }

func (e RetryAccepted) apply(f *fold) {
	f.stoppedFor("retry-status", stopcontext.CategoryRetry, stopcontext.CategoryConfiguration)
	f.must(e.By == "owner", "retried-by", "only an owner lets a run go on")
	f.s.Observation = nil // the next report rests on a fresh one
	f.owe("retry-without-resume", "a retry is not followed by the end of the stop", resumes(CauseRetried), nil)
}

// stoppedFor requires a stop of one of the categories in a run whose effects are all
// known (G-03, H-191).
func (f *fold) stoppedFor(rule string, categories ...string) {
	f.must(f.s.Recoverable(categories...) == "", rule, "the run has no stop that this mends")
}

// Simulated is simulate.applied: an owner let something happen to the local synthetic
// service or the run's clockwork (G-19). It is labelled and never happens to a hosted run.
type Simulated struct {
	Event string `json:"event"`
	By    string `json:"by"`
}

// Events that can be simulated: those of G-19, and of ours the end of an approval that
// nobody used.
const (
	SimulateExpireGrant     = "expire_grant"
	SimulateExpireApproval  = "expire_approval"
	SimulateExpirePermit    = "expire_permit"
	SimulateReviseState     = "revise_state"
	SimulateNavigate        = "navigate"
	SimulatePriceChange     = "price_change"
	SimulateDropReceipt     = "drop_receipt"
	SimulateProviderTimeout = "provider_timeout"
)

func (Simulated) EventType() string { return "simulate.applied" }

func (e Simulated) apply(f *fold) {
	f.must(f.s.Config.Target == TargetLocal, "simulate-target", "nothing is simulated for a hosted run")
	f.status("simulate-status", StatusReady, StatusPaused)
	f.must(e.By == "owner", "simulated-by", "only an owner simulates")
	f.must(!f.s.Unresolved(), "simulate-unresolved", "nothing is simulated while an effect is unresolved")
	switch e.Event {
	case SimulateExpirePermit:
		if f.must(f.s.Permit != nil, "simulate-permit", "there is no permit to expire") {
			permit := *f.s.Permit
			permit.ExpiresAt = f.now
			f.s.Permit = &permit
		}
	case SimulateReviseState: // the observation stays what a report may cite, and is stale (G-11)
		f.s.StateRevision++
	case SimulateNavigate:
		f.s.DocumentEpoch++
	case SimulatePriceChange:
		f.s.Observation = nil // what is observed next shows the price, and moves the revision
	case SimulateDropReceipt:
		f.s.DropReceipt = true
	case SimulateExpireGrant, SimulateExpireApproval, SimulateProviderTimeout: // what follows says it all
	default:
		f.must(false, "simulate-event", "this event is not one that can be simulated")
	}
}
