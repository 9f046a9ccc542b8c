package run

import (
	"encoding/json"
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/state"
	"countersign/internal/supervision/stopcontext"
)

// Created is run.created: everything an owner fixed about the run.
type Created struct {
	Subject     evidence.Subject    `json:"subject"`
	Config      Config              `json:"config"`
	Instruction evidence.Commitment `json:"instruction"`
	Terms       json.RawMessage     `json:"terms"`
	TermsDigest string              `json:"termsDigest"`
	GoalDigest  string              `json:"goalDigest"`
	Workflow    []Step              `json:"workflow"`
	BudgetCents money.Cents         `json:"budgetCents"`
	Currency    string              `json:"currency"`
	StoreOrigin *string             `json:"storeOrigin"`
	StoreKeys   []string            `json:"storeKeys"` // the store's receipt keys as pinned at creation
	Binding     *Binding            `json:"guardianBinding"`
}

func (Created) EventType() string { return "run.created" }

func (e Created) apply(f *fold) {
	f.must(e.Subject.Format == evidence.Format && e.Subject.Kind == "run" && e.Subject.Machine == Machine, "subject", "the subject is not a run of this machine")
	f.must(e.TermsDigest == authority.Digest(authority.DomainTerms, e.Terms), "terms-digest", "termsDigest is not the digest of the terms")
	f.must(e.GoalDigest == state.GoalDigest(e.Instruction, e.Terms), "goal-digest", "goalDigest is not the digest of instruction, terms and clarifications")
	f.must(e.Config.Known(), "config", "the configuration has a value that this machine does not know")
	f.must(e.Binding == nil || len(e.Binding.Differs(e.Config, e.BudgetCents)) == 0, "binding", "the run is not what its guardian policy was published for")
	hosted := e.Config.Target == TargetHosted
	f.must(hosted == (e.StoreOrigin != nil) && hosted == (len(e.StoreKeys) > 0), "store-pinned", "a hosted run pins a store and its key, a local run none")
	*f.s = State{
		Machine: Machine, ID: e.Subject.ID, Config: e.Config, Instruction: e.Instruction, Terms: e.Terms, TermsDigest: e.TermsDigest, GoalDigest: e.GoalDigest,
		Workflow: e.Workflow, Currency: e.Currency, StoreOrigin: e.StoreOrigin, StoreKeys: e.StoreKeys, Binding: e.Binding, CreatedAt: f.now,
		Status: StatusCreated, Stage: "idle", Budget: authority.Budget{Limit: e.BudgetCents}, DocumentEpoch: 1, Used: map[string]authority.Usage{},
	}
}

// Modes of a run: exact waits for an approval of each prepared transaction, bounded
// approves limits up front (H-047, H-048).
const (
	ModeExact   = "exact"
	ModeBounded = "bounded"
)

// Targets of a run.
const (
	TargetLocal  = "local"
	TargetHosted = "hosted"
)

// Granted is grant.created.
type Granted struct {
	Grant     authority.Grant `json:"grant"`
	CreatedBy string          `json:"createdBy"`
}

func (Granted) EventType() string { return "grant.created" }

func (e Granted) apply(f *fold) {
	if e.Grant.Kind == authority.KindExact {
		f.exact(&e.Grant)
	} else {
		f.status("grant-after-start", StatusCreated)
		f.must(e.Grant.Kind == authority.KindBounded && e.Grant.ProposalID == nil && e.Grant.EffectDigest == nil, "grant-kind", "the grant is of no kind")
	}
	f.must(e.CreatedBy == "owner", "grant-creator", "only an owner creates a grant")
	f.must(e.Grant.ExpiresAt > f.now && e.Grant.ExpiresAt <= f.now.Add(authority.MaxGrantMinutes*60e9), "grant-life", "a grant lives at most 60 minutes")
	f.must(e.Grant.MaxTotalCents <= f.s.Budget.Limit, "grant-total", "a grant allows more than the budget")
	f.must(f.s.Grant(e.Grant.ID) == nil, "grant-twice", "a grant is created once")
	f.must(e.Grant.Currency == f.s.Currency, "currency", "the grant is in another currency than the budget")
	f.must(!slices.ContainsFunc(e.Grant.Operations, func(operation string) bool { return !f.s.Binding.Allows(operation) }), "binding-operation", "the grant covers an operation that the guardian policy does not select")
	f.s.Grants = append(f.s.Grants, e.Grant)
}

