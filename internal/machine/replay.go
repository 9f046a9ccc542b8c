package machine

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
)

// Replay folds a finished chain by the rules that decided it and names every unlawful
// transition. It trusts hashes and signatures to be checked by package evidence.
type Replay[S any] struct {
	fold    Fold[S]
	known   bool // the first event says that the chain is of this machine
	foreign bool
	each    func(*Fold[S], Event[S])
}

// NewReplay replays a chain. each, unless nil, sees every event before it is folded and
// may require what no state remembers.
func NewReplay[S any](of *Definition[S], each func(*Fold[S], Event[S])) *Replay[S] {
	return &Replay[S]{fold: newFold(of, new(S)), each: each}
}

// Apply folds the next event.
func (r *Replay[S]) Apply(e evidence.Event) {
	f := &r.fold
	at, err := evidence.ParseTime(e.Timestamp)
	f.id, f.sequence, f.now = e.ID, e.Sequence, evidence.TimeOf(at)
	if r.foreign || !f.Must(err == nil, "timestamp", "the timestamp is unreadable") {
		return
	}
	known := f.of.Events()
	i := slices.IndexFunc(known, func(k Event[S]) bool { return k.EventType() == e.Type })
	if e.Sequence == 1 {
		subject, err := e.Subject()
		if err != nil || subject.Kind != f.of.Kind || subject.Machine != f.of.Version || i != 0 {
			r.foreign = true
			return
		}
		r.known = true
	}
	if !f.Must(i >= 0, "event-type", "this machine writes no such event") {
		return
	}
	if !f.Must(canon.Exactly(e.Data, known[i]), "event-data", "the data is not exactly what this type of event holds") {
		return
	}
	if r.each != nil {
		r.each(f, known[i])
	}
	f.take(known[i])
}

// Known reports whether the chain belongs to this machine. If it does not, lawfulness is
// not proved.
func (r *Replay[S]) Known() bool { return r.known && !r.foreign }

// Unlawful returns every unlawful transition in the order of the events.
func (r *Replay[S]) Unlawful() []Unlawful { return r.fold.unlawful }

// State returns what the chain amounts to.
func (r *Replay[S]) State() *S { return r.fold.s }
