package bank

import (
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/service"
)

// Arguments of the operations; those of bank.transfer.prepare are an [Order].
type (
	accountArgs struct {
		AccountRef string `json:"accountRef"`
	}
	statusArgs struct {
		QuoteID string `json:"quoteId"`
	}
	// submitArgs name what was approved. AmountCents is what leaves the account.
	submitArgs struct {
		QuoteID          string              `json:"quoteId"`
		TariffVersion    int64               `json:"tariffVersion"`
		SourceAccountRef string              `json:"sourceAccountRef"`
		Destination      string              `json:"destination"`
		AmountCents      money.Cents         `json:"amountCents"`
		FeeCents         money.Cents         `json:"feeCents"`
		Currency         string              `json:"currency"`
		Memo             evidence.Commitment `json:"memo"`
	}
)

// names reports whether that is the transfer that a names, its amounts aside.
func (a submitArgs) names(quoteID string, o Order) bool {
	return a.QuoteID == quoteID && a.SourceAccountRef == o.SourceAccountRef && a.Destination == o.PayeeRef && a.Currency == o.Currency && a.Memo == o.Memo
}

func (q *Quote) submission() submitArgs {
	return submitArgs{q.ID, q.TariffVersion, q.SourceAccountRef, q.PayeeRef, q.TotalCents, q.FeeCents, q.Currency, q.Memo}
}

// catalog collects entries.
type catalog struct {
	service.Catalog
	s     *State
	terms heldTerms
	plan  service.Plan
}

// Catalog lists every control that the state offers, each with its target still to be
// named: a transfer of the terms' amount from every account to every payee. It does
// not depend on the grant: what is listed but not granted is for the hard checks to
// refuse.
func (Adapter) Catalog(seen decide.Sighting, plan service.Plan) ([]propose.Entry, error) {
	c := &catalog{s: &State{}, plan: plan}
	if err := canon.Unmarshal(seen.State, c.s); err != nil {
		return nil, err
	}
	if err := canon.Unmarshal(plan.Terms, &c.terms); err != nil {
		return nil, err
	}
	c.reads()
	if c.s.Transfer == nil {
		c.transfers()
	}
	if o := c.s.offer(); o != nil && plan.ProposalID != nil {
		c.submit(o)
	}
	return c.Entries()
}

func (c *catalog) reads() {
	none := struct{}{}
	c.Add("accounts", opAccounts, none, "Read the accounts", service.Read("accounts.read"))
	c.Add("payees", opPayees, none, "Read the payees", service.Read("payees.read"))
	for _, a := range c.s.Accounts {
		c.Add("transactions:"+a.Ref, opTransactions, accountArgs{a.Ref}, "Read the transactions of "+a.Name, service.Read("transactions.read"))
	}
	if id := c.s.quoteID(); id != "" {
		c.Add("status:"+id, opStatus, statusArgs{id}, "Read how the transfer stands", service.Read("transfer.status_read"))
	}
}

// facts are what the grant's terms are held against.
func (o Order) facts() []authority.Fact {
	return []authority.Fact{
		{Name: "sourceAccountRef", Value: o.SourceAccountRef}, {Name: "payeeRef", Value: o.PayeeRef},
		{Name: "amountCents", Value: o.AmountCents.String()}, {Name: "currency", Value: o.Currency},
	}
}

func (c *catalog) transfers() {
	usd := currency
	total, ok := c.terms.AmountCents.Add(c.s.Tariff.FeeCents)
	if !ok {
		return
	}
	for _, from := range c.s.Accounts {
		for _, to := range c.s.Payees {
			o := Order{from.Ref, to.Ref, c.terms.AmountCents, currency, c.terms.Memo}
			e := c.Add("transfer:"+from.Ref+":"+to.Ref, opPrepare, o, "Prepare a transfer of "+o.AmountCents.Format(currency)+" from "+from.Name+" to "+to.Name,
				service.Prepare([]string{"sourceAccountRef", "payeeRef", "amountCents", "memo"}, "transfer.prepared"), o.facts()...)
			e.Currency, e.Destination, e.FitCents = &usd, &to.Ref, &total
		}
	}
}

func (c *catalog) submit(o *decide.Offer) {
	usd, q := currency, c.s.Quote
	effect := service.Commit([]string{"sourceAccountRef", "payeeRef", "amountCents", "memo"}, o, c.plan.ProposalID, "transfer.confirmed", "transfer.amount_matches")
	e := c.Add("submit:"+q.ID, opSubmit, q.submission(), "Submit the transfer of "+q.AmountCents.Format(currency)+" to "+q.PayeeRef+", fees "+q.FeeCents.Format(currency), effect, q.facts()...)
	e.Currency, e.Destination = &usd, &o.Destination
}
