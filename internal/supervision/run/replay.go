package run

import (
	"reflect"
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
)

// Replay folds a finished chain by the very rules that decided it and names
// every unlawful transition. It also applies the hard checks of every report
// again and compares what they find with what was recorded.
//
// The zero Replay is ready; feed it every event of the chain in order. It
// trusts hashes and signatures to be checked by package evidence.
type Replay struct {
	fold
	state   State
	catalog []Entry
	claim   *claim
	foreign bool
}

// Apply folds the next event.
func (r *Replay) Apply(e evidence.Event) {
	r.s, r.id, r.sequence = &r.state, e.ID, e.Sequence
	at, err := evidence.ParseTime(e.Timestamp)
	r.now = evidence.TimeOf(at)
	if !r.must(err == nil, "timestamp", "the timestamp is unreadable") {
		return
	}
	if r.foreign {
		return
	}
	if e.Sequence == 1 && !r.known(e) {
		r.foreign = true
		return
	}
	maker, known := bodies[e.Type]
	if !r.must(known, "event-type", "this machine writes no such event") {
		return
	}
	b := maker()
	if !r.must(canon.Unmarshal(e.Data, b) == nil, "event-data", "the data is not what this type of event holds") {
		return
	}
	if c, ok := b.(*Checked); ok {
		r.recheck(c)
	}
	r.fold.run(b)
	switch b := b.(type) {
	case *Observed:
		r.catalog = b.Catalog
	case *Proposed:
		c := b.Report.claim()
		r.claim = &c
	case *Issued:
		entry := EntryByID(r.catalog, b.EntryID)
		r.must(entry != nil && entry.Effect.Class == b.Class && entry.Amount() == b.AmountCents && entry.OperationID == b.Permit.Bindings.OperationID, "permit-entry", "the permit is not for an entry of the catalog")
	case *Dispatched:
		entry := r.entryOf(b)
		r.must(entry != nil, "dispatch-entry", "what was dispatched is not an entry of the catalog")
	}
}

// known reads machine and kind from the first event before anything else is
// believed.
func (r *Replay) known(e evidence.Event) bool {
	var first struct {
		Subject Subject `json:"subject"`
	}
	_ = canon.Decode(e.Data, &first) // an unreadable subject is the zero subject, which is unknown
	return first.Subject.Kind == "run" && first.Subject.Machine == Machine && e.Type == "run.created"
}

func (r *Replay) entryOf(d *Dispatched) *Entry {
	return findEntry(r.catalog, func(e *Entry) bool {
		return e.OperationID == d.OperationID && string(e.Args) == string(d.Args) && e.Effect.Class == d.Class && slices.Equal(e.Effect.Postconditions, d.Postconditions)
	})
}

// recheck applies the hard checks again.
func (r *Replay) recheck(c *Checked) {
	if !r.must(r.claim != nil && r.s.Turn != nil && r.s.Turn.ID == c.TurnID, "checked-without-turn", "the checks are not of the turn that was just proposed") {
		return
	}
	again := newChecked(r.s, c.TurnID, review(r.s, r.catalog, *r.claim, r.now, nil))
	r.must(reflect.DeepEqual(again.Findings, c.Findings), "findings", "the hard checks find something else in the same report")
	r.must(reflect.DeepEqual(again, *c), "checked", "policy.checked is not what the hard checks say")
}

// Known reports whether the chain belongs to this machine. If it does not,
// lawfulness is not proved.
func (r *Replay) Known() bool { return r.state.Machine == Machine && !r.foreign }

// Unlawful returns every unlawful transition in the order of the events.
func (r *Replay) Unlawful() []Unlawful { return r.unlawful }

// State returns the state that the chain amounts to.
func (r *Replay) State() *State { return &r.state }
