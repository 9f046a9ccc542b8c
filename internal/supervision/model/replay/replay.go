// Package replay is the authored guardian and the authored executor: verdicts and
// reports written down beforehand, keyed by service and workflow position, verdicts by
// operation too (L-7), and stricter ones by the arguments, terms and shown sentences of
// single situations of the fixtures. They call no model and judge nothing; what is not in the files is
// PAUSE with AMBIGUOUS_GOAL or a clarification. Everything that they say says that it is
// authored, so that nobody takes it for a measurement of a model (H-169).
package replay

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"countersign/internal/canon"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
)

// Provider is the name of this guardian in configuration and evidence.
const Provider = "replay"

//go:embed guardian.json
var guardianFile []byte

type rule struct {
	Service    string   `json:"service"`
	Position   string   `json:"position"`
	Operations []string `json:"operations"`
	When       *when    `json:"when"` // nil: always
	Verdict    verdict  `json:"verdict"`
}

// when narrows a rule to what was written down of one situation: an action with these
// arguments, in a run with these terms, resting on an observation that shows this
// sentence. Whatever is named has to be there literally; nothing is understood.
type when struct {
	Args  map[string]json.RawMessage `json:"args"`
	Terms map[string]json.RawMessage `json:"terms"`
	Shown string                     `json:"shown"` // "": whatever is shown
}

type verdict struct {
	Decision             string  `json:"decision"`
	ReasonCode           string  `json:"reasonCode"`
	Explanation          string  `json:"explanation"`
	ClarificationRequest *string `json:"clarificationRequest"`
}

type place struct{ service, position, operation string }

// Guardian answers from the authored file. It is safe for concurrent use.
type Guardian struct {
	verdicts map[place]verdict
	narrower map[place][]rule // with a when; never an ALLOW
}

// NewGuardian reads the authored file.
func NewGuardian() (*Guardian, error) { return newGuardian(guardianFile) }

func newGuardian(file []byte) (*Guardian, error) {
	var rules []rule
	if err := canon.Unmarshal(file, &rules); err != nil {
		return nil, err
	}
	g := &Guardian{map[place]verdict{}, map[place][]rule{}}
	for _, r := range rules {
		for _, operation := range r.Operations {
			at := place{r.Service, r.Position, operation}
			switch _, twice := g.verdicts[at]; {
			case r.When != nil && (r.Verdict.Decision == run.Allow || len(r.When.Args) == 0 || len(r.When.Terms) == 0 && r.When.Shown == ""):
				return nil, fmt.Errorf("replay: what is written down for %+v in one situation allows, or names no situation", at)
			case r.When != nil:
				g.narrower[at] = append(g.narrower[at], r)
			case twice:
				return nil, fmt.Errorf("replay: %+v is written down twice", at)
			default:
				g.verdicts[at] = r.Verdict
			}
		}
	}
	return g, nil
}

// Judge returns the authored verdict for the report's operation at the run's position
// in the service's workflow. Where the file has a stricter one for a situation, it also
// compares the action's arguments, the terms and what the observation shows with it.
// It reads nothing else of the matter.
func (g *Guardian) Judge(m decide.Matter) decide.Verdict {
	at := place{m.Service, m.Position, m.Review.Entry.OperationID}
	v, ok := g.verdicts[at]
	if !ok {
		v = verdict{run.Pause, "AMBIGUOUS_GOAL", "There is no authored verdict for this operation at this point of the workflow.", nil}
	}
	for _, r := range g.narrower[at] {
		switch met, err := r.When.met(m); {
		case err != nil:
			v = verdict{run.Pause, "MISSING_EVIDENCE", "What the service shows could not be read.", nil}
		case met:
			v = r.Verdict
		}
	}
	return decide.Verdict{
		Decision: v.Decision, ReasonCode: v.ReasonCode, Explanation: v.Explanation, ClarificationRequest: v.ClarificationRequest,
		Provider: Provider, Provenance: run.ByReplay,
	}
}

// met reports whether the situation is that of the matter. What is shown is asked for
// only when the rest is.
func (w *when) met(m decide.Matter) (bool, error) {
	for _, of := range []struct {
		raw   json.RawMessage
		named map[string]json.RawMessage
	}{{m.Review.Entry.Args, w.Args}, {m.Terms, w.Terms}} {
		if len(of.named) == 0 {
			continue
		}
		var members map[string]json.RawMessage
		if err := canon.Unmarshal(of.raw, &members); err != nil {
			return false, err
		}
		for name, value := range of.named {
			// Both are canonical, so the same value has the same bytes.
			if !bytes.Equal(members[name], value) {
				return false, nil
			}
		}
	}
	if w.Shown == "" || m.Observation.View == nil {
		return w.Shown == "", nil
	}
	view, err := m.Text(*m.Observation.View)
	return strings.Contains(view, w.Shown), err
}
