package guardian

import (
	"reflect"
	"slices"

	"countersign/evidence"
	"countersign/internal/machine"
)

// Drafted is guardian.drafted: the first revision.
type Drafted struct {
	Subject evidence.Subject `json:"subject"`
	Policy  Policy           `json:"policy"`
}

// EventType names the event.
func (Drafted) EventType() string { return "guardian.drafted" }

// Apply folds the event.
func (e Drafted) Apply(f *machine.Fold[State]) {
	f.Start(e.Subject, true)
	s := f.State()
	s.Revision, s.Draft = 1, e.Policy
	wellFormed(f, &e.Policy)
}

func wellFormed(f *machine.Fold[State], p *Policy) {
	member, message := p.Problem()
	f.Must(member == "", "policy", member+": "+message)
}

// Edited is guardian.edited: the next revision. A verification under way is of the
// revision before and counts no more.
type Edited struct {
	Revision int64  `json:"revision"`
	Policy   Policy `json:"policy"`
}

// EventType names the event.
func (Edited) EventType() string { return "guardian.edited" }

// Apply folds the event.
func (e Edited) Apply(f *machine.Fold[State]) {
	s := f.State()
	f.Must(e.Revision == s.Revision+1, "revision", "an edit makes the next revision")
	wellFormed(f, &e.Policy)
	s.Revision, s.Draft, s.Running = e.Revision, e.Policy, nil
}

// Started is verification.started.
type Started struct {
	VerificationID string        `json:"verificationId"`
	Revision       int64         `json:"revision"`
	Until          evidence.Time `json:"until"`
}

// EventType names the event.
func (Started) EventType() string { return "verification.started" }

// Apply folds the event.
func (e Started) Apply(f *machine.Fold[State]) {
	s := f.State()
	f.Must(e.Revision == s.Revision, "verification-revision", "only the current revision is verified")
	f.Must(!s.Verifying(f.Now()), "verification-twice", "a verification is under way")
	f.Must(e.Until > f.Now() && e.Until <= f.Now().Add(VerificationLife), "verification-life", "a verification lasts at most a minute")
	f.Must(s.Draft.Local(), "not-built", "only a built-in adapter's local service can be verified")
	s.Running = &Running{ID: e.VerificationID, Revision: e.Revision, StartedAt: f.Now(), Until: e.Until}
}

// Completed is verification.completed: everything that was tested, stored at once, so
// that a verification counts whole or not at all.
type Completed struct {
	VerificationID string   `json:"verificationId"`
	Revision       int64    `json:"revision"`
	Passed         bool     `json:"passed"`
	Runs           []string `json:"runs"` // the synthetic runs
	Tests          []Test   `json:"tests"`
}

// EventType names the event.
func (Completed) EventType() string { return "verification.completed" }

// Apply folds the event.
func (e Completed) Apply(f *machine.Fold[State]) {
	s := f.State()
	r := s.Running
	if !f.Must(r != nil && r.ID == e.VerificationID && r.Revision == e.Revision, "verification-unknown", "the verification was not started or counts no more") {
		return
	}
	f.Must(f.Now() < r.Until, "verification-late", "the verification had been given up")
	var names []string
	for i := range e.Tests {
		t := &e.Tests[i]
		names = append(names, t.Name)
		f.Must(t.consistent(&s.Draft), "test-result", "a test says what it cannot have found: "+t.Name)
		f.Must(t.At >= r.StartedAt && t.At <= f.Now(), "test-time", "a test was not made during the verification: "+t.Name)
	}
	f.Must(slices.Equal(names, Names(&s.Draft)), "tests", "the tests are not those of a verification")
	f.Must(e.Passed == AllPassed(e.Tests), "verification-passed", "passed is not what the tests say")
	s.Running = nil
	s.Verification = &Verification{ID: e.VerificationID, Revision: e.Revision, Passed: e.Passed, CompletedAt: f.Now(), Sequence: f.Sequence()}
}

// PublishedEvent is guardian.published: a version, which never changes.
type PublishedEvent struct {
	Version        int64  `json:"version"`
	Revision       int64  `json:"revision"`
	VerificationID string `json:"verificationId"`
	Policy         Policy `json:"policy"`
}

// EventType names the event.
func (PublishedEvent) EventType() string { return "guardian.published" }

// Apply folds the event.
func (e PublishedEvent) Apply(f *machine.Fold[State]) {
	s := f.State()
	f.Must(e.Revision == s.Revision, "publication-revision", "only the current revision is published")
	v := s.Verification
	f.Must(v != nil && v.Passed && v.Revision == e.Revision && v.ID == e.VerificationID, "publication-unverified", "no successful verification of this revision")
	f.Must(v == nil || f.Now() < v.ExpiresAt(), "publication-late", "the verification was an hour ago")
	f.Must(e.Version == s.version()+1, "version", "a publication makes the next version")
	f.Must(reflect.DeepEqual(e.Policy, s.Draft), "published-policy", "what is published is not the revision")
	f.Must(e.Policy.Local(), "not-built", "only a built-in adapter's local service can be published")
	s.Published = &Published{Version: e.Version, Revision: e.Revision, VerificationID: e.VerificationID, PublishedAt: f.Now(), Policy: e.Policy}
}

// version is the newest published one, 0 before the first.
func (s *State) version() int64 {
	if s.Published == nil {
		return 0
	}
	return s.Published.Version
}
