package run

import (
	"encoding/json"
	"slices"

	"countersign/internal/authority"
	"countersign/internal/money"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/state"
)

// Claimed is permit.claimed: the one use of a permit. The reservation and the
// grant use are taken here.
type Claimed struct {
	PermitID      string      `json:"permitId"`
	ExecutionID   string      `json:"executionId"`
	ReservedCents money.Cents `json:"reservedCents"`
}

func (Claimed) EventType() string { return "permit.claimed" }

func (e Claimed) apply(f *fold) {
	f.status("claim-status", StatusReady)
	p := f.s.Permit
	if !f.must(p != nil && p.ID == e.PermitID, "claim-without-permit", "the permit is not live") {
		return
	}
	b := p.Bindings
	f.must(p.Live(f.now), "claim-expired", "the permit has expired")
	o := f.s.Observation
	f.must(o != nil && o.ID == b.ObservationID && b.DocumentEpoch == f.s.DocumentEpoch && b.StateRevision == f.s.StateRevision && b.Goal == f.s.GoalDigest, "claim-stale", "observation, state or goal moved on since the permit was issued")
	g := f.s.Grant(b.GrantID)
	f.must(g != nil && g.Live(f.now), "claim-grant", "the grant has ended")
	f.must(g == nil || g.UsesLeft(b.OperationID, f.s.Used[g.ID]), "grant-uses", "the grant allows no further use")
	if id := b.TransactionProposalID; id != nil {
		f.must(f.s.Proposal != nil && f.s.Proposal.ID == *id && f.s.Proposal.Live(f.now), "claim-proposal", "the proposal has ended")
	}
	f.must(e.ReservedCents == p.AmountCents, "reservation", "the reservation is not the amount of the permit")
	f.s.Budget.Reserved += e.ReservedCents // fold.run holds the sum against the limit
	f.s.Use(b.GrantID, b.OperationID, 1)
	if x := f.s.Execution; x != nil && x.State == ExecutionReconciled {
		f.s.Stated = append(f.s.Stated, *x)
	}
	f.s.Execution = &Execution{
		ID: e.ExecutionID, PermitID: p.ID, TurnID: b.TurnID, GrantID: b.GrantID, OperationID: b.OperationID,
		Class: p.Class, EffectDigest: p.EffectDigest, AmountCents: p.AmountCents, State: ExecutionClaimed, Sequence: f.sequence, Owed: true,
	}
	f.s.Permit = nil
	f.owe("claim-without-dispatch", "the claim of a permit is not followed by its intent", func(b Event) bool { _, ok := b.(*Dispatched); return ok }, nil)
}

// Dispatched is execution.dispatched: the intent, stored in the same commit as
// the claim and before any byte leaves.
type Dispatched struct {
	ExecutionID    string          `json:"executionId"`
	PermitID       string          `json:"permitId"`
	TurnID         string          `json:"turnId"`
	OperationID    string          `json:"operationId"`
	Class          string          `json:"class"`
	Args           json.RawMessage `json:"args"`
	Postconditions []string        `json:"postconditions"`
	EffectDigest   string          `json:"effectDigest"`
	AmountCents    money.Cents     `json:"amountCents"`
	Dispatch       *Dispatch       `json:"dispatch"` // what a hosted mutation sends
	Lease          Lease           `json:"lease"`
	FreezeEpoch    int64           `json:"freezeEpoch"`
}

func (Dispatched) EventType() string { return "execution.dispatched" }

func (e Dispatched) apply(f *fold) {
	x := f.s.Execution
	f.must(!f.s.Terminal(), "dispatch-after-end", "nothing is dispatched after the run ended")
	claimed := x != nil && x.ID == e.ExecutionID && x.PermitID == e.PermitID && x.State == ExecutionClaimed && x.Sequence == f.sequence-1 && f.s.UpdatedAt == f.now
	if !f.must(claimed, "dispatch-without-claim", "an execution is dispatched in the commit that claimed its permit") {
		return
	}
	f.must(e.TurnID == x.TurnID && e.OperationID == x.OperationID && e.Class == x.Class && e.EffectDigest == x.EffectDigest && e.AmountCents == x.AmountCents, "dispatch-effect", "what is dispatched is not what was permitted")
	hosted := f.s.Config.Target == TargetHosted && e.Class != propose.ClassRead
	f.must(hosted == (e.Dispatch != nil), "dispatch-target", "a hosted mutation names its dispatch permit, anything else names none")
	f.must(e.Dispatch == nil || f.s.Hosted != nil && e.Dispatch.SessionID == f.s.Hosted.ID && f.s.StoreOrigin != nil && e.Dispatch.Audience == *f.s.StoreOrigin, "dispatch-audience", "the dispatch is not for the run's store and session")
	f.must(e.Lease.Until <= f.now.Add(LeaseLife), "lease", "a lease lasts at most 10 s")
	x.Args, x.Postconditions, x.Dispatch, x.State, x.Sequence, x.DispatchedAt = e.Args, e.Postconditions, e.Dispatch, ExecutionDispatched, f.sequence, f.now
	lease := e.Lease
	f.s.Status, f.s.Stage, f.s.Lease = StatusRunning, "dispatching", &lease
}

