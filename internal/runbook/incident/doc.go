// Package incident is the state machine of a governed incident session as pure functions:
// one synthetic incident, three predefined mitigations, and who may have which of them
// applied (requirements section 2, G-24 to G-27).
//
//	(nothing) --read, compare, blocked--> investigating
//	any but recovery-required --stage--> awaiting-approval            version + 1
//	awaiting-approval --approve--> awaiting-approval                  a live approval, five minutes
//	awaiting-approval --[approval live, unused] execute--> mitigated | monitoring | recovery-required
//	                                                                  version + 1
//	any --reset--> investigating                                      version + 1, receipts stay
//
// Every interface can request a transition. Whether it happens is decided here, from a
// state that was read and facts that were looked up ([Seen]), by [Deciding.Do]: nothing
// that a caller claims about approval counts.
//
// # The order of refusals
//
// An execution is answered from its record first: the same key, digest and version is a
// replay, whatever has become of version and approval since; the same key with another
// digest or version is idempotency_conflict. Then nothing_staged, stale_execution,
// approval_required, identity_mismatch, approval_consumed, approval_expired (G-25), and a
// key that is no session's for this action, stale_execution again. Expiry is inclusive.
//
// # Receipts
//
// A chain is its receipts and nothing else: one event type, [Receipt], the first of which
// also states the subject. Every tool call and every approval leaves one, blocked ones
// too; a request that named an old version when it staged, approved or reset, or that lost
// its race, leaves none (R-040, G-26). The last 1,000 places of a chain are spared for
// approvals, executions, exact retries and resets: reading, staging and being refused, which
// an agent can do without end, do not keep a person's approval out. A blocked receipt says the reason, and a replay of
// the chain decides again and compares. The channel is what the caller says it is.
//
// The incident is a fixture: nothing here changes a production system.
package incident

import "time"

// Kind of subject.
const Kind = "incident"

// Version of the state machine. It stands in the first event of a chain and never changes
// for that chain.
const Version = 1

// Bounds.
const (
	SessionLife  = 24 * time.Hour  // of a session and its cookie (G-24, L-14)
	ApprovalLife = 5 * time.Minute // of an approval
	MaxReceipts  = 10_000          // of one session
	MaxWord      = 64              // characters of a mitigation's name in a request

	// The last places of a chain are spared: SparedReceipts of them for approvals,
	// executions, exact retries and resets, of which LastReceipts for what changes the
	// incident or makes an approval.
	SparedReceipts = 1_000
	LastReceipts   = 100
)

// Operations that may be asked for.
const (
	Snapshot = "snapshot"
	Compare  = "compare"
	Stage    = "stage"
	Approve  = "approve"
	Execute  = "execute"
	Reset    = "reset"
)

// Operations lists the operations.
var Operations = []string{Snapshot, Compare, Stage, Approve, Execute, Reset}

// tools are the tools by operation. There is none that approves.
var tools = map[string]string{
	Snapshot: "get_incident_snapshot", Compare: "compare_mitigations", Stage: "stage_mitigation", Execute: "execute_approved_mitigation", Reset: "reset_incident_simulation",
}

// ToolOf returns the tool of an operation; "" of approve, which has none.
func ToolOf(operation string) string { return tools[operation] }

// Channels through which a request says that it came. Only for approve does it matter, and
// there it is the page's form that counts.
const (
	Human     = "human"     // a control of the page
	WebMCP    = "webmcp"    // a tool that the browser really has
	Simulator = "simulator" // the page's labelled simulator of the tools
	API       = "api"       // a program
)

// Channels lists the channels.
var Channels = []string{Human, WebMCP, Simulator, API}

// Status of the incident (G-24).
const (
	Investigating    = "investigating"
	AwaitingApproval = "awaiting-approval"
	Mitigated        = "mitigated"
	Monitoring       = "monitoring"        // applied, and a target is missed
	RecoveryRequired = "recovery-required" // applied in part
)

// What a receipt tells.
const (
	EventRead     = "incident.read"
	EventCompared = "mitigations.compared"
	EventStaged   = "mitigation.staged"
	EventApproved = "approval.granted"
	EventRepeated = "approval.repeated" // asked for again while it lives: the same record
	EventExecuted = "mitigation.executed"
	EventReplayed = "execution.replayed"
	EventReset    = "incident.reset"
	EventBlocked  = "request.blocked"
)

// Outcomes of a receipt (G-26).
const (
	Success        = "success"
	Blocked        = "blocked"
	Error          = "error" // there is no such mitigation
	PartialFailure = "partial_failure"
)
