package decide

import (
	"slices"

	"countersign/internal/authority"
	"countersign/internal/money"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
	"countersign/internal/supervision/stopcontext"
)

// ClaimRequest is the one use of a permit.
type ClaimRequest struct {
	PermitID    string // "" when the request brought none
	Action      *propose.Action
	Catalog     []propose.Entry // of the newest observation
	Fate        *Fate           // the permit's fate in the ledger, nil when it has none
	ExecutionID string
	Holder      string
	FreezeEpoch int64
	// Dispatch tells what a hosted mutation will send; nil for reads and
	// local targets. It is called once everything else is decided.
	Dispatch func(*propose.Entry, *run.Permit) (*run.Dispatch, *authority.Denial)
}

// Claim decides whether the action may leave now, and if so claims the permit
// and stores the intent. The order is that of G-12: permit state, bindings,
// authority.
func (d *Deciding) Claim(r ClaimRequest) (*propose.Entry, *authority.Denial) {
	s := d.s
	if r.PermitID == "" {
		return nil, &authority.Denial{Reason: authority.PermitRequired, Detail: "Send the permit token of POST /turns in the header x-step-permit."}
	}
	p := s.Permit
	if (p == nil || p.ID != r.PermitID) && !d.doors.PermitState {
		return nil, d.spent(r)
	}
	if p == nil {
		return nil, notReady(s)
	}
	entry := propose.EntryByID(r.Catalog, p.EntryID)
	if entry == nil || s.Observation == nil {
		return nil, stale()
	}
	if denial := d.bound(p, entry, r.Action); denial != nil {
		return nil, denial
	}
	if denial := d.recheck(p, entry); denial != nil && !d.doors.Authority {
		return nil, denial
	}
	var dispatch *run.Dispatch
	if s.Config.Target == run.TargetHosted && p.Class != propose.ClassRead {
		var denial *authority.Denial
		if dispatch, denial = r.Dispatch(entry, p); denial != nil {
			return nil, denial
		}
	}
	d.emit(&run.Claimed{PermitID: p.ID, ExecutionID: r.ExecutionID, ReservedCents: p.AmountCents})
	d.fate(Fate{PermitID: p.ID, Fate: FateClaimed, ExecutionID: r.ExecutionID})
	d.emit(&run.Dispatched{
		ExecutionID: r.ExecutionID, PermitID: p.ID, TurnID: p.Bindings.TurnID, OperationID: entry.OperationID, Class: p.Class,
		Args: entry.Args, Postconditions: entry.Effect.Postconditions, EffectDigest: p.EffectDigest, AmountCents: p.AmountCents,
		Dispatch: dispatch, Lease: run.Lease{Holder: r.Holder, Until: d.now.Add(run.LeaseLife)}, FreezeEpoch: r.FreezeEpoch,
	})
	d.notAfter(d.now.Add(run.DispatchLife)) // then the attempt is given up: a claim stored later could send nothing
	d.notAfter(p.ExpiresAt)
	d.notAfter(s.Grant(p.Bindings.GrantID).ExpiresAt)
	if s.Proposal != nil && p.Class == propose.ClassCommit {
		d.notAfter(s.Proposal.ExpiresAt)
	}
	return entry, nil
}

// spent says why a permit that is not the live one authorizes nothing.
func (d *Deciding) spent(r ClaimRequest) *authority.Denial {
	fate := r.Fate
	if own := d.fateOf(r.PermitID); own != nil {
		fate = own
	}
	if fate == nil {
		return &authority.Denial{Reason: authority.PermitMismatch, Detail: "This is no permit of this run."}
	}
	switch fate.Fate {
	case FateClaimed:
		if d.s.Unresolved() {
			return unresolved()
		}
		return &authority.Denial{Reason: authority.PermitConsumed, Detail: "The permit was used already; send a new report."}
	case FateExpired:
		return &authority.Denial{Reason: authority.PermitExpired, Detail: "The permit has expired; send a new report."}
	}
	switch fate.Cause {
	case run.CauseState:
		return stale()
	case run.CauseFreeze:
		return &authority.Denial{Reason: authority.PermitRevoked, Detail: "The permit was revoked because the workspace was frozen."}
	}
	return &authority.Denial{Reason: authority.PermitRevoked, Detail: "The permit was revoked."}
}

