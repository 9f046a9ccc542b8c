// Package replay is the authored guardian and the authored executor: verdicts and
// reports written down beforehand, keyed by service and workflow position, verdicts by
// operation too (L-7). They call no model and judge nothing; what is not in the files is
// PAUSE with AMBIGUOUS_GOAL or a clarification. Everything that they say says that it is
// authored, so that nobody takes it for a measurement of a model (H-169).
package replay

import (
	_ "embed"

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
	Verdict    verdict  `json:"verdict"`
}

type verdict struct {
	Decision             string  `json:"decision"`
	ReasonCode           string  `json:"reasonCode"`
	Explanation          string  `json:"explanation"`
	ClarificationRequest *string `json:"clarificationRequest"`
}

type place struct{ service, position, operation string }

// Guardian answers from the authored file. It is safe for concurrent use.
type Guardian struct{ verdicts map[place]verdict }

// NewGuardian reads the authored file.
func NewGuardian() (*Guardian, error) {
	var rules []rule
	if err := canon.Unmarshal(guardianFile, &rules); err != nil {
		return nil, err
	}
	g := &Guardian{map[place]verdict{}}
	for _, r := range rules {
		for _, operation := range r.Operations {
			g.verdicts[place{r.Service, r.Position, operation}] = r.Verdict
		}
	}
	return g, nil
}

// Judge returns the authored verdict for the report's operation at the run's
// position in the service's workflow. It reads nothing else of the matter.
func (g *Guardian) Judge(m decide.Matter) decide.Verdict {
	v, ok := g.verdicts[place{m.Service, m.Position, m.Review.Entry.OperationID}]
	if !ok {
		v = verdict{run.Pause, "AMBIGUOUS_GOAL", "There is no authored verdict for this operation at this point of the workflow.", nil}
	}
	return decide.Verdict{
		Decision: v.Decision, ReasonCode: v.ReasonCode, Explanation: v.Explanation, ClarificationRequest: v.ClarificationRequest,
		Provider: Provider, Provenance: run.ByReplay,
	}
}
