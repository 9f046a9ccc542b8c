// Package broker is the adapter for a brokerage account: read account, quotes and
// positions, prepare an order, submit it. All data is synthetic (H-011), and the local
// broker is all there is: it has no hosted form (H-013).
//
// Operations (G-06): broker.account, .quote, .positions and .order.status read;
// broker.order.prepare prepares; broker.order.submit commits. There is no other
// operation: every order is a limit order for the day, none is cancelled, and nothing
// is withdrawn.
package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// Operations of a broker.
const (
	opAccount   = "broker.account"
	opQuote     = "broker.quote"
	opPositions = "broker.positions"
	opStatus    = "broker.order.status"
	opPrepare   = "broker.order.prepare"
	opSubmit    = "broker.order.submit"
)

const currency = "USD"

// Sides of an order, and the one type and duration that there is.
const (
	buy   = "buy"
	sell  = "sell"
	limit = "limit"
	day   = "day"
)

// maxQuantity is the largest quantity of one order.
const maxQuantity = 10_000

// Adapter is the broker. The zero value is ready.
type Adapter struct{}

// Name is the service's name in a create-run body.
func (Adapter) Name() string { return "broker" }

// Synthetic is what a person is told of the local broker's data (H-011).
func (Adapter) Synthetic() string {
	return "Synthetic broker: account, symbols, quotes and money are made up."
}

// Currency is the one currency of the broker.
func (Adapter) Currency() string { return currency }

// LocalOrigin is the origin of the local synthetic broker.
func (Adapter) LocalOrigin() string { return "local" }

// Operations lists what a bounded grant covers.
func (Adapter) Operations() []string {
	return []string{opAccount, opQuote, opPositions, opStatus, opPrepare, opSubmit}
}

// MaxUses is how often a grant lets each commit operation run (G-07).
func (Adapter) MaxUses() map[string]int64 { return map[string]int64{opSubmit: 1} }

// Workflow is read, prepare, commit, verify.
func (Adapter) Workflow() []run.Step {
	return []run.Step{
		{Name: "read", ClosedBy: "quote.read"},
		{Name: "prepare", ClosedBy: "order.prepared"},
		{Name: "commit", ClosedBy: "order.confirmed"},
		{Name: "verify", ClosedBy: "order.amount_matches"},
	}
}

// Terms are the members of G-06, and the arguments of broker.order.prepare.
type Terms struct {
	Symbol          string      `json:"symbol"`
	Side            string      `json:"side"`
	Quantity        int64       `json:"quantity"`
	LimitPriceCents money.Cents `json:"limitPriceCents"`
	OrderType       string      `json:"orderType"`
	TimeInForce     string      `json:"timeInForce"`
}

// amount is what the order is worth at its limit (G-08); false when that is no amount.
func (t Terms) amount() (money.Cents, bool) { return t.LimitPriceCents.Times(t.Quantity) }

// Terms resolves the terms of a create-run body. nil gives the fixture's: buy 2 SYNA
// at 5000 cents or less.
func (Adapter) Terms(raw json.RawMessage, _ string) (service.Terms, *authority.Denial) {
	t, market := Terms{"SYNA", buy, 2, 5000, limit, day}, fixture()
	if raw != nil {
		t = Terms{}
		if denial := service.ReadTerms(raw, &t); denial != nil {
			return service.Terms{}, denial
		}
	}
	amount, ok := t.amount()
	switch {
	case market.quote(t.Symbol) == nil:
		return service.Terms{}, service.Invalid("terms.symbol must be one of " + market.symbols())
	case t.Side != buy && t.Side != sell:
		return service.Terms{}, service.Invalid("terms.side must be buy or sell")
	case t.Quantity < 1 || t.Quantity > maxQuantity:
		return service.Terms{}, service.Invalid(fmt.Sprintf("terms.quantity must be 1 to %d", maxQuantity))
	case t.OrderType != limit:
		return service.Terms{}, service.Invalid("terms.orderType must be limit")
	case t.TimeInForce != day:
		return service.Terms{}, service.Invalid("terms.timeInForce must be day")
	case !ok || amount < 1:
		return service.Terms{}, service.Invalid("terms.limitPriceCents must be at least 1, and times the quantity an amount")
	}
	return service.Terms{JSON: canon.MustMarshal(t), Constraints: constraints(t.facts())}, nil
}

// facts are what an order says of itself.
func (t Terms) facts() []authority.Fact {
	return []authority.Fact{
		{Name: "symbol", Value: t.Symbol}, {Name: "side", Value: t.Side}, {Name: "quantity", Value: fmt.Sprint(t.Quantity)},
		{Name: "limitPriceCents", Value: t.LimitPriceCents.String()}, {Name: "orderType", Value: t.OrderType}, {Name: "timeInForce", Value: t.TimeInForce},
	}
}

// constraints want exactly the order of the terms. A lower limit would be better for
// who buys and worse for who sells, so that neither is admitted.
func constraints(facts []authority.Fact) (exactly []authority.Constraint) {
	for _, f := range facts {
		exactly = append(exactly, authority.Constraint{Name: f.Name, Rule: authority.RuleEquals, Value: f.Value})
	}
	return exactly
}

// symbols lists the symbols for a person.
func (s *State) symbols() string {
	var names []string
	for _, q := range s.Quotes {
		names = append(names, q.Symbol)
	}
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}
