package run

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/money"
	"countersign/internal/supervision/state"
)

// Probed is execution.probed: the target was asked what became of an execution. A
// receipt that it answered with is recorded in the same commit.
type Probed struct {
	ExecutionID string  `json:"executionId"`
	ProbeID     string  `json:"probeId"` // jti of the dispatch permit that asked
	Answer      string  `json:"answer"`
	Receipt     *string `json:"receipt"` // compact JWS that verifies, or null
}

func (Probed) EventType() string { return "execution.probed" }

func (e Probed) apply(f *fold) {
	f.execution(e.ExecutionID, "probed-state", ExecutionUnconfirmed, ExecutionReconciled)
	found := e.Answer == state.AnswerReceipt
	f.must(slices.Contains(state.Answers, e.Answer) && (!found || e.Receipt != nil), "probed-answer", "this is no answer to a probe")
	if found {
		f.owe("probed-without-receipt", "the receipt that was found is not recorded", func(b Event) bool {
			r, ok := b.(*HostedReceipt)
			return ok && r.ExecutionID == e.ExecutionID && e.Receipt != nil && r.Receipt == *e.Receipt && r.ObservedBy == ByLookUp
		}, nil)
	}
}

// Reconciled is execution.reconciled: what an owner states about an effect (G-14). It
// is no receipt: it moves the reservation and never completes a run.
type Reconciled struct {
	ExecutionID   string               `json:"executionId"`
	Finding       string               `json:"finding"`
	Note          *evidence.Commitment `json:"note"`
	By            string               `json:"by"`
	ReleasedCents money.Cents          `json:"releasedCents"`
	SpentCents    money.Cents          `json:"spentCents"`
}

func (Reconciled) EventType() string { return "execution.reconciled" }

func (e Reconciled) apply(f *fold) {
	f.must(e.By == "owner", "reconciled-by", "only an owner states what became of an effect")
	x := f.execution(e.ExecutionID, "reconciled-state", ExecutionUnconfirmed, ExecutionMismatch)
	if x == nil {
		return
	}
	var spent, released money.Cents
	switch open := x.State == ExecutionUnconfirmed; {
	case e.Finding == state.FindingUnknown, e.Finding == state.FindingApplied && !open: // nothing moves
	case e.Finding == state.FindingApplied:
		spent, x.State, x.Finding, x.Owed = x.AmountCents, ExecutionReconciled, e.Finding, false
		f.must(f.s.Budget.Spend(spent), "release", "the amount was not reserved")
	case e.Finding == state.FindingNotApplied && open:
		f.must(x.Dispatch == nil || f.now >= x.DispatchedAt.Add(state.StatementWait), "reconciled-early", "the dispatch permit could still be used")
		f.must(len(f.s.Stated) < state.MaxStated, "statement-limit", "a run goes on after at most 8 statements")
		released = x.AmountCents
		f.release(x, released)
		x.State, x.Finding = ExecutionReconciled, e.Finding
		f.follow(x)
	default:
		f.must(false, "reconciled-finding", "a receipt stands against the finding, or it is none")
	}
	f.must(e.SpentCents == spent && e.ReleasedCents == released, "reconciled-amount", "the statement moves another amount than was reserved")
}

// Contradicted is execution.contradicted: a store's receipt says otherwise than the
// owner did. What the statement moved is reserved again, and the receipt that follows
// decides. Here alone spent and reserved may exceed the budget (L-4).
type Contradicted struct {
	ExecutionID    string      `json:"executionId"`
	Statement      string      `json:"statement"`
	ReceiptResult  string      `json:"receiptResult"`
	AmountCents    money.Cents `json:"amountCents"`
	OverspentCents money.Cents `json:"overspentCents"` // of spent and reserved, over the budget
}

func (Contradicted) EventType() string { return "execution.contradicted" }

func (e Contradicted) apply(f *fold) {
	x := f.execution(e.ExecutionID, "contradicted-state", ExecutionReconciled)
	if x == nil {
		return
	}
	differs := e.Statement == x.Finding && (x.Finding == state.FindingApplied) != (e.ReceiptResult == ResultApplied)
	f.must(x.Hosted && differs, "contradicted-agreeing", "no receipt says otherwise than the owner did")
	f.s.Restore(x)
	f.s.Overspent = max(f.s.Overspent, f.s.Over())
	f.must(e.AmountCents == x.AmountCents && e.OverspentCents == f.s.Over(), "contradicted-amount", "the contradiction is about another amount")
	f.owe("contradicted-without-receipt", "a contradiction is not followed by its receipt", func(b Event) bool {
		r, ok := b.(*Receipt)
		return ok && r.ExecutionID == e.ExecutionID && r.Result == e.ReceiptResult
	}, nil)
}
