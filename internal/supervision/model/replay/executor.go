package replay

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"countersign/internal/canon"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
)

//go:embed executor.json
var executorFile []byte

// Question is what the authored executor asks where its file says nothing.
const Question = "replay (authored): nothing is written down for this point of the workflow, or the catalog does not offer it. What should be done?"

// script is what is to be done at one position of a service's workflow: the first
// choice that the catalog offers.
type script struct {
	Service  string   `json:"service"`
	Position string   `json:"position"`
	Choices  []choice `json:"choices"`
}

// choice picks the first entry of an operation whose named arguments have the values
// that the run's terms have under the names beside them.
type choice struct {
	Operation string            `json:"operation"`
	Args      map[string]string `json:"args"` // argument -> term
	Purpose   string            `json:"purpose"`
	Summary   string            `json:"summary"`
}

// Executor answers from the authored file, keyed by service and workflow position
// (L-7). It calls no model, and reads of its briefing the terms and the catalog alone:
// neither the instruction nor what a page shows changes its answer. It is safe for
// concurrent use.
type Executor struct{ scripts map[[2]string]script }

// NewExecutor reads the authored file.
func NewExecutor() (*Executor, error) {
	var scripts []script
	if err := canon.Unmarshal(executorFile, &scripts); err != nil {
		return nil, err
	}
	e := &Executor{map[[2]string]script{}}
	for _, s := range scripts {
		at := [2]string{s.Service, s.Position}
		if _, twice := e.scripts[at]; twice || len(s.Choices) == 0 {
			return nil, fmt.Errorf("replay: %s at %s is written down twice or not at all", s.Service, s.Position)
		}
		e.scripts[at] = s
	}
	return e, nil
}

// Outside is false: nobody is asked, so no model call is counted (G-04).
func (*Executor) Outside() bool { return false }

// Propose returns the authored outcome: a proposal, or a clarification with [Question].
func (e *Executor) Propose(_ context.Context, b decide.Briefing) ([]byte, error) {
	var terms map[string]json.RawMessage
	if err := canon.Unmarshal(b.Terms, &terms); err != nil {
		return nil, err
	}
	for _, c := range e.scripts[[2]string{b.Service, b.Position}].Choices {
		entry := propose.FindEntry(b.Observation.Catalog, func(entry *propose.Entry) bool { return c.fits(entry, terms) })
		if entry != nil {
			return outcome(map[string]any{"kind": propose.OutcomeProposal, "report": c.report(entry, b)})
		}
	}
	return outcome(map[string]any{"kind": propose.OutcomeClarification, "question": Question})
}

// Repair fails: what is authored is well formed, so nobody asks for it.
func (*Executor) Repair(context.Context, decide.Briefing, []byte, string) ([]byte, error) {
	return nil, errors.New("replay: an authored outcome has no repair")
}

func outcome(o map[string]any) ([]byte, error) {
	return canon.Marshal(map[string]any{"version": propose.OutcomeVersion, "outcome": o})
}

func (c choice) fits(e *propose.Entry, terms map[string]json.RawMessage) bool {
	if e.OperationID != c.Operation {
		return false
	}
	var args map[string]json.RawMessage
	if canon.Unmarshal(e.Args, &args) != nil {
		return false
	}
	for name, term := range c.Args {
		// Both are canonical, so the same value has the same bytes.
		if args[name] == nil || !bytes.Equal(args[name], terms[term]) {
			return false
		}
	}
	return true
}

func (c choice) report(e *propose.Entry, b decide.Briefing) *propose.Report {
	return &propose.Report{
		GoalRestatement: b.Instruction,
		Candidates: []propose.Candidate{{
			ID: "authored-1", Action: e.Action(), Purpose: c.Purpose, Disposition: propose.DispositionProposed,
		}},
		SelectedCandidateID: "authored-1",
		Justification:       propose.Justification{Summary: "replay (authored): " + c.Summary, EvidenceRefs: []string{b.Observation.ObservationID}},
		ExpectedEffect: propose.ExpectedEffect{
			OperationID: e.OperationID, TransactionProposalID: e.Effect.TransactionProposalID,
			DisclosedFields: e.Effect.DisclosedFields, Postconditions: e.Effect.Postconditions,
		},
		Uncertainties: []string{},
	}
}
