package state

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/stopcontext"
)

// Statuses of a run (G-01). The last four are terminal.
const (
	StatusCreated    = "created"
	StatusReady      = "ready"
	StatusRunning    = "running"
	StatusPaused     = "paused"
	StatusCompleted  = "completed"
	StatusRevoked    = "revoked"
	StatusTerminated = "terminated"
	StatusFailed     = "failed"
)

// States of an execution.
const (
	ExecutionClaimed     = "claimed" // only between two events of one commit
	ExecutionDispatched  = "dispatched"
	ExecutionReceipted   = "receipted"
	ExecutionVerified    = "verified"
	ExecutionMismatch    = "mismatch"
	ExecutionNotApplied  = "not_applied"
	ExecutionUnconfirmed = "unconfirmed"
	ExecutionVoided      = "voided"     // the intent was stored and nothing was sent
	ExecutionReconciled  = "reconciled" // an owner stated what became of it; there is no receipt
)

// Phases of a hosted session.
const (
	SessionDispatched = "dispatched"
	SessionOpened     = "opened"
	SessionFailed     = "failed"
)

// Bounds that the state itself knows.
const (
	MaxRetryStreak = 10               // the tenth retry-category decision in a row pauses
	LeaseLife      = 10 * time.Second // from intent to receipt of one dispatch
)

// State is everything that deciding about a run needs; history is read from
// events. It is stored as canonical JSON of at most 32 KB.
type State struct {
	Machine     int64               `json:"machine"`
	ID          string              `json:"runId"`
	Config      Config              `json:"config"`
	Instruction evidence.Commitment `json:"instruction"`
	Terms       json.RawMessage     `json:"terms"`
	TermsDigest string              `json:"termsDigest"`
	GoalDigest  string              `json:"goalDigest"`
	Workflow    []Step              `json:"workflow"`
	Currency    string              `json:"currency"`
	StoreOrigin *string             `json:"storeOrigin"`
	StoreKeys   []string            `json:"storeKeys"`
	Binding     *Binding            `json:"guardianBinding"` // nil: a legacy session (H-218)
	CreatedAt   evidence.Time       `json:"createdAt"`
	UpdatedAt   evidence.Time       `json:"updatedAt"`
	Events      int64               `json:"events"` // sequence of the newest event

	Status        string                     `json:"status"`
	Stage         string                     `json:"stage"`
	Stop          *stopcontext.Stop          `json:"stopContext"`
	Budget        authority.Budget           `json:"budget"`
	Grants        []authority.Grant          `json:"grants"`
	Used          map[string]authority.Usage `json:"used"` // by grant id
	DocumentEpoch int64                      `json:"documentEpoch"`
	StateRevision int64                      `json:"stateRevision"`
	StateDigest   string                     `json:"stateDigest"` // of the trusted service state last seen
	Observation   *Observation               `json:"observation"`
	Proposal      *Proposal                  `json:"proposal"`
	Approval      *Approval                  `json:"approval"` // the newest
	Turn          *Turn                      `json:"turn"`
	Decision      *Decision                  `json:"decision"`
	Permit        *Permit                    `json:"permit"` // issued and not yet claimed, expired or revoked
	Execution     *Execution                 `json:"execution"`
	Stated        []Execution                `json:"stated"`    // former ones that rest on an owner's statement
	Overspent     money.Cents                `json:"overspent"` // allowed over the budget, by receipts that contradicted statements
	Lease         *Lease                     `json:"lease"`
	Hosted        *HostedSession             `json:"hostedSession"`
	Session       Session                    `json:"session"`
	Verified      []string                   `json:"verified"` // postconditions seen to hold
	Committed     bool                       `json:"committed"`
	OrderID       *string                    `json:"orderId"` // of the applied commit
	Turns         int64                      `json:"turns"`
	RetryStreak   int64                      `json:"retryStreak"`
	Refusals      int64                      `json:"refusals"`
	ModelCalls    int64                      `json:"modelCalls"`

	Asked          *Asked                `json:"asked"` // the model call that is out; the run is running then
	Clarifications []evidence.Commitment `json:"clarifications"`
	DropReceipt    bool                  `json:"dropReceipt"` // simulated: the receipt of the next local mutation gets lost
}

// Encode writes the state as canonical JSON.
func (s *State) Encode() ([]byte, error) { return canon.Marshal(s) }

