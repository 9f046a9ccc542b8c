package turn

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/supervision/run"
)

// Replay folds a finished chain by the rules that decided it and names every unlawful
// transition. It trusts hashes and signatures to be checked by package evidence.
type Replay struct {
	fold    fold
	foreign bool
	known   bool
	calls   map[string]bool // interactions so far
}

// NewReplay replays a chain of [Kind], [KindInteraction] or [KindBridge].
func NewReplay(kind string) *Replay { return &Replay{fold: newFold(kind), calls: map[string]bool{}} }

// Apply folds the next event.
func (r *Replay) Apply(e evidence.Event) {
	f := &r.fold
	at, err := evidence.ParseTime(e.Timestamp)
	f.id, f.sequence, f.now = e.ID, e.Sequence, evidence.TimeOf(at)
	if r.foreign || !f.must(err == nil, "timestamp", "the timestamp is unreadable") {
		return
	}
	types := events(f.kind)
	if e.Sequence == 1 {
		subject, err := e.Subject()
		if err != nil || subject.Kind != f.kind || subject.Machine != Machine || e.Type != types[0].EventType() {
			r.foreign = true
			return
		}
		r.known = true
	}
	i := slices.IndexFunc(types, func(b Event) bool { return b.EventType() == e.Type })
	if !f.must(i >= 0, "event-type", "this machine writes no such event") {
		return
	}
	if !f.must(canon.Exactly(e.Data, types[i]), "event-data", "the data is not exactly what this type of event holds") {
		return
	}
	switch e := types[i].(type) {
	case *Delivered:
		r.once(e.InteractionID)
	case *Answered:
		r.once(e.InteractionID)
	}
	f.take(types[i])
}

// once requires an interaction that was not recorded before: told twice, one delivery
// would count as two. A state does not keep the ids, a replay does.
func (r *Replay) once(id string) {
	r.fold.must(!r.calls[id], "twice", "the interaction is recorded already")
	r.calls[id] = true
}

// Known reports whether the chain belongs to this machine. If it does not, lawfulness is
// not proved.
func (r *Replay) Known() bool { return r.known && !r.foreign }

// Unlawful returns every unlawful transition in the order of the events.
func (r *Replay) Unlawful() []run.Unlawful { return r.fold.unlawful }

// State returns what the chain of a turn amounts to.
func (r *Replay) State() *State { return r.fold.s }

// Interaction returns what the chain of a call outside a turn amounts to.
func (r *Replay) Interaction() *Interaction { return r.fold.interaction }

// Receipt returns what the chain of a bridge receipt amounts to.
func (r *Replay) Receipt() *Receipt { return r.fold.receipt }
