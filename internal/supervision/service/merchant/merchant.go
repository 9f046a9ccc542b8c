// Package merchant is the adapter for a shop: read the catalog, fill a cart,
// prepare a checkout, submit it. All data is synthetic (H-011).
//
// Operations (G-06): merchant.catalog, .product, .cart, .order read;
// merchant.cart.add, .cart.remove and .checkout.prepare prepare;
// merchant.checkout.submit commits. There is no other operation.
package merchant

import (
	"encoding/json"
	"fmt"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// Operations of a merchant.
const (
	opCatalog  = "merchant.catalog"
	opProduct  = "merchant.product"
	opCart     = "merchant.cart"
	opOrder    = "merchant.order"
	opAdd      = "merchant.cart.add"
	opRemove   = "merchant.cart.remove"
	opCheckout = "merchant.checkout.prepare"
	opSubmit   = "merchant.checkout.submit"
)

const (
	currency = "USD"
	// LocalOrigin is the origin that terms name for the local synthetic merchant.
	LocalOrigin = "local"
)

// Adapter is the merchant. The zero value is ready.
type Adapter struct{}

// Name is the service's name in a create-run body.
func (Adapter) Name() string { return "merchant" }

// Synthetic is what a person is told of the local merchant's data (H-011).
func (Adapter) Synthetic() string {
	return "Synthetic merchant: products, prices and addresses are made up."
}

// Currency is the one currency of a merchant.
func (Adapter) Currency() string { return currency }

// LocalOrigin is the origin of the local synthetic merchant.
func (Adapter) LocalOrigin() string { return LocalOrigin }

// Operations lists what a bounded grant covers.
func (Adapter) Operations() []string {
	return []string{opCatalog, opProduct, opCart, opOrder, opAdd, opRemove, opCheckout, opSubmit}
}

// MaxUses is how often a grant lets each commit operation run (G-07).
func (Adapter) MaxUses() map[string]int64 { return map[string]int64{opSubmit: 1} }

// Workflow is read, prepare, commit, verify.
func (Adapter) Workflow() []run.Step {
	return []run.Step{
		{Name: "read", ClosedBy: "catalog.read"},
		{Name: "prepare", ClosedBy: "checkout.prepared"},
		{Name: "commit", ClosedBy: "order.confirmed"},
		{Name: "verify", ClosedBy: "order.total_matches"},
	}
}

// terms are the members of G-06.
type terms struct {
	Origin        string      `json:"origin"`
	ProductID     string      `json:"productId"`
	Quantity      int64       `json:"quantity"`
	AddressRef    string      `json:"addressRef"`
	MaxTotalCents money.Cents `json:"maxTotalCents"`
}

// Terms resolves the terms of a create-run body. nil gives the fixture's: one
// Fieldwork keyboard for 13700 cents to the home address.
func (Adapter) Terms(raw json.RawMessage, origin string) (service.Terms, *authority.Denial) {
	t := terms{origin, "fieldwork-keyboard", 1, "addr_home", 13700}
	if raw != nil {
		t = terms{}
		if denial := service.ReadTerms(raw, &t); denial != nil {
			return service.Terms{}, denial
		}
	}
	switch {
	case t.Origin != origin:
		return service.Terms{}, service.Invalid("terms.origin must be " + origin)
	case t.Quantity < 1 || t.Quantity > maxQuantity:
		return service.Terms{}, service.Invalid(fmt.Sprintf("terms.quantity must be 1 to %d", maxQuantity))
	case t.ProductID == "" || len(t.ProductID) > maxProductID || t.AddressRef == "" || len(t.AddressRef) > 64:
		return service.Terms{}, service.Invalid("terms.productId and terms.addressRef must be 1 to 64 bytes")
	}
	return service.Terms{JSON: canon.MustMarshal(t), Constraints: []authority.Constraint{
		{Name: "origin", Rule: authority.RuleEquals, Value: t.Origin},
		{Name: "productId", Rule: authority.RuleEquals, Value: t.ProductID},
		{Name: "quantity", Rule: authority.RuleAtMost, Value: fmt.Sprint(t.Quantity)},
		{Name: "addressRef", Rule: authority.RuleEquals, Value: t.AddressRef},
		{Name: "totalCents", Rule: authority.RuleAtMost, Value: t.MaxTotalCents.String()},
	}}, nil
}