// Clone returns a copy that can be decided on without changing s. What the fold
// replaces and never changes in place is shared.
func (s *State) Clone() *State {
	c := *s
	c.Grants, c.Verified, c.Stated = slices.Clone(s.Grants), slices.Clone(s.Verified), slices.Clone(s.Stated)
	c.Clarifications = slices.Clone(s.Clarifications)
	c.Used = maps.Clone(s.Used)
	for id, used := range c.Used {
		c.Used[id] = maps.Clone(used)
	}
	if s.Turn != nil {
		turn := *s.Turn
		c.Turn = &turn
	}
	if s.Execution != nil {
		execution := *s.Execution
		c.Execution = &execution
	}
	if s.Hosted != nil {
		hosted := *s.Hosted
		c.Hosted = &hosted
	}
	return &c
}

// Terminal reports whether the run has ended.
func (s *State) Terminal() bool {
	switch s.Status {
	case StatusCompleted, StatusRevoked, StatusTerminated, StatusFailed:
		return true
	}
	return false
}

// Unresolved reports whether an effect of the run is not known yet.
func (s *State) Unresolved() bool {
	return s.Execution != nil && (s.Execution.State == ExecutionClaimed || s.Execution.State == ExecutionDispatched || s.Execution.State == ExecutionUnconfirmed)
}

// Waiting reports whether the run is stopped for an effect that is not confirmed.
func (s *State) Waiting() bool {
	return s.Status == StatusPaused && s.Stop != nil && s.Stop.ReasonCode == authority.DispatchUnconfirmed
}

// Find returns the newest execution, or a former one that rests on an owner's
// statement, by its id, or nil.
func (s *State) Find(id string) *Execution {
	if s.Execution != nil && s.Execution.ID == id {
		return s.Execution
	}
	if i := slices.IndexFunc(s.Stated, func(x Execution) bool { return x.ID == id }); i >= 0 {
		return &s.Stated[i]
	}
	return nil
}

// Over is by how much spent and reserved together exceed the budget.
func (s *State) Over() money.Cents { return max(s.Budget.Spent+s.Budget.Reserved-s.Budget.Limit, 0) }

// Opening reports whether a hosted session was dispatched and its outcome is not
// known yet.
func (s *State) Opening() bool { return s.Hosted != nil && s.Hosted.Phase == SessionDispatched }

// Stopped reports whether the last decision was one after which a run does not
// go on by itself: a TERMINATE, or a PAUSE that is managed or not for another try.
func (s *State) Stopped() bool {
	d := s.Decision
	return d != nil && !d.Answered && (d.Verdict == Terminate || d.Verdict == Pause && (s.Managed(d.TurnID) || stopcontext.Category(d.ReasonCode) != stopcontext.CategoryRetry || s.RetryStreak >= MaxRetryStreak))
}

// Position names the first workflow step that is not closed, or "done".
func (s *State) Position() string {
	for _, step := range s.Workflow {
		if !slices.Contains(s.Verified, step.ClosedBy) {
			return step.Name
		}
	}
	return "done"
}

// Outcome is what is displayed, in the order of G-01: an unresolved effect
// overrides everything.
func (s *State) Outcome() string {
	switch {
	case s.Unresolved(), s.Terminal() && s.Opening():
		return "unconfirmed_effect"
	case s.Status == StatusPaused && s.Stop != nil:
		return "paused:" + s.Stop.Category
	case s.Terminal():
		return s.Status
	}
	return "active"
}

// Due is the next time at which settling has work, or the zero time.
func (s *State) Due() time.Time {
	var due []evidence.Time
	if s.Lease != nil {
		due = append(due, s.Lease.Until)
	}
	if s.Permit != nil {
		due = append(due, s.Permit.ExpiresAt)
	}
	if s.Proposal != nil && !s.Terminal() && s.Lease == nil {
		due = append(due, s.Proposal.ExpiresAt)
	}
	if s.Status == StatusReady {
		due = append(due, s.StopsAt())
	}
	if len(due) == 0 {
		return time.Time{}
	}
	return slices.Min(due).Time()
}

