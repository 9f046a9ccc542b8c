// Package chain replays the finished chain of a run: it folds the events by the very
// rules that decided them, applies the hard checks of every report again, and names
// every unlawful transition. Everything here is pure.
package chain

import (
	"reflect"
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// Replay folds a finished chain by the very rules that decided it and names
// every unlawful transition. It also applies the hard checks of every report
// again and compares what they find with what was recorded.
//
// The zero Replay is ready; feed it every event of the chain in order. It
// trusts hashes and signatures to be checked by package evidence.
type Replay struct {
	fold    *run.Fold
	state   run.State
	now     evidence.Time
	catalog []propose.Entry
	report  *propose.Reported // the newest
	foreign bool
	names   map[string]bool // of what the chain has brought into being
}

// Apply folds the next event.
func (r *Replay) Apply(e evidence.Event) {
	if r.fold == nil {
		r.fold = run.NewFold(&r.state, 0)
	}
	at, err := evidence.ParseTime(e.Timestamp)
	r.now = evidence.TimeOf(at)
	r.fold.At(e.ID, e.Sequence, r.now)
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
	b := newEvent(e.Type)
	if !r.must(b != nil, "event-type", "this machine writes no such event") {
		return
	}
	if !r.must(canon.Exactly(e.Data, b), "event-data", "the data is not exactly what this type of event holds") {
		return
	}
	r.must(r.once(b), "twice", "the event uses an identifier for the second time")
	switch b := b.(type) {
	case *run.Checked:
		r.recheck(b)
	case *run.Paused:
		asked := b.Stop.Category != stopcontext.CategoryApproval || policy.Approvable(&r.state, r.catalog, r.now) != nil
		r.must(asked, "approval-asked", "approval is asked for an effect that does not pass every other hard check")
	case *run.Approved:
		entry := policy.Approvable(&r.state, r.catalog, r.now)
		same := entry != nil && b.EffectDigest == entry.EffectDigest(r.state.Config.Service, r.state.StateRevision)
		r.must(same, "approval-digest", "the approved digest is not that of the prepared effect")
	}
	r.fold.Take(b)
	if r.state.Observation == nil {
		r.catalog = nil // nothing is offered until the run is observed again
	}
	switch b := b.(type) {
	case *run.Observed:
		r.catalog = b.Catalog
	case *run.Proposed:
		r.report = &b.Report
	case *run.Issued:
		entry := propose.EntryByID(r.catalog, b.EntryID)
		r.must(entry != nil && entry.Effect.Class == b.Class && entry.Amount() == b.AmountCents && entry.OperationID == b.Permit.Bindings.OperationID, "permit-entry", "the permit is not for an entry of the catalog")
	case *run.Dispatched:
		entry := r.entryOf(b)
		r.must(entry != nil, "dispatch-entry", "what was dispatched is not an entry of the catalog")
	}
}

// once reports whether what the event brings into being is new in the chain: a
// permit is issued once and consumed once, an execution is dispatched once.
func (r *Replay) once(b run.Event) bool {
	var name string
	switch b := b.(type) {
	case *run.Observed:
		name = "observation " + b.ObservationID
	case *run.Proposed:
		name = "turn " + b.TurnID
	case *run.Granted:
		name = "grant " + b.Grant.ID
	case *run.ProposalPrepared:
		name = "proposal " + b.Proposal.ID
	case *run.Issued:
		name = "permit " + b.Permit.ID
	case *run.Dispatched:
		name = "execution " + b.ExecutionID
	case *run.Consumed:
		name = "consumed " + b.PermitID
	case *run.PermitVoided:
		name = "voided " + b.PermitID
	default:
		return true
	}
	if r.names == nil {
		r.names = map[string]bool{}
	}
	taken := r.names[name]
	r.names[name] = true
	return !taken
}

// known reads machine and kind from the first event before anything else is
// believed.
func (r *Replay) known(e evidence.Event) bool {
	var first struct {
		Subject evidence.Subject `json:"subject"`
	}
	_ = canon.Decode(e.Data, &first) // an unreadable subject is the zero subject, which is unknown
	return first.Subject.Kind == "run" && first.Subject.Machine == run.Machine && e.Type == "run.created"
}

func (r *Replay) entryOf(d *run.Dispatched) *propose.Entry {
	return propose.FindEntry(r.catalog, func(e *propose.Entry) bool {
		return e.OperationID == d.OperationID && string(e.Args) == string(d.Args) && e.Effect.Class == d.Class && slices.Equal(e.Effect.Postconditions, d.Postconditions)
	})
}

// recheck applies the hard checks again.
func (r *Replay) recheck(c *run.Checked) {
	if r.report == nil {
		return // policy.checked without a turn is unlawful by itself
	}
	again := policy.NewChecked(&r.state, c.TurnID, policy.Reported(&r.state, r.catalog, r.report, r.now))
	if r.must(reflect.DeepEqual(again.Findings, c.Findings), "findings", "the hard checks find something else in the same report") {
		r.must(reflect.DeepEqual(again, *c), "checked", "policy.checked is not what the hard checks say")
	}
}

func (r *Replay) must(lawful bool, rule, detail string) bool {
	return r.fold.Must(lawful, rule, detail)
}

// Known reports whether the chain belongs to this machine. If it does not,
// lawfulness is not proved.
func (r *Replay) Known() bool { return r.state.Machine == run.Machine && !r.foreign }

// Unlawful returns every unlawful transition in the order of the events. A chain
// that stops in the middle of a commit is unlawful at its last event.
func (r *Replay) Unlawful() []run.Unlawful {
	if r.fold == nil {
		return nil
	}
	return r.fold.Unlawful()
}

// State returns the state that the chain amounts to.
func (r *Replay) State() *run.State { return &r.state }
