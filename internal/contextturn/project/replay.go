package project

import (
	"errors"
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/supervision/run"
)

var errMachine = errors.New("project: this state belongs to another version of the state machine")

// Decode reads the stored state of a project and refuses another machine's.
func Decode(raw []byte) (*Project, error) {
	return decode(raw, func(p *Project) *progress { return &p.progress })
}

// DecodeClient reads the stored state of a client and refuses another machine's.
func DecodeClient(raw []byte) (*Client, error) {
	return decode(raw, func(c *Client) *progress { return &c.progress })
}

// DecodeGap reads the stored state of a gap and refuses another machine's.
func DecodeGap(raw []byte) (*Gap, error) {
	return decode(raw, func(g *Gap) *progress { return &g.progress })
}

func decode[S any](raw []byte, of func(*S) *progress) (*S, error) {
	s := new(S)
	if err := canon.Unmarshal(raw, s); err != nil {
		return nil, err
	}
	if of(s).Machine != Machine {
		return nil, errMachine
	}
	return s, nil
}

// EventTypes lists the types of events of all three machines, sorted.
func EventTypes() []string {
	list := slices.Concat(types(projectEvents()), types(clientEvents()), types(gapEvents()))
	slices.Sort(list)
	return list
}

func types[S any](events []Event[S]) (list []string) {
	for _, e := range events {
		list = append(list, e.EventType())
	}
	return list
}

// Replay folds a finished chain by the rules that decided it and names every unlawful
// transition. It trusts hashes and signatures to be checked by package evidence.
type Replay[S any] struct {
	fold    fold[S]
	events  func() []Event[S] // empty ones of every type
	foreign bool
}

// NewReplay replays the chain of a project.
func NewReplay() *Replay[Project] {
	return &Replay[Project]{fold: projectFold(new(Project)), events: projectEvents}
}

// NewClientReplay replays the chain of a client.
func NewClientReplay() *Replay[Client] {
	return &Replay[Client]{fold: clientFold(new(Client)), events: clientEvents}
}

// NewGapReplay replays the chain of a gap.
func NewGapReplay() *Replay[Gap] {
	return &Replay[Gap]{fold: gapFold(new(Gap)), events: gapEvents}
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
		if err != nil || subject.Kind != f.kind || subject.Machine != Machine || e.Type != f.first {
			r.foreign = true
			return
		}
	}
	known := r.events()
	i := slices.Index(types(known), e.Type)
	if !f.must(i >= 0, "event-type", "this machine writes no such event") {
		return
	}
	if f.must(canon.Exactly(e.Data, known[i]), "event-data", "the data is not exactly what this type of event holds") {
		f.take(known[i])
	}
}

// Known reports whether the chain belongs to this machine. If it does not, lawfulness is
// not proved.
func (r *Replay[S]) Known() bool { return r.fold.progress.Machine == Machine && !r.foreign }

// Unlawful returns every unlawful transition in the order of the events.
func (r *Replay[S]) Unlawful() []run.Unlawful { return r.fold.unlawful }

// State returns what the chain amounts to.
func (r *Replay[S]) State() *S { return r.fold.s }
