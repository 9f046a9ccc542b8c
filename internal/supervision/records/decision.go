package records

import (
	"context"

	"countersign/evidence"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// Decision is the answer to a report (H-072).
type Decision struct {
	TurnID               string
	Decision             string
	ReasonCode           string
	Explanation          string
	ClarificationRequest *string
	Provenance           string
}

// Explain adds the words to the newest decision of s. known, when it is not nil,
// has texts that were just stored.
func (r *Reader) Explain(ctx context.Context, s *run.State, known func(evidence.Commitment) (string, bool)) (*Decision, error) {
	words := func(c evidence.Commitment) (string, error) {
		if known != nil {
			if text, ok := known(c); ok {
				return text, nil
			}
		}
		return r.Text(ctx, s.ID, c)
	}
	d := s.Decision
	out := &Decision{TurnID: d.TurnID, Decision: d.Verdict, ReasonCode: d.ReasonCode, Explanation: stopcontext.Message(d.ReasonCode), Provenance: d.Provenance}
	var err error
	if d.Explanation != nil {
		if out.Explanation, err = words(*d.Explanation); err != nil {
			return nil, err
		}
	}
	if d.ClarificationRequest != nil {
		request, err := words(*d.ClarificationRequest)
		if err != nil {
			return nil, err
		}
		out.ClarificationRequest = &request
	}
	return out, nil
}
