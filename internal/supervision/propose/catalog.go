package propose

import (
	"bytes"
	"encoding/json"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
)

// MaxEntries bounds a catalog (G-05).
const MaxEntries = 64

// Classes of effect.
const (
	ClassRead    = "read"    // discloses, changes nothing
	ClassLocal   = "local"   // changes only what the browser shows
	ClassPrepare = "prepare" // changes the service, spends nothing
	ClassCommit  = "commit"  // spends, or is otherwise consequential
)

// Entry is one fully concrete control that a consumer may propose (G-05). The
// members destination, currency, fitCents and facts are ours: they tell what
// the hard checks hold against the grant.
type Entry struct {
	EntryID     string           `json:"entryId"`
	Kind        string           `json:"kind"`
	OperationID string           `json:"operationId"`
	TargetRef   string           `json:"targetRef"`
	URL         *string          `json:"url,omitzero"`
	Value       *string          `json:"value,omitzero"`
	Args        json.RawMessage  `json:"args"`
	Label       string           `json:"label"`
	Transport   string           `json:"transport"`
	Effect      Effect           `json:"effect"`
	Destination *string          `json:"destination"`
	Currency    *string          `json:"currency"`
	FitCents    *money.Cents     `json:"fitCents"` // what a prepare's commit would cost
	Facts       []authority.Fact `json:"facts"`
}

// Effect is an entry's effect contract.
type Effect struct {
	Class                 string       `json:"class"`
	DisclosedFields       []string     `json:"disclosedFields"`
	Postconditions        []string     `json:"postconditions"`
	AmountCents           *money.Cents `json:"amountCents"`
	TransactionProposalID *string      `json:"transactionProposalId"`
}

// Action returns the action that matches the entry exactly.
func (e *Entry) Action() Action {
	return Action{e.Kind, e.OperationID, e.TargetRef, e.URL, e.Value, e.Args}
}

// Matches reports whether the action is the entry's, member by member.
func (e *Entry) Matches(a *Action) bool {
	return a.Kind == e.Kind && a.OperationID == e.OperationID && a.TargetRef == e.TargetRef &&
		sameText(a.URL, e.URL) && sameText(a.Value, e.Value) && sameJSON(a.Args, e.Args)
}

// sameJSON compares values. Parsed arguments are canonical, so that mostly the
// bytes are equal already.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || bytes.Equal(canon.MustMarshal(a), canon.MustMarshal(b))
}

func sameText(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// Amount is what the effect costs; reads and prepares cost nothing.
func (e *Entry) Amount() money.Cents {
	if e.Effect.AmountCents == nil {
		return 0
	}
	return *e.Effect.AmountCents
}

// Fit is what must fit the budget for the action to make sense: the amount, or
// for a prepare the amount of its commit (G-08).
func (e *Entry) Fit() money.Cents {
	if e.FitCents != nil {
		return max(e.Amount(), *e.FitCents)
	}
	return e.Amount()
}

// Digest covers the whole entry.
func (e *Entry) Digest() string { return authority.Digest(authority.DomainEntry, e) }

// effectContract is the effect as the effect digest covers it.
type effectContract struct {
	Class                 string   `json:"class"`
	DisclosedFields       []string `json:"disclosedFields"`
	Postconditions        []string `json:"postconditions"`
	TransactionProposalID *string  `json:"transactionProposalId"`
}

type effectFields struct {
	Service       string          `json:"service"`
	OperationID   string          `json:"operationId"`
	Args          json.RawMessage `json:"args"`
	URL           *string         `json:"url,omitzero"`
	Value         *string         `json:"value,omitzero"`
	Destination   *string         `json:"destination"`
	AmountCents   *money.Cents    `json:"amountCents"`
	Currency      *string         `json:"currency"`
	StateRevision int64           `json:"stateRevision"`
	Effect        effectContract  `json:"effect"`
}

// EffectDigest is the digest of what a person sees, an approval names, a store
// is sent and a receipt repeats.
func (e *Entry) EffectDigest(service string, stateRevision int64) string {
	return authority.Digest(authority.DomainEffect, effectFields{
		Service: service, OperationID: e.OperationID, Args: e.Args, URL: e.URL, Value: e.Value,
		Destination: e.Destination, AmountCents: e.Effect.AmountCents, Currency: e.Currency, StateRevision: stateRevision,
		Effect: effectContract{e.Effect.Class, e.Effect.DisclosedFields, e.Effect.Postconditions, e.Effect.TransactionProposalID},
	})
}

type actionFields struct {
	EffectDigest  string `json:"effectDigest"`
	Kind          string `json:"kind"`
	TargetRef     string `json:"targetRef"`
	ObservationID string `json:"observationId"`
	DocumentEpoch int64  `json:"documentEpoch"`
}

// ActionDigest is the digest that a permit binds.
func (e *Entry) ActionDigest(effectDigest, observationID string, documentEpoch int64) string {
	return authority.Digest(authority.DomainAction, actionFields{effectDigest, e.Kind, e.TargetRef, observationID, documentEpoch})
}

// CatalogDigest covers all entries in their order.
func CatalogDigest(catalog []Entry) string {
	return authority.Digest(authority.DomainCatalog, catalog)
}

// Twice returns the second of two entries that one could be taken for the other, or nil:
// an entry is named by its id and by its target reference.
func Twice(catalog []Entry) *Entry {
	names := make(map[string]bool, 2*len(catalog))
	return FindEntry(catalog, func(e *Entry) bool {
		id, target := "id "+e.EntryID, "target "+e.TargetRef
		twice := names[id] || names[target]
		names[id], names[target] = true, true
		return twice
	})
}

// FindEntry returns the first entry that is asked for, or nil.
func FindEntry(catalog []Entry, is func(*Entry) bool) *Entry {
	for i := range catalog {
		if is(&catalog[i]) {
			return &catalog[i]
		}
	}
	return nil
}

// Committing returns the entry that commits the prepared proposal, or nil.
func Committing(catalog []Entry, proposalID string) *Entry {
	return FindEntry(catalog, func(e *Entry) bool {
		return e.Effect.TransactionProposalID != nil && *e.Effect.TransactionProposalID == proposalID
	})
}

// EntryByID returns the entry with the id, or nil.
func EntryByID(catalog []Entry, id string) *Entry {
	return FindEntry(catalog, func(e *Entry) bool { return e.EntryID == id })
}
