package freeze

import (
	"slices"

	"countersign/internal/machine"
)

var definition = machine.Definition[State]{
	Kind: Kind, Version: Machine,
	Progress: func(s *State) *machine.Progress { return &s.Progress },
	Events: func() []machine.Event[State] {
		return []machine.Event[State]{&Opened{}, &Frozen{}, &InFlight{}, &Unfrozen{}}
	},
}

// Replay folds a finished chain by the rules that decided it.
type Replay = machine.Replay[State]

// NewReplay replays the chain of a workspace.
func NewReplay() *Replay { return machine.NewReplay(&definition, nil) }

// DecodeState reads a stored state and refuses another machine's.
func DecodeState(raw []byte) (*State, error) { return definition.Decode(raw) }

// EventTypes lists the types of events, sorted.
func EventTypes() []string { return slices.Sorted(slices.Values(definition.Types())) }
