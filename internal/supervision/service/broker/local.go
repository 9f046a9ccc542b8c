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
	var s State
	if err := canon.Unmarshal(state, &s); err != nil {
		return service.Effect{}, err
	}
	e := &executing{s: &s, newID: newID}
	if err := e.run(p); err != nil {
		return service.Effect{}, err
	}
	if e.out.Refused != "" {
		e.out.State = state
		return e.out, nil
	}
	e.out.State = canon.MustMarshal(&s)
	return e.out, nil
}

type executing struct {
	s     *State
	newID func() string
	out   service.Effect
}

func (e *executing) show(v any) { e.out.View = service.View(v) }

func (e *executing) refuse(why string) { e.out.Refused = why }

func (e *executing) run(p service.Promise) error {
	switch p.Operation {
	case opAccount:
		e.show(e.s.Account)
	case opQuote:
		return service.With(p.Args, e.quote)
	case opPositions:
		e.show(struct {
			Positions []Position `json:"positions"`
		}{e.s.Positions})
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
	if q := e.s.quote(a.Symbol); q != nil {
		e.show(q)
		return
	}
	e.refuse("no such symbol")
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
	switch id := e.s.draftID(); {
	case id == "" || id != a.DraftID:
		e.refuse("no such order")
		return
	case e.s.Order != nil:
		status = e.s.Order.Status
	}
	e.show(struct {
		DraftID string `json:"draftId"`
		Status  string `json:"status"`
		Draft   *Draft `json:"draft"`
		Order   *Order `json:"order"`
	}{a.DraftID, status, e.s.Draft, e.s.Order})
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
	case e.s.Order != nil:
		e.refuse("the order was placed already")
	case e.s.quote(t.Symbol) == nil || t.Side != buy && t.Side != sell || t.Quantity < 1 || t.Quantity > maxQuantity || !ok || amount < 1 || t.OrderType != limit || t.TimeInForce != day:
		e.refuse("the broker does not take this order")
	case e.s.short(t, amount) != "":
		e.refuse(e.s.short(t, amount))
	default:
		e.s.Draft = &Draft{e.newID(), e.s.Account.Ref, e.s.QuoteVersion, amount, t}
		e.show(e.s.Draft)
	}
}

func (e *executing) submit(a submitArgs) {
	d := e.s.Draft
	if e.s.offer() == nil || a != d.submission() {
		e.refuse("the order is not what was approved")
		return
	}
	if short := e.s.short(d.Terms, d.AmountCents); short != "" {
		e.refuse(short)
		return
	}
	o := &Order{e.newID(), d.ID, d.AccountRef, statusOpen, d.AmountCents, d.Terms}
	if e.s.meets(d.Terms) {
		o.Status = statusFilled
	}
	e.s.trade(o)
	e.s.Order, e.s.Draft = o, nil
	e.out.OrderID = &o.ID
	e.show(o)
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
