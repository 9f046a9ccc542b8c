// Package service holds the words that every service adapter speaks. An adapter
// knows one domain (merchant, bank, broker): which operations it has, what its terms
// mean, what a catalog looks like in a given state, how an operation acts on the local
// synthetic service and, if there is a hosted one, which request it is there. Nothing
// outside an adapter's package knows anything about its domain.
//
// Adapters are pure values: they hold no state, do no I/O and read no clock.
package service

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// Terms are an owner's terms, resolved: canonical JSON for digests and people,
// and constraints for the hard checks. Texts are their members that are free text, by
// name, and not in JSON: evidence holds what stands for them.
type Terms struct {
	JSON        json.RawMessage
	Texts       map[string]string
	Constraints []authority.Constraint
}

// Request is one HTTP request to a hosted service. Body is nil for a read.
type Request struct {
	Method string
	Path   string
	Body   []byte
}

// Effect is what a local operation did. A refused one changed nothing.
type Effect struct {
	State   []byte // next state of the local service
	View    *string
	OrderID *string
	Refused string // why, empty when applied
}

// Promise is what an execution was to do, to be done or held against a sighting.
type Promise struct {
	Operation      string
	Args           json.RawMessage
	Postconditions []string
}

// Args decodes the arguments of an entry into v. Entries are made by the
// adapter itself, so arguments of another form are a defect and an error.
func Args(raw json.RawMessage, v any) error { return canon.Unmarshal(raw, v) }

// With hands decoded arguments to f.
func With[T any](raw json.RawMessage, f func(T)) error {
	var args T
	if err := Args(raw, &args); err != nil {
		return err
	}
	f(args)
	return nil
}

// Plan is what a catalog is made for. Terms are as evidence holds them: a free text
// is its commitment.
type Plan struct {
	Origin     string
	Terms      json.RawMessage
	ProposalID *string
}

// Promised returns the promise of an execution.
func Promised(x *run.Execution) Promise {
	return Promise{x.OperationID, x.Args, x.Postconditions}
}

// ReadTerms decodes the terms of a create-run body into v, a pointer to a zero struct.
// All of its members are required, none may be null and no others are taken. The
// denial names the place and never quotes.
func ReadTerms(raw json.RawMessage, v any) *authority.Denial {
	var wanted, given map[string]json.RawMessage
	if err := canon.Unmarshal(canon.MustMarshal(v), &wanted); err != nil {
		panic(err) // what was just written can be read
	}
	if canon.Unmarshal(raw, &given) != nil {
		return Invalid("terms must be an object")
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		switch value, ok := given[name]; {
		case !ok:
			return Invalid("terms lacks " + name)
		case string(value) == "null":
			return Invalid("terms." + name + " must not be null")
		}
	}
	if err := canon.Unmarshal(raw, v); err != nil {
		return Invalid("terms" + place(err) + " is not what the service takes")
	}
	return nil
}

// place is where a text is not what was wanted, as a path behind its name.
func place(err error) string {
	syntax, ok := errors.AsType[*canon.SyntaxError](err)
	if !ok {
		return ""
	}
	return strings.ReplaceAll(syntax.Pointer, "/", ".")
}

// Invalid denies terms; detail begins with the place.
func Invalid(detail string) *authority.Denial {
	return &authority.Denial{Reason: authority.InvalidRequest, Detail: detail}
}

// Read is the effect of an operation that only shows something.
func Read(postcondition string) propose.Effect {
	return propose.Effect{Class: propose.ClassRead, DisclosedFields: []string{}, Postconditions: []string{postcondition}}
}

// Prepare is the effect of an operation that changes the service and spends nothing.
func Prepare(disclosed []string, postcondition string) propose.Effect {
	var nothing money.Cents
	return propose.Effect{Class: propose.ClassPrepare, DisclosedFields: disclosed, Postconditions: []string{postcondition}, AmountCents: &nothing}
}

// Commit is the effect of an operation that spends an offer's amount.
func Commit(disclosed []string, o *decide.Offer, proposalID *string, postconditions ...string) propose.Effect {
	return propose.Effect{
		Class: propose.ClassCommit, DisclosedFields: disclosed, Postconditions: postconditions, AmountCents: &o.AmountCents, TransactionProposalID: proposalID,
	}
}

// Hold asks for every promised postcondition whether it holds.
func Hold(p Promise, holds func(name string) (bool, error)) ([]run.Postcondition, error) {
	out := []run.Postcondition{}
	for _, name := range p.Postconditions {
		held, err := holds(name)
		if err != nil {
			return nil, err
		}
		out = append(out, run.Postcondition{Name: name, Holds: held})
	}
	return out, nil
}

// View is what a read shows.
func View(v any) *string {
	view := string(canon.MustMarshal(v))
	return &view
}
