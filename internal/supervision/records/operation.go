package records

import (
	"context"
	"encoding/json"
	"fmt"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
)

// Operation is the answer of POST /operation. A replay has the same content.
type Operation struct {
	ExecutionID   string
	State         string
	Receipt       *Receipt
	ObservationID *string
	Finding       *string // that an owner stated, nil for none
	Replayed      bool
}

// Receipt is what is known of an execution's effect. JWS is the store's signed
// receipt, nil for reads and local services.
type Receipt struct {
	run.Receipt
	EventID string
	JWS     *string
}

// Outcome tells from the events of the chain what an execution came to: from
// those that the attempt itself has stored when they hold its end, else from the
// chain, beginning at the intent. First answer and replay come from the same
// events, so they have the same content.
func (r *Reader) Outcome(ctx context.Context, executionID, runID string, from int64, stored []evidence.Event) (*Operation, error) {
	out := &Operation{ExecutionID: executionID, State: run.ExecutionDispatched}
	var voided string
	for _, e := range stored {
		if _, err := out.fold(e, &voided); err != nil {
			return nil, err
		}
	}
	if out.State == run.ExecutionDispatched || out.State == run.ExecutionReceipted {
		err := r.each(ctx, runID, from-1, func(e evidence.Event) (bool, error) {
			if _, err := out.fold(e, &voided); err != nil {
				return false, err
			}
			// The next execution is dispatched only when this one is over, unless all that
			// is known of it is a statement.
			return e.Type != "execution.dispatched" || e.Sequence == from || out.State == run.ExecutionReconciled, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if out.Receipt != nil && out.Receipt.EventID == "" {
		out.Receipt = nil
	}
	switch out.State {
	case run.ExecutionDispatched:
		return nil, &authority.Denial{Reason: authority.InProgress, Detail: "The execution is under way; ask again in a moment with the same key."}
	case run.ExecutionUnconfirmed:
		return nil, &authority.Denial{Reason: authority.DispatchUnconfirmed, Detail: "The request left and no receipt came back. The effect is unknown; it is never sent again."}
	case run.ExecutionVoided:
		if voided == authority.ExecutionNotApplied {
			out.State = run.ExecutionNotApplied
			return out, nil
		}
		return nil, &authority.Denial{Reason: voided, Detail: "The dispatch was given up before anything was sent; there was no effect."}
	}
	return out, nil
}

// fold takes one event of the chain in, and reports whether it is about another
// execution; then it is passed over.
func (o *Operation) fold(e evidence.Event, voided *string) (other bool, err error) {
	next, ok := executionStates[e.Type]
	if !ok && e.Type != "hosted.receipt" {
		return false, nil
	}
	var data struct {
		ExecutionID   string  `json:"executionId"`
		ObservationID *string `json:"observationId"`
		ReasonCode    string  `json:"reasonCode"`
		Receipt       *string `json:"receipt"`
		Finding       string  `json:"finding"`
	}
	if err := canon.Decode(e.Data, &data); err != nil {
		return false, fmt.Errorf("records: event %s: %w", e.ID, err)
	}
	if data.ExecutionID != o.ExecutionID {
		return true, nil
	}
	switch e.Type {
	case "hosted.receipt":
		o.Receipt = &Receipt{JWS: data.Receipt}
		return false, nil
	case "execution.receipt":
		if o.Receipt == nil {
			o.Receipt = &Receipt{}
		}
		if err := json.Unmarshal(e.Data, &o.Receipt.Receipt); err != nil {
			return false, fmt.Errorf("records: event %s: %w", e.ID, err)
		}
		o.Receipt.EventID = e.ID
	case "execution.reconciled":
		o.Finding = &data.Finding
		if data.Finding == state.FindingUnknown || o.State != run.ExecutionUnconfirmed { // it changes nothing
			return false, nil
		}
	case "execution.voided":
		*voided = data.ReasonCode
	}
	o.State = next
	if data.ObservationID != nil {
		o.ObservationID = data.ObservationID
	}
	return false, nil
}

var executionStates = map[string]string{
	"execution.receipt":     run.ExecutionReceipted,
	"execution.verified":    run.ExecutionVerified,
	"execution.mismatch":    run.ExecutionMismatch,
	"execution.not_applied": run.ExecutionNotApplied,
	"execution.unconfirmed": run.ExecutionUnconfirmed,
	"execution.voided":      run.ExecutionVoided,
	"execution.reconciled":  run.ExecutionReconciled,
}
