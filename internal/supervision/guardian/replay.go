package guardian

import (
	"errors"
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/supervision/run"
)

var errMachine = errors.New("guardian: this state belongs to another version of the state machine")

// Replay folds a finished chain by the rules that decided it and names every unlawful
// transition. It trusts hashes and signatures to be checked by package evidence.
type Replay[S any] struct {
	fold    fold[S]
	events  func() []Event[S] // empty ones of every type
	kind    string
	foreign bool
	names   map[string]bool // of the verifications
}

// NewReplay replays the chain of one policy.
func NewReplay() *Replay[State] {
	var s State
	return &Replay[State]{fold: fold[State]{s: &s, progress: &s.progress, first: Drafted{}.EventType()}, events: events, kind: Kind}
}

// NewInventoryReplay replays the chain of an inventory.
func NewInventoryReplay() *Replay[Inventory] {
	var i Inventory
	return &Replay[Inventory]{fold: fold[Inventory]{s: &i, progress: &i.progress, first: Opened{}.EventType()}, events: entries, kind: KindInventory}
}

// Apply folds the next event.
func (r *Replay[S]) Apply(e evidence.Event) {
	f := &r.fold
	at, err := evidence.ParseTime(e.Timestamp)
	f.id, f.sequence, f.now = e.ID, e.Sequence, evidence.TimeOf(at)
	if r.foreign || !f.must(err == nil, "timestamp", "the timestamp is unreadable") {
		return
	}
	if e.Sequence == 1 {
		subject, err := e.Subject()
		if err != nil || subject.Kind != r.kind || subject.Machine != Machine || e.Type != f.first {
			r.foreign = true
			return
		}
	}
	types := r.events()
	i := slices.IndexFunc(types, func(b Event[S]) bool { return b.EventType() == e.Type })
	if !f.must(i >= 0, "event-type", "this machine writes no such event") {
		return
	}
	b := types[i]
	if !f.must(canon.Exactly(e.Data, b), "event-data", "the data is not exactly what this type of event holds") {
		return
	}
	if started, ok := any(b).(*Started); ok {
		f.must(r.once(started.VerificationID), "twice", "the event uses an identifier for the second time")
	}
	f.take(b)
}

func (r *Replay[S]) once(name string) bool {
	if r.names == nil {
		r.names = map[string]bool{}
	}
	taken := r.names[name]
	r.names[name] = true
	return !taken
}

// Known reports whether the chain belongs to this machine. If it does not, lawfulness is
// not proved.
func (r *Replay[S]) Known() bool { return r.fold.progress.Machine == Machine && !r.foreign }

// Unlawful returns every unlawful transition in the order of the events.
func (r *Replay[S]) Unlawful() []run.Unlawful { return r.fold.unlawful }

// State returns what the chain amounts to.
func (r *Replay[S]) State() *S { return r.fold.s }
