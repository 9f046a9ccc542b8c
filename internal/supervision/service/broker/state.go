package broker

import (
	"slices"

	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// State is the trusted state of a broker for one run. Its digest decides the state
// revision. Cash and positions are what is free: what an open order would take is set
// aside in it.
type State struct {
	Account      Account    `json:"account"`
	QuoteVersion int64      `json:"quoteVersion"` // moves with every change of a quote
	Quotes       []Quote    `json:"quotes"`
	Positions    []Position `json:"positions"`
	Draft        *Draft     `json:"draft"`
	Order        *Order     `json:"order"`
}

// Account is the owner's account.
type Account struct {
	Ref       string      `json:"accountRef"`
	Name      string      `json:"name"`
	CashCents money.Cents `json:"cashCents"`
	Currency  string      `json:"currency"`
}

// Quote is what one unit of a symbol trades at.
type Quote struct {
	Symbol     string      `json:"symbol"`
	Name       string      `json:"name"`
	PriceCents money.Cents `json:"priceCents"`
}

// Position is how many units of a symbol the account holds.
type Position struct {
	Symbol   string `json:"symbol"`
	Quantity int64  `json:"quantity"`
}

// Draft is a prepared order, good for one version of the quotes.
type Draft struct {
	ID           string      `json:"draftId"`
	AccountRef   string      `json:"accountRef"`
	QuoteVersion int64       `json:"quoteVersion"`
	AmountCents  money.Cents `json:"amountCents"`
	Terms
}

// Statuses of an order.
const (
	statusPrepared = "prepared"
	statusOpen     = "open"   // the quote does not meet the limit
	statusFilled   = "filled" // in full, at the limit
)

// Order is a submitted order.
type Order struct {
	ID          string      `json:"orderId"`
	DraftID     string      `json:"draftId"`
	AccountRef  string      `json:"accountRef"`
	Status      string      `json:"status"`
	AmountCents money.Cents `json:"amountCents"`
	Terms
}

func (s *State) quote(symbol string) *Quote {
	i := slices.IndexFunc(s.Quotes, func(q Quote) bool { return q.Symbol == symbol })
	if i < 0 {
		return nil
	}
	return &s.Quotes[i]
}

func (s *State) held(symbol string) int64 {
	for _, p := range s.Positions {
		if p.Symbol == symbol {
			return p.Quantity
		}
	}
	return 0
}

// hold changes a position. One of nothing is none.
func (s *State) hold(symbol string, by int64) {
	i := slices.IndexFunc(s.Positions, func(p Position) bool { return p.Symbol == symbol })
	if i < 0 {
		s.Positions = append(s.Positions, Position{symbol, by})
	} else {
		s.Positions[i].Quantity += by
	}
	s.Positions = slices.DeleteFunc(s.Positions, func(p Position) bool { return p.Quantity == 0 })
}

// offer is the order that could be submitted now.
func (s *State) offer() *decide.Offer {
	d := s.Draft
	if d == nil || d.QuoteVersion != s.QuoteVersion || s.Order != nil {
		return nil
	}
	return &decide.Offer{OperationID: opSubmit, Destination: d.AccountRef, AmountCents: d.AmountCents, Currency: currency}
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
	case "account.read", "quote.read", "positions.read", "order.status_read":
		return true, nil // the receipt of the read is all there is to see
	case "order.prepared":
		err = service.With(p.Args, func(a Terms) { held = s.offer() != nil && s.Draft.Terms == a })
	case "order.confirmed":
		err = service.With(p.Args, func(a submitArgs) {
			o := s.Order
			held = o != nil && o.DraftID == a.DraftID && o.AccountRef == a.Destination && o.Terms == a.Terms
		})
	case "order.amount_matches":
		err = service.With(p.Args, func(a submitArgs) { held = s.Order != nil && s.Order.AmountCents == a.AmountCents })
	}
	return held, err
}
