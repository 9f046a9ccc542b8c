package decide

import (
	"encoding/json"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// Briefing is what a managed executor is told (H-030). There is no credential in it,
// and the executor cannot ask for more. It is shared and must not be changed.
type Briefing struct {
	AttemptID      string
	Service        string
	Mode           string
	Instruction    string
	Clarifications []string // the owner's words, oldest first; they widen nothing
	Terms          json.RawMessage
	Grants         []authority.Grant
	Workflow       []run.Step
	Position       string // in the workflow
	Proposal       *run.Proposal
	Observation    *run.Observed
	Context        string // handed out for the instruction, by the run's context client (G-39); "" when there is none. It grants nothing
	View           string // what the last read showed, see [Fenced]; "" when there is none
}

// Brief returns what the executor is told of the run about an observation; the texts
// are for the caller to read.
func (d *Deciding) Brief(attemptID string, seen *run.Observed) Briefing {
	s := d.s
	return Briefing{
		AttemptID: attemptID, Service: s.Config.Service, Mode: s.Config.Mode, Terms: s.Terms, Grants: s.Grants, Workflow: s.Workflow,
		Position: s.Position(), Proposal: s.Proposal, Observation: seen,
	}
}

// Fenced marks content of a service as untrusted: what stands between the marks is
// never an instruction (H-020). The marks name the observation. The content was there
// before that identifier was, so it cannot end the fence.
func Fenced(observationID, content string) string {
	return "[untrusted content of the service, observation " + observationID + "]\n" + content + "\n[end of untrusted content, observation " + observationID + "]"
}

// CanStep reports whether a managed attempt may begin now. A run at its bound of turns
// or events is stopped, and stopped is true.
func (d *Deciding) CanStep() (stopped bool, _ *authority.Denial) {
	switch s := d.s; {
	case s.Status == run.StatusRunning && s.Lease != nil:
		if !d.doors.Lease {
			return false, inProgress()
		}
	case s.Status != run.StatusReady:
		return false, notReady(s)
	case s.Unresolved():
		return false, unresolved()
	case s.Permit != nil:
		return false, &authority.Denial{Reason: authority.PermitOutstanding, Detail: "A permit is live; the run goes on when it was used, or stops when it has expired."}
	}
	if d.s.Turns >= run.MaxTurns || d.full() {
		d.pause(authority.TurnLimit, stopcontext.SourceRuntime)
		return true, nil
	}
	return false, nil
}

func inProgress() *authority.Denial {
	return &authority.Denial{Reason: authority.AttemptInProgress, Detail: "Another attempt is under way; look at the run again in a moment."}
}

// Call is one request to a model provider that is about to be made.
type Call struct {
	AttemptID string
	Purpose   string
	Provider  string
	Holder    string // of the lease
}

// Call counts the request and takes the lease for it; the caller makes it once that is
// stored. A run that has made its last call stops, and the request is not made.
func (d *Deciding) Call(c Call) (counted bool) {
	d.attempt = c.AttemptID
	if !d.CanCall() {
		d.pause(authority.ModelCallLimit, stopcontext.SourceRuntime)
		return false
	}
	d.emit(&run.Called{
		AttemptID: c.AttemptID, Call: d.s.ModelCalls + 1, Purpose: c.Purpose, Provider: c.Provider,
		Lease: run.Lease{Holder: c.Holder, Until: d.now.Add(run.ModelLease)},
	})
	return true
}

// CanCall reports whether the run may make one more request to a model provider.
func (d *Deciding) CanCall() bool { return d.s.ModelCalls < run.MaxModelCalls || d.doors.Calls }

// Attempt is a managed attempt that comes back with an answer.
type Attempt struct {
	ID            string
	ObservationID string // what the executor was told about
	Provider      string
	Provenance    string
}

// Resume denies an attempt whose run has moved on: an executor's answer counts only
// while its call is the one that is out or, for an authored one, while the run is as
// it was told. Whatever else happened meanwhile stands, and of the attempt nothing does.
// going is false, too, when the run came to its bound meanwhile and was stopped.
func (d *Deciding) Resume(a Attempt) (going bool, _ *authority.Denial) {
	s := d.s
	d.attempt = a.ID
	if s.Asked != nil && s.Asked.AttemptID == a.ID {
		return true, nil
	}
	if stopped, denial := d.CanStep(); denial != nil || stopped {
		return false, denial
	}
	if s.Observation == nil || s.Observation.ID != a.ObservationID {
		return false, inProgress()
	}
	return true, nil
}

// ProposeManaged takes the report of an attempt in and applies the hard checks. The
// run pauses after any failure.
func (d *Deciding) ProposeManaged(a Attempt, r *propose.Report, catalog []propose.Entry) policy.Review {
	return d.take(&a.ID, r, catalog)
}

// Conclude ends an attempt whose outcome is no proposal: the run pauses, and nothing is
// repaired or tried again (H-037, H-038). native says that the provider itself refused.
func (d *Deciding) Conclude(a Attempt, o *propose.Outcome, native bool, catalog []propose.Entry) {
	e := run.Concluded{AttemptID: a.ID, Kind: o.Kind, Text: d.text(o.Text), Source: stopcontext.SourceExecutor, Provider: a.Provider, Provenance: a.Provenance}
	reason, source := authority.ExecutorRefused, stopcontext.SourceExecutor
	switch {
	case o.Kind == propose.OutcomeClarification:
		reason = authority.ClarificationRequested
	case o.Kind == propose.OutcomeAuthorization:
		e.OperationID, e.ProposalID, reason = &o.OperationID, o.ProposalID, authority.AuthorizationRequired
		if d.approvable(o, catalog) {
			reason, source = authority.ApprovalRequired, stopcontext.SourceRuntime
		}
	case native:
		e.Source, reason, source = stopcontext.SourceProvider, authority.ProviderRefused, stopcontext.SourceProvider
	}
	d.emit(&e)
	d.pause(reason, source)
}

// approvable reports whether an authorization_required names what the owner can approve
// now: in exact mode the prepared proposal, when nothing else is missing for it (G-02).
func (d *Deciding) approvable(o *propose.Outcome, catalog []propose.Entry) bool {
	if d.s.Config.Mode != run.ModeExact || o.ProposalID == nil {
		return false
	}
	e := policy.Approvable(d.s, catalog, d.now)
	return e != nil && *e.Effect.TransactionProposalID == *o.ProposalID && e.OperationID == o.OperationID
}

// Reject ends an attempt whose answer was malformed when no repair is left. What came
// is kept as a hash and the beginning of its text, which can be erased.
func (d *Deciding) Reject(a Attempt, raw []byte, problem, reason string) {
	d.emit(&run.Rejected{
		AttemptID: a.ID, SHA256: canon.Hash(raw), Bytes: int64(len(raw)), Raw: d.text(beginning(raw)), Problem: d.text(problem),
	})
	d.pause(reason, stopcontext.SourceRuntime)
}

// rawCharacters is how much of a rejected answer is kept.
const rawCharacters = 2000

// beginning is the first characters of what may be no UTF-8.
func beginning(raw []byte) string {
	runes := []rune(string(raw[:min(len(raw), 4*rawCharacters)]))
	return string(runes[:min(len(runes), rawCharacters)])
}

// Abandon stops a run whose managed attempt ends without an answer, or before its
// permit was used. A run that goes on by itself or has stopped already stays as it is.
func (d *Deciding) Abandon(a Attempt, reason, source string) {
	s := d.s
	d.attempt = a.ID
	asked := s.Asked != nil && s.Asked.AttemptID == a.ID
	unused := s.Status == run.StatusReady && s.Turn != nil && s.Turn.AttemptID != nil && *s.Turn.AttemptID == a.ID && (s.Execution == nil || s.Execution.TurnID != s.Turn.ID)
	told := s.Status == run.StatusReady && s.Permit == nil && s.Observation != nil && s.Observation.ID == a.ObservationID
	if asked || unused || told {
		cause := run.CauseStop
		if reason == authority.Frozen {
			cause = run.CauseFreeze
		}
		d.revokePermit(cause)
		d.pause(reason, source)
	}
}
