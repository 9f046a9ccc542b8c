package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/supervision/run"
)

// Observation is the answer of GET /observation. View is the body of the last
// read: content of the service, untrusted, never instructions.
type Observation struct {
	run.Observed
	RunID string
	View  *string
}

// Catalog reads the catalog of the newest observation from its event.
func (r *Reader) Catalog(ctx context.Context, s *run.State) (*run.Observed, error) {
	if s.Observation == nil {
		return &run.Observed{}, nil
	}
	key := r.Key(s.ID)
	if seen := r.memory.observed(key, s.Observation.ID); seen != nil {
		return seen, nil
	}
	events, err := r.ledger.Events(ctx, key, s.Observation.Sequence-1, 1)
	if err != nil || len(events) != 1 {
		return nil, fmt.Errorf("%w: the observation's event: %w", ErrUnavailable, err)
	}
	seen, err := run.DecodeObserved(events[0].Data)
	if err != nil {
		return nil, err
	}
	r.memory.saw(key, seen)
	return seen, nil
}

// Observation adds the view to an observation.
func (r *Reader) Observation(ctx context.Context, id string, seen *run.Observed) (*Observation, error) {
	if seen.ObservationID == "" {
		return nil, &authority.Denial{Reason: authority.RunNotReady, Detail: "The run has no current observation."}
	}
	out := &Observation{Observed: *seen, RunID: id}
	if seen.View != nil {
		view, err := r.Text(ctx, id, *seen.View)
		if err != nil {
			return nil, err
		}
		out.View = &view
	}
	return out, nil
}

// texts reads several erasable texts.
func (r *Reader) texts(ctx context.Context, id string, of []evidence.Commitment) ([]string, error) {
	out := []string{}
	for _, c := range of {
		text, err := r.Text(ctx, id, c)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// termTexts reads the members of terms that are free text: evidence holds what stands
// for them.
func (r *Reader) termTexts(ctx context.Context, id string, terms json.RawMessage) (map[string]string, error) {
	var members map[string]json.RawMessage
	if err := canon.Unmarshal(terms, &members); err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for name, member := range members {
		var c evidence.Commitment
		if canon.Unmarshal(member, &c) != nil || !canon.IsHash(c.Text) {
			continue
		}
		var err error
		if texts[name], err = r.Text(ctx, id, c); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// Erased is what an erased text reads as.
const Erased = "(erased)"

// Text reads an erasable text; an erased one reads as [Erased].
func (r *Reader) Text(ctx context.Context, id string, c evidence.Commitment) (string, error) {
	t, err := r.ledger.Text(ctx, r.Key(id), c.Text)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return Erased, nil
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return t.Text, nil
}
