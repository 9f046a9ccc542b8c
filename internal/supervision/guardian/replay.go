package guardian

import (
	"slices"

	"countersign/internal/machine"
)

var policies = machine.Definition[State]{
	Kind: Kind, Version: Machine, Limit: MaxEvents,
	Progress: func(s *State) *machine.Progress { return &s.Progress },
	Events: func() []machine.Event[State] {
		return []machine.Event[State]{&Drafted{}, &Edited{}, &Started{}, &Completed{}, &PublishedEvent{}}
	},
}

var inventories = machine.Definition[Inventory]{
	Kind: KindInventory, Version: Machine, Limit: MaxEvents,
	Progress: func(i *Inventory) *machine.Progress { return &i.Progress },
	Events: func() []machine.Event[Inventory] {
		return []machine.Event[Inventory]{&Opened{}, &Registered{}, &Listed{}}
	},
}

// EventTypes lists the types of events of both machines, sorted.
func EventTypes() []string {
	return slices.Sorted(slices.Values(append(policies.Types(), inventories.Types()...)))
}

// NewReplay replays the chain of one policy. A policy remembers its newest verification
// only; a replay remembers the names of all, so that none begins twice.
func NewReplay() *machine.Replay[State] {
	names := map[string]bool{}
	return machine.NewReplay(&policies, func(f *machine.Fold[State], e machine.Event[State]) {
		if started, ok := e.(*Started); ok {
			f.Must(!names[started.VerificationID], "twice", "the event uses an identifier for the second time")
			names[started.VerificationID] = true
		}
	})
}

// NewInventoryReplay replays the chain of an inventory.
func NewInventoryReplay() *machine.Replay[Inventory] { return machine.NewReplay(&inventories, nil) }
