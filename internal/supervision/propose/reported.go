package propose

import (
	"countersign/evidence"
	"countersign/internal/canon"
)

// Reported is a report as evidence holds it: structure in full, prose as
// commitments. Arguments that are none of the catalog's are whatever their sender
// liked, so they are prose too: a commitment to their JSON stands in their place. In
// event data they could pass for commitments, and nobody could erase them.
type Reported struct {
	GoalRestatement     evidence.Commitment   `json:"goalRestatement"`
	Candidates          []ReportedCandidate   `json:"candidates"`
	SelectedCandidateID string                `json:"selectedCandidateId"`
	Justification       ReportedJustification `json:"justification"`
	ExpectedEffect      ExpectedEffect        `json:"expectedEffect"`
	Uncertainties       []evidence.Commitment `json:"uncertainties"`
}

// ReportedCandidate is one candidate of a [Reported].
type ReportedCandidate struct {
	ID              string               `json:"id"`
	Action          Action               `json:"action"`
	Purpose         evidence.Commitment  `json:"purpose"`
	Disposition     string               `json:"disposition"`
	RejectionReason *evidence.Commitment `json:"rejectionReason"`
}

// ReportedJustification is the justification of a [Reported].
type ReportedJustification struct {
	Summary      evidence.Commitment `json:"summary"`
	EvidenceRefs []string            `json:"evidenceRefs"`
}

// NewReported turns a report on a catalog into its evidence form; text salts and keeps
// one prose.
func NewReported(r *Report, catalog []Entry, text func(string) evidence.Commitment) Reported {
	out := Reported{
		GoalRestatement:     text(r.GoalRestatement),
		SelectedCandidateID: r.SelectedCandidateID,
		Justification:       ReportedJustification{text(r.Justification.Summary), r.Justification.EvidenceRefs},
		ExpectedEffect:      r.ExpectedEffect,
		Uncertainties:       []evidence.Commitment{},
	}
	for _, c := range r.Candidates {
		rc := ReportedCandidate{ID: c.ID, Action: c.Action, Purpose: text(c.Purpose), Disposition: c.Disposition}
		if FindEntry(catalog, func(e *Entry) bool { return sameJSON(e.Args, c.Action.Args) }) == nil {
			rc.Action.Args = canon.MustMarshal(text(string(c.Action.Args)))
		}
		if c.RejectionReason != nil {
			reason := text(*c.RejectionReason)
			rc.RejectionReason = &reason
		}
		out.Candidates = append(out.Candidates, rc)
	}
	for _, u := range r.Uncertainties {
		out.Uncertainties = append(out.Uncertainties, text(u))
	}
	return out
}
