package project

import (
	"slices"

	"countersign/internal/machine"
)

// Decode reads the stored state of a project and refuses another machine's.
func Decode(raw []byte) (*Project, error) { return projects.Decode(raw) }

// DecodeClient reads the stored state of a client and refuses another machine's.
func DecodeClient(raw []byte) (*Client, error) { return clients.Decode(raw) }

// DecodeGap reads the stored state of a gap and refuses another machine's.
func DecodeGap(raw []byte) (*Gap, error) { return gaps.Decode(raw) }

// EventTypes lists the types of events of all three machines, sorted.
func EventTypes() []string {
	list := slices.Concat(projects.Types(), clients.Types(), gaps.Types())
	slices.Sort(list)
	return list
}

// NewReplay replays the chain of a project.
func NewReplay() *machine.Replay[Project] { return machine.NewReplay(&projects, nil) }

// NewClientReplay replays the chain of a client.
func NewClientReplay() *machine.Replay[Client] { return machine.NewReplay(&clients, nil) }

// NewGapReplay replays the chain of a gap.
func NewGapReplay() *machine.Replay[Gap] { return machine.NewReplay(&gaps, nil) }
