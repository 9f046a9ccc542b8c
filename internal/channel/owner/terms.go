package owner

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Terms are those of a create-run body (G-06, L-2). Their service checks them and names
// what is wrong: only it knows which members it takes.
type Terms struct{ json.RawMessage }

// Schema documents the terms of every service. They stand in an extension, so that the
// document shows them and the request is not checked against all three.
func (Terms) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Extensions: map[string]any{"oneOf": []*huma.Schema{
		r.Schema(reflect.TypeFor[MerchantTerms](), true, ""), r.Schema(reflect.TypeFor[BankTerms](), true, ""), r.Schema(reflect.TypeFor[BrokerTerms](), true, ""),
	}}}
}

// MerchantTerms are what a run may buy.
type MerchantTerms struct {
	Origin        string `json:"origin" minLength:"1" maxLength:"200" doc:"Where it may be bought: local for the target local, the origin of --store-origin for hosted." example:"http://127.0.0.1:8421"`
	ProductID     string `json:"productId" minLength:"1" maxLength:"64" doc:"The one product." example:"fieldwork-keyboard"`
	Quantity      int64  `json:"quantity" minimum:"1" maximum:"3" doc:"At most so many of it." example:"1"`
	AddressRef    string `json:"addressRef" minLength:"1" maxLength:"64" doc:"The one address that it may be delivered to." example:"addr_home"`
	MaxTotalCents string `json:"maxTotalCents" doc:"The total, shipping included, is at most this. Integer cents as a decimal string." example:"13700"`
}

// BankTerms are the one transfer that a run may make.
type BankTerms struct {
	SourceAccountRef string `json:"sourceAccountRef" doc:"The account that it leaves." example:"acct_checking"`
	PayeeRef         string `json:"payeeRef" doc:"The registered payee that gets it." example:"payee_utility"`
	AmountCents      string `json:"amountCents" doc:"What the payee gets, at least 1; a fee on top is bounded by the budget. Integer cents as a decimal string." example:"5000"`
	Currency         string `json:"currency" enum:"USD" example:"USD"`
	Memo             string `json:"memo" maxLength:"140" doc:"Free text for the payee. Evidence holds what stands for it." example:"Synthetic invoice 1042"`
}

// BrokerTerms are the one order that a run may place.
type BrokerTerms struct {
	Symbol          string `json:"symbol" doc:"What it is for." example:"SYNA"`
	Side            string `json:"side" enum:"buy,sell" example:"buy"`
	Quantity        int64  `json:"quantity" minimum:"1" maximum:"10000" doc:"Exactly so many units." example:"2"`
	LimitPriceCents string `json:"limitPriceCents" doc:"The limit for one unit, at least 1. The order's amount is quantity times this. Integer cents as a decimal string." example:"5000"`
	OrderType       string `json:"orderType" enum:"limit" example:"limit"`
	TimeInForce     string `json:"timeInForce" enum:"day" example:"day"`
}
