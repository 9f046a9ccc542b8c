package project

import (
	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/supervision/run"
)

// Event is the data of one type of event together with its meaning for the state S.
type Event[S any] interface {
	// EventType is the type of the event as evidence names it.
	EventType() string
	apply(*fold[S])
}

// progress is what the state of every chain begins with.
type progress struct {
	Machine   int64         `json:"machine"` // 0: nothing has happened yet
	ID        string        `json:"id"`
	CreatedAt evidence.Time `json:"createdAt"`
	UpdatedAt evidence.Time `json:"updatedAt"`
	Events    int64         `json:"events"` // sequence of the newest
}

// fold is the application of events to a state.
type fold[S any] struct {
	s        *S
	progress *progress
	kind     string
	first    string // type of the event at the beginning
	now      evidence.Time
	id       string
	sequence int64
	unlawful []run.Unlawful
}

// take folds e as the event after the newest.
func (f *fold[S]) take(e Event[S]) {
	began := e.EventType() == f.first
	if !f.must(began == (f.sequence == 1) && began == (f.progress.Machine == 0), "first-event", f.first+" stands exactly at the beginning") && began {
		return // it would wipe out what the chain has come to
	}
	f.must(f.now >= f.progress.UpdatedAt, "time-order", "the event is older than the one before it")
	f.must(f.sequence <= MaxEvents, "event-limit", "the chain holds more events than it may have")
	e.apply(f)
	f.progress.Events, f.progress.UpdatedAt = f.sequence, f.now
}

// must records a broken rule and returns lawful. Folding goes on, so that one unlawful
// event does not hide the next.
func (f *fold[S]) must(lawful bool, rule, detail string) bool {
	if !lawful {
		f.unlawful = append(f.unlawful, run.Unlawful{Rule: rule, Detail: detail, Sequence: f.sequence, EventID: f.id})
	}
	return lawful
}

// begin sets what every chain's first event says. The id has to be the one that the rest
// of the event makes; format, kind and machine are looked at before a chain is replayed,
// because one of another machine is not unlawful but foreign.
func (f *fold[S]) begin(s evidence.Subject, named bool) {
	f.must(named, "subject-id", "the id of the subject is not the one that its event makes")
	*f.progress = progress{Machine: Machine, ID: s.ID, CreatedAt: f.now}
}

// owned requires an owner's session that is named.
func (f *fold[S]) owned(session string) {
	f.must(canon.IsHash(session), "session", "only an owner does this, in a session that is named")
}
