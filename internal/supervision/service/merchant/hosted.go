package merchant

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"unicode/utf8"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/service"
)

// Request is the HTTP request that an operation is at a hosted shop. The body of
// a mutation is its canonical arguments.
func (Adapter) Request(p service.Promise) (service.Request, error) {
	get := func(path string) (service.Request, error) { return service.Request{Method: "GET", Path: path}, nil }
	post := func(path string) (service.Request, error) {
		return service.Request{Method: "POST", Path: path, Body: p.Args}, nil
	}
	switch p.Operation {
	case opCatalog:
		return get("/api/catalog")
	case opCart:
		return get("/api/cart")
	case opProduct:
		var args productArgs
		if err := service.Args(p.Args, &args); err != nil {
			return service.Request{}, err
		}
		return get("/api/products/" + url.PathEscape(args.ProductID))
	case opOrder:
		var args orderArgs
		if err := service.Args(p.Args, &args); err != nil {
			return service.Request{}, err
		}
		return get("/api/orders/" + url.PathEscape(args.OrderID))
	case opAdd:
		return post("/api/cart/items")
	case opRemove:
		return post("/api/cart/items/remove")
	case opCheckout:
		return post("/api/checkouts")
	case opSubmit:
		return post("/api/orders")
	}
	return service.Request{}, fmt.Errorf("merchant: there is no operation %s", p.Operation)
}

// Reads are the requests that together show the trusted state of a hosted shop.
func (Adapter) Reads(orderID *string) []service.Request {
	reads := []service.Request{{Method: "GET", Path: "/api/catalog"}, {Method: "GET", Path: "/api/cart"}}
	if orderID != nil {
		reads = append(reads, service.Request{Method: "GET", Path: "/api/orders/" + url.PathEscape(*orderID)})
	}
	return reads
}

// Bounds of what a shop shows. All of it becomes a part of evidence, and some of
// the run's state, which has bounds of its own.
const (
	maxShown     = 64 << 10 // one answer, in bytes
	maxText      = 200      // code points
	maxProductID = 64       // bytes, as in terms
	maxList      = 64       // entries
)

// SeeHosted makes a sighting of the answers to Reads, in their order. Members
// that the shop sends beyond those it needs are passed over. Its errors name the
// member that cannot be used and never quote it.
func (Adapter) SeeHosted(bodies [][]byte, view *string) (decide.Sighting, error) {
	var catalog struct {
		Products []struct {
			ID         string      `json:"productId"`
			Name       string      `json:"name"`
			Maker      string      `json:"maker"`
			PriceCents money.Cents `json:"priceCents"`
			Currency   string      `json:"currency"`
		} `json:"products"`
		ShippingCents money.Cents `json:"shippingCents"`
	}
	type wireCheckout struct {
		ID          string      `json:"checkoutId"`
		CartVersion int64       `json:"cartVersion"`
		AddressRef  string      `json:"addressRef"`
		TotalCents  money.Cents `json:"totalCents"`
		Currency    string      `json:"currency"`
		ExpiresAt   string      `json:"expiresAt"`
	}
	var cart struct {
		Version  int64         `json:"cartVersion"`
		Lines    []Line        `json:"lines"`
		Checkout *wireCheckout `json:"checkout"`
	}
	if len(bodies) < 2 {
		return decide.Sighting{}, fmt.Errorf("merchant: the shop showed neither catalog nor cart")
	}
	if view != nil && len(*view) > maxShown {
		return decide.Sighting{}, fmt.Errorf("merchant: what was read has over %d bytes", maxShown)
	}
	for i, body := range bodies {
		if len(body) > maxShown {
			return decide.Sighting{}, fmt.Errorf("merchant: the shop's %s has over %d bytes", [...]string{"catalog", "cart", "order"}[min(i, 2)], maxShown)
		}
	}
	if err := canon.Decode(bodies[0], &catalog); err != nil {
		return decide.Sighting{}, fmt.Errorf("merchant: the shop's catalog: %w", err)
	}
	if err := canon.Decode(bodies[1], &cart); err != nil {
		return decide.Sighting{}, fmt.Errorf("merchant: the shop's cart: %w", err)
	}
	s := State{ShippingCents: catalog.ShippingCents, Cart: Cart{cart.Version, cart.Lines}}
	for _, p := range catalog.Products {
		if p.Currency != currency {
			return decide.Sighting{}, fmt.Errorf("merchant: the shop sells in another currency")
		}
		s.Products = append(s.Products, Product{p.ID, p.Name, p.Maker, p.PriceCents})
	}
	if c := cart.Checkout; c != nil {
		expires, err := evidence.ParseTime(c.ExpiresAt)
		if err != nil || c.Currency != currency {
			return decide.Sighting{}, fmt.Errorf("merchant: the shop's checkout is unreadable")
		}
		at := evidence.TimeOf(expires)
		s.Checkout = &Checkout{c.ID, c.CartVersion, c.AddressRef, c.TotalCents, &at}
	}
	if len(bodies) > 2 {
		var order Order
		if err := canon.Decode(bodies[2], &order); err != nil {
			return decide.Sighting{}, fmt.Errorf("merchant: the shop's order: %w", err)
		}
		s.Order = &order
	}
	for _, check := range []func() error{s.checkBounds, s.check} {
		if err := check(); err != nil {
			return decide.Sighting{}, err
		}
	}
	return s.sighting(view), nil
}

