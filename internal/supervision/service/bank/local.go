package bank

import (
	"fmt"

	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/service"
)

// fixture is the local synthetic bank as a run finds it (H-011).
func fixture() *State {
	return &State{
		Accounts: []Account{
			{"acct_checking", "Synthetic checking", 250000, currency},
			{"acct_savings", "Synthetic savings", 4200, currency},
		},
		Payees: []Payee{
			{"payee_landlord", "Synthetic landlord"},
			{"payee_utilities", "Synthetic utilities trading"},
			{"payee_utility", "Synthetic utility"},
		},
		Tariff: Tariff{Version: 1},
		Transactions: []Transaction{
			{"txn_1", "acct_checking", "payee_landlord", 120000, currency},
			{"txn_2", "acct_checking", "payee_utility", 4800, currency},
		},
	}
}

// NewLocal is the state of the local bank for a new run.
func (Adapter) NewLocal() []byte { return canon.MustMarshal(fixture()) }

// SeeLocal looks at the local bank.
func (Adapter) SeeLocal(state []byte, view *string) (decide.Sighting, error) {
	var s State
	if err := canon.Unmarshal(state, &s); err != nil {
		return decide.Sighting{}, err
	}
	return s.sighting(view), nil
}

func (s *State) sighting(view *string) decide.Sighting {
	return decide.Sighting{State: canon.MustMarshal(s), Offer: s.offer(), View: view}
}

// feeStep is by how much a price change raises the fee.
const feeStep money.Cents = 25

// PriceChange is the bank raising its fee for a transfer by 25 cents. What was
// prepared at the old one is gone (G-07).
func (Adapter) PriceChange(state []byte) ([]byte, error) {
	var s State
	if err := canon.Unmarshal(state, &s); err != nil {
		return nil, err
	}
	fee, ok := s.Tariff.FeeCents.Add(feeStep)
	if !ok {
		return nil, fmt.Errorf("bank: the fee is as high as an amount can be")
	}
	s.Tariff = Tariff{s.Tariff.Version + 1, fee}
	s.Quote = nil
	return canon.MustMarshal(&s), nil
}

// Execute runs one operation on the local bank. newID names what it creates.
func (Adapter) Execute(state []byte, p service.Promise, newID func() string) (service.Effect, error) {
	return service.Execute(state, newID, func(a *service.Act[State]) error { return (&executing{a}).run(p) })
}

type executing struct{ *service.Act[State] }

func (e *executing) run(p service.Promise) error {
	switch p.Operation {
	case opAccounts:
		e.Show(struct {
			Accounts []Account `json:"accounts"`
		}{e.State.Accounts})
	case opPayees:
		e.Show(struct {
			Payees []Payee `json:"payees"`
		}{e.State.Payees})
	case opTransactions:
		return service.With(p.Args, e.transactions)
	case opStatus:
		return service.With(p.Args, e.status)
	case opPrepare:
		return service.With(p.Args, e.prepare)
	case opSubmit:
		return service.With(p.Args, e.submit)
	default:
		return fmt.Errorf("bank: there is no operation %s", p.Operation)
	}
	return nil
}

func (e *executing) transactions(a accountArgs) {
	if e.State.account(a.AccountRef) == nil {
		e.Refuse("no such account")
		return
	}
	list := []Transaction{}
	for _, t := range e.State.Transactions {
		if t.AccountRef == a.AccountRef {
			list = append(list, t)
		}
	}
	e.Show(struct {
		Transactions []Transaction `json:"transactions"`
	}{list})
}

// quoteID names the transfer under way, or is empty.
func (s *State) quoteID() string {
	switch {
	case s.Transfer != nil:
		return s.Transfer.QuoteID
	case s.Quote != nil:
		return s.Quote.ID
	}
	return ""
}

func (e *executing) status(a statusArgs) {
	status := "prepared"
	switch id := e.State.quoteID(); {
	case id == "" || id != a.QuoteID:
		e.Refuse("no such transfer")
		return
	case e.State.Transfer != nil:
		status = "completed"
	}
	e.Show(struct {
		QuoteID  string    `json:"quoteId"`
		Status   string    `json:"status"`
		Quote    *Quote    `json:"quote"`
		Transfer *Transfer `json:"transfer"`
	}{a.QuoteID, status, e.State.Quote, e.State.Transfer})
}

// covered returns what the transfer takes from its account in all, if that is there.
func (s *State) covered(o Order) (money.Cents, bool) {
	from := s.account(o.SourceAccountRef)
	total, ok := o.AmountCents.Add(s.Tariff.FeeCents)
	return total, ok && from != nil && total <= from.BalanceCents
}

func (e *executing) prepare(o Order) {
	switch total, covered := e.State.covered(o); {
	case e.State.Transfer != nil:
		e.Refuse("the transfer was made already")
	case e.State.account(o.SourceAccountRef) == nil || e.State.payee(o.PayeeRef) == nil || o.AmountCents < 1 || o.Currency != currency:
		e.Refuse("the bank does not take this transfer")
	case !covered:
		e.Refuse("insufficient funds")
	default:
		e.State.Quote = &Quote{e.NewID(), e.State.Tariff.Version, e.State.Tariff.FeeCents, total, o}
		e.Show(e.State.Quote)
	}
}

func (e *executing) submit(a submitArgs) {
	q := e.State.Quote
	if e.State.offer() == nil || a != q.submission() {
		e.Refuse("the transfer is not what was approved")
		return
	}
	total, covered := e.State.covered(q.Order)
	if !covered || total != q.TotalCents {
		e.Refuse("insufficient funds")
		return
	}
	t := &Transfer{e.NewID(), q.ID, q.FeeCents, total, q.Order}
	e.State.account(q.SourceAccountRef).BalanceCents -= total
	e.State.Transactions = append(e.State.Transactions, Transaction{t.ID, q.SourceAccountRef, q.PayeeRef, total, q.Currency})
	e.State.Transfer, e.State.Quote = t, nil
	e.Ordered(t.ID)
	e.Show(t)
}
