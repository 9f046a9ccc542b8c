package incidentpage

import (
	"encoding/json"

	"countersign/internal/runbook/incident"
)

// Tool is one tool as the page registers it. Its words, its schema and its annotations guide
// a model and grant nothing.
type Tool struct {
	Name        string         `json:"name"`
	Operation   string         `json:"operation"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	InputSchema map[string]any `json:"inputSchema"`
	Annotations Annotations    `json:"annotations"`
}

// Annotations are hints to the browser.
type Annotations struct {
	ReadOnly      bool `json:"readOnlyHint"`
	Consequential bool `json:"consequentialHint"`
}

// Tools are the five tools, in the order of the workflow. None approves.
var Tools = []Tool{
	tool(incident.Snapshot, "Get the incident", "Returns the incident as it is now: measures, targets, options, resource version, what is staged, its approval, and the receipts. Leaves a receipt.",
		Annotations{ReadOnly: true}, nil),
	tool(incident.Compare, "Compare the mitigations", "Compares the three predefined mitigations by risk and projected effect; mitigationId, if given, is the one of interest. Leaves a receipt.",
		Annotations{ReadOnly: true}, schema{"mitigationId": mitigations()}),
	tool(incident.Stage, "Stage a mitigation", "Stages one mitigation in place of whatever is staged, and ends its approval. Returns the action digest, the new resource version and the idempotency key. Executes nothing.",
		Annotations{}, schema{"mitigationId": mitigations(), "expectedVersion": version("as the snapshot tells it")}, "mitigationId", "expectedVersion"),
	tool(incident.Execute, "Execute the approved mitigation", "Executes exactly the staged action if it was approved, once. A person approves in the page's form; no tool does. Without a live approval the server refuses. The same three values again return the same record.",
		Annotations{Consequential: true}, schema{
			"actionDigest": pattern("^[0-9a-f]{64}$", 64), "resourceVersion": version("that was staged"), "idempotencyKey": pattern("^rr_[0-9a-f]{32}$", 35),
		}, "actionDigest", "resourceVersion", "idempotencyKey"),
	tool(incident.Reset, "Reset the simulation", "Puts the simulated incident back to its beginning and ends what is staged or approved. The receipts stay.",
		Annotations{}, schema{"expectedVersion": version("as the snapshot tells it")}, "expectedVersion"),
}

type schema = map[string]any

func tool(operation, title, description string, a Annotations, properties schema, required ...string) Tool {
	if properties == nil {
		properties = schema{}
	}
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return Tool{incident.ToolOf(operation), operation, title, description, s, a}
}

func mitigations() schema {
	var ids []string
	for _, m := range incident.Catalog {
		ids = append(ids, m.ID)
	}
	return schema{"type": "string", "enum": ids}
}

func version(which string) schema {
	return schema{"type": "integer", "minimum": 1, "maximum": int64(1<<53 - 1), "description": "The resource version " + which + "."}
}

func pattern(p string, length int) schema {
	return schema{"type": "string", "pattern": p, "minLength": length, "maxLength": length}
}

// tools are the tools for the page's script.
func tools() []byte {
	body, err := json.Marshal(Tools)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return body
}
