package authority

import (
	"errors"
	"slices"
)

// Reason codes, append-only because they travel on the wire and in evidence.
// api/reasons.md says for each: status, meaning, what the caller does next.
const (
	// Proposal shape.
	MalformedProposal    = "MALFORMED_PROPOSAL"
	MalformedModelReport = "MALFORMED_MODEL_REPORT"
	InvalidSelection     = "INVALID_SELECTION"
	// Freshness and evidence.
	MissingEvidence = "MISSING_EVIDENCE"
	StaleState      = "STALE_STATE"
	StaleTarget     = "STALE_TARGET"
	// Authority.
	ForbiddenOperation = "FORBIDDEN_OPERATION"
	GrantExpired       = "GRANT_EXPIRED"
	GrantExhausted     = "GRANT_EXHAUSTED"
	ArgumentMismatch   = "ARGUMENT_MISMATCH"
	EffectMismatch     = "EFFECT_MISMATCH"
	ApprovalRequired   = "APPROVAL_REQUIRED"
	BudgetExceeded     = "BUDGET_EXCEEDED"
	// Guardian.
	Relevant           = "RELEVANT"
	AmbiguousGoal      = "AMBIGUOUS_GOAL"
	IrrelevantAction   = "IRRELEVANT_ACTION"
	GoalDrift          = "GOAL_DRIFT"
	InjectionSuspected = "INJECTION_SUSPECTED"
	Unsafe             = "UNSAFE"
	GuardianMalformed  = "GUARDIAN_MALFORMED"
	GuardianTerminated = "GUARDIAN_TERMINATED"
	ProviderTimeout    = "PROVIDER_TIMEOUT"
	ProviderError      = "PROVIDER_ERROR"
	// Managed executor.
	ClarificationRequested = "CLARIFICATION_REQUESTED"
	AuthorizationRequired  = "AUTHORIZATION_REQUIRED"
	ExecutorRefused        = "EXECUTOR_REFUSED"
	ProviderRefused        = "PROVIDER_REFUSED"
	ProviderUnconfigured   = "PROVIDER_UNCONFIGURED"
	ModelCallLimit         = "MODEL_CALL_LIMIT"
	AttemptInProgress      = "ATTEMPT_IN_PROGRESS"
	// Permits and operations.
	PermitRequired      = "PERMIT_REQUIRED"
	PermitMismatch      = "PERMIT_MISMATCH"
	PermitRevoked       = "PERMIT_REVOKED"
	PermitExpired       = "PERMIT_EXPIRED"
	PermitConsumed      = "PERMIT_CONSUMED"
	PermitOutstanding   = "PERMIT_OUTSTANDING"
	IdempotencyConflict = "IDEMPOTENCY_CONFLICT"
	UnresolvedEffect    = "UNRESOLVED_EFFECT"
	InProgress          = "IN_PROGRESS"
	DispatchUnconfirmed = "DISPATCH_UNCONFIRMED"
	ReceiptMissing      = "RECEIPT_MISSING"
	VerificationDiffers = "VERIFICATION_MISMATCH"
	ExecutionNotApplied = "EXECUTION_NOT_APPLIED"
	HostedUnreachable   = "HOSTED_UNREACHABLE"
	// Run.
	RunNotReady         = "RUN_NOT_READY"
	ApprovalStale       = "APPROVAL_STALE"
	RecoveryNotEligible = "RECOVERY_NOT_ELIGIBLE"
	StopVersionUnknown  = "STOP_VERSION_UNKNOWN"
	PermitStillLive     = "PERMIT_STILL_LIVE"
	TurnLimit           = "TURN_LIMIT"
	OwnerRevoked        = "OWNER_REVOKED"
	CredentialMisuse    = "CREDENTIAL_MISUSE"
	Frozen              = "FROZEN"
	// Workspace.
	RevisionConflict     = "REVISION_CONFLICT"
	GuardianNotVerified  = "GUARDIAN_NOT_VERIFIED"
	GuardianNotPublished = "GUARDIAN_NOT_PUBLISHED"
	GuardianDegraded     = "GUARDIAN_DEGRADED"
	GuardianMismatch     = "GUARDIAN_MISMATCH"
	WorkspaceLimit       = "WORKSPACE_LIMIT"
	AlreadyExists        = "ALREADY_EXISTS"
	ClientRevoked        = "CLIENT_REVOKED"
	// Requests.
	InvalidRequest = "INVALID_REQUEST"
	NotImplemented = "NOT_IMPLEMENTED"
	NotFound       = "NOT_FOUND"
)

// Denial is a refusal: nothing was issued, claimed or sent. Detail is a
// sentence for the caller and holds nothing that was submitted.
type Denial struct {
	Reason string
	Detail string
}

func (d *Denial) Error() string { return d.Reason + ": " + d.Detail }

// Denied reports whether err is a denial for one of the reasons.
func Denied(err error, reasons ...string) bool {
	d, ok := errors.AsType[*Denial](err)
	return ok && slices.Contains(reasons, d.Reason)
}
