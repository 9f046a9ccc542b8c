package turn

// Reason codes of the context perimeter in the order in which its routes check
// them. Append-only: they travel on the wire. The table of package edge gives each
// its status and advice.
const (
	// The request as it came.
	HTTPSRequired = "https_required"
	ContentType   = "content_type"
	TooLarge      = "too_large"
	// Who is asking, and where.
	TokenMissing           = "token_missing"
	TokenInvalid           = "token_invalid"
	ProjectNotFound        = "project_not_found"
	NamedClientRequired    = "named_client_required"
	BridgeClientRequired   = "bridge_client_required"
	TurnProtocolNotEnabled = "turn_protocol_not_enabled"
	EnvironmentMismatch    = "environment_mismatch"
	ProfileMismatch        = "profile_mismatch"
	// What it says.
	BodyInvalid      = "body_invalid"
	UnknownField     = "unknown_field"
	EventNotAllowed  = "event_not_allowed"
	ToolNotAllowed   = "tool_not_allowed"
	StatusNotAllowed = "status_not_allowed"
	ValueTooLong     = "value_too_long"
	// Its key, its turn.
	IdempotencyKeyInvalid = "idempotency_key_invalid"
	IdempotencyConflict   = "idempotency_conflict"
	IdempotencyInProgress = "idempotency_in_progress"
	TurnRequired          = "turn_required"
	TurnIDInvalid         = "turn_id_invalid"
	TurnNotFound          = "turn_not_found"
	TurnClosed            = "turn_closed"
	TurnExpired           = "turn_expired"
	LimitReached          = "limit_reached"
	// What it asks for.
	BuildMissing = "build_missing"
	BuildOpening = "build_opening"
	ItemNotFound = "item_not_found"
)
