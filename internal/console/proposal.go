package console

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/records"
)

// proposal is a transaction proposal as the owner decides on it: every member that
// its effect digest covers, and the digest.
type proposal struct {
	*records.Prepared
	Service string
	Amount  string
	Args    []argument
	Whole   bool                   // what is shown is exactly what the digest covers
	Waits   bool                   // for the owner
	Scope   []authority.Constraint // the owner's terms that it stays within
}

// argument is one of the final arguments. Free text is shown as it is; what the digest
// covers of it is its commitment.
type argument struct{ Name, Value, Commitment string }

// newProposal returns the prepared proposal of a run with its effect, or nil. The
// digest is computed here once more, from what is shown: had anything been left out or
// changed on the way, it would be another one. text reads free text.
func newProposal(v *records.View, text func(evidence.Commitment) (string, error)) (*proposal, error) {
	p := v.Prepared
	if p == nil {
		return nil, nil
	}
	service, e := v.State.Config.Service, &p.Entry
	same := e.OperationID == p.OperationID && e.Amount() == p.AmountCents && e.Destination != nil && *e.Destination == p.Destination &&
		e.Currency != nil && *e.Currency == p.Currency
	args, readable, err := arguments(e.Args, text)
	var scope []authority.Constraint
	if g, _ := v.State.Authority(p.OperationID, v.Now); g != nil {
		scope = g.Constraints
	}
	return &proposal{
		Prepared: p, Service: service, Amount: spellMoney(p.AmountCents, p.Currency), Args: args,
		Whole: readable && same && e.EffectDigest(service, p.StateRevision) == p.EffectDigest,
		Waits: slices.Contains(v.Eligible, decide.RouteApprove), Scope: scope,
	}, err
}

// arguments lists the final arguments, one by one, and tells whether all of them can be
// read: free text may have been erased.
func arguments(raw json.RawMessage, text func(evidence.Commitment) (string, error)) (list []argument, readable bool, err error) {
	var members map[string]json.RawMessage
	if err := canon.Unmarshal(raw, &members); err != nil {
		return nil, false, err
	}
	readable = true
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var c evidence.Commitment
		if canon.Unmarshal(members[name], &c) != nil || !canon.IsHash(c.Text) {
			list = append(list, argument{Name: name, Value: exact(plain(members[name]))})
			continue
		}
		words, err := text(c)
		if err != nil {
			return nil, false, err
		}
		readable = readable && words != records.Erased && len(words) == c.Length
		list = append(list, argument{name, exact(words), c.Text})
	}
	return list, readable, nil
}

// exact shows a text with all that could be hidden in it spelled out: when a character
// of it does not print or looks like another, it stands between quotes, in escapes.
func exact(s string) string {
	if strconv.Quote(s) == `"`+s+`"` {
		return s
	}
	return strconv.QuoteToASCII(s)
}
