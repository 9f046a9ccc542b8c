package incident

// Reason codes of the incident workflow. Append-only: they travel on the wire and in
// receipts. The table of package edge gives each its status and advice (G-24).
const (
	NothingStaged       = "nothing_staged"
	InvalidMitigation   = "invalid_mitigation"
	StaleState          = "stale_state"
	StaleApproval       = "stale_approval"
	StaleExecution      = "stale_execution"
	StaleReset          = "stale_reset"
	ApprovalRequired    = "approval_required"
	IdentityMismatch    = "identity_mismatch"
	ApprovalExpired     = "approval_expired"
	ApprovalConsumed    = "approval_consumed"
	IdempotencyConflict = "idempotency_conflict"
	ReceiptConflict     = "receipt_conflict"
	ExecutionConflict   = "execution_conflict"
	RecoveryFirst       = "recovery_required" // ours: after a partial failure only a reset is taken
	OriginRejected      = "origin_rejected"
	ContentTypeRejected = "content_type_rejected"
	InvalidJSON         = "invalid_json"
	InvalidRequest      = "invalid_request"
	ControlPlaneDown    = "control_plane_unavailable"
)