func stale() *authority.Denial {
	return &authority.Denial{Reason: authority.StaleState, Detail: "Observation or state moved on; observe again and send a new report."}
}

// bound holds the action against the ten bindings.
func (d *Deciding) bound(p *run.Permit, entry *propose.Entry, a *propose.Action) *authority.Denial {
	s := d.s
	effect := entry.EffectDigest(s.Config.Service, s.StateRevision)
	action := entry.ActionDigest(effect, s.Observation.ID, s.Observation.DocumentEpoch)
	same := entry.Matches(a) || d.doors.PermitBinding
	if !same || effect != p.EffectDigest || !p.Bindings.Equal(bindings(s, p.Bindings.TurnID, p.Bindings.GrantID, entry, action)) {
		return &authority.Denial{Reason: authority.PermitMismatch, Detail: "The action is not the one that the permit names."}
	}
	return nil
}

// recheck tests the authority again at claim time (H-044).
func (d *Deciding) recheck(p *run.Permit, entry *propose.Entry) *authority.Denial {
	s, b := d.s, p.Bindings
	g := s.Grant(b.GrantID)
	switch {
	case s.Status != run.StatusReady:
		return notReady(s)
	case s.Events > run.MaxEvents-run.EventReserve/2: // the report was taken in just before the reserve
		return atLimit()
	case g == nil || !g.Live(d.now):
		return &authority.Denial{Reason: authority.GrantExpired, Detail: "The grant has expired; a new run is needed."}
	case !g.UsesLeft(b.OperationID, s.Used[g.ID]):
		return &authority.Denial{Reason: authority.GrantExhausted, Detail: "The grant allows no further use of this operation."}
	case p.Class == propose.ClassCommit && (s.Proposal == nil || b.TransactionProposalID == nil || s.Proposal.ID != *b.TransactionProposalID || !s.Proposal.Live(d.now)):
		return stale()
	case !s.Budget.Fits(entry.Amount()) || !policy.GrantFits(g, s.Budget, entry.Amount()) || !countable(s, entry.Amount()):
		return &authority.Denial{Reason: authority.BudgetExceeded, Detail: "The amount does not fit what is left of the budget."}
	}
	return nil
}

// countable reports whether everything that the run spends is an amount together with
// this one, also when every statement that nothing was applied is contradicted (L-4).
func countable(s *run.State, amount money.Cents) bool {
	total, ok := (s.Budget.Spent + s.Budget.Reserved).Add(amount)
	stated := s.Stated
	if s.Execution != nil {
		stated = append(slices.Clone(stated), *s.Execution)
	}
	for _, x := range stated {
		if x.Finding == state.FindingNotApplied && x.State == run.ExecutionReconciled && ok {
			total, ok = total.Add(x.AmountCents)
		}
	}
	return ok
}

// Refuse records that an authenticated request was turned down. After a hundred
// of them nothing more is recorded (L-3).
func (d *Deciding) Refuse(permitID, reason, bodySHA256 string) {
	if d.s.Refusals >= run.MaxRefusals || d.s.Events > run.MaxEvents-run.EventReserve/2 {
		return
	}
	e := run.Refused{ReasonCode: reason, BodySHA256: bodySHA256}
	if permitID != "" {
		e.PermitID = &permitID
	}
	d.emit(&e)
}

// awaiting returns the execution when it waits for its outcome.
func (d *Deciding) awaiting(executionID string) (*run.Execution, *authority.Denial) {
	x := d.s.Execution
	if x == nil || x.ID != executionID {
		return nil, &authority.Denial{Reason: authority.NotFound, Detail: "There is no such execution."}
	}
	if x.State != run.ExecutionDispatched && x.State != run.ExecutionUnconfirmed {
		return nil, &authority.Denial{Reason: authority.InProgress, Detail: "The outcome of the execution is recorded already."}
	}
	return x, nil
}

// Outcome is what an execution came to.
type Outcome struct {
	Kind       string
	Result     string
	Status     int64
	BodySHA256 string
	OrderID    *string
	Receipt    string // compact JWS of the store, for a hosted mutation
	ObservedBy string // response or look_up
	Cause      string // when the result is refused
}

