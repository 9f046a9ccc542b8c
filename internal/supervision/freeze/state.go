package freeze

import (
	"errors"

	"countersign/evidence"
	"countersign/internal/canon"
)

// State is everything that deciding about a freeze needs.
type State struct {
	Machine   int64         `json:"machine"` // 0: nothing has happened yet
	ID        string        `json:"id"`
	CreatedAt evidence.Time `json:"createdAt"`
	UpdatedAt evidence.Time `json:"updatedAt"`
	Events    int64         `json:"events"` // sequence of the newest
	Epoch     int64         `json:"epoch"`  // freezes that the workspace has seen
	Frozen    *Freeze       `json:"frozen"` // nil: it is not frozen
}

// Freeze is the one that stands.
type Freeze struct {
	Since  evidence.Time       `json:"since"`
	Reason evidence.Commitment `json:"reason"`
}

var errMachine = errors.New("freeze: this state belongs to another version of the state machine")

// DecodeState reads a stored state and refuses another machine's.
func DecodeState(raw []byte) (*State, error) {
	var s State
	if err := canon.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	if s.Machine != Machine {
		return nil, errMachine
	}
	return &s, nil
}