// Grant returns the grant with the id, or nil.
func (s *State) Grant(id string) *authority.Grant {
	i := slices.IndexFunc(s.Grants, func(g authority.Grant) bool { return g.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Grants[i]
}

// GrantFor returns the newest grant that names the operation, or nil.
func (s *State) GrantFor(operation string) *authority.Grant {
	for i := len(s.Grants) - 1; i >= 0; i-- {
		if s.Grants[i].Covers(operation) {
			return &s.Grants[i]
		}
	}
	return nil
}

// Approvable returns the newest bounded grant that leaves the operation to the
// owner's approval, or nil.
func (s *State) Approvable(operation string) *authority.Grant {
	for i := len(s.Grants) - 1; i >= 0; i-- {
		if s.Grants[i].Approvable(operation) {
			return &s.Grants[i]
		}
	}
	return nil
}

// Authority returns the grant that an operation rests on now, or nil. In exact mode a
// commit rests on the live, unused grant of the approval of the proposal that stands;
// without one it is the grant within which the owner may approve, and unapproved is
// true.
func (s *State) Authority(operation string, now evidence.Time) (grant *authority.Grant, unapproved bool) {
	g := s.GrantFor(operation)
	if g != nil && g.Kind == authority.KindExact {
		standing := s.Proposal != nil && g.ProposalID != nil && *g.ProposalID == s.Proposal.ID
		if !standing || !g.Live(now) || !g.UsesLeft(operation, s.Used[g.ID]) {
			g = nil
		}
	}
	if g != nil {
		return g, false
	}
	g = s.Approvable(operation)
	return g, g != nil
}

// GrantsEnd is when the last grant expires.
func (s *State) GrantsEnd() evidence.Time {
	var end evidence.Time
	for _, g := range s.Grants {
		end = max(end, g.ExpiresAt)
	}
	return end
}

// StopsAt is when a ready run stops by itself: at the end of its last grant, and not
// before there was time to see what has just been applied.
func (s *State) StopsAt() evidence.Time {
	if s.Execution != nil && s.Execution.State == ExecutionReceipted {
		return max(s.GrantsEnd(), s.UpdatedAt.Add(LeaseLife))
	}
	return s.GrantsEnd()
}

// Use counts n more uses of an operation under a grant; n is negative to give
// a use back.
func (s *State) Use(grantID, operation string, n int64) {
	if s.Used[grantID] == nil {
		if s.Used == nil {
			s.Used = map[string]authority.Usage{}
		}
		s.Used[grantID] = authority.Usage{}
	}
	s.Used[grantID][operation] += n
}

// NewStop classifies a reason.
func (s *State) NewStop(reason, source, attemptID string) *stopcontext.Stop {
	stop := stopcontext.New(reason, source, attemptID)
	if s.Observation != nil {
		id := s.Observation.ID
		stop.ObservationID = &id
	}
	lost := s.Hosted != nil && s.Hosted.Phase == SessionFailed && reason == authority.DispatchUnconfirmed
	switch e := s.Execution; {
	case e != nil && (e.State == ExecutionDispatched || e.State == ExecutionUnconfirmed), s.Opening(), lost:
		stop.Dispatch = "dispatched"
	case e != nil && (e.State == ExecutionReceipted || e.State == ExecutionMismatch):
		stop.Dispatch = "receipted"
	case s.Permit != nil:
		stop.Dispatch = "permitted" // it is revoked together with the stop
	}
	return stop
}

// Managed reports whether the newest turn is the one of that id and a managed one.
func (s *State) Managed(turnID string) bool {
	return s.Turn != nil && s.Turn.ID == turnID && s.Turn.AttemptID != nil
}

// Recoverable returns why a stop of the categories cannot be mended now, or "": the
// run is not stopped so, an effect is unresolved, or the stop's version is unknown
// (G-03).
func (s *State) Recoverable(categories ...string) string {
	switch {
	case s.Unresolved():
		return authority.UnresolvedEffect
	case s.Status != StatusPaused || s.Stop == nil:
		return authority.RecoveryNotEligible
	case s.Stop.Version != stopcontext.Version:
		return authority.StopVersionUnknown
	}
	for _, category := range categories {
		if s.Stop.Category == category {
			return ""
		}
	}
	return authority.RecoveryNotEligible
}

// Restore takes back what an owner's statement about x moved.
func (s *State) Restore(x *Execution) {
	if x.Finding == FindingApplied {
		s.Budget.Spent -= x.AmountCents
	} else {
		s.Use(x.GrantID, x.OperationID, 1)
	}
	s.Budget.Reserved += x.AmountCents
	x.State, x.Finding, x.Owed, x.Contradicted = ExecutionUnconfirmed, "", true, true
}

// CountRetry keeps the length of the row of retry-category decisions.
func (s *State) CountRetry(reason string) {
	if stopcontext.Category(reason) == stopcontext.CategoryRetry {
		s.RetryStreak++
	} else {
		s.RetryStreak = 0
	}
}
