package merchant

import (
	"fmt"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/service"
)

// Arguments of the operations. For a hosted merchant the canonical arguments of
// a mutation are the exact request body.
type (
	productArgs struct {
		ProductID string `json:"productId"`
	}
	orderArgs struct {
		OrderID string `json:"orderId"`
	}
	addArgs struct {
		ProductID string `json:"productId"`
		Quantity  int64  `json:"quantity"`
	}
	checkoutArgs struct {
		CartVersion int64  `json:"cartVersion"`
		AddressRef  string `json:"addressRef"`
	}
	submitArgs struct {
		CheckoutID  string      `json:"checkoutId"`
		CartVersion int64       `json:"cartVersion"`
		AmountCents money.Cents `json:"amountCents"`
		Currency    string      `json:"currency"`
		Destination string      `json:"destination"`
	}
)

// addresses are the synthetic addresses of the fixture.
var addresses = []string{"addr_home", "addr_office"}

func cartLine(productID string, quantity int64) string {
	return fmt.Sprintf("cart.line:%s=%d", productID, quantity)
}

// catalog collects entries.
type catalog struct {
	service.Catalog
	s    *State
	plan service.Plan
}

// Catalog lists every control that the state offers, each with its target still
// to be named. It does not depend on the grant: what is listed but not granted
// is for the hard checks to refuse.
func (Adapter) Catalog(seen decide.Sighting, plan service.Plan) ([]propose.Entry, error) {
	var s State
	if err := canon.Unmarshal(seen.State, &s); err != nil {
		return nil, err
	}
	c := &catalog{s: &s, plan: plan}
	c.reads()
	c.cart()
	c.checkout()
	return c.Entries()
}

// add adds an entry; every one says which shop it is of.
func (c *catalog) add(id, operation string, args any, label string, effect propose.Effect, facts ...authority.Fact) *propose.Entry {
	return c.Add(id, operation, args, label, effect, append([]authority.Fact{{Name: "origin", Value: c.plan.Origin}}, facts...)...)
}

func (c *catalog) reads() {
	none := struct{}{}
	c.add("catalog", opCatalog, none, "Read the product catalog", service.Read("catalog.read"))
	for _, p := range c.s.Products {
		c.add("product:"+p.ID, opProduct, productArgs{p.ID}, "Read the page of "+p.Name, service.Read("product.read"))
	}
	c.add("cart", opCart, none, "Read the cart", service.Read("cart.read"))
	if o := c.s.Order; o != nil {
		c.add("order:"+o.ID, opOrder, orderArgs{o.ID}, "Read the order", service.Read("order.read"))
	}
}

func (c *catalog) cart() {
	usd := currency
	for _, p := range c.s.Products {
		for n := int64(1); n <= maxQuantity; n++ {
			after := c.s.quantity(p.ID) + n
			if after > maxQuantity {
				break
			}
			e := c.add(fmt.Sprintf("add:%s:%d", p.ID, n), opAdd, addArgs{p.ID, n}, fmt.Sprintf("Add %d x %s to the cart", n, p.Name),
				service.Prepare([]string{"productId", "quantity"}, cartLine(p.ID, after)), authority.Fact{Name: "productId", Value: p.ID}, authority.Fact{Name: "quantity", Value: fmt.Sprint(after)})
			e.Currency = &usd
		}
		if c.s.quantity(p.ID) > 0 {
			e := c.add("remove:"+p.ID, opRemove, productArgs{p.ID}, "Remove "+p.Name+" from the cart", service.Prepare([]string{"productId"}, cartLine(p.ID, 0)))
			e.Currency = &usd
		}
	}
}

// lines are the facts of everything that is in the cart.
func (c *catalog) lines() []authority.Fact {
	var facts []authority.Fact
	for _, line := range c.s.Cart.Lines {
		facts = append(facts, authority.Fact{Name: "productId", Value: line.ProductID}, authority.Fact{Name: "quantity", Value: fmt.Sprint(line.Quantity)})
	}
	return facts
}

func (c *catalog) checkout() {
	total, ok := c.s.total()
	if len(c.s.Cart.Lines) == 0 || !ok {
		return
	}
	usd := currency
	for _, address := range addresses {
		facts := append(c.lines(), authority.Fact{Name: "addressRef", Value: address}, authority.Fact{Name: "totalCents", Value: total.String()})
		e := c.add("checkout:"+address, opCheckout, checkoutArgs{c.s.Cart.Version, address}, "Prepare the checkout to "+address,
			service.Prepare([]string{"addressRef"}, "checkout.prepared"), facts...)
		e.Currency, e.Destination, e.FitCents = &usd, &address, &total
	}
	if o := c.s.offer(); o != nil && c.plan.ProposalID != nil {
		c.submit(o)
	}
}

func (c *catalog) submit(o *decide.Offer) {
	usd, check := currency, c.s.Checkout
	effect := service.Commit([]string{"addressRef", "totalCents"}, o, c.plan.ProposalID, "order.confirmed", "order.total_matches")
	facts := append(c.lines(), authority.Fact{Name: "addressRef", Value: o.Destination}, authority.Fact{Name: "totalCents", Value: o.AmountCents.String()})
	e := c.add("submit:"+check.ID, opSubmit, submitArgs{check.ID, check.CartVersion, o.AmountCents, currency, o.Destination},
		"Submit the checkout for "+o.AmountCents.Format(currency), effect, facts...)
	e.Currency, e.Destination = &usd, &o.Destination
}