// Receive records the outcome of an execution as its receipt tells it.
func (d *Deciding) Receive(executionID string, o Outcome) *authority.Denial {
	x, denial := d.awaiting(executionID)
	if stated := d.s.Find(executionID); stated != nil && stated.State == run.ExecutionReconciled {
		x, denial = stated, nil
	}
	if denial != nil {
		return denial
	}
	if o.Receipt != "" {
		d.emit(&run.HostedReceipt{ExecutionID: x.ID, PermitID: x.PermitID, Receipt: o.Receipt, ResponseSHA256: o.BodySHA256, ObservedBy: o.ObservedBy})
	}
	var amount money.Cents
	applied := o.Result == run.ResultApplied
	if applied {
		amount = x.AmountCents
	}
	if x.State == run.ExecutionReconciled && (x.Finding == state.FindingApplied) != applied {
		d.contradicted(x, o.Result)
	}
	d.emit(&run.Receipt{ExecutionID: x.ID, PermitID: x.PermitID, Kind: o.Kind, Result: o.Result, Status: o.Status, BodySHA256: o.BodySHA256, AmountCents: amount, OrderID: o.OrderID})
	d.emit(&run.Consumed{PermitID: x.PermitID, ExecutionID: x.ID})
	if !applied {
		d.notApplied(x, o.Cause)
	}
	if o.ObservedBy == run.ByLookUp {
		d.follow(x, run.CauseProbed)
	} else {
		d.follow(x, run.CauseReceipt)
	}
	return nil
}

// notApplied records a definite no-effect. A read leaves the run ready; anything
// else stops it for a retry.
func (d *Deciding) notApplied(x *run.Execution, cause string) {
	e := run.NotApplied{ExecutionID: x.ID, Cause: cause}
	if x.Owed { // a statement may have released it already
		e.ReleasedCents = x.AmountCents
	}
	d.emit(&e)
	switch {
	case d.s.Status != run.StatusRunning, x != d.s.Execution:
	case x.Class == propose.ClassRead:
		d.emit(&run.Resumed{Cause: "attempt_ended"})
	default:
		d.pause(authority.ExecutionNotApplied, stopcontext.SourceRuntime)
	}
}

// NotApplied records that an execution without a signed receipt had definitely
// no effect: a failed read, or a local service that refused.
func (d *Deciding) NotApplied(executionID, cause string) *authority.Denial {
	x, denial := d.awaiting(executionID)
	if denial != nil {
		return denial
	}
	d.notApplied(x, cause)
	return nil
}

// Unconfirmed records that the outcome of a hosted mutation is unknown.
func (d *Deciding) Unconfirmed(executionID, cause string) *authority.Denial {
	x, denial := d.awaiting(executionID)
	if denial != nil || x.State == run.ExecutionUnconfirmed {
		return denial
	}
	d.unconfirmed(cause)
	return nil
}

func (d *Deciding) unconfirmed(cause string) {
	source := stopcontext.SourceHosted
	if d.s.Execution.Dispatch == nil {
		source = stopcontext.SourceRuntime // the local service is part of this server
	}
	d.emit(&run.Unconfirmed{ExecutionID: d.s.Execution.ID, Cause: cause})
	if d.s.Status == run.StatusRunning {
		d.pause(authority.DispatchUnconfirmed, source)
	}
}

// Void records that an intent was stored and nothing was sent.
func (d *Deciding) Void(executionID, cause, reason string) *authority.Denial {
	x, denial := d.awaiting(executionID)
	switch {
	case denial != nil:
		return denial
	case x.State == run.ExecutionUnconfirmed:
		return unresolved()
	}
	d.emit(&run.Voided{ExecutionID: x.ID, Cause: cause, ReasonCode: reason, ReleasedCents: x.AmountCents})
	d.emit(&run.PermitVoided{PermitID: x.PermitID, ExecutionID: x.ID, Cause: cause})
	if d.s.Status == run.StatusRunning {
		if stopcontext.Category(reason) == "" {
			reason = authority.ExecutionNotApplied
		}
		d.pause(reason, stopcontext.SourceRuntime)
	}
	return nil
}

// Measure records measured durations.
func (d *Deciding) Measure(m run.Metrics) { d.emit(&m) }
