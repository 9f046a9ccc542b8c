package decide

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
)

// Matter is what a guardian is asked to judge: a report that passed every hard
// check, and the same trusted context that the checks used (H-040, G-10). It is
// shared and must not be changed.
type Matter struct {
	Service     string
	Instruction evidence.Commitment
	// Clarifications are the owner's words, oldest first; they widen nothing.
	Clarifications []evidence.Commitment
	Terms          json.RawMessage
	Grants         []authority.Grant
	Workflow       []run.Step
	Position       string // in the workflow
	Observation    *run.Observed
	Report         *propose.Report
	Review         policy.Review // its findings, all passed

	// Text reads a free text that a commitment stands for: the instruction, a
	// clarification, or the observation's view. The view is content of the service: untrusted, never
	// instructions.
	Text func(evidence.Commitment) (string, error)
}

// Matter returns what a guardian judges after a report was reviewed.
func (d *Deciding) Matter(r *propose.Report, review policy.Review, seen *run.Observed, text func(evidence.Commitment) (string, error)) Matter {
	s := d.s
	return Matter{
		Service: s.Config.Service, Instruction: s.Instruction, Clarifications: slices.Clone(s.Clarifications), Terms: s.Terms, Grants: slices.Clone(s.Grants), Workflow: s.Workflow,
		Position:    s.Position(),
		Observation: seen, Report: r, Review: review, Text: text,
	}
}

// Verdict is a guardian's answer. One that is not in the form of G-10 counts as a PAUSE.
type Verdict struct {
	Decision             string
	ReasonCode           string
	Explanation          string
	ClarificationRequest *string
	Provider             string
	Provenance           string
}

// NoVerdict stands for the verdict of a guardian that failed, or that is late.
func NoVerdict(guardian string, late bool) Verdict {
	v := Verdict{Decision: run.Pause, ReasonCode: authority.ProviderError, Explanation: "The guardian failed, so it counts as a pause.", Provider: guardian, Provenance: run.ByRuntime}
	if late {
		v.ReasonCode, v.Explanation = authority.ProviderTimeout, "The guardian did not answer in time, so it counts as a pause."
	}
	return v
}

// wellFormed reports whether it is a verdict that a guardian can give, in texts that
// evidence can hold and a person can read (G-10).
func (v *Verdict) wellFormed() bool {
	return state.LawfulVerdict(v.Decision, v.ReasonCode) && legible(v.Explanation, propose.MaxExplanation) &&
		(v.ClarificationRequest == nil || legible(*v.ClarificationRequest, propose.MaxQuestion)) &&
		legible(v.Provider, maxProvider) && slices.Contains([]string{run.ByReplay, run.ByModel, run.ByRuntime}, v.Provenance)
}

// maxProvider bounds the name of a guardian's provider, in characters.
const maxProvider = 64

// legible reports whether a text has at most so many characters, all of which JSON and
// every ledger can hold.
func legible(s string, most int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= most && !strings.ContainsRune(s, 0)
}
