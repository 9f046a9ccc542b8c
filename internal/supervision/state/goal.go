package state

import (
	"encoding/json"

	"countersign/evidence"
	"countersign/internal/authority"
)

type goalFields struct {
	Instruction    evidence.Commitment   `json:"instruction"`
	Terms          json.RawMessage       `json:"terms"`
	Clarifications []evidence.Commitment `json:"clarifications"`
}

// GoalDigest is the goal that a permit binds: instruction, terms and
// clarifications (G-07).
func GoalDigest(instruction evidence.Commitment, terms json.RawMessage, clarifications ...evidence.Commitment) string {
	return authority.Digest(authority.DomainGoal, goalFields{instruction, terms, append([]evidence.Commitment{}, clarifications...)})
}
