package guardian

import (
	"reflect"
	"slices"

	"countersign/evidence"
)

// Drafted is guardian.drafted: the first revision.
type Drafted struct {
	Subject evidence.Subject `json:"subject"`
	Policy  Policy           `json:"policy"`
}

// EventType names the event.
func (Drafted) EventType() string { return "guardian.drafted" }

func (e Drafted) apply(f *fold[State]) {
	f.begin(e.Subject, Kind)
	f.s.Revision, f.s.Draft = 1, e.Policy
	wellFormed(f, &e.Policy)
}

func wellFormed(f *fold[State], p *Policy) {
	member, message := p.Problem()
	f.must(member == "", "policy", member+": "+message)
}

// Edited is guardian.edited: the next revision. A verification under way is of the
// revision before and counts no more.
type Edited struct {
	Revision int64  `json:"revision"`
	Policy   Policy `json:"policy"`
}

// EventType names the event.
func (Edited) EventType() string { return "guardian.edited" }

func (e Edited) apply(f *fold[State]) {
	f.must(e.Revision == f.s.Revision+1, "revision", "an edit makes the next revision")
	wellFormed(f, &e.Policy)
	f.s.Revision, f.s.Draft, f.s.Running = e.Revision, e.Policy, nil
}

// Started is verification.started.
type Started struct {
	VerificationID string        `json:"verificationId"`
	Revision       int64         `json:"revision"`
	Until          evidence.Time `json:"until"`
}

// EventType names the event.
func (Started) EventType() string { return "verification.started" }

func (e Started) apply(f *fold[State]) {
	f.must(e.Revision == f.s.Revision, "verification-revision", "only the current revision is verified")
	f.must(!f.s.Verifying(f.now), "verification-twice", "a verification is under way")
	f.must(e.Until > f.now && e.Until <= f.now.Add(VerificationLife), "verification-life", "a verification lasts at most a minute")
	f.must(f.s.Draft.Local(), "not-built", "only a built-in adapter's local service can be verified")
	f.s.Running = &Running{ID: e.VerificationID, Revision: e.Revision, StartedAt: f.now, Until: e.Until}
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

func (e Completed) apply(f *fold[State]) {
	r := f.s.Running
	if !f.must(r != nil && r.ID == e.VerificationID && r.Revision == e.Revision, "verification-unknown", "the verification was not started or counts no more") {
		return
	}
	f.must(f.now < r.Until, "verification-late", "the verification had been given up")
	var names []string
	for i := range e.Tests {
		t := &e.Tests[i]
		names = append(names, t.Name)
		f.must(t.consistent(&f.s.Draft), "test-result", "a test says what it cannot have found: "+t.Name)
		f.must(t.At >= r.StartedAt && t.At <= f.now, "test-time", "a test was not made during the verification: "+t.Name)
	}
	f.must(slices.Equal(names, Names(&f.s.Draft)), "tests", "the tests are not those of a verification")
	f.must(e.Passed == AllPassed(e.Tests), "verification-passed", "passed is not what the tests say")
	f.s.Running = nil
	f.s.Verification = &Verification{ID: e.VerificationID, Revision: e.Revision, Passed: e.Passed, CompletedAt: f.now, Sequence: f.sequence}
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

func (e PublishedEvent) apply(f *fold[State]) {
	f.must(e.Revision == f.s.Revision, "publication-revision", "only the current revision is published")
	v := f.s.Verification
	f.must(v != nil && v.Passed && v.Revision == e.Revision && v.ID == e.VerificationID, "publication-unverified", "no successful verification of this revision")
	f.must(v == nil || f.now < v.ExpiresAt(), "publication-late", "the verification was an hour ago")
	f.must(e.Version == f.s.version()+1, "version", "a publication makes the next version")
	f.must(reflect.DeepEqual(e.Policy, f.s.Draft), "published-policy", "what is published is not the revision")
	f.must(e.Policy.Local(), "not-built", "only a built-in adapter's local service can be published")
	f.s.Published = &Published{Version: e.Version, Revision: e.Revision, VerificationID: e.VerificationID, PublishedAt: f.now, Policy: e.Policy}
}

// version is the newest published one, 0 before the first.
func (s *State) version() int64 {
	if s.Published == nil {
		return 0
	}
	return s.Published.Version
}

// events are empty events of every type of a policy.
func events() []Event[State] {
	return []Event[State]{&Drafted{}, &Edited{}, &Started{}, &Completed{}, &PublishedEvent{}}
}
