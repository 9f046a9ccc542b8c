package agent

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/supervision/propose"
)

// Package run reads the bodies of /turns and /operation and is stricter than a
// schema can say (unique ids, one selection, amounts inside args). What follows
// documents its bounds; the contract tests hold the two against each other.

func reportSchema(r huma.Registry) *huma.Schema {
	ref := r.Schema(reflect.TypeFor[propose.Report](), true, "")
	member := func(schema, name string) *huma.Schema { return r.Map()[schema].Properties[name] }
	length(member("Report", "goalRestatement"), 1, 2000)
	items(member("Report", "candidates"), 1, propose.MaxCandidates)
	length(member("Report", "selectedCandidateId"), 1, 64)
	items(member("Report", "uncertainties"), 0, 12)
	length(member("Report", "uncertainties").Items, 0, 2000)

	length(member("Candidate", "id"), 1, 64)
	length(member("Candidate", "purpose"), 1, 2000)
	member("Candidate", "disposition").Enum = []any{"proposed", "rejected"}
	length(member("Candidate", "rejectionReason"), 1, 2000)
	member("Candidate", "rejectionReason").Description = "null exactly for a proposed candidate."

	member("Action", "kind").Enum = []any{"navigate", "observe", "click", "fill", "select", "service"}
	length(member("Action", "operationId"), 1, 200)
	length(member("Action", "targetRef"), 1, 200)
	length(member("Action", "url"), 0, 2000)
	length(member("Action", "value"), 0, 2000)
	member("Action", "args").Description = "The entry's args, unchanged."

	length(member("Justification", "summary"), 1, 2000)
	member("Justification", "summary").Description = "The reported rationale; no proof of intent."
	items(member("Justification", "evidenceRefs"), 0, 32)
	length(member("Justification", "evidenceRefs").Items, 0, 64)
	member("Justification", "evidenceRefs").Description = "Must hold the current observationId."

	length(member("ExpectedEffect", "operationId"), 1, 200)
	length(member("ExpectedEffect", "transactionProposalId"), 1, 64)
	for _, name := range []string{"disclosedFields", "postconditions"} {
		items(member("ExpectedEffect", name), 0, 32)
		length(member("ExpectedEffect", name).Items, 0, 200)
		member("ExpectedEffect", name).Description = "The entry's, unchanged."
	}
	return ref
}

func actionSchema(r huma.Registry) *huma.Schema {
	type operationBody struct {
		Action propose.Action `json:"action" doc:"The action that the permit names, unchanged."`
	}
	return r.Schema(reflect.TypeFor[operationBody](), true, "")
}

func length(s *huma.Schema, least, most int) { s.MinLength, s.MaxLength = &least, &most }

func items(s *huma.Schema, least, most int) { s.MinItems, s.MaxItems = &least, &most }
