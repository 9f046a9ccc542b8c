package machine

import (
	"fmt"

	"countersign/evidence"
)

// Unlawful is a transition that a machine forbids. Rule is the stable name of
// what it breaks; Detail is for people and repeats nothing that was submitted.
type Unlawful struct {
	Rule     string `json:"rule"`
	Detail   string `json:"detail"`
	Sequence int64  `json:"sequence"`
	EventID  string `json:"eventId"`
}

func (u *Unlawful) Error() string {
	return fmt.Sprintf("unlawful transition: %s: %s", u.Rule, u.Detail)
}

// Event is the data of one type of event together with its meaning for the state S.
type Event[S any] interface {
	// EventType is the type of the event as evidence names it.
	EventType() string
	// Apply reports every rule that the event breaks and folds it into the state.
	Apply(*Fold[S])
}

// Progress is how far a chain has come. Every state embeds it.
type Progress struct {
	Machine   int64         `json:"machine"` // 0: nothing has happened yet
	ID        string        `json:"id"`
	CreatedAt evidence.Time `json:"createdAt,omitzero"` // 0 in a state that has another name for it
	UpdatedAt evidence.Time `json:"updatedAt"`
	Events    int64         `json:"events"` // sequence of the newest
}

// Definition is one machine.
type Definition[S any] struct {
	Kind     string             // of subject
	Version  int64              // stands in the first event of a chain and never changes for it
	Limit    int64              // most events of a chain; 0: no limit
	Progress func(*S) *Progress // where the state keeps it
	Events   func() []Event[S]  // an empty one of every type; a chain begins with one of the first
	// Begins says whether an event of the first type begins a chain; nil: every one does.
	Begins func(Event[S]) bool
}

func (d *Definition[S]) begins(e Event[S]) bool {
	if d.Begins != nil {
		return d.Begins(e)
	}
	return e.EventType() == d.Events()[0].EventType()
}

// Types lists the types of the machine's events.
func (d *Definition[S]) Types() (list []string) {
	for _, e := range d.Events() {
		list = append(list, e.EventType())
	}
	return list
}

// Fold is the application of events to a state.
type Fold[S any] struct {
	of       *Definition[S]
	s        *S
	progress *Progress
	now      evidence.Time
	id       string
	sequence int64
	unlawful []Unlawful
}

func newFold[S any](of *Definition[S], s *S) Fold[S] {
	p := of.Progress(s)
	return Fold[S]{of: of, s: s, progress: p, sequence: p.Events}
}

// State is what the events so far amount to; Apply changes it.
func (f *Fold[S]) State() *S { return f.s }

// ID is the id of the event that is folded.
func (f *Fold[S]) ID() string { return f.id }

// Now is the time of the event that is folded.
func (f *Fold[S]) Now() evidence.Time { return f.now }

// Sequence is the place of the event that is folded.
func (f *Fold[S]) Sequence() int64 { return f.sequence }

// take folds e as the event after the newest.
func (f *Fold[S]) take(e Event[S]) {
	began := f.of.begins(e)
	if !f.Must(began == (f.sequence == 1) && began == (f.progress.Machine == 0), "first-event", "what begins a chain stands exactly at its beginning") && began {
		return // it would wipe out what the chain has come to
	}
	f.Must(f.now >= f.progress.UpdatedAt, "time-order", "the event is older than the one before it")
	f.Must(f.of.Limit == 0 || f.sequence <= f.of.Limit, "event-limit", "the chain holds more events than it may have")
	e.Apply(f)
	f.progress.Events, f.progress.UpdatedAt = f.sequence, f.now
}

// Must records a broken rule and returns lawful. Folding goes on, so that one unlawful
// event does not hide the next.
func (f *Fold[S]) Must(lawful bool, rule, detail string) bool {
	if !lawful {
		f.unlawful = append(f.unlawful, Unlawful{Rule: rule, Detail: detail, Sequence: f.sequence, EventID: f.id})
	}
	return lawful
}

// Start sets what every chain's first event says. named says whether the subject's id is
// one that the event may have; format, kind and version were looked at before a chain is
// replayed, because one of another machine is not unlawful but foreign.
func (f *Fold[S]) Start(s evidence.Subject, named bool) {
	f.Must(named, "subject-id", "the id of the subject is not the one that its event makes")
	*f.progress = Progress{Machine: f.of.Version, ID: s.ID, CreatedAt: f.now}
}
