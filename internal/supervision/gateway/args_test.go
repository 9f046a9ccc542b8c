package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// Whatever an agent writes into arguments, its run's evidence verifies: arguments that
// are none of the catalog's stand in it only as a commitment to them.
func TestArgumentsAsCommitments(t *testing.T) {
	h := newHouse(t, engines[0])
	id := h.create(run.TargetLocal)
	o, e := h.entry(id, "merchant.catalog")
	known := strings.Repeat("0", 64)
	for _, args := range []string{
		fmt.Sprintf(`{"a":{"length":1,"text":%q},"b":{"length":2,"text":%q}}`, known, known),
		`{"a":{"text":"","length":-1}}`, `{"text":"x","length":1}`, `{"a":[{"text":[],"length":{}}]}`,
	} {
		turn, err := h.Propose(t.Context(), id, "", report(o, e, func(r *propose.Report) {
			rejected := r.Candidates[0]
			why := "It is not needed."
			rejected.ID, rejected.Disposition, rejected.RejectionReason = "other", propose.DispositionRejected, &why
			rejected.Action.Args = json.RawMessage(args)
			r.Candidates = append(r.Candidates, rejected)
			r.Justification.EvidenceRefs = []string{"nothing"}
		}))
		must(t, err)
		if turn.Decision.ReasonCode != authority.MissingEvidence {
			t.Fatalf("%+v", turn.Decision)
		}
		h.verify(id)
	}
	turn, err := h.Propose(t.Context(), id, "", report(o, e, func(r *propose.Report) {
		r.Candidates[0].Action.Args = json.RawMessage(fmt.Sprintf(`{"a":{"length":1,"text":%q},"b":{"length":2,"text":%q}}`, known, known))
	}))
	must(t, err)
	if turn.Decision.ReasonCode != authority.ArgumentMismatch {
		t.Fatalf("%+v", turn.Decision)
	}
	h.verify(id)
}
