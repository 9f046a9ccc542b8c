package console

import (
	"encoding/json"
	"strconv"

	"countersign/evidence"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
)

// proposal is a transaction proposal as the owner decides on it: every member that
// its effect digest covers, and the digest.
type proposal struct {
	ID        string
	ExpiresAt evidence.Time
	Entry     *propose.Entry // the control whose effect it is; nil when it is not at hand
	Service   string
	Amount    string
	Revision  int64
	Digest    string
	Whole     bool // what is shown is exactly what the digest covers
	Facts     []term
}

// newProposal returns the prepared proposal of a run, or nil. The digest is computed
// here, from what is shown: had anything been left out or changed on the way, it would
// be another than the one that the proposal was stored with.
func newProposal(v *records.View) *proposal {
	p := v.State.Proposal
	if p == nil {
		return nil
	}
	out := &proposal{ID: p.ID, ExpiresAt: p.ExpiresAt, Service: v.State.Config.Service, Amount: spellMoney(p.AmountCents, p.Currency), Revision: p.StateRevision}
	if v.Observation == nil {
		return out
	}
	out.Entry = propose.FindEntry(v.Observation.Catalog, func(e *propose.Entry) bool {
		return e.Effect.Class == propose.ClassCommit && e.Effect.TransactionProposalID != nil && *e.Effect.TransactionProposalID == p.ID
	})
	if e := out.Entry; e != nil {
		out.Digest = e.EffectDigest(out.Service, p.StateRevision)
		out.Whole = v.Observation.StateRevision == p.StateRevision && e.OperationID == p.OperationID && e.Amount() == p.AmountCents &&
			e.Destination != nil && *e.Destination == p.Destination && e.Currency != nil && *e.Currency == p.Currency
		for _, f := range e.Facts {
			out.Facts = append(out.Facts, term{f.Name, f.Value})
		}
	}
	return out
}

// Args lists the final arguments, one by one.
func (p *proposal) Args() []term {
	var members map[string]json.RawMessage
	if json.Unmarshal(p.Entry.Args, &members) != nil {
		return []term{{"arguments", string(p.Entry.Args)}}
	}
	var list []term
	for _, name := range canonicalNames(members) {
		list = append(list, term{name, quoted(members[name])})
	}
	return list
}

// quoted shows a text with all that could be hidden in it spelled out: a character
// that does not print, or looks like nothing, stands as its escape.
func quoted(raw json.RawMessage) string {
	s := plain(raw)
	if strconv.CanBackquote(s) && strconv.QuoteToGraphic(s) == `"`+s+`"` {
		return s
	}
	return strconv.QuoteToASCII(s)
}
