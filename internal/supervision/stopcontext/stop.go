// Package stopcontext is the one table of what a reason means for a run: the category
// of the stop, who can mend it and how, and the sentence that says so (H-185, G-02). It
// classifies; it permits nothing. Everything here is pure.
package stopcontext

import (
	"maps"
	"slices"

	"countersign/internal/authority"
)

// StopVersion is the version of a stopContext. Recovery refuses any other.
const Version = 1

// Stop says why a run is not going on (H-185, G-02). It is the runtime's
// classification, never a permission.
type Stop struct {
	Version       int64   `json:"version"`
	Category      string  `json:"category"`
	Source        string  `json:"source"`
	ReasonCode    string  `json:"reasonCode"`
	Message       string  `json:"message"`
	Recovery      string  `json:"recovery"`
	AttemptID     string  `json:"attemptId"`
	ObservationID *string `json:"observationId"`
	Dispatch      string  `json:"dispatch"` // none, permitted, claimed, dispatched, receipted
}

// Categories of a stop.
const (
	CategoryApproval       = "approval"
	CategoryClarification  = "clarification"
	CategoryRefusal        = "refusal"
	CategoryRetry          = "retry"
	CategoryConfiguration  = "configuration"
	CategoryAuthority      = "authority"
	CategoryLimit          = "limit"
	CategoryReconciliation = "reconciliation"
	CategoryTerminal       = "terminal"
)

// Sources of a stop.
const (
	SourceGuardian   = "guardian"
	SourceHardPolicy = "hard_policy"
	SourceRuntime    = "runtime"
	SourceHosted     = "hosted"
	SourceOwner      = "owner"
	SourceProvider   = "provider"
	SourceExecutor   = "executor"
)

type stopKind struct{ category, recovery, message string }

// stops is the table of G-02: what each reason means for the run.
var stops = map[string]stopKind{
	authority.AmbiguousGoal:          {CategoryClarification, "clarify", "The guardian cannot tell whether the action serves the goal."},
	authority.IrrelevantAction:       {CategoryClarification, "clarify", "The guardian judged the action irrelevant to the goal."},
	authority.GoalDrift:              {CategoryClarification, "clarify", "The guardian saw the work drift away from the goal."},
	authority.InjectionSuspected:     {CategoryClarification, "clarify", "The guardian suspects instructions inside untrusted content."},
	authority.Unsafe:                 {CategoryClarification, "clarify", "The guardian judged the action unsafe."},
	authority.ForbiddenOperation:     {CategoryClarification, "clarify", "The operation is not listed, not granted, or outside the owner's terms."},
	authority.ArgumentMismatch:       {CategoryClarification, "clarify", "The action differs from the catalog's entry."},
	authority.EffectMismatch:         {CategoryClarification, "clarify", "The expected effect differs from the catalog's entry or the prepared proposal."},
	authority.ClarificationRequested: {CategoryClarification, "clarify", "The executor asks the owner a question."},
	authority.BudgetExceeded:         {CategoryClarification, "clarify", "The amount does not fit what is left of the budget."},

	authority.ExecutorRefused: {CategoryRefusal, "clarify", "The executor refused to propose an action."},
	authority.ProviderRefused: {CategoryRefusal, "clarify", "The model provider refused to answer."},

	authority.MalformedProposal:    {CategoryRetry, "retry", "The report breaks its schema."},
	authority.MalformedModelReport: {CategoryRetry, "retry", "The executor's answer was malformed, and so was its repair."},
	authority.InvalidSelection:     {CategoryRetry, "retry", "The report does not select exactly one proposed candidate."},
	authority.StaleTarget:          {CategoryRetry, "retry", "The target is not in the current catalog."},
	authority.StaleState:           {CategoryRetry, "retry", "The observation is no longer current."},
	authority.MissingEvidence:      {CategoryRetry, "retry", "The report does not rest on the evidence it needs."},
	authority.PermitExpired:        {CategoryRetry, "retry", "The permit expired before it was used."},
	authority.GuardianMalformed:    {CategoryRetry, "retry", "The guardian's answer was unusable."},
	authority.ProviderTimeout:      {CategoryRetry, "retry", "The model provider did not answer in time."},
	authority.ProviderError:        {CategoryRetry, "retry", "The model provider failed to answer."},
	authority.ExecutionNotApplied:  {CategoryRetry, "retry", "The execution took no effect."},

	authority.ProviderUnconfigured: {CategoryConfiguration, "retry", "The run's model provider is not configured."},
	authority.HostedUnreachable:    {CategoryConfiguration, "retry", "The store could not be reached; nothing was sent."},
	authority.Frozen:               {CategoryConfiguration, "retry", "The run met a freeze of the workspace."},

	authority.ApprovalRequired: {CategoryApproval, "approve", "The prepared proposal waits for the owner's approval."},

	authority.GrantExpired:          {CategoryAuthority, "none", "The grant has expired; a new run is needed."},
	authority.GrantExhausted:        {CategoryAuthority, "none", "The grant allows no further use of this operation; a new run is needed."},
	authority.AuthorizationRequired: {CategoryAuthority, "none", "The executor says that it needs an authority which nothing here can give; a new run is needed."},
	authority.ModelCallLimit:        {CategoryLimit, "none", "The run has made its 40 model calls; a new run is needed."},
	authority.TurnLimit:             {CategoryLimit, "none", "The run has reached its bound of turns or events; a new run is needed."},

	authority.DispatchUnconfirmed: {CategoryReconciliation, "reconcile", "A request left and no receipt came back; whether it took effect is unknown."},
	authority.ReceiptMissing:      {CategoryReconciliation, "reconcile", "The receipt the target demands is missing."},
	authority.VerificationDiffers: {CategoryReconciliation, "reconcile", "What is known now differs from what the action promised, or from what the owner stated."},

	authority.OwnerRevoked:       {CategoryTerminal, "none", "The owner revoked the run."},
	authority.GuardianTerminated: {CategoryTerminal, "none", "The guardian terminated the run."},
	authority.CredentialMisuse:   {CategoryTerminal, "none", "A credential of the run was misused."},
}

// Category returns the category of a reason, or "" when it stops nothing.
func Category(reason string) string { return stops[reason].category }

// Tabled reports whether a stop says of its reason what the table says.
func (s *Stop) Tabled() bool {
	kind, known := stops[s.ReasonCode]
	return known && s.Version == Version && s.Category == kind.category && s.Recovery == kind.recovery
}

// NewStop classifies a reason.
func New(reason, source, attemptID string) *Stop {
	kind := stops[reason]
	return &Stop{
		Version: Version, Category: kind.category, Source: source, ReasonCode: reason,
		Message: kind.message, Recovery: kind.recovery, AttemptID: attemptID, Dispatch: "none",
	}
}

// Message is the fixed sentence of a reason, or "" for a reason that is none of
// the table.
func Message(reason string) string { return stops[reason].message }

// AfterFreeze says what a run waits for that met a freeze: that depends on whether one
// stands now.
func AfterFreeze(frozen bool) string {
	if frozen {
		return "The workspace is frozen; the run can be retried once the freeze is lifted."
	}
	return "The freeze was lifted: an owner can retry the run."
}

// Reasons returns the reasons that stop a run, in their order.
func Reasons() []string { return slices.Sorted(maps.Keys(stops)) }
