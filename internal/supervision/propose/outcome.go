package propose

import (
	"encoding/json"
	"fmt"

	"countersign/internal/authority"
)

// OutcomeVersion is the version of a managed outcome. Any other is malformed.
const OutcomeVersion = 1

// Bounds of an outcome. Texts are counted in Unicode code points (G-10).
const (
	MaxExplanation = 1000
	MaxQuestion    = 500
	MaxOutcome     = 64 << 10 // bytes, as for a report over HTTP
)

// Kinds of a managed outcome (H-031).
const (
	OutcomeProposal      = "proposal"
	OutcomeClarification = "clarification"
	OutcomeAuthorization = "authorization_required"
	OutcomeRefusal       = "refusal"
)

// Outcome is what a managed executor answers: a proposal, or one of three reasons why
// there is none (H-183). It is untrusted and grants nothing.
type Outcome struct {
	Kind   string
	Report *Report // of a proposal, else nil
	// Text is the question of a clarification, else the explanation; "" with a proposal.
	Text string
	// What an authorization_required says is needed; ProposalID is nil when nothing is
	// prepared.
	OperationID string
	ProposalID  *string
}

// ParseOutcome reads {"version": 1, "outcome": {...}} strictly. The rules of a report
// hold for the proposal branch alone (H-069). The error is a *[MalformedError] with
// MALFORMED_MODEL_REPORT.
func ParseOutcome(raw []byte) (*Outcome, error) {
	p := parser{}
	o := &Outcome{}
	if len(raw) > MaxOutcome {
		p.fail("", fmt.Sprintf("want at most %d bytes", MaxOutcome))
	} else if root := p.object("", raw, []string{"version", "outcome"}, nil); root != nil {
		var version int64
		want := fmt.Sprintf("want %d", OutcomeVersion)
		if p.decode("/version", root["version"], &version, want) && version != OutcomeVersion {
			p.fail("/version", want)
		}
		p.outcome("/outcome", root["outcome"], o)
	}
	if err := p.err(authority.MalformedModelReport); err != nil {
		return nil, err
	}
	return o, nil
}

// outcome reads the one branch that kind names.
func (p *parser) outcome(at string, raw []byte, o *Outcome) {
	var m map[string]json.RawMessage
	if !p.decode(at, raw, &m, "want an object") {
		return
	}
	o.Kind = p.oneOf(at+"/kind", m["kind"], OutcomeProposal, OutcomeClarification, OutcomeAuthorization, OutcomeRefusal)
	switch o.Kind {
	case OutcomeProposal:
		p.object(at, raw, []string{"kind", "report"}, nil)
		o.Report = p.report(at+"/report", m["report"])
	case OutcomeClarification:
		p.object(at, raw, []string{"kind", "question"}, nil)
		o.Text = p.text(at+"/question", m["question"], 1, MaxQuestion)
	case OutcomeAuthorization:
		p.object(at, raw, []string{"kind", "operationId", "transactionProposalId", "explanation"}, nil)
		o.OperationID = p.text(at+"/operationId", m["operationId"], 1, maxItem)
		o.ProposalID = p.nullableText(at+"/transactionProposalId", m["transactionProposalId"], maxID)
		o.Text = p.text(at+"/explanation", m["explanation"], 1, MaxExplanation)
	case OutcomeRefusal:
		p.object(at, raw, []string{"kind", "explanation"}, nil)
		o.Text = p.text(at+"/explanation", m["explanation"], 1, MaxExplanation)
	}
}