// HostedSessionEvent is hosted.session: the opening of the session at the
// store, in three phases. The intent (dispatched) is stored before a byte
// leaves; then the store's receipt (opened) or the reason why there is none
// (failed).
type HostedSessionEvent struct {
	Phase        string    `json:"phase"`
	ExecutionID  string    `json:"executionId"`
	SessionID    string    `json:"sid"`
	EffectDigest string    `json:"effectDigest"`
	Dispatch     *Dispatch `json:"dispatch"`    // with phase dispatched
	Lease        *Lease    `json:"lease"`       // with phase dispatched
	FreezeEpoch  *int64    `json:"freezeEpoch"` // with phase dispatched
	Receipt      *string   `json:"receipt"`     // with phase opened: compact JWS of the store
	ReasonCode   *string   `json:"reasonCode"`  // with phase failed
}

func (HostedSessionEvent) EventType() string { return "hosted.session" }

func (e HostedSessionEvent) apply(f *fold) {
	switch h := f.s.Hosted; e.Phase {
	case SessionDispatched:
		f.status("session-after-start", StatusCreated)
		lawful := h == nil && f.s.Config.Target == TargetHosted && e.Dispatch != nil && e.Lease != nil && e.FreezeEpoch != nil && len(f.s.Grants) > 0
		if !f.must(lawful, "session-intent", "a hosted session is dispatched once, for a hosted run with a grant") {
			return
		}
		f.must(f.s.StoreOrigin != nil && e.Dispatch.Audience == *f.s.StoreOrigin && e.Dispatch.SessionID == e.SessionID, "dispatch-audience", "the dispatch is not for the run's store and session")
		f.must(e.Lease.Until <= f.now.Add(LeaseLife), "lease", "a lease lasts at most 10 s")
		f.s.Hosted = &HostedSession{ID: e.SessionID, ExecutionID: e.ExecutionID, Phase: e.Phase, Dispatch: *e.Dispatch, EffectHash: e.EffectDigest}
		lease := *e.Lease
		f.s.Lease = &lease
	case SessionOpened, SessionFailed: // in any status: what came of a dispatch is always recorded
		// A receipt may still come in for what was given up.
		waiting := h != nil && (h.Phase == SessionDispatched || h.Phase == SessionFailed && e.Phase == SessionOpened)
		lawful := waiting && h.ExecutionID == e.ExecutionID && h.ID == e.SessionID && (e.Phase == SessionFailed || e.Receipt != nil)
		if f.must(lawful, "session-without-intent", "the outcome of a hosted session that was not dispatched") {
			h.Phase = e.Phase
		}
		if f.s.Terminal() {
			f.s.Lease = nil
		}
	default:
		f.must(false, "session-phase", "hosted.session has an unknown phase")
	}
}

// Observed is observation.recorded: a trusted observation with its catalog.
type Observed struct {
	ObservationID string               `json:"observationId"`
	DocumentEpoch int64                `json:"documentEpoch"`
	StateRevision int64                `json:"stateRevision"`
	CapturedAt    evidence.Time        `json:"capturedAt"`
	State         json.RawMessage      `json:"state"` // trusted service state
	StateDigest   string               `json:"stateDigest"`
	View          *evidence.Commitment `json:"view"` // body of the last read: untrusted content
	Catalog       []propose.Entry      `json:"catalog"`
	CatalogDigest string               `json:"catalogDigest"`
	ScreenshotID  *string              `json:"screenshotId"`
}

// DecodeObserved reads the data of an observation.recorded event.
func DecodeObserved(data []byte) (*Observed, error) {
	var o Observed
	if err := canon.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	return &o, nil
}

func (Observed) EventType() string { return "observation.recorded" }

func (e Observed) apply(f *fold) {
	f.status("observation-status", StatusCreated, StatusReady, StatusRunning)
	f.must(f.s.Permit == nil, "observation-under-permit", "no observation is taken while a permit is live")
	f.must(f.s.Asked == nil, "observation-under-call", "no observation is taken while a model is asked about the newest")
	f.must(!f.s.Unresolved(), "observation-unresolved", "no observation is taken while an effect is unresolved")
	f.must(e.CapturedAt <= f.now, "observation-time", "an observation is captured before it is recorded")
	f.must(e.StateDigest == authority.Digest(authority.DomainState, e.State), "state-digest", "stateDigest is not the digest of the state")
	f.must(e.CatalogDigest == propose.CatalogDigest(e.Catalog) && len(e.Catalog) <= propose.MaxEntries, "catalog-digest", "catalogDigest is not the digest of at most 64 entries")
	f.must(propose.Twice(e.Catalog) == nil, "catalog-twice", "two entries have one id or one target reference")
	f.must(e.DocumentEpoch == f.s.DocumentEpoch, "document-epoch", "the observation is of another document")
	foreign := propose.FindEntry(e.Catalog, func(entry *propose.Entry) bool { return entry.Currency != nil && *entry.Currency != f.s.Currency })
	f.must(foreign == nil, "currency", "an entry is in another currency than the budget")
	unselected := propose.FindEntry(e.Catalog, func(entry *propose.Entry) bool { return !f.s.Binding.Allows(entry.OperationID) })
	f.must(unselected == nil, "binding-operation", "the catalog has an operation that the guardian policy does not select")
	revision := f.s.StateRevision
	if e.StateDigest != f.s.StateDigest {
		revision++
	}
	p := f.s.Proposal
	f.must(p == nil || p.StateRevision == e.StateRevision && p.DocumentEpoch == e.DocumentEpoch, "proposal-state", "a proposal of another state was not voided")
	f.must(e.StateRevision == revision, "state-revision", "stateRevision moves by one exactly when the trusted state differs")
	f.s.StateRevision, f.s.StateDigest = e.StateRevision, e.StateDigest
	f.s.Observation = &Observation{
		ID: e.ObservationID, Sequence: f.sequence, DocumentEpoch: e.DocumentEpoch, StateRevision: e.StateRevision, CapturedAt: e.CapturedAt, CatalogDigest: e.CatalogDigest,
	}
	if f.s.Status == StatusRunning {
		f.s.Status, f.s.Lease = StatusReady, nil
	}
	f.s.Stage = "proposing"
}

