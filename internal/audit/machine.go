package audit

import (
	"fmt"

	"countersign/evidence"
	"countersign/internal/supervision/chain"
	"countersign/internal/supervision/freeze"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/run"
)

// replay is the state machine that makes a chain lawful or not.
type replay interface {
	Apply(evidence.Event)
	Known() bool
	Unlawful() []run.Unlawful
}

// machine replays a chain by the machine of its kind, which its first event states.
type machine struct {
	replay replay
	says   func() string // what a lawful chain comes to
	status func() string
	// boundary says what a chain of the kind is evidence of, and of what not.
	boundary []string
}

func (m *machine) apply(e evidence.Event) {
	if m.replay == nil {
		m.choose(e)
	}
	m.replay.Apply(e)
}

func (m *machine) choose(e evidence.Event) {
	subject, _ := e.Subject() // an unreadable one is of no known kind
	m.status = func() string { return "" }
	if m.chooseContext(subject.Kind) || m.chooseIncident(subject.Kind) {
		return
	}
	switch subject.Kind {
	case guardian.Kind:
		r := guardian.NewReplay()
		m.replay, m.status = r, func() string { return policyStatus(r.State()) }
		m.says = func() string { return "the policy is at " + policySays(r.State()) }
	case guardian.KindInventory:
		r := guardian.NewInventoryReplay()
		m.replay = r
		m.says = func() string {
			return fmt.Sprintf("the inventory lists %d services and %d policies", len(r.State().Services), len(r.State().Guardians))
		}
	case freeze.Kind:
		r := freeze.NewReplay()
		m.replay, m.status = r, func() string { return freezeStatus(r.State()) }
		m.says = func() string { return freezeSays(r.State()) }
	default:
		r := &chain.Replay{}
		m.replay, m.status = r, func() string { return r.State().Status }
		m.says = func() string { return "the run is " + r.State().Status }
	}
}

// policyStatus leaves out what only time tells: whether a verification is fresh and a
// publication enforced.
func policyStatus(s *guardian.State) string {
	if s.Published != nil {
		return guardian.StatePublished
	}
	return guardian.StateDraft
}

func policySays(s *guardian.State) string {
	if s.Published == nil {
		return fmt.Sprintf("revision %d, never published", s.Revision)
	}
	return fmt.Sprintf("revision %d, version %d published at %s", s.Revision, s.Published.Version, s.Published.PublishedAt)
}

// freezeStatus says how the workspace is.
func freezeStatus(s *freeze.State) string {
	if s.Frozen != nil {
		return "frozen"
	}
	return "open"
}

func freezeSays(s *freeze.State) string {
	if s.Frozen != nil {
		return fmt.Sprintf("the workspace is frozen since %s, freeze %d", s.Frozen.Since, s.Epoch)
	}
	times := fmt.Sprintf("%d times", s.Epoch)
	switch s.Epoch {
	case 0:
		times = "never"
	case 1:
		times = "once"
	}
	return "the workspace is not frozen; it was frozen " + times
}

// lawfulness is what the replay found.
func (m *machine) lawfulness(s evidence.Subject) Lawfulness {
	if m.replay == nil || !m.replay.Known() {
		return Lawfulness{
			Unlawful: []run.Unlawful{},
			Reason:   fmt.Sprintf("not proved: this program has no machine %d for a chain of kind %q", s.Machine, s.Kind),
		}
	}
	unlawful := m.replay.Unlawful()
	l := Lawfulness{
		Known: true, Proved: len(unlawful) == 0, Status: m.status(), Failures: len(unlawful),
		Unlawful: append([]run.Unlawful{}, unlawful[:min(len(unlawful), evidence.MaxFindings)]...),
	}
	l.Reason = "every transition is lawful; " + m.says()
	if !l.Proved {
		l.Reason = "the chain tells of transitions that the machine forbids"
	}
	return l
}
