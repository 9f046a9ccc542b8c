package attack

import (
	"context"
	"fmt"
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/run"
)

// hosted is the attack that needs a store (L-18).
var hosted = []Attack{
	atStore(on(Merchant, "H01", "Price changed after approval", "The store raises the price after the owner has approved, with the permit issued and before the order is sent.",
		besideIt+" The permit of the attack is issued before it begins and does not count as issued by it.",
		shape{by: ByRuntime, want: refused(200, authority.ExecutionNotApplied), do: repriced})),
}

// atStore makes an attack on a local service one at a store on the web.
func atStore(a Attack) Attack {
	a.Target = run.TargetHosted
	return a
}

// Prices of the hosted store's fixture in cents, before and after.
const (
	price  = 12900
	raised = 13000
)

// repriced orders what was approved at a store that has a higher price by now. The permit
// is issued before the price changes: the store, which compares with what it would charge
// now, is who refuses, with a receipt that it signs.
func repriced(t *trial) {
	permitted := func() (*session, *Permit) {
		s := t.waiting()
		s.Approve()
		return s, s.Permit(steps[Merchant].commit)
	}
	twin, first := permitted()
	t.twin(twin, func() *Reply { return twin.Operate(first.Token, first.Action) })
	t.charged(twin, int64(totals[t.service]))
	s, p := permitted()
	defer func() { t.fail(t.r.Store.SetPrice(context.WithoutCancel(t.ctx), wanted, price)) }()
	t.alter(func() { t.fail(t.r.Store.SetPrice(t.ctx, wanted, raised)) })
	before := t.mark(s)
	t.attackIn(s, func() *Reply {
		r := s.Operate(p.Token, p.Action)
		if r.Status == 200 && r.State == run.ExecutionNotApplied {
			r.Code = authority.ExecutionNotApplied
		}
		return r
	})
	t.charged(s, 0)
	if t.err == nil && t.found.Got != nil && *t.found.Got == t.shape.want {
		t.fail(t.refusal(t.behind(s, before)))
	}
}

// charged holds what the store says that a run has cost against what it may have.
func (t *trial) charged(s *session, want int64) {
	if t.err != nil {
		return
	}
	got, err := t.r.Store.Charged(t.ctx, s.ID)
	t.fail(err)
	if err == nil && got != want && t.wrong == "" {
		t.wrong = fmt.Sprintf("the store has charged %d cents instead of %d", got, want)
	}
}

// refusal looks for the store's signed receipt in the evidence, which the control plane
// takes only when it verifies with the pinned key, and for what the receipt says.
func (t *trial) refusal(events []evidence.Event) error {
	signed := slices.ContainsFunc(events, func(e evidence.Event) bool { return e.Type == (run.HostedReceipt{}).EventType() })
	i := slices.IndexFunc(events, func(e evidence.Event) bool { return e.Type == (run.Receipt{}).EventType() })
	if !signed || i < 0 {
		t.wrong = or(t.wrong, "the evidence holds no signed receipt of the store")
		return nil
	}
	var r run.Receipt
	if err := canon.Unmarshal(events[i].Data, &r); err != nil {
		return fmt.Errorf("event %s is unreadable: %w", events[i].ID, err)
	}
	if r.Kind != run.ReceiptHosted || r.Result != run.ResultRefused || r.AmountCents != 0 {
		t.wrong = or(t.wrong, fmt.Sprintf("the receipt is %s %s of %s cents instead of a refusal", r.Kind, r.Result, r.AmountCents))
	}
	return nil
}
