package project

import (
	"fmt"
	"unicode/utf8"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/machine"
)

// Gap is context that somebody said is missing. It is written once; the same report again
// is the same gap.
type Gap struct {
	machine.Progress
	Project     string               `json:"project"`
	Client      string               `json:"client"` // who reported it first
	Environment string               `json:"environment"`
	Build       *Selection           `json:"build"` // what was selected then; nil: nothing
	Task        *evidence.Commitment `json:"task"`  // this or Ref
	Ref         *evidence.Commitment `json:"ref"`
	Detail      *evidence.Commitment `json:"detail"`
}

// GapReport says what context is missing: for a task, or behind a ref.
type GapReport struct {
	Client      string
	Environment string
	Build       *Selection // nil: nothing is selected
	Task        *string
	Ref         *string
	Detail      *string
}

// Reported is gap.reported, the whole chain of a gap.
type Reported struct {
	Subject     evidence.Subject     `json:"subject"`
	Project     string               `json:"project"`
	Client      string               `json:"client"`
	Environment string               `json:"environment"`
	Build       *Selection           `json:"build"`
	Task        *evidence.Commitment `json:"task"`
	Ref         *evidence.Commitment `json:"ref"`
	Detail      *evidence.Commitment `json:"detail"`
}

// EventType names the event.
func (Reported) EventType() string { return "gap.reported" }

// Apply folds the event.
func (e Reported) Apply(f *machine.Fold[Gap]) {
	f.Start(e.Subject, IsGapID(e.Subject.ID))
	f.Must(IsProjectID(e.Project) && IsClientID(e.Client) && IsEnvironment(e.Environment), "gap-source", "a gap is reported by a client of a project's environment")
	f.Must((e.Task == nil) != (e.Ref == nil), "gap-about", "a gap is about a task or a ref")
	f.Must(within(e.Task, 1, MaxTask) && within(e.Ref, 1, MaxRef) && within(e.Detail, 0, MaxDetail), "gap-text", "a text of the gap is longer than it may be, or empty")
	if b := e.Build; b != nil {
		f.Must(b.Environment == e.Environment && canon.IsHash(b.Digest), "gap-build", "the Build is the one that the client's environment had selected")
		f.Must(b.Draft == (b.Number == 0) && b.Number >= 0 && (!b.Draft || b.Environment == Staging), "gap-build", "a Build has a number, and only staging has a draft")
	}
	s := f.State()
	s.Project, s.Client, s.Environment, s.Build = e.Project, e.Client, e.Environment, e.Build
	s.Task, s.Ref, s.Detail = e.Task, e.Ref, e.Detail
}

// within bounds a text that may be missing. Its characters cannot be counted when it is
// erased; one has at most four bytes.
func within(c *evidence.Commitment, least, most int) bool {
	return c == nil || c.Length >= least && c.Length <= 4*most
}

var gaps = machine.Definition[Gap]{
	Kind: KindGap, Version: Machine, Limit: MaxEvents,
	Progress: func(g *Gap) *machine.Progress { return &g.Progress },
	Events:   func() []machine.Event[Gap] { return []machine.Event[Gap]{&Reported{}} },
}

// DecidingGap is a decision about a gap.
type DecidingGap struct{ *machine.Deciding[Gap] }

// BeginGap starts a decision about g, which it changes; the zero Gap is one that nobody
// reported.
func BeginGap(g *Gap, now evidence.Time, seed [32]byte) *DecidingGap {
	return &DecidingGap{machine.Begin(&gaps, g, now, seed)}
}

// Report records the gap with a fresh id, which its state has then; reported again it
// changes nothing. That the same report ([GapMaterial]) has no gap yet is for the caller to
// know. subject names workspace and issuer.
func (d *DecidingGap) Report(subject evidence.Subject, project string, r GapReport) *authority.Denial {
	if (r.Task == nil) == (r.Ref == nil) {
		return invalid("task", "want this or ref, and not both")
	}
	for _, t := range []struct {
		member      string
		text        *string
		least, most int
	}{{"task", r.Task, 1, MaxTask}, {"ref", r.Ref, 1, MaxRef}, {"detail", r.Detail, 0, MaxDetail}} {
		if t.text == nil {
			continue
		}
		if n := utf8.RuneCountInString(*t.text); n < t.least || n > t.most {
			return invalid(t.member, fmt.Sprintf("want %d to %d characters", t.least, t.most))
		}
	}
	if d.State().Machine != 0 {
		return nil
	}
	d.Emit(&Reported{d.Subject(subject, FreshGapID(d.Fresh())), project, r.Client, r.Environment, r.Build, d.OptionalText(r.Task), d.OptionalText(r.Ref), d.OptionalText(r.Detail)})
	return nil
}
