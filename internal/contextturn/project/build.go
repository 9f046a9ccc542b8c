package project

import (
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/machine"
)

// Project is everything that deciding about a project needs.
type Project struct {
	machine.Progress
	Handle       string       `json:"handle"`
	Slug         string       `json:"slug"`
	Environments Environments `json:"environments"`
}

// Environments are the two that every project has.
type Environments struct {
	Production Environment `json:"production"`
	Staging    Environment `json:"staging"`
}

// Environment is what an environment hands out.
type Environment struct {
	Build    *BuildRef `json:"build"`    // the newest; nil before the first
	Draft    *BuildRef `json:"draft"`    // only in staging
	Selected string    `json:"selected"` // build, draft or "" while there is neither
}

// BuildRef names a Build or a draft: Digest is the SHA-256 of its manifest. The number of
// a Build counts from 1 in its environment; a draft has 0.
type BuildRef struct {
	Number      int64         `json:"number"`
	Digest      string        `json:"digest"`
	Documents   int64         `json:"documents"`
	Cases       int64         `json:"cases"`
	Bytes       int64         `json:"bytes"` // of its documents
	PublishedAt evidence.Time `json:"publishedAt"`
}

// Selection is a Build or draft as a delivery names it.
type Selection struct {
	Environment string `json:"environment"`
	Number      int64  `json:"number"` // 0 for a draft
	Digest      string `json:"digest"`
	Draft       bool   `json:"draft"`
}

// Environment returns the environment of that name, or nil.
func (p *Project) Environment(name string) *Environment {
	switch name {
	case Production:
		return &p.Environments.Production
	case Staging:
		return &p.Environments.Staging
	}
	return nil
}

// Current returns what the environment of that name has selected, or nil.
func (p *Project) Current(environment string) *BuildRef {
	e := p.Environment(environment)
	switch {
	case e == nil || e.Selected == "":
		return nil
	case e.Selected == SelectedDraft:
		return e.Draft
	}
	return e.Build
}

// Selection returns what the environment of that name has selected as a delivery names
// it, or nil.
func (p *Project) Selection(environment string) *Selection {
	b := p.Current(environment)
	if b == nil {
		return nil
	}
	return &Selection{Environment: environment, Number: b.Number, Digest: b.Digest, Draft: b.Number == 0}
}

// Opened is project.opened, the beginning of the chain.
type Opened struct {
	Subject evidence.Subject `json:"subject"`
	Handle  string           `json:"handle"`
	Slug    string           `json:"slug"`
	Session string           `json:"session"` // the hash that names the owner's session
}

// EventType names the event.
func (Opened) EventType() string { return "project.opened" }

// Apply folds the event.
func (e Opened) Apply(f *machine.Fold[Project]) {
	f.Start(e.Subject, e.Subject.ID == ProjectID(e.Handle, e.Slug))
	f.Must(IsHandle(e.Handle) && IsSlug(e.Slug), "project-path", "handle and slug are not those of a project")
	owned(f, e.Session)
	s := f.State()
	s.Handle, s.Slug = e.Handle, e.Slug
}

// Published is build.published: the next Build of an environment, which selects it.
type Published struct {
	Environment string   `json:"environment"`
	Build       BuildRef `json:"build"`
	Session     string   `json:"session"` // the hash that names the owner's session
}

// EventType names the event.
func (Published) EventType() string { return "build.published" }

// Apply folds the event.
func (e Published) Apply(f *machine.Fold[Project]) {
	owned(f, e.Session)
	described(f, e.Build)
	at := f.State().Environment(e.Environment)
	if !f.Must(at != nil, "environment", "there is no such environment") {
		return
	}
	f.Must(e.Build.Number == at.next(), "build-number", "a publication makes the next Build of its environment")
	at.Build, at.Selected = &e.Build, SelectedBuild
}

// next is the number of the Build that is published next.
func (e *Environment) next() int64 {
	if e.Build == nil {
		return 1
	}
	return e.Build.Number + 1
}

// Saved is draft.saved: staging's draft is this now, and selected.
type Saved struct {
	Environment string   `json:"environment"` // staging
	Draft       BuildRef `json:"draft"`
	Session     string   `json:"session"` // the hash that names the owner's session
}

// EventType names the event.
func (Saved) EventType() string { return "draft.saved" }

// Apply folds the event.
func (e Saved) Apply(f *machine.Fold[Project]) {
	owned(f, e.Session)
	described(f, e.Draft)
	f.Must(e.Environment == Staging, "draft-environment", "only staging has a draft")
	f.Must(e.Draft.Number == 0, "draft-number", "a draft has no number")
	staging := &f.State().Environments.Staging
	staging.Draft, staging.Selected = &e.Draft, SelectedDraft
}

// described requires a manifest that was stored now.
func described(f *machine.Fold[Project], b BuildRef) {
	f.Must(canon.IsHash(b.Digest) && b.Documents >= 0 && b.Cases >= 0 && b.Bytes >= 0, "build", "a Build has the digest of its manifest and counts what it holds")
	f.Must(b.PublishedAt == f.Now(), "build-time", "the Build was not stored when the event says")
}

var projects = machine.Definition[Project]{
	Kind: Kind, Version: Machine, Limit: MaxEvents,
	Progress: func(p *Project) *machine.Progress { return &p.Progress },
	Events:   func() []machine.Event[Project] { return []machine.Event[Project]{&Opened{}, &Published{}, &Saved{}} },
}

// Deciding is a decision about a project.
type Deciding struct{ *machine.Deciding[Project] }

// Begin starts a decision about p, which it changes; the zero Project is one that was
// never opened.
func Begin(p *Project, now evidence.Time, seed [32]byte) *Deciding {
	return &Deciding{machine.Begin(&projects, p, now, seed)}
}

// Open opens the project at handle and slug; its id is [ProjectID]. subject names
// workspace and issuer, session is the hash that names the owner's session. What is open
// already is denied with ALREADY_EXISTS.
func (d *Deciding) Open(subject evidence.Subject, handle, slug, session string) *authority.Denial {
	switch {
	case !IsSlug(handle):
		return invalid("handle", "want 1 to 40 lowercase letters and digits, with single hyphens between them")
	case !IsHandle(handle):
		return invalid("handle", "this word is reserved for the server's own pages")
	case !IsSlug(slug):
		return invalid("slug", "want 1 to 40 lowercase letters and digits, with single hyphens between them")
	case d.State().Machine != 0:
		return &authority.Denial{Reason: authority.AlreadyExists, Detail: "There is a project with this handle and slug already; use it, or take another."}
	}
	d.Emit(&Opened{d.Subject(subject, ProjectID(handle, slug)), handle, slug, session})
	return nil
}

// Publish makes b, whose number and time it sets, the next Build of an environment or
// staging's draft, selects it, and returns it.
func (d *Deciding) Publish(environment string, b BuildRef, draft bool, session string) (BuildRef, *authority.Denial) {
	at := d.State().Environment(environment)
	switch {
	case at == nil:
		return b, invalid("environment", "want production or staging")
	case draft && environment != Staging:
		return b, invalid("draft", "only staging has a draft")
	}
	if denial := there(&d.State().Progress, Kind); denial != nil {
		return b, denial
	}
	if denial := full(&d.State().Progress); denial != nil {
		return b, denial
	}
	b.PublishedAt, b.Number = d.Now(), at.next()
	if draft {
		b.Number = 0
		d.Emit(&Saved{environment, b, session})
	} else {
		d.Emit(&Published{environment, b, session})
	}
	return b, nil
}
