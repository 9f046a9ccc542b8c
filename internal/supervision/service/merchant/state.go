package merchant

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// maxQuantity is the largest quantity of one cart line.
const maxQuantity = 3

// State is the trusted state of a merchant for one run. Its digest decides the
// state revision.
type State struct {
	Products      []Product   `json:"products"`
	ShippingCents money.Cents `json:"shippingCents"`
	Cart          Cart        `json:"cart"`
	Checkout      *Checkout   `json:"checkout"`
	Order         *Order      `json:"order"`
}

// Product is one product of the shop.
type Product struct {
	ID         string      `json:"productId"`
	Name       string      `json:"name"`
	Maker      string      `json:"maker"`
	PriceCents money.Cents `json:"priceCents"`
}

// Cart is the session's cart. Version moves with every change.
type Cart struct {
	Version int64  `json:"cartVersion"`
	Lines   []Line `json:"lines"`
}

// Line is one product in a cart, checkout or order.
type Line struct {
	ProductID string `json:"productId"`
	Quantity  int64  `json:"quantity"`
}

// Checkout is a prepared checkout, good for one cart version.
type Checkout struct {
	ID          string         `json:"checkoutId"`
	CartVersion int64          `json:"cartVersion"`
	AddressRef  string         `json:"addressRef"`
	TotalCents  money.Cents    `json:"totalCents"`
	ExpiresAt   *evidence.Time `json:"expiresAt"`
}

// Order is a confirmed order.
type Order struct {
	ID         string      `json:"orderId"`
	CheckoutID string      `json:"checkoutId"`
	AddressRef string      `json:"addressRef"`
	TotalCents money.Cents `json:"totalCents"`
	Lines      []Line      `json:"lines"`
}

func (s *State) product(id string) *Product {
	i := slices.IndexFunc(s.Products, func(p Product) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Products[i]
}

func (s *State) quantity(id string) int64 {
	for _, line := range s.Cart.Lines {
		if line.ProductID == id {
			return line.Quantity
		}
	}
	return 0
}

// total is what the cart costs with shipping; false when it is no amount or a
// product is not there.
func (s *State) total() (money.Cents, bool) {
	total := s.ShippingCents
	for _, line := range s.Cart.Lines {
		p := s.product(line.ProductID)
		if p == nil {
			return 0, false
		}
		price, ok := p.PriceCents.Times(line.Quantity)
		if !ok {
			return 0, false
		}
		if total, ok = total.Add(price); !ok {
			return 0, false
		}
	}
	return total, true
}

// offer is the checkout that could be submitted now.
func (s *State) offer() *decide.Offer {
	c := s.Checkout
	if c == nil || c.CartVersion != s.Cart.Version || s.Order != nil {
		return nil
	}
	return &decide.Offer{OperationID: opSubmit, Destination: c.AddressRef, AmountCents: c.TotalCents, Currency: currency, ExpiresAt: c.ExpiresAt}
}

func (s *State) sighting(view *string) decide.Sighting {
	return decide.Sighting{State: canon.MustMarshal(s), Offer: s.offer(), View: view}
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

func (s *State) holds(name string, p service.Promise) (bool, error) {
	switch name {
	case "catalog.read", "product.read", "cart.read", "order.read":
		return true, nil // the receipt of the read is all there is to see
	case "checkout.prepared":
		var args checkoutArgs
		err := service.Args(p.Args, &args)
		return s.Checkout != nil && s.Checkout.CartVersion == s.Cart.Version && s.Checkout.AddressRef == args.AddressRef, err
	case "order.confirmed":
		var args submitArgs
		err := service.Args(p.Args, &args)
		return s.Order != nil && s.Order.CheckoutID == args.CheckoutID && s.Order.AddressRef == args.Destination, err
	case "order.total_matches":
		var args submitArgs
		err := service.Args(p.Args, &args)
		return s.Order != nil && s.Order.TotalCents == args.AmountCents, err
	}
	for _, line := range append(slices.Clone(s.Cart.Lines), absent(s)...) {
		if name == cartLine(line.ProductID, line.Quantity) {
			return true, nil
		}
	}
	return false, nil
}

// absent lists the products that are not in the cart, with quantity 0.
func absent(s *State) []Line {
	var lines []Line
	for _, p := range s.Products {
		if s.quantity(p.ID) == 0 {
			lines = append(lines, Line{p.ID, 0})
		}
	}
	return lines
}
