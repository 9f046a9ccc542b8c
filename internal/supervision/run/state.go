package run

import (
	"time"

	"countersign/internal/canon"
	"countersign/internal/supervision/state"
)

// What a run is, and where an execution and a hosted session can stand.
const (
	StatusCreated    = state.StatusCreated
	StatusReady      = state.StatusReady
	StatusRunning    = state.StatusRunning
	StatusPaused     = state.StatusPaused
	StatusCompleted  = state.StatusCompleted
	StatusRevoked    = state.StatusRevoked
	StatusTerminated = state.StatusTerminated
	StatusFailed     = state.StatusFailed

	ExecutionClaimed     = state.ExecutionClaimed // only between two events of one commit
	ExecutionDispatched  = state.ExecutionDispatched
	ExecutionReceipted   = state.ExecutionReceipted
	ExecutionVerified    = state.ExecutionVerified
	ExecutionMismatch    = state.ExecutionMismatch
	ExecutionNotApplied  = state.ExecutionNotApplied
	ExecutionUnconfirmed = state.ExecutionUnconfirmed
	ExecutionVoided      = state.ExecutionVoided
	ExecutionReconciled  = state.ExecutionReconciled

	SessionDispatched = state.SessionDispatched
	SessionOpened     = state.SessionOpened
	SessionFailed     = state.SessionFailed
)

// Bounds of a run.
const (
	MaxTurns       = 500
	MaxEvents      = 5000
	MaxRefusals    = 100 // that are recorded
	MaxRetryStreak = state.MaxRetryStreak
	LeaseLife      = state.LeaseLife
	DispatchLife   = 8 * time.Second // when an attempt is given up
	SendWindow     = time.Second     // from intent to the first byte, else voided (L-3)
	ProposalLife   = 10 * time.Minute
	ClockSkew      = 5 * time.Second // how far a store lets a permit's time be ahead of its own (design 4)
	EventReserve   = 200             // events kept free so that receipts, those of statements too, and a revoke always fit
)

// What a run's state consists of.
type (
	State         = state.State
	Config        = state.Config
	Binding       = state.Binding
	Step          = state.Step
	Observation   = state.Observation
	Proposal      = state.Proposal
	Turn          = state.Turn
	ContextTurn   = state.ContextTurn
	Decision      = state.Decision
	Approval      = state.Approval
	Asked         = state.Asked
	Permit        = state.Permit
	Execution     = state.Execution
	Dispatch      = state.Dispatch
	Lease         = state.Lease
	HostedSession = state.HostedSession
	Session       = state.Session
)

// Classes of a context turn.
const (
	ClassReported = state.ClassReported
	ClassObserved = state.ClassObserved
)

// IsContextTurn reports whether s could be the id of a context turn.
func IsContextTurn(s string) bool { return state.IsContextTurn(s) }

// IsContextClient reports whether s could be the id of a named context client.
func IsContextClient(s string) bool { return state.IsContextClient(s) }

// Phases of a turn.
const (
	turnProposed = "proposed"
	turnChecked  = "checked"
	turnDecided  = "decided"
)

// Verdicts of a decision.
const (
	Allow     = state.Allow
	Pause     = state.Pause
	Terminate = state.Terminate
)

// Provenance labels (H-153).
const (
	ByHardPolicy = "hard policy"
	ByReplay     = "replay (authored)"
	ByModel      = "live model"
	ByRuntime    = "runtime/schema validation"
)

// DecodeState reads a stored state and refuses another machine's.
func DecodeState(raw []byte) (*State, error) {
	var s State
	if err := canon.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	if s.Machine != Machine {
		return nil, &Unlawful{Rule: "machine", Detail: "this state belongs to another version of the state machine"}
	}
	return &s, nil
}
