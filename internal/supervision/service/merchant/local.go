package merchant

import (
	"fmt"
	"slices"

	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/service"
)

// fixture is the local synthetic merchant as a run finds it (G-06).
func fixture() *State {
	return &State{
		Products: []Product{
			{"fieldwork-desk-mat", "Fieldwork desk mat", "Fieldwork", 3900},
			{"fieldwork-keyboard", "Fieldwork keyboard", "Fieldwork", 12900},
			{"fieldwork-mouse", "Fieldwork mouse", "Fieldwork", 4900},
			{"fieldworks-keyboard", "Fieldworks keyboard", "Fieldworks Trading", 12900},
		},
		ShippingCents: 800,
		Cart:          Cart{Version: 1, Lines: []Line{}},
	}
}

// NewLocal is the state of the local merchant for a new run.
func (Adapter) NewLocal() []byte { return canon.MustMarshal(fixture()) }

// SeeLocal looks at the local merchant.
func (Adapter) SeeLocal(state []byte, view *string) (decide.Sighting, error) {
	var s State
	if err := canon.Unmarshal(state, &s); err != nil {
		return decide.Sighting{}, err
	}
	return s.sighting(view), nil
}

// priceStep is by how much a price change raises every product.
const priceStep money.Cents = 100

// PriceChange is the shop raising its prices by one dollar each. What was prepared
// at the old ones is gone: any price change voids it (G-07).
func (Adapter) PriceChange(state []byte) ([]byte, error) {
	var s State
	if err := canon.Unmarshal(state, &s); err != nil {
		return nil, err
	}
	for i := range s.Products {
		raised, ok := s.Products[i].PriceCents.Add(priceStep)
		if !ok {
			return nil, fmt.Errorf("merchant: the price of products[%d] is as high as an amount can be", i)
		}
		s.Products[i].PriceCents = raised
	}
	s.Checkout = nil
	return canon.MustMarshal(&s), nil
}

// Execute runs one operation on the local merchant. newID names what it
// creates.
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

func (e *executing) run(p service.Promise) error {
	switch p.Operation {
	case opCatalog:
		e.show(struct {
			Products []Product `json:"products"`
		}{e.s.Products})
	case opCart:
		e.show(e.s.Cart)
	case opProduct:
		return service.With(p.Args, e.product)
	case opOrder:
		return service.With(p.Args, e.order)
	case opAdd:
		return service.With(p.Args, e.add)
	case opRemove:
		return service.With(p.Args, e.remove)
	case opCheckout:
		return service.With(p.Args, e.checkout)
	case opSubmit:
		return service.With(p.Args, e.submit)
	default:
		return fmt.Errorf("merchant: there is no operation %s", p.Operation)
	}
	return nil
}

func (e *executing) refuse(why string) { e.out.Refused = why }

func (e *executing) product(a productArgs) {
	if p := e.s.product(a.ProductID); p != nil {
		e.show(p)
		return
	}
	e.refuse("no such product")
}

func (e *executing) order(a orderArgs) {
	if o := e.s.Order; o != nil && o.ID == a.OrderID {
		e.show(o)
		return
	}
	e.refuse("no such order")
}

func (e *executing) changed() {
	e.s.Cart.Version++
	e.s.Checkout = nil
	e.show(e.s.Cart)
}

func (e *executing) add(a addArgs) {
	if e.s.product(a.ProductID) == nil || a.Quantity < 1 || e.s.quantity(a.ProductID)+a.Quantity > maxQuantity {
		e.refuse("the cart does not take this line")
		return
	}
	i := slices.IndexFunc(e.s.Cart.Lines, func(l Line) bool { return l.ProductID == a.ProductID })
	if i < 0 {
		e.s.Cart.Lines = append(e.s.Cart.Lines, Line(a))
	} else {
		e.s.Cart.Lines[i].Quantity += a.Quantity
	}
	e.changed()
}

func (e *executing) remove(a productArgs) {
	e.s.Cart.Lines = slices.DeleteFunc(e.s.Cart.Lines, func(l Line) bool { return l.ProductID == a.ProductID })
	e.changed()
}

func (e *executing) checkout(a checkoutArgs) {
	total, ok := e.s.total()
	if a.CartVersion != e.s.Cart.Version || len(e.s.Cart.Lines) == 0 || !ok || !slices.Contains(addresses, a.AddressRef) {
		e.refuse("the cart is not as it was when the checkout was asked for")
		return
	}
	e.s.Checkout = &Checkout{ID: e.newID(), CartVersion: a.CartVersion, AddressRef: a.AddressRef, TotalCents: total}
	e.show(e.s.Checkout)
}

func (e *executing) submit(a submitArgs) {
	c := e.s.Checkout
	total, ok := e.s.total()
	if c == nil || !ok || c.ID != a.CheckoutID || c.CartVersion != a.CartVersion || e.s.Cart.Version != a.CartVersion ||
		c.TotalCents != a.AmountCents || total != a.AmountCents || a.Currency != currency || c.AddressRef != a.Destination {
		e.refuse("the checkout is not what was approved")
		return
	}
	o := &Order{ID: e.newID(), CheckoutID: c.ID, AddressRef: c.AddressRef, TotalCents: total, Lines: e.s.Cart.Lines}
	e.s.Order, e.s.Checkout = o, nil
	e.s.Cart = Cart{Version: e.s.Cart.Version + 1, Lines: []Line{}}
	e.out.OrderID = &o.ID
	e.show(o)
}
