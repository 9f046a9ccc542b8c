package guardian

import (
	"fmt"
	"slices"
	"strings"

	"countersign/evidence"
	"countersign/internal/machine"
	"countersign/internal/money"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
)

// Known values. Those that a run has too are package state's.
var (
	Services     = []string{"merchant", "bank", "broker", Custom}
	Environments = []string{Local, "staging", "production"}
)

const (
	// Custom is a service without an adapter in this program: its policies stay drafts (H-212).
	Custom = "custom"
	// Local is the environment of the built-in adapters.
	Local = state.LocalEnvironment
)

// Policy is what one revision says.
type Policy struct {
	Name        string      `json:"name"`
	ServiceID   *string     `json:"serviceId"` // of the inventory; nil: the built-in service itself
	Service     string      `json:"service"`
	Environment string      `json:"environment"`
	Mode        string      `json:"mode"`
	BudgetCents money.Cents `json:"budgetCents"`
	Provider    string      `json:"provider"` // of the guardian
	Operations  []string    `json:"operations"`
	Channels    []string    `json:"channels"`
}

// Problem returns the first member that is not one of a policy and what is wrong with
// it, or "".
func (p *Policy) Problem() (member, message string) {
	switch {
	case !named(p.Name, MaxName):
		return "name", fmt.Sprintf("want 1 to %d bytes and no control characters", MaxName)
	case !slices.Contains(Services, p.Service):
		return "service", "unknown"
	case !slices.Contains(Environments, p.Environment):
		return "environment", "unknown"
	case !slices.Contains(state.Modes, p.Mode):
		return "mode", "unknown"
	case p.BudgetCents < 0:
		return "budgetCents", "below zero"
	case !slices.Contains(state.Providers, p.Provider):
		return "provider", "unknown"
	case len(p.Operations) == 0 || len(p.Operations) > MaxOperations || !distinct(p.Operations):
		return "operations", fmt.Sprintf("want 1 to %d operations, each once", MaxOperations)
	case slices.ContainsFunc(p.Operations, func(o string) bool { return !named(o, 64) }):
		return "operations", "want the names of operations"
	case len(p.Channels) == 0 || !distinct(p.Channels) || slices.ContainsFunc(p.Channels, func(c string) bool { return !slices.Contains(state.Channels, c) }):
		return "channels", "want at least one known channel, each once"
	}
	return "", ""
}

func named(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func distinct(list []string) bool {
	sorted := slices.Sorted(slices.Values(list))
	return len(slices.Compact(sorted)) == len(list)
}

// Local reports whether the policy is about a built-in adapter's local service, which
// alone can be verified and published (H-209).
func (p *Policy) Local() bool { return p.Service != Custom && p.Environment == Local }

// Binding is the policy as a run is bound to it.
func (p *Policy) Binding(guardianID string, version int64) *run.Binding {
	return &run.Binding{
		GuardianID: guardianID, Service: p.Service, Environment: p.Environment, PolicyVersion: version, Mode: p.Mode, BudgetCents: p.BudgetCents,
		Provider: p.Provider, Operations: p.Operations, Channels: p.Channels,
	}
}

// State is everything that deciding about a policy needs.
type State struct {
	machine.Progress
	Revision     int64         `json:"revision"` // of the draft, from 1
	Draft        Policy        `json:"draft"`
	Running      *Running      `json:"running"`      // nil: no verification is under way
	Verification *Verification `json:"verification"` // the newest that has ended
	Published    *Published    `json:"published"`    // the newest version
}

// Running is a verification under way. At now >= Until it counts as given up.
type Running struct {
	ID        string        `json:"verificationId"`
	Revision  int64         `json:"revision"`
	StartedAt evidence.Time `json:"startedAt"`
	Until     evidence.Time `json:"until"`
}

// Verification is one that has ended. Its tests stand in the event at Sequence.
type Verification struct {
	ID          string        `json:"verificationId"`
	Revision    int64         `json:"revision"`
	Passed      bool          `json:"passed"`
	CompletedAt evidence.Time `json:"completedAt"`
	Sequence    int64         `json:"sequence"`
}

// ExpiresAt is when an activation can rest on it no more.
func (v *Verification) ExpiresAt() evidence.Time { return v.CompletedAt.Add(Fresh) }

// Published is a version; it never changes (H-210).
type Published struct {
	Version        int64         `json:"version"`
	Revision       int64         `json:"revision"`
	VerificationID string        `json:"verificationId"`
	PublishedAt    evidence.Time `json:"publishedAt"`
	Policy         Policy        `json:"policy"`
}

// DegradedAt is when its enforcement is degraded (H-211).
func (p *Published) DegradedAt() evidence.Time { return p.PublishedAt.Add(PublicationLife) }

// States of a policy (G-22).
const (
	StateDraft     = "draft"
	StateVerified  = "verified"
	StatePublished = "published"
	StateDegraded  = "degraded"
)

// At names the state at a time. A published policy with a newer draft is published.
func (s *State) At(now evidence.Time) string {
	switch {
	case s.Published != nil && now >= s.Published.DegradedAt():
		return StateDegraded
	case s.Published != nil:
		return StatePublished
	case s.Verified(now):
		return StateVerified
	}
	return StateDraft
}

// Verified reports whether the current revision can be activated at a time (H-208).
func (s *State) Verified(now evidence.Time) bool {
	v := s.Verification
	return v != nil && v.Passed && v.Revision == s.Revision && now < v.ExpiresAt()
}

// Verifying reports whether a verification is under way.
func (s *State) Verifying(now evidence.Time) bool { return s.Running != nil && now < s.Running.Until }

// Labels of a run's binding.
const (
	BindingCurrent    = "current"
	BindingDegraded   = "degraded"
	BindingSuperseded = "superseded"
	BindingUnverified = "under_verification" // a run of a policy's verification
)

// Label says how the policy that a run is bound to stands now. The binding itself
// never changes (H-217).
func (s *State) Label(b *run.Binding, now evidence.Time) string {
	switch {
	case b.PolicyVersion == 0 || s.Published == nil:
		return BindingUnverified
	case s.Published.Version != b.PolicyVersion:
		return BindingSuperseded
	case now >= s.Published.DegradedAt():
		return BindingDegraded
	}
	return BindingCurrent
}
