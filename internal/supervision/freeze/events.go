package freeze

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/supervision/run"
)

// Event is the data of one type of event together with its meaning for the state.
type Event interface {
	// EventType is the type of the event as evidence names it.
	EventType() string
	apply(*fold)
}

// Opened is workspace.opened, the beginning of the chain. It comes with the first
// freeze.
type Opened struct {
	Subject evidence.Subject `json:"subject"`
}

// EventType names the event.
func (Opened) EventType() string { return "workspace.opened" }

func (e Opened) apply(f *fold) {
	s := e.Subject
	f.must(s.Format == evidence.Format && s.Kind == Kind && s.Machine == Machine && s.ID == s.Workspace, "subject", "the subject is not a workspace of this machine")
	*f.s = State{Machine: Machine, ID: s.ID, CreatedAt: f.now}
}

// Frozen is workspace.frozen: from its commit on nothing is issued, claimed or
// dispatched.
type Frozen struct {
	Epoch  int64               `json:"epoch"` // counts freezes, from 1
	Reason evidence.Commitment `json:"reason"`
}

// EventType names the event.
func (Frozen) EventType() string { return "workspace.frozen" }

func (e Frozen) apply(f *fold) {
	f.must(f.s.Frozen == nil, "frozen-twice", "the workspace is frozen already")
	f.must(e.Epoch == f.s.Epoch+1, "epoch", "a freeze has the next number")
	f.reasoned(e.Reason)
	f.s.Epoch, f.s.Frozen = e.Epoch, &Freeze{Since: f.now, Reason: e.Reason}
}

// Unfrozen is workspace.unfrozen: the freeze of that number is lifted.
type Unfrozen struct {
	Epoch  int64               `json:"epoch"`
	Reason evidence.Commitment `json:"reason"`
}

// EventType names the event.
func (Unfrozen) EventType() string { return "workspace.unfrozen" }

func (e Unfrozen) apply(f *fold) {
	f.must(f.s.Frozen != nil, "unfrozen-open", "the workspace is not frozen")
	f.must(e.Epoch == f.s.Epoch, "epoch", "the freeze that is lifted is the one that stands")
	f.reasoned(e.Reason)
	f.s.Frozen = nil
}

// events are empty events of every type.
func events() []Event { return []Event{&Opened{}, &Frozen{}, &Unfrozen{}} }

// EventTypes lists the types of events, sorted.
func EventTypes() (list []string) {
	for _, e := range events() {
		list = append(list, e.EventType())
	}
	slices.Sort(list)
	return list
}

// fold is the application of events to a state.
type fold struct {
	s        *State
	now      evidence.Time
	id       string
	sequence int64
	unlawful []run.Unlawful
}

// take folds e as the event after the newest.
func (f *fold) take(e Event) {
	_, opened := e.(*Opened)
	if !f.must(opened == (f.sequence == 1) && opened == (f.s.Machine == 0), "first-event", "workspace.opened stands exactly at the beginning") && opened {
		return // it would wipe out what the chain has come to
	}
	f.must(f.now >= f.s.UpdatedAt, "time-order", "the event is older than the one before it")
	e.apply(f)
	f.s.Events, f.s.UpdatedAt = f.sequence, f.now
}

// reasoned requires a reason. Its characters cannot be counted when the text is erased;
// one has at most four bytes.
func (f *fold) reasoned(c evidence.Commitment) {
	f.must(c.Length >= 1 && c.Length <= 4*MaxReason, "reason", "a freeze and its end have a reason of 1 to 500 characters")
}

// must records a broken rule and returns lawful. Folding goes on, so that one unlawful
// event does not hide the next.
func (f *fold) must(lawful bool, rule, detail string) bool {
	if !lawful {
		f.unlawful = append(f.unlawful, run.Unlawful{Rule: rule, Detail: detail, Sequence: f.sequence, EventID: f.id})
	}
	return lawful
}
