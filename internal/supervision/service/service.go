// Package service holds the words that every service adapter speaks. An adapter
// knows one domain (merchant): which operations it has, what its terms mean,
// what a catalog looks like in a given state, how an operation acts on the local
// synthetic service and which request it is at a hosted one. Nothing outside an
// adapter's package knows anything about its domain.
//
// Adapters are pure values: they hold no state, do no I/O and read no clock.
package service

import (
	"encoding/json"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/run"
)

// Terms are an owner's terms, resolved: canonical JSON for digests and people,
// and constraints for the hard checks.
type Terms struct {
	JSON        json.RawMessage
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

// Plan is what a catalog is made for.
type Plan struct {
	Origin     string
	Terms      json.RawMessage
	ProposalID *string
}

// Promised returns the promise of an execution.
func Promised(x *run.Execution) Promise {
	return Promise{x.OperationID, x.Args, x.Postconditions}
}