// HostedReceipt is hosted.receipt: the store's signed receipt as it arrived.
type HostedReceipt struct {
	ExecutionID    string `json:"executionId"`
	PermitID       string `json:"permitId"`
	Receipt        string `json:"receipt"`        // compact JWS
	ResponseSHA256 string `json:"responseSha256"` // of the response body, hex
	ObservedBy     string `json:"observedBy"`     // response or look_up
}

func (HostedReceipt) EventType() string { return "hosted.receipt" }

func (e HostedReceipt) apply(f *fold) {
	x := f.execution(e.ExecutionID, "receipt-twice", ExecutionDispatched, ExecutionUnconfirmed, ExecutionReconciled)
	if x == nil {
		return
	}
	f.must(x.Dispatch != nil, "receipt-kind", "only a hosted mutation has a store's receipt")
	f.must(x.PermitID == e.PermitID, "receipt-permit", "the receipt is for another permit")
	f.must(!x.Hosted, "receipt-twice", "a store's receipt is recorded once")
	f.must(e.ObservedBy == ByResponse || e.ObservedBy == ByLookUp, "receipt-observed-by", "a store's receipt comes with the response or from a look-up")
	x.Hosted = true
}

// How a store's receipt came in.
const (
	ByResponse = "response"
	ByLookUp   = "look_up"
)

// Kinds and results of an execution receipt.
const (
	ReceiptHosted = "hosted" // rests on a hosted.receipt
	ReceiptLocal  = "local"  // the local service, committed together with the effect
	ReceiptRead   = "read"   // the control plane's own note of a read

	ResultApplied = "applied"
	ResultRefused = "refused"
	ResultClosed  = "closed" // a look-up came first, and nothing can come of it any more
)

// Receipt is execution.receipt: what the execution did, as far as its receipt
// says. With it an applied amount is spent, and a refused one is released by
// the execution.not_applied that follows.
type Receipt struct {
	ExecutionID string      `json:"executionId"`
	PermitID    string      `json:"permitId"`
	Kind        string      `json:"kind"`
	Result      string      `json:"result"`
	Status      int64       `json:"status"`     // HTTP status, 0 for a local service
	BodySHA256  string      `json:"bodySha256"` // of the response body, hex
	AmountCents money.Cents `json:"amountCents"`
	OrderID     *string     `json:"orderId"`
}

func (Receipt) EventType() string { return "execution.receipt" }

func (e Receipt) apply(f *fold) {
	x := f.execution(e.ExecutionID, "receipt-twice", ExecutionDispatched, ExecutionUnconfirmed, ExecutionReconciled)
	if x == nil {
		return
	}
	f.must(x.PermitID == e.PermitID, "receipt-permit", "the receipt is for another permit")
	want := ReceiptLocal
	if f.s.Config.Target == TargetHosted {
		want = ReceiptHosted
		if x.Class == propose.ClassRead {
			want = ReceiptRead
		}
	}
	f.must(e.Kind == want && (e.Kind != ReceiptHosted || x.Hosted), "receipt-kind", "the receipt is not of the kind that the target demands")
	f.must(e.Result == ResultApplied || e.Result == ResultRefused || e.Result == ResultClosed, "receipt-result", "a receipt says applied, refused or closed")
	stated := x.State == ExecutionReconciled
	f.must(!stated || (x.Finding == state.FindingApplied) == (e.Result == ResultApplied), "receipt-against-statement", "a receipt says otherwise than the owner, and that is not recorded")
	x.State, x.OrderID = ExecutionReceipted, e.OrderID
	f.must(e.Result == ResultApplied || e.AmountCents == 0, "receipt-amount", "a refusal costs nothing")
	if e.Result == ResultApplied {
		f.must(e.AmountCents == x.AmountCents && (stated || f.s.Budget.Spend(e.AmountCents)), "receipt-amount", "the receipt spends another amount than was reserved")
		x.Owed, f.s.Observation = false, nil
		if e.OrderID != nil {
			f.s.OrderID = e.OrderID
		}
		f.s.Committed = f.s.Committed || x.Class == propose.ClassCommit
	}
	f.settled(x, "verifying")
	f.owe("receipt-without-consumption", "a receipt is not followed by the consumption of its permit", func(b Event) bool {
		c, ok := b.(*Consumed)
		return ok && c.ExecutionID == e.ExecutionID
	}, nil)
}

