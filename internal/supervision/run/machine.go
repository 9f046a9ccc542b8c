package run

import (
	"countersign/evidence"
	"countersign/internal/machine"
	"countersign/internal/supervision/stopcontext"
)

// Unlawful is a transition that the machine forbids.
type Unlawful = machine.Unlawful

// Event is the data of one type of event together with its meaning: apply folds
// it into the state and reports every rule that it breaks.
type Event interface {
	// EventType is the type of the event as evidence names it.
	EventType() string
	apply(*fold)
}

// Fold applies the events of a decision to its state, each as the one after the
// newest, by the rules that [Replay] holds a finished chain against.
type Fold struct{ fold fold }

// NewFold begins at s, which the events change.
func NewFold(s *State, now evidence.Time) *Fold {
	return &Fold{fold{s: s, now: now, sequence: s.Events}}
}

// Apply folds the next event.
func (f *Fold) Apply(id string, e Event) {
	f.fold.id = id
	f.fold.sequence++
	f.fold.run(e)
}

// At sets where the next event of a finished chain stands, for [Fold.Must] and
// [Fold.Take].
func (f *Fold) At(id string, sequence int64, now evidence.Time) {
	f.fold.id, f.fold.sequence, f.fold.now = id, sequence, now
}

// Take folds e as the event that [Fold.At] names.
func (f *Fold) Take(e Event) { f.fold.run(e) }

// Must records a broken rule of the event that [Fold.At] names, and returns lawful.
func (f *Fold) Must(lawful bool, rule, detail string) bool { return f.fold.must(lawful, rule, detail) }

// Unlawful returns the rules that the events have broken so far. A chain that stops in
// the middle of a commit is unlawful at its last event.
func (f *Fold) Unlawful() []Unlawful { return f.fold.all() }

// fold is the application of one event to a state.
type fold struct {
	s        *State
	now      evidence.Time
	id       string
	sequence int64
	unlawful []Unlawful
	owed     *obligation
	paid     bool // the event at hand was owed
}

// obligation is an event that has to follow in the same commit. A chain that ends
// before it was cut: commits are stored whole.
type obligation struct {
	rule, detail string
	met          func(Event) bool
	between      func(Event) bool // may stand before it; nil: nothing
}

// owe takes an obligation on. between may be nil.
func (f *fold) owe(rule, detail string, met, between func(Event) bool) {
	f.owed = &obligation{rule, detail, met, between}
}

// meet holds the next event against what is owed.
func (f *fold) meet(b Event) {
	f.paid = false
	switch o := f.owed; {
	case o == nil || o.between != nil && o.between(b):
	default:
		f.owed = nil
		f.paid = f.must(o.met(b), o.rule, o.detail)
	}
}

// all returns every broken rule. What an otherwise lawful chain still owes at its end
// is one too.
func (f *fold) all() []Unlawful {
	if f.owed == nil || len(f.unlawful) > 0 {
		return f.unlawful
	}
	return []Unlawful{{Rule: f.owed.rule, Detail: f.owed.detail, Sequence: f.sequence, EventID: f.id}}
}

// must records a broken rule. Folding goes on, so that one unlawful event does
// not hide the next.
func (f *fold) must(lawful bool, rule, detail string) bool {
	if !lawful {
		f.unlawful = append(f.unlawful, Unlawful{Rule: rule, Detail: detail, Sequence: f.sequence, EventID: f.id})
	}
	return lawful
}

// run folds b as the event after the newest.
func (f *fold) run(b Event) {
	_, created := b.(*Created)
	if !f.must(created == (f.sequence == 1) && created == (f.s.Machine == 0), "first-event", "run.created stands exactly at the beginning") && created {
		return // it would wipe out what the chain has come to
	}
	f.must(f.now >= f.s.UpdatedAt, "time-order", "the event is older than the one before it")
	f.must(f.sequence <= MaxEvents, "event-limit", "the chain holds more events than a run may have")
	f.meet(b)
	b.apply(f)
	if f.s.Status != StatusRunning {
		f.s.Asked = nil // whatever comes of the call is not heard any more
	}
	f.s.Events, f.s.UpdatedAt = f.sequence, f.now
	used, ok := f.s.Budget.Spent.Add(f.s.Budget.Reserved)
	f.must(ok && used <= f.s.Budget.Limit+f.s.Overspent, "budget", "spent and reserved together exceed the budget")
}

// status requires one of the statuses.
func (f *fold) status(rule string, statuses ...string) bool {
	for _, s := range statuses {
		if f.s.Status == s {
			return true
		}
	}
	return f.must(false, rule, "not lawful while the run is "+f.s.Status)
}

// execution requires that id names the newest execution, or one that rests on a
// statement, and that it is in one of the states; otherwise it returns nil, and the
// event changes nothing.
func (f *fold) execution(id, rule string, states ...string) *Execution {
	e := f.s.Find(id)
	if !f.must(e != nil, "execution-unknown", "the event names an execution that was not dispatched") {
		return nil
	}
	for _, state := range states {
		if e.State == state {
			return e
		}
	}
	f.must(false, rule, "not lawful while the execution is "+e.State)
	return nil
}

// tabled requires that a stop says of its reason what the table says.
func (f *fold) tabled(stop stopcontext.Stop) {
	f.must(stop.Tabled(), "stop-table", "the stop is not one of the table")
}
