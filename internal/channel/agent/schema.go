package agent

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/supervision/run"
)

// The report and the action are read by package run, which is stricter than a
// schema; these are their documentation.

func document(example any, v any) *huma.RequestBody {
	registry := huma.NewMapRegistry("", huma.DefaultSchemaNamer)
	schema := inline(registry, registry.Schema(reflect.TypeOf(v), true, ""))
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema, Example: example}}}
}

// inline replaces references, so that the schema stands alone.
func inline(registry huma.Registry, s *huma.Schema) *huma.Schema {
	if s == nil {
		return nil
	}
	if s.Ref != "" {
		return inline(registry, registry.SchemaFromRef(s.Ref))
	}
	s.Items = inline(registry, s.Items)
	for name, p := range s.Properties {
		s.Properties[name] = inline(registry, p)
	}
	return s
}

func reportBody() *huma.RequestBody {
	return document(map[string]any{
		"goalRestatement": "Buy one Fieldwork keyboard for $137 total using the approved terms.",
		"candidates": []any{map[string]any{
			"id":      "candidate-1",
			"action":  exampleAction(),
			"purpose": "Inspect the product before preparing the purchase.", "disposition": "proposed", "rejectionReason": nil,
		}},
		"selectedCandidateId": "candidate-1",
		"justification":       map[string]any{"summary": "This read supplies the product terms.", "evidenceRefs": []string{"the observationId"}},
		"expectedEffect":      map[string]any{"operationId": "merchant.catalog", "transactionProposalId": nil, "disclosedFields": []string{}, "postconditions": []string{"catalog.read"}},
		"uncertainties":       []string{},
	}, run.Report{})
}

func exampleAction() map[string]any {
	return map[string]any{"kind": "service", "operationId": "merchant.catalog", "targetRef": "the entry's targetRef", "args": map[string]any{}}
}

func actionBody() *huma.RequestBody {
	type body struct {
		Action run.Action `json:"action"`
	}
	return document(map[string]any{"action": exampleAction()}, body{})
}