// Initialized is run.initialized: the run is ready for its first report.
type Initialized struct{}

func (Initialized) EventType() string { return "run.initialized" }

func (Initialized) apply(f *fold) {
	f.status("initialized-twice", StatusCreated)
	f.must(len(f.s.Grants) > 0 && f.s.Observation != nil, "initialized-early", "a run starts with a grant and an observation")
	f.must(f.s.Config.Target != TargetHosted || f.s.Hosted != nil && f.s.Hosted.Phase == SessionOpened, "initialized-early", "a hosted run starts with an open hosted session")
	f.s.Status, f.s.Lease = StatusReady, nil
}

// SessionIssued is session.issued: a restricted token of a new generation, which
// ends all former ones. The token itself is nowhere in evidence.
type SessionIssued struct {
	Generation int64         `json:"generation"`
	ExpiresAt  evidence.Time `json:"expiresAt"`
	Origin     string        `json:"origin"`
}

func (SessionIssued) EventType() string { return "session.issued" }

func (e SessionIssued) apply(f *fold) {
	f.must(!f.s.Terminal() && f.s.Status != StatusCreated, "session-status", "a session is issued for a run that is under way")
	f.must(e.Generation == f.s.Session.Generation+1, "session-generation", "each session has the next generation")
	f.must(e.ExpiresAt <= f.s.GrantsEnd(), "session-life", "a session ends no later than the grant")
	f.s.Session = Session(e)
}

// Paused is run.paused.
type Paused struct {
	Stop stopcontext.Stop `json:"stopContext"`
}

func (Paused) EventType() string { return "run.paused" }

func (e Paused) apply(f *fold) {
	if !f.lapsedApproval() && !f.paid {
		f.status("paused-status", StatusReady, StatusRunning)
	}
	f.must(f.s.Permit == nil, "paused-with-permit", "a run does not pause with a live permit")
	asks := e.Stop.Category == stopcontext.CategoryApproval
	f.must(!asks || f.s.Config.Mode == ModeExact && f.s.Proposal != nil && f.s.Proposal.Live(f.now), "approval-unprepared", "approval is asked for without a prepared proposal in exact mode")
	f.tabled(e.Stop)
	f.must(e.Stop.Category != stopcontext.CategoryTerminal, "stop-table", "a terminal reason ends the run")
	stop := e.Stop
	f.s.Status, f.s.Stage, f.s.Stop = StatusPaused, "awaiting_owner", &stop
	f.rest()
	if asks {
		f.s.Stage = "awaiting_approval"
	}
}

// lapsedApproval reports whether the run waits for the approval of a proposal that
// does not stand any more.
func (f *fold) lapsedApproval() bool {
	return f.s.Status == StatusPaused && f.s.Stop != nil && f.s.Stop.Category == stopcontext.CategoryApproval && f.s.Proposal == nil
}

// Resumed is run.resumed: an attempt ended without a stop, or an owner mended one.
type Resumed struct {
	Cause string `json:"cause"`
}

// Causes of run.resumed. What an owner mends stands right before it.
const (
	CauseAttemptEnded = "attempt_ended"
	CauseLeaseExpired = "lease_expired"
	CauseApproved     = "approved"
	CauseClarified    = "clarified"
	CauseRetried      = "retried"
	CauseProbed       = "probed"  // a look-up found the receipt
	CauseReceipt      = "receipt" // it came late
)

func (Resumed) EventType() string { return "run.resumed" }

