package run

import (
	"slices"
	"time"

	"countersign/evidence"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/stopcontext"
)

// Bounds of managed attempts (H-175, design 1).
const (
	MaxModelCalls = 40
	ModelLease    = 90 * time.Second
)

// Purposes of a model call.
const (
	PurposeExecutor = "executor"
	PurposeRepair   = "repair"
	PurposeGuardian = "guardian"
)

// Called is model.called: one request to a provider, counted before it is made (G-04).
// The first event of the answer, or the stop without one, ends its lease. AttemptID is
// the turn's id where a direct report is judged.
type Called struct {
	AttemptID string `json:"attemptId"`
	Call      int64  `json:"call"` // of the run, from 1
	Purpose   string `json:"purpose"`
	Provider  string `json:"provider"`
	Lease     Lease  `json:"lease"`
}

func (Called) EventType() string { return "model.called" }

func (e Called) apply(f *fold) {
	s, out := f.s, f.s.Asked
	f.must(s.Permit == nil && !s.Unresolved(), "call-unresolved", "no model is called while a permit is live or an effect unresolved")
	asked, lawful := Asked{AttemptID: e.AttemptID, Who: e.Purpose}, out == nil && s.Status == StatusReady
	switch t := s.Turn; e.Purpose {
	case PurposeExecutor:
		lawful = lawful && s.Observation != nil && !s.Stopped()
	case PurposeGuardian:
		lawful = lawful && t != nil && t.Phase == turnChecked && t.Passed && t.Attempt() == e.AttemptID
	default:
		if lawful = out != nil && e.Purpose == PurposeRepair && !out.Repair && out.AttemptID == e.AttemptID; lawful {
			asked.Who, asked.Repair = out.Who, true
		}
	}
	f.must(lawful, "call-order", "the call has no place in its attempt: one is out at a time, and an answer is repaired once")
	s.ModelCalls++
	f.must(e.Call == s.ModelCalls && s.ModelCalls <= MaxModelCalls, "call-limit", "a run makes at most 40 model calls and counts each")
	f.must(e.Lease.Until <= f.now.Add(ModelLease), "lease", "a lease for a model call lasts at most 90 s")
	s.Status, s.Stage, s.Lease, s.Asked = StatusRunning, "proposing", &e.Lease, &asked
}

// answered ends the lease of a model call with its answer. Without one out it is the
// answer of an authored model, or a direct report.
func (f *fold) answered(who, attemptID string) {
	if a := f.s.Asked; a != nil {
		f.must(a.Who == who && a.AttemptID == attemptID, "answer-attempt", "the answer is not that of the call that is out")
		f.s.Status, f.s.Lease, f.s.Asked = StatusReady, nil, nil
	}
}

// outcomeStops are the categories of the stop after each outcome that is no proposal
// (H-038, G-02).
var outcomeStops = map[string][]string{
	propose.OutcomeClarification: {stopcontext.CategoryClarification},
	propose.OutcomeAuthorization: {stopcontext.CategoryApproval, stopcontext.CategoryAuthority},
	propose.OutcomeRefusal:       {stopcontext.CategoryRefusal},
}

// Concluded is turn.outcome: a managed attempt that ended without a proposal. The run
// pauses in the same commit.
type Concluded struct {
	AttemptID   string              `json:"attemptId"`
	Kind        string              `json:"kind"`
	Text        evidence.Commitment `json:"text"`        // the question, or the explanation
	OperationID *string             `json:"operationId"` // of an authorization_required
	ProposalID  *string             `json:"transactionProposalId"`
	Source      string              `json:"source"` // executor, or provider for its native refusal (H-184)
	Provider    string              `json:"provider"`
	Provenance  string              `json:"provenance"`
}

func (Concluded) EventType() string { return "turn.outcome" }

func (e Concluded) apply(f *fold) {
	f.answered(PurposeExecutor, e.AttemptID)
	f.must(len(outcomeStops[e.Kind]) > 0, "outcome-kind", "this is no outcome without a proposal")
	f.stops(outcomeStops[e.Kind]...)
}

// Rejected is turn.rejected: the answer of a managed executor was malformed and there
// was no repair left (H-036). The run pauses in the same commit.
type Rejected struct {
	AttemptID string              `json:"attemptId"`
	SHA256    string              `json:"sha256"` // of the whole answer, hex
	Bytes     int64               `json:"bytes"`
	Raw       evidence.Commitment `json:"raw"`     // its first 2,000 characters
	Problem   evidence.Commitment `json:"problem"` // names of members may be the model's
}

func (Rejected) EventType() string { return "turn.rejected" }

func (e Rejected) apply(f *fold) {
	f.answered(PurposeExecutor, e.AttemptID)
	f.stops(stopcontext.CategoryRetry, stopcontext.CategoryLimit)
}

// stops owes the stop that a managed attempt ends with.
func (f *fold) stops(categories ...string) {
	f.status("outcome-status", StatusReady)
	f.must(f.s.Permit == nil, "outcome-under-permit", "no attempt ends while a permit is live")
	f.owe("outcome-without-stop", "a managed attempt ended and the run did not pause for it", func(b Event) bool {
		p, ok := b.(*Paused)
		return ok && slices.Contains(categories, p.Stop.Category)
	}, nil)
}