// settled notes that the outside part of an attempt is over. In a run that has ended
// or paused meanwhile nothing else follows of itself, so the lease goes too.
func (f *fold) settled(x *Execution, stage string) {
	switch {
	case x != f.s.Execution:
	case f.s.Status != StatusRunning:
		f.s.Lease = nil
	default:
		f.s.Stage = stage
	}
}

// follow owes what a known outcome brings about in a run that was stopped without one,
// or went on after a statement that was false (L-4).
func (f *fold) follow(x *Execution) {
	reason := authority.ExecutionNotApplied
	switch {
	case x.Contradicted && !f.s.Terminal():
		reason = authority.VerificationDiffers
	case x != f.s.Execution || !f.s.Waiting():
		return
	case x.State == ExecutionReceipted:
		reason = ""
	}
	f.owe("outcome-without-effect", "the run does not do what its known effect means for it", func(b Event) bool {
		if r, ok := b.(*Resumed); ok {
			return reason == "" && (r.Cause == CauseProbed || r.Cause == CauseReceipt)
		}
		p, ok := b.(*Paused)
		return ok && p.Stop.ReasonCode == reason
	}, func(b Event) bool { _, ok := b.(*PermitRevoked); return ok })
}

// Consumed is permit.consumed: the permit's execution has its receipt.
type Consumed struct {
	PermitID    string `json:"permitId"`
	ExecutionID string `json:"executionId"`
}

func (Consumed) EventType() string { return "permit.consumed" }

func (e Consumed) apply(f *fold) {
	x := f.execution(e.ExecutionID, "consumed-without-receipt", ExecutionReceipted)
	f.must(x == nil || x.PermitID == e.PermitID, "consumed-permit", "the permit is not that of the execution")
	if x != nil && !x.Owed && x.Finding != state.FindingNotApplied {
		f.follow(x)
	}
}

// Postcondition is a promised postcondition and whether it was seen to hold.
type Postcondition struct {
	Name  string `json:"name"`
	Holds bool   `json:"holds"`
}

// Verified is execution.verified: every postcondition was seen to hold in a
// fresh observation.
type Verified struct {
	ExecutionID    string          `json:"executionId"`
	ObservationID  string          `json:"observationId"`
	Postconditions []Postcondition `json:"postconditions"`
}

func (Verified) EventType() string { return "execution.verified" }

func (e Verified) apply(f *fold) {
	x := f.execution(e.ExecutionID, "verified-without-receipt", ExecutionReceipted)
	if x == nil {
		return
	}
	f.must(!x.Owed, "verified-unapplied", "only an applied execution is verified")
	f.must(samePostconditions(e.Postconditions, x.Postconditions), "verified-postconditions", "not the postconditions that were promised")
	for _, p := range e.Postconditions {
		f.must(p.Holds, "verified-postconditions", "a postcondition does not hold")
		if !slices.Contains(f.s.Verified, p.Name) {
			f.s.Verified = append(f.s.Verified, p.Name)
		}
	}
	x.State = ExecutionVerified
	f.oweObservation(func(o *Observed) bool { return o.ObservationID == e.ObservationID })
}

// oweObservation is for a verification, which rests on the observation that comes
// with it.
func (f *fold) oweObservation(is func(*Observed) bool) {
	f.owe("verified-unobserved", "a verification is not followed by the observation that it rests on", func(b Event) bool {
		o, ok := b.(*Observed)
		return ok && is(o)
	}, func(b Event) bool {
		switch b.(type) {
		case *ProposalVoided, *ProposalPrepared:
			return true
		}
		return false
	})
}

func samePostconditions(seen []Postcondition, promised []string) bool {
	return slices.EqualFunc(seen, promised, func(p Postcondition, name string) bool { return p.Name == name })
}

// Mismatched is execution.mismatch: a promised postcondition does not hold. The
// run stops for reconciliation.
type Mismatched struct {
	ExecutionID    string          `json:"executionId"`
	Postconditions []Postcondition `json:"postconditions"`
}

func (Mismatched) EventType() string { return "execution.mismatch" }

