package runbookhttp

import (
	"errors"
	"slices"
	"strings"

	"countersign/internal/canon"
	"countersign/internal/channel/edge"
	"countersign/internal/runbook/incident"
)

// Request is the body of a request.
type Request struct {
	Operation       string  `json:"operation" enum:"snapshot,compare,stage,approve,execute,reset" doc:"What is asked. approve takes the page's form and is no tool." example:"stage"`
	Channel         string  `json:"channel" enum:"human,webmcp,simulator,api" doc:"Through what it comes, as the caller says." example:"api"`
	MitigationID    *string `json:"mitigationId,omitempty" minLength:"1" maxLength:"64" pattern:"^[a-z0-9][a-z0-9-]*$" doc:"Of stage; of compare the one to look at, all unless given." example:"restore-pool"`
	ExpectedVersion *int64  `json:"expectedVersion,omitempty" minimum:"1" maximum:"9007199254740991" doc:"Of stage and reset: the resource version that the caller has seen." example:"1"`
	ActionDigest    *string `json:"actionDigest,omitempty" doc:"Of approve and execute: the digest of what is staged."`
	ResourceVersion *int64  `json:"resourceVersion,omitempty" minimum:"1" maximum:"9007199254740991" doc:"Of approve and execute: the version that the digest covers."`
	IdempotencyKey  *string `json:"idempotencyKey,omitempty" pattern:"^rr_[0-9a-f]{32}$" doc:"Of execute: the key of what is staged."`
	FormNonce       string  `json:"formNonce,omitempty" maxLength:"128" doc:"Of approve: the one-time nonce of the page's approval form."`
}

func (q *Request) request() incident.Request {
	return incident.Request{Operation: q.Operation, Channel: q.Channel, Input: incident.Input{
		MitigationID: q.MitigationID, ExpectedVersion: q.ExpectedVersion, ActionDigest: q.ActionDigest, ResourceVersion: q.ResourceVersion, IdempotencyKey: q.IdempotencyKey,
	}}
}

const maxNonce = 128

// members are those that a body may have, with their kinds; see [Request].
var members = map[string]any{
	"operation": "", "channel": "", "mitigationId": "", "expectedVersion": 0.0, "actionDigest": "", "resourceVersion": 0.0, "idempotencyKey": "", "formNonce": "",
}

// read reads a body, with everything that is wrong with its members, but not what the
// operation makes of them; that is told one at a time.
func read(raw []byte, query string) (*Request, error) {
	if err := canon.Check(raw); err != nil {
		if s, ok := errors.AsType[*canon.SyntaxError](err); ok {
			return nil, edge.Refuse(incident.InvalidJSON, "").At(s.Pointer, s.Reason)
		}
		return nil, edge.Refuse(incident.InvalidJSON, "").At("", "unreadable")
	}
	var given map[string]any
	if err := canon.Unmarshal(raw, &given); err != nil || given == nil {
		return nil, edge.Refuse(incident.InvalidRequest, "").At("", "want an object")
	}
	p := edge.Refuse(incident.InvalidRequest, "")
	for name, value := range given {
		switch kind, known := members[name]; {
		case !known:
			p.AtPlace("body."+name, "unknown")
		case !alike(kind, value):
			p.AtPlace("body."+name, "want "+map[bool]string{true: "a string", false: "an integer"}[kind == ""])
		}
	}
	for _, name := range unknownParameters(query) {
		p.AtPlace(name, "unknown query parameter")
	}
	if len(p.Errors) > 0 {
		slices.SortFunc(p.Errors, func(a, b edge.MemberError) int { return strings.Compare(a.Location, b.Location) })
		return nil, p
	}
	var q Request
	if err := canon.Unmarshal(raw, &q); err != nil {
		return nil, err // the members and their kinds were looked at
	}
	_, hasNonce := given["formNonce"]
	r := q.request()
	switch wrong := r.Problem(); {
	case wrong != "":
		name, message, _ := strings.Cut(wrong, ": ")
		return nil, p.AtPlace("body."+name, message)
	case hasNonce && q.Operation != incident.Approve:
		return nil, p.AtPlace("body.formNonce", "not taken by "+q.Operation)
	case len(q.FormNonce) > maxNonce:
		return nil, p.AtPlace("body.formNonce", "at most 128 characters")
	}
	return &q, nil
}

// alike reports whether two values are of the same kind of JSON.
func alike(a, b any) bool {
	switch a.(type) {
	case string:
		_, ok := b.(string)
		return ok
	default:
		_, ok := b.(float64)
		return ok
	}
}
