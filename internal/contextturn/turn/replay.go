package turn

import (
	"slices"

	"countersign/internal/machine"
)

var turns = machine.Definition[State]{
	Kind: Kind, Version: Machine,
	Progress: func(s *State) *machine.Progress { return &s.Progress },
	Events: func() []machine.Event[State] {
		return []machine.Event[State]{&Opened{}, &Delivered{}, &Answered{}, &Observed{}, &Complete{}, &Expiry{}, &Late{}}
	},
}

var (
	interactions = single[Interaction](KindInteraction, func() machine.Event[Single[Interaction]] { return &Recorded{} })
	receipts     = single[Receipt](KindBridge, func() machine.Event[Single[Receipt]] { return &Bridged{} })
)

// single is a machine with one type of event.
func single[T any](kind string, e func() machine.Event[Single[T]]) machine.Definition[Single[T]] {
	return machine.Definition[Single[T]]{
		Kind: kind, Version: Machine,
		Progress: func(s *Single[T]) *machine.Progress { return &s.Progress },
		Events:   func() []machine.Event[Single[T]] { return []machine.Event[Single[T]]{e()} },
	}
}

// EventTypes lists the types of events of all three kinds, sorted.
func EventTypes() []string {
	return slices.Sorted(slices.Values(slices.Concat(turns.Types(), interactions.Types(), receipts.Types())))
}

// NewReplay replays the chain of a turn. A state does not keep the ids of interactions, a
// replay does: told twice, one delivery would count as two.
func NewReplay() *machine.Replay[State] {
	calls := map[string]bool{}
	return machine.NewReplay(&turns, func(f *machine.Fold[State], e machine.Event[State]) {
		var c *Call
		switch e := e.(type) {
		case *Delivered:
			c = &e.Call
		case *Answered:
			c = &e.Call
		default:
			return
		}
		f.Must(!calls[c.InteractionID], "twice", "the interaction is recorded already")
		calls[c.InteractionID] = true
	})
}

// NewInteractionReplay replays the chain of a call outside a turn.
func NewInteractionReplay() *machine.Replay[Single[Interaction]] {
	return machine.NewReplay(&interactions, nil)
}

// NewReceiptReplay replays the chain of a bridge receipt.
func NewReceiptReplay() *machine.Replay[Single[Receipt]] { return machine.NewReplay(&receipts, nil) }