func (e Mismatched) apply(f *fold) {
	x := f.execution(e.ExecutionID, "mismatch-without-receipt", ExecutionReceipted)
	if x == nil {
		return
	}
	f.must(samePostconditions(e.Postconditions, x.Postconditions) && slices.ContainsFunc(e.Postconditions, func(p Postcondition) bool { return !p.Holds }), "mismatch-postconditions", "every promised postcondition holds")
	x.State = ExecutionMismatch
	f.oweObservation(func(*Observed) bool { return true })
}

// NotApplied is execution.not_applied: a definite no-effect. The reservation
// and the grant use are given back.
type NotApplied struct {
	ExecutionID   string      `json:"executionId"`
	Cause         string      `json:"cause"` // refused, closed, read_failed, local_failed, lease_expired
	ReleasedCents money.Cents `json:"releasedCents"`
}

func (NotApplied) EventType() string { return "execution.not_applied" }

func (e NotApplied) apply(f *fold) {
	x := f.execution(e.ExecutionID, "not-applied-state", ExecutionDispatched, ExecutionReceipted)
	if x == nil {
		return
	}
	definite := x.Dispatch == nil || x.State == ExecutionReceipted // a hosted mutation needs the store's word
	f.must(definite, "not-applied-guess", "nothing shows that the execution had no effect")
	if x.Finding == state.FindingNotApplied { // a statement has released it, and the run may have gone on
		f.must(e.ReleasedCents == 0, "release", "what a statement released is released again")
	} else {
		f.release(x, e.ReleasedCents)
		f.s.Observation = nil
	}
	x.State = ExecutionNotApplied
	f.settled(x, "observing")
	f.follow(x)
}

// release gives back what an execution held.
func (f *fold) release(x *Execution, amount money.Cents) {
	f.must(x.Owed && amount == x.AmountCents && f.s.Budget.Release(amount), "release", "the release is not what was reserved")
	f.s.Use(x.GrantID, x.OperationID, -1)
	x.Owed = false
}

// Unconfirmed is execution.unconfirmed: the outcome of a hosted mutation is
// unknown. The reservation stays; nothing is ever sent again.
type Unconfirmed struct {
	ExecutionID string `json:"executionId"`
	Cause       string `json:"cause"` // timeout, disconnected, unverifiable_answer, lease_expired, simulated
}

func (Unconfirmed) EventType() string { return "execution.unconfirmed" }

func (e Unconfirmed) apply(f *fold) {
	x := f.execution(e.ExecutionID, "unconfirmed-state", ExecutionDispatched)
	if x == nil {
		return
	}
	lost := f.s.DropReceipt && x.Class != propose.ClassRead && f.s.Config.Target == TargetLocal
	f.must(lost || x.Dispatch != nil && !x.Hosted, "unconfirmed-kind", "only a hosted mutation without a receipt can be unconfirmed")
	f.s.DropReceipt = false
	x.State = ExecutionUnconfirmed
	f.settled(x, "reconciling")
}

// Voided is execution.voided: the intent was stored, and nothing was sent.
type Voided struct {
	ExecutionID   string      `json:"executionId"`
	Cause         string      `json:"cause"` // unreachable, recheck, late
	ReasonCode    string      `json:"reasonCode"`
	ReleasedCents money.Cents `json:"releasedCents"`
}

func (Voided) EventType() string { return "execution.voided" }

func (e Voided) apply(f *fold) {
	x := f.execution(e.ExecutionID, "voided-state", ExecutionDispatched)
	if x == nil {
		return
	}
	f.must(!x.Hosted, "voided-receipted", "what the store gave a receipt for was sent")
	f.release(x, e.ReleasedCents)
	x.State = ExecutionVoided
	f.settled(x, "observing")
	f.owe("void-without-permit", "a void is not followed by that of its permit", func(b Event) bool {
		v, ok := b.(*PermitVoided)
		return ok && v.ExecutionID == e.ExecutionID
	}, nil)
}

// PermitVoided is permit.voided: a claimed permit whose dispatch was not sent.
type PermitVoided struct {
	PermitID    string `json:"permitId"`
	ExecutionID string `json:"executionId"`
	Cause       string `json:"cause"`
}

func (PermitVoided) EventType() string { return "permit.voided" }

func (e PermitVoided) apply(f *fold) {
	x := f.execution(e.ExecutionID, "permit-voided", ExecutionVoided)
	f.must(x == nil || x.PermitID == e.PermitID, "permit-voided", "the permit is not that of the execution")
}
