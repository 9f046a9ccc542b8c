package bank

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// State is the trusted state of a bank for one run. Its digest decides the state
// revision. A memo is nowhere in it, only what stands for it.
type State struct {
	Accounts     []Account     `json:"accounts"`
	Payees       []Payee       `json:"payees"`
	Tariff       Tariff        `json:"tariff"`
	Transactions []Transaction `json:"transactions"`
	Quote        *Quote        `json:"quote"`
	Transfer     *Transfer     `json:"transfer"`
}

// Account is one account of the owner.
type Account struct {
	Ref          string      `json:"accountRef"`
	Name         string      `json:"name"`
	BalanceCents money.Cents `json:"balanceCents"`
	Currency     string      `json:"currency"`
}

func (a Account) ref() string { return a.Ref }

// Payee is one registered payee. There is no way to add another.
type Payee struct {
	Ref  string `json:"payeeRef"`
	Name string `json:"name"`
}

func (p Payee) ref() string { return p.Ref }

// Tariff is what a transfer costs on top of its amount. Version moves with every
// change.
type Tariff struct {
	Version  int64       `json:"tariffVersion"`
	FeeCents money.Cents `json:"feeCents"`
}

// Transaction is money that has left an account, fees included.
type Transaction struct {
	ID          string      `json:"transactionId"`
	AccountRef  string      `json:"accountRef"`
	PayeeRef    string      `json:"payeeRef"`
	AmountCents money.Cents `json:"amountCents"`
	Currency    string      `json:"currency"`
}

// Order is what a transfer is to do. AmountCents is what the payee gets.
type Order struct {
	SourceAccountRef string              `json:"sourceAccountRef"`
	PayeeRef         string              `json:"payeeRef"`
	AmountCents      money.Cents         `json:"amountCents"`
	Currency         string              `json:"currency"`
	Memo             evidence.Commitment `json:"memo"`
}

// Quote is a prepared transfer, good for one version of the tariff. TotalCents is
// what leaves the account.
type Quote struct {
	ID            string      `json:"quoteId"`
	TariffVersion int64       `json:"tariffVersion"`
	FeeCents      money.Cents `json:"feeCents"`
	TotalCents    money.Cents `json:"totalCents"`
	Order
}

// Transfer is a submitted transfer.
type Transfer struct {
	ID         string      `json:"transferId"`
	QuoteID    string      `json:"quoteId"`
	FeeCents   money.Cents `json:"feeCents"`
	TotalCents money.Cents `json:"totalCents"`
	Order
}

func (s *State) account(ref string) *Account {
	i := slices.IndexFunc(s.Accounts, func(a Account) bool { return a.Ref == ref })
	if i < 0 {
		return nil
	}
	return &s.Accounts[i]
}

func (s *State) payee(ref string) *Payee {
	i := slices.IndexFunc(s.Payees, func(p Payee) bool { return p.Ref == ref })
	if i < 0 {
		return nil
	}
	return &s.Payees[i]
}

// offer is the transfer that could be submitted now.
func (s *State) offer() *decide.Offer {
	q := s.Quote
	if q == nil || q.TariffVersion != s.Tariff.Version || s.Transfer != nil {
		return nil
	}
	return &decide.Offer{OperationID: opSubmit, Destination: q.PayeeRef, AmountCents: q.TotalCents, Currency: currency}
}

// Holds tells which promised postconditions hold in the state that was seen
// after the execution.
func (Adapter) Holds(seen decide.Sighting, p service.Promise) ([]run.Postcondition, error) {
	var s State
	if err := canon.Unmarshal(seen.State, &s); err != nil {
		return nil, err
	}
	return service.Hold(p, func(name string) (bool, error) { return s.holds(name, p) })
}

func (s *State) holds(name string, p service.Promise) (held bool, err error) {
	switch name {
	case "accounts.read", "payees.read", "transactions.read", "transfer.status_read":
		return true, nil // the receipt of the read is all there is to see
	case "transfer.prepared":
		err = service.With(p.Args, func(a Order) { held = s.offer() != nil && s.Quote.Order == a })
	case "transfer.confirmed":
		err = service.With(p.Args, func(a submitArgs) {
			held = s.Transfer != nil && s.booked() && a.names(s.Transfer.QuoteID, s.Transfer.Order)
		})
	case "transfer.amount_matches":
		err = service.With(p.Args, func(a submitArgs) {
			held = s.Transfer != nil && s.Transfer.TotalCents == a.AmountCents && s.Transfer.FeeCents == a.FeeCents
		})
	}
	return held, err
}

// booked reports whether the transfer stands among the transactions.
func (s *State) booked() bool {
	t := s.Transfer
	return slices.Contains(s.Transactions, Transaction{t.ID, t.SourceAccountRef, t.PayeeRef, t.TotalCents, t.Currency})
}
