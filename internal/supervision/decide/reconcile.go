package decide

import (
	"slices"

	"countersign/internal/authority"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
	"countersign/internal/supervision/stopcontext"
)

// Look is what came of asking a target about an execution.
type Look struct {
	ProbeID string
	Answer  string  // one of those of package run
	Receipt *string // the store's JWS when one verifies
	Outcome Outcome // what the receipt says, with the answer receipt
}

// InDoubt returns the execution when its effect is unconfirmed or rests on an owner's
// statement, so that asking can find something out. A freeze does not matter: asking
// dispatches nothing, it only closes.
func (d *Deciding) InDoubt(executionID string) (*run.Execution, *authority.Denial) {
	x := d.s.Find(executionID)
	switch {
	case x == nil:
		return nil, unknownExecution()
	case isUnderWay(x):
		return nil, underWay()
	case !inDoubt(x):
		return nil, notEligible("The outcome of the execution is known: " + x.State + ".")
	}
	return x, nil
}

func inDoubt(x *run.Execution) bool {
	return x.State == run.ExecutionUnconfirmed || x.State == run.ExecutionReconciled
}

// isUnderWay reports whether the attempt still has its lease: it is claimed, or its
// request is out.
func isUnderWay(x *run.Execution) bool {
	return x.State == run.ExecutionDispatched || x.DispatchedAt == 0
}

// InDoubt returns the executions that can be probed, the newest first: those that
// [Deciding.InDoubt] accepts.
func InDoubt(s *run.State) (list []run.Execution) {
	if s.Execution != nil && inDoubt(s.Execution) {
		list = append(list, *s.Execution)
	}
	for _, x := range slices.Backward(s.Stated) {
		if inDoubt(&x) {
			list = append(list, x)
		}
	}
	return list
}

// statable reports whether an owner can state anything about the newest execution.
func statable(s *run.State) bool {
	return s.Execution != nil && (s.Execution.State == run.ExecutionUnconfirmed || s.Execution.State == run.ExecutionMismatch)
}

func unknownExecution() *authority.Denial {
	return &authority.Denial{Reason: authority.NotFound, Detail: "There is no such execution."}
}

func underWay() *authority.Denial {
	return &authority.Denial{Reason: authority.InProgress, Detail: "The execution is under way; ask again when its 10 seconds are over."}
}

// Probe records what came of a look-up (L-4). A receipt decides what became of the
// execution; any other answer changes nothing. An execution whose outcome somebody else
// has recorded meanwhile stays as it is.
func (d *Deciding) Probe(executionID string, l Look) *authority.Denial {
	switch _, denial := d.InDoubt(executionID); {
	case denial != nil && denial.Reason == authority.RecoveryNotEligible:
		return nil
	case denial != nil:
		return denial
	case l.Answer != state.AnswerReceipt && d.full():
		return atLimit()
	}
	d.emit(&run.Probed{ExecutionID: executionID, ProbeID: l.ProbeID, Answer: l.Answer, Receipt: l.Receipt})
	if l.Answer != state.AnswerReceipt {
		return nil
	}
	return d.Receive(executionID, l.Outcome)
}

// contradicted records that a receipt says otherwise than the owner did about x.
func (d *Deciding) contradicted(x *run.Execution, result string) {
	// What it will come to is tried on a copy: the event says it before it is folded.
	after := d.s.Clone()
	after.Restore(after.Find(x.ID))
	d.emit(&run.Contradicted{ExecutionID: x.ID, Statement: x.Finding, ReceiptResult: result, AmountCents: x.AmountCents, OverspentCents: after.Over()})
}

// follow does what the known outcome of x means for a run that was stopped without
// it: applied goes on to be verified, anything else stops for another try. A run that
// had a false statement stops for good (L-4).
func (d *Deciding) follow(x *run.Execution, cause string) {
	switch {
	case x.Contradicted && !d.s.Terminal():
		d.revokePermit(run.CauseState)
		d.pause(authority.VerificationDiffers, stopcontext.SourceHosted)
	case x != d.s.Execution || !d.s.Waiting():
	case x.State == run.ExecutionReceipted:
		d.emit(&run.Resumed{Cause: cause})
	default:
		d.pause(authority.ExecutionNotApplied, stopcontext.SourceRuntime)
	}
}

// Statement is what an owner states about an execution (G-14).
type Statement struct {
	ExecutionID string
	Finding     string
	Note        string // "" for none
}

// CanReconcile reports whether the statement can be taken at all, whatever the time:
// only an unconfirmed effect is stated, and against a receipt nothing is. asks says
// that the store has to be asked first.
func (d *Deciding) CanReconcile(r Statement) (asks *run.Execution, denial *authority.Denial) {
	x := d.s.Find(r.ExecutionID)
	switch {
	case x == nil:
		return nil, unknownExecution()
	case isUnderWay(x):
		return nil, underWay()
	case d.stated(x, r):
		return nil, nil
	case x.State == run.ExecutionMismatch && r.Finding != state.FindingNotApplied:
		return nil, nil
	case x.State != run.ExecutionUnconfirmed:
		return nil, notEligible("Nothing can be stated about an execution that is " + x.State + ".")
	case r.Finding == state.FindingNotApplied && len(d.s.Stated) >= state.MaxStated:
		return nil, notEligible("The run has gone on after eight statements already; revoke it and create a new run.")
	case r.Finding == state.FindingNotApplied && x.Dispatch != nil:
		return x, nil
	}
	return nil, nil
}

// stated reports whether the owner has said exactly this already.
func (d *Deciding) stated(x *run.Execution, r Statement) bool {
	return x.State == run.ExecutionReconciled && x.Finding == r.Finding
}

// Reconcile records an owner's statement and sends nothing. Applied and unknown leave
// the run where it is, and it can only be revoked; not_applied gives back what was held
// and lets the run be retried, for a hosted effect only when its dispatch permit has
// long expired. Saying the same again changes nothing.
func (d *Deciding) Reconcile(r Statement) *authority.Denial {
	if _, denial := d.CanReconcile(r); denial != nil {
		return denial
	}
	x := d.s.Find(r.ExecutionID)
	e := run.Reconciled{ExecutionID: x.ID, Finding: r.Finding, By: "owner"}
	switch open := x.State == run.ExecutionUnconfirmed; {
	case d.stated(x, r):
		return nil
	case d.full():
		return atLimit()
	case r.Finding == state.FindingNotApplied && x.Dispatch != nil && d.now < x.DispatchedAt.Add(state.StatementWait) && !d.doors.Statement:
		return &authority.Denial{Reason: authority.PermitStillLive, Detail: "The store could not close the dispatch, which could still take effect. State it again at " + x.DispatchedAt.Add(state.StatementWait).String() + " or later, or when the store answers."}
	case open && r.Finding == state.FindingNotApplied:
		e.ReleasedCents = x.AmountCents
	case open && r.Finding == state.FindingApplied:
		e.SpentCents = x.AmountCents
	}
	if r.Note != "" {
		note := d.text(r.Note)
		e.Note = &note
	}
	d.emit(&e)
	if r.Finding == state.FindingNotApplied {
		d.follow(x, "")
	}
	return nil
}