// checkBounds names the first list or text that is longer than any may be.
func (s *State) checkBounds() error {
	lists := map[string]int{"products": len(s.Products), "cart.lines": len(s.Cart.Lines)}
	if s.Order != nil {
		lists["order.lines"] = len(s.Order.Lines)
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if lists[name] > maxList {
			return fmt.Errorf("merchant: the shop's %s has over %d entries", name, maxList)
		}
	}
	for _, t := range s.texts() {
		if utf8.RuneCountInString(t.value) > maxText {
			return fmt.Errorf("merchant: the shop's %s has over %d characters", t.member, maxText)
		}
	}
	return nil
}

// text is a member that the shop may fill as it likes.
type text struct{ member, value string }

func (s *State) texts() []text {
	var all []text
	for i, p := range s.Products {
		at := fmt.Sprintf("products[%d].", i)
		all = append(all, text{at + "productId", p.ID}, text{at + "name", p.Name}, text{at + "maker", p.Maker})
	}
	all = append(all, textsOf("cart.lines", s.Cart.Lines)...)
	if c := s.Checkout; c != nil {
		all = append(all, text{"checkout.checkoutId", c.ID}, text{"checkout.addressRef", c.AddressRef})
	}
	if o := s.Order; o != nil {
		all = append(all, text{"order.orderId", o.ID}, text{"order.checkoutId", o.CheckoutID}, text{"order.addressRef", o.AddressRef})
		all = append(all, textsOf("order.lines", o.Lines)...)
	}
	return all
}

func textsOf(list string, lines []Line) []text {
	var all []text
	for i, l := range lines {
		all = append(all, text{fmt.Sprintf("%s[%d].productId", list, i), l.ProductID})
	}
	return all
}

// check refuses what a catalog could not name in one way only: a shop is not
// trusted to keep its ids apart.
func (s *State) check() error {
	products, lines := map[string]bool{}, map[string]bool{}
	for i, p := range s.Products {
		if p.ID == "" || len(p.ID) > maxProductID || products[p.ID] {
			return fmt.Errorf("merchant: the shop's products[%d].productId is empty, there twice or over %d bytes", i, maxProductID)
		}
		products[p.ID] = true
	}
	for i, l := range s.Cart.Lines {
		if l.Quantity < 1 || !products[l.ProductID] || lines[l.ProductID] {
			return fmt.Errorf("merchant: the shop's cart.lines[%d] is of no product, there twice or of less than one", i)
		}
		lines[l.ProductID] = true
	}
	return nil
}
