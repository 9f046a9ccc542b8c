package state

import (
	"countersign/internal/authority"
	"countersign/internal/supervision/stopcontext"
)

// Verdicts of a decision.
const (
	Allow     = "ALLOW"
	Pause     = "PAUSE"
	Terminate = "TERMINATE"
)

// pauses are the reasons with which a guardian pauses, and who is then the
// source of a stop. The last three stand for an answer that did not come or was
// unusable.
var pauses = map[string]string{
	authority.MissingEvidence:    stopcontext.SourceGuardian,
	authority.AmbiguousGoal:      stopcontext.SourceGuardian,
	authority.IrrelevantAction:   stopcontext.SourceGuardian,
	authority.GoalDrift:          stopcontext.SourceGuardian,
	authority.InjectionSuspected: stopcontext.SourceGuardian,
	authority.Unsafe:             stopcontext.SourceGuardian,
	authority.GuardianMalformed:  stopcontext.SourceRuntime,
	authority.ProviderTimeout:    stopcontext.SourceProvider,
	authority.ProviderError:      stopcontext.SourceProvider,
}

// LawfulVerdict reports whether a guardian can decide so: ALLOW means relevant
// and nothing else does, a PAUSE has a reason to pause, and a TERMINATE has one of
// the guardian's own (G-10).
func LawfulVerdict(decision, reason string) bool {
	switch decision {
	case Allow:
		return reason == authority.Relevant
	case Pause:
		return pauses[reason] != ""
	}
	return decision == Terminate && pauses[reason] == stopcontext.SourceGuardian
}

// PauseSource returns who is the source of the stop after a guardian's PAUSE.
func PauseSource(reason string) string { return pauses[reason] }
