package broker

import (
	"fmt"
	"slices"

	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/service"
)

// Arguments of the operations; those of broker.order.prepare are [Terms].
type (
	quoteArgs struct {
		Symbol string `json:"symbol"`
	}
	statusArgs struct {
		DraftID string `json:"draftId"`
	}
	// submitArgs name what was approved.
	submitArgs struct {
		DraftID      string      `json:"draftId"`
		QuoteVersion int64       `json:"quoteVersion"`
		AmountCents  money.Cents `json:"amountCents"`
		Currency     string      `json:"currency"`
		Destination  string      `json:"destination"`
		Terms
	}
)

func (d *Draft) submission() submitArgs {
	return submitArgs{d.ID, d.QuoteVersion, d.AmountCents, currency, d.AccountRef, d.Terms}
}

// catalog collects entries.
type catalog struct {
	service.Catalog
	s     *State
	terms Terms
	plan  service.Plan
}

// Catalog lists every control that the state offers, each with its target still to be
// named: the order of the terms, and those that differ from it in symbol and side, by
// one unit or by one cent. It does not depend on the grant: what is listed but not
// granted is for the hard checks to refuse.
func (Adapter) Catalog(seen decide.Sighting, plan service.Plan) ([]propose.Entry, error) {
	c := &catalog{s: &State{}, plan: plan}
	if err := canon.Unmarshal(seen.State, c.s); err != nil {
		return nil, err
	}
	if err := canon.Unmarshal(plan.Terms, &c.terms); err != nil {
		return nil, err
	}
	c.reads()
	if c.s.Order == nil {
		c.orders()
	}
	if o := c.s.offer(); o != nil && plan.ProposalID != nil {
		c.submit(o)
	}
	return c.Entries()
}

func (c *catalog) reads() {
	none := struct{}{}
	c.Add("account", opAccount, none, "Read the account", service.Read("account.read"))
	for _, q := range c.s.Quotes {
		c.Add("quote:"+q.Symbol, opQuote, quoteArgs{q.Symbol}, "Read the quote of "+q.Name, service.Read("quote.read"))
	}
	c.Add("positions", opPositions, none, "Read the positions", service.Read("positions.read"))
	if id := c.s.draftID(); id != "" {
		c.Add("status:"+id, opStatus, statusArgs{id}, "Read how the order stands", service.Read("order.status_read"))
	}
}

// choices are the orders that can be prepared, that of the terms among them.
func (c *catalog) choices() []Terms {
	var list []Terms
	add := func(t Terms) {
		if amount, ok := t.amount(); ok && amount > 0 && t.Quantity >= 1 && t.Quantity <= maxQuantity && !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	for _, q := range c.s.Quotes {
		for _, side := range []string{buy, sell} {
			t := c.terms
			t.Symbol, t.Side = q.Symbol, side
			add(t)
		}
	}
	for _, by := range []int64{-1, 1} {
		more, dearer := c.terms, c.terms
		more.Quantity += by
		dearer.LimitPriceCents += money.Cents(by)
		add(more)
		add(dearer)
	}
	return list
}

func (t Terms) String() string {
	return fmt.Sprintf("%s %d %s at %s", t.Side, t.Quantity, t.Symbol, t.LimitPriceCents.Format(currency))
}

func (c *catalog) orders() {
	usd := currency
	for _, t := range c.choices() {
		amount, _ := t.amount()
		id := fmt.Sprintf("order:%s:%s:%d:%s", t.Symbol, t.Side, t.Quantity, t.LimitPriceCents)
		e := c.Add(id, opPrepare, t, "Prepare the synthetic limit order for the day: "+t.String(),
			service.Prepare([]string{"symbol", "side", "quantity", "limitPriceCents"}, "order.prepared"), t.facts()...)
		e.Currency, e.Destination, e.FitCents = &usd, &c.s.Account.Ref, &amount
	}
}

func (c *catalog) submit(o *decide.Offer) {
	usd, d := currency, c.s.Draft
	effect := service.Commit([]string{"symbol", "side", "quantity", "limitPriceCents"}, o, c.plan.ProposalID, "order.confirmed", "order.amount_matches")
	e := c.Add("submit:"+d.ID, opSubmit, d.submission(), "Submit the synthetic limit order for the day: "+d.Terms.String()+", in all "+d.AmountCents.Format(currency), effect, d.facts()...)
	e.Currency, e.Destination = &usd, &o.Destination
}
