package console

import (
	"encoding/json"
	"slices"
	"strconv"

	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/records"
)

// proposal is a transaction proposal as the owner decides on it: every member that
// its effect digest covers, and the digest.
type proposal struct {
	*records.Prepared
	Service string
	Amount  string
	Whole   bool // what is shown is exactly what the digest covers
	Waits   bool // for the owner
}

// newProposal returns the prepared proposal of a run with its effect, or nil. The
// digest is computed here once more, from what is shown: had anything been left out or
// changed on the way, it would be another one.
func newProposal(v *records.View) *proposal {
	p := v.Prepared
	if p == nil {
		return nil
	}
	service, e := v.State.Config.Service, &p.Entry
	same := e.OperationID == p.OperationID && e.Amount() == p.AmountCents && e.Destination != nil && *e.Destination == p.Destination &&
		e.Currency != nil && *e.Currency == p.Currency
	return &proposal{
		Prepared: p, Service: service, Amount: spellMoney(p.AmountCents, p.Currency),
		Whole: same && e.EffectDigest(service, p.StateRevision) == p.EffectDigest,
		Waits: slices.Contains(v.Eligible, decide.RouteApprove),
	}
}

// Args lists the final arguments, one by one.
func (p *proposal) Args() []term {
	var members map[string]json.RawMessage
	if json.Unmarshal(p.Entry.Args, &members) != nil {
		return []term{{"arguments", string(p.Entry.Args)}}
	}
	var list []term
	for _, name := range canonicalNames(members) {
		list = append(list, term{name, exact(plain(members[name]))})
	}
	return list
}

// exact shows a text with all that could be hidden in it spelled out: when a character
// of it does not print or looks like another, it stands between quotes, in escapes.
func exact(s string) string {
	if strconv.Quote(s) == `"`+s+`"` {
		return s
	}
	return strconv.QuoteToASCII(s)
}
