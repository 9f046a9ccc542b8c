package broker

import (
	"fmt"

	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/service"
)

// fixture is the local synthetic broker as a run finds it (H-011).
func fixture() *State {
	return &State{
		Account:      Account{"acct_brokerage", "Synthetic brokerage account", 100000, currency},
		QuoteVersion: 1,
		Quotes: []Quote{
			{"SYNA", "synthetic fund A", 5000},
			{"SYNAA", "synthetic fund AA", 5000},
			{"SYNB", "synthetic fund B", 2500},
		},
		Positions: []Position{{"SYNA", 10}, {"SYNB", 4}},
	}
}

// NewLocal is the state of the local broker for a new run.
func (Adapter) NewLocal() []byte { return canon.MustMarshal(fixture()) }

// SeeLocal looks at the local broker.
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

// quoteStep is by how much a price change raises every quote.
const quoteStep money.Cents = 10

// PriceChange is every quote rising by ten cents. What was prepared at the old ones is
// gone (G-07). An open order stays open: nothing but a submission trades here.
func (Adapter) PriceChange(state []byte) ([]byte, error) {
	var s State
	if err := canon.Unmarshal(state, &s); err != nil {
		return nil, err
	}
	for i := range s.Quotes {
		raised, ok := s.Quotes[i].PriceCents.Add(quoteStep)
		if !ok {
			return nil, fmt.Errorf("broker: quotes[%d] is as high as an amount can be", i)
		}
		s.Quotes[i].PriceCents = raised
	}
	s.QuoteVersion++
	s.Draft = nil
	return canon.MustMarshal(&s), nil
}

// Execute runs one operation on the local broker. newID names what it creates.
func (Adapter) Execute(state []byte, p service.Promise, newID func() string) (service.Effect, error) {
	return service.Execute(state, newID, func(a *service.Act[State]) error { return (&executing{a}).run(p) })
}

type executing struct{ *service.Act[State] }

func (e *executing) run(p service.Promise) error {
	switch p.Operation {
	case opAccount:
		e.Show(e.State.Account)
	case opQuote:
		return service.With(p.Args, e.quote)
	case opPositions:
		e.Show(struct {
			Positions []Position `json:"positions"`
		}{e.State.Positions})
	case opStatus:
		return service.With(p.Args, e.status)
	case opPrepare:
		return service.With(p.Args, e.prepare)
	case opSubmit:
		return service.With(p.Args, e.submit)
	default:
		return fmt.Errorf("broker: there is no operation %s", p.Operation)
	}
	return nil
}

func (e *executing) quote(a quoteArgs) {
	if q := e.State.quote(a.Symbol); q != nil {
		e.Show(q)
		return
	}
	e.Refuse("no such symbol")
}

// draftID names the order under way, or is empty.
func (s *State) draftID() string {
	switch {
	case s.Order != nil:
		return s.Order.DraftID
	case s.Draft != nil:
		return s.Draft.ID
	}
	return ""
}

func (e *executing) status(a statusArgs) {
	status := statusPrepared
	switch id := e.State.draftID(); {
	case id == "" || id != a.DraftID:
		e.Refuse("no such order")
		return
	case e.State.Order != nil:
		status = e.State.Order.Status
	}
	e.Show(struct {
		DraftID string `json:"draftId"`
		Status  string `json:"status"`
		Draft   *Draft `json:"draft"`
		Order   *Order `json:"order"`
	}{a.DraftID, status, e.State.Draft, e.State.Order})
}

// short says why the account cannot place the order, or nothing.
func (s *State) short(t Terms, amount money.Cents) string {
	switch {
	case t.Side == buy && amount > s.Account.CashCents:
		return "insufficient funds"
	case t.Side == sell && t.Quantity > s.held(t.Symbol):
		return "insufficient position"
	}
	if _, ok := s.Account.CashCents.Add(amount); t.Side == sell && !ok {
		return "the account cannot hold so much"
	}
	return ""
}

func (e *executing) prepare(t Terms) {
	amount, ok := t.amount()
	switch {
	case e.State.Order != nil:
		e.Refuse("the order was placed already")
	case e.State.quote(t.Symbol) == nil || t.Side != buy && t.Side != sell || t.Quantity < 1 || t.Quantity > maxQuantity || !ok || amount < 1 || t.OrderType != limit || t.TimeInForce != day:
		e.Refuse("the broker does not take this order")
	case e.State.short(t, amount) != "":
		e.Refuse(e.State.short(t, amount))
	default:
		e.State.Draft = &Draft{e.NewID(), e.State.Account.Ref, e.State.QuoteVersion, amount, t}
		e.Show(e.State.Draft)
	}
}

func (e *executing) submit(a submitArgs) {
	d := e.State.Draft
	if e.State.offer() == nil || a != d.submission() {
		e.Refuse("the order is not what was approved")
		return
	}
	if short := e.State.short(d.Terms, d.AmountCents); short != "" {
		e.Refuse(short)
		return
	}
	o := &Order{e.NewID(), d.ID, d.AccountRef, statusOpen, d.AmountCents, d.Terms}
	if e.State.meets(d.Terms) {
		o.Status = statusFilled
	}
	e.State.trade(o)
	e.State.Order, e.State.Draft = o, nil
	e.Ordered(o.ID)
	e.Show(o)
}

// meets reports whether the quote meets the order's limit.
func (s *State) meets(t Terms) bool {
	price := s.quote(t.Symbol).PriceCents
	if t.Side == buy {
		return price <= t.LimitPriceCents
	}
	return price >= t.LimitPriceCents
}

// trade takes what the order gives away, and when it is filled adds what it gets.
func (s *State) trade(o *Order) {
	filled := o.Status == statusFilled
	switch {
	case o.Side == buy:
		s.Account.CashCents -= o.AmountCents
		if filled {
			s.hold(o.Symbol, o.Quantity)
		}
	default:
		s.hold(o.Symbol, -o.Quantity)
		if filled {
			s.Account.CashCents += o.AmountCents
		}
	}
}