func (e Resumed) apply(f *fold) {
	switch e.Cause {
	case CauseApproved, CauseClarified, CauseRetried, CauseProbed, CauseReceipt:
		f.status("resumed-status", StatusPaused)
		f.must(f.paid, "resumed-cause", "no owner mended the stop")
		f.s.RetryStreak = 0
		if d := f.s.Decision; d != nil {
			answered := *d
			answered.Answered = true
			f.s.Decision = &answered
		}
	default:
		f.status("resumed-status", StatusRunning)
	}
	f.must(!f.s.Unresolved(), "resumed-unresolved", "a run does not go on with an unresolved effect")
	f.s.Status, f.s.Stop, f.s.Lease, f.s.Stage = StatusReady, nil, nil, "observing"
}

// Completed is run.completed.
type Completed struct {
	ExecutionID string `json:"executionId"`
}

func (Completed) EventType() string { return "run.completed" }

func (e Completed) apply(f *fold) {
	f.status("completed-status", StatusReady)
	f.must(f.s.Position() == "done", "completed-early", "a workflow postcondition is not verified")
	f.must(f.s.Committed, "completed-without-receipt", "the receipt that the target demands is missing")
	f.must(f.s.Permit == nil, "completed-with-permit", "a permit is still live")
	f.must(f.s.Observation != nil, "completed-unobserved", "no fresh observation follows the last receipt")
	f.execution(e.ExecutionID, "completed-unverified", ExecutionVerified)
	f.s.Status, f.s.Stage = StatusCompleted, "done"
}

// Revoked is run.revoked: the owner ended the run.
type Revoked struct {
	By   string           `json:"by"`
	Stop stopcontext.Stop `json:"stopContext"`
}

func (Revoked) EventType() string { return "run.revoked" }

func (e Revoked) apply(f *fold) { f.end(e.By == "owner", StatusRevoked, e.Stop) }

// Terminated is run.terminated: the guardian or a misused credential ended it.
type Terminated struct {
	Stop stopcontext.Stop `json:"stopContext"`
}

func (Terminated) EventType() string { return "run.terminated" }

func (e Terminated) apply(f *fold) { f.end(true, StatusTerminated, e.Stop) }

// Failed is run.failed: the run could not be initialized.
type Failed struct {
	Stop stopcontext.Stop `json:"stopContext"`
}

func (Failed) EventType() string { return "run.failed" }

func (e Failed) apply(f *fold) {
	f.status("failed-status", StatusCreated)
	f.end(true, StatusFailed, e.Stop)
}

func (f *fold) end(lawful bool, status string, stop stopcontext.Stop) {
	f.must(!f.s.Terminal(), "ended-twice", "the run has ended already")
	f.must(lawful, "revoked-by", "only an owner revokes")
	f.must(f.s.Permit == nil, "ended-with-permit", "unused permits are revoked before a run ends")
	f.tabled(stop)
	f.s.Status, f.s.Stage, f.s.Stop = status, "done", &stop
	f.rest()
}

// rest ends the lease of a run that goes no further, unless a dispatch is out: then it
// tells when that becomes unconfirmed.
func (f *fold) rest() {
	if x := f.s.Execution; (x == nil || x.State != ExecutionDispatched) && !f.s.Opening() {
		f.s.Lease = nil
	}
}

// GrantRevoked is grant.revoked.
type GrantRevoked struct {
	GrantID string `json:"grantId"`
	Cause   string `json:"cause"`
}

func (GrantRevoked) EventType() string { return "grant.revoked" }

func (e GrantRevoked) apply(f *fold) {
	g := f.s.Grant(e.GrantID)
	if f.must(g != nil && g.ExpiresAt > f.now, "grant-revoked", "the grant is not there or has ended") {
		g.ExpiresAt = f.now
	}
}

// Metrics is metrics: measured durations in microseconds (H-155). A duration
// that was not measured is null.
type Metrics struct {
	TurnID            *string `json:"turnId"`
	ExecutionID       *string `json:"executionId"`
	ExecutorMicros    *int64  `json:"executorMicros"`
	PolicyMicros      *int64  `json:"policyMicros"`
	GuardianMicros    *int64  `json:"guardianMicros"`
	ExecutionMicros   *int64  `json:"executionMicros"`
	ObservationMicros *int64  `json:"observationMicros"`
}

func (Metrics) EventType() string { return "metrics" }
func (Metrics) apply(*fold)       {}

// Refused is operation.refused: an authenticated request that was turned down
// without touching anything (L-3).
type Refused struct {
	PermitID   *string `json:"permitId"`
	ReasonCode string  `json:"reasonCode"`
	BodySHA256 string  `json:"bodySha256"`
}

func (Refused) EventType() string { return "operation.refused" }

func (e Refused) apply(f *fold) {
	f.s.Refusals++
	f.must(f.s.Refusals <= MaxRefusals, "refusal-limit", "at most 100 refusals of a run are recorded")
}
