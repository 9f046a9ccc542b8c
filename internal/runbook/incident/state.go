package incident

import (
	"crypto/sha256"
	"encoding/hex"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/machine"
)

// Session is everything that deciding about an incident session needs.
type Session struct {
	machine.Progress
	Status    string     `json:"status"`
	Version   int64      `json:"resourceVersion"` // from 1; staging, execution and reset add one
	Metrics   Metrics    `json:"metrics"`         // as they are now
	Staged    *Staged    `json:"staged"`
	Approval  *Approval  `json:"approval"`  // the newest of what is staged
	Approvals int64      `json:"approvals"` // that were given, over all
	Execution *Execution `json:"execution"` // the newest: what a client that lost its answer repeats

	Executions int64 `json:"executions"` // over all
}

// Staged is the mitigation that waits for an approval, or that was executed last.
type Staged struct {
	ProposalID     string        `json:"proposalId"`
	MitigationID   string        `json:"mitigationId"`
	Version        int64         `json:"resourceVersion"` // that staging made, and the digest covers
	Digest         string        `json:"actionDigest"`
	IdempotencyKey string        `json:"idempotencyKey"`
	StagedAt       evidence.Time `json:"stagedAt"`
}

// Approval is one approval of exactly one action: an exact grant for one use (R-015 to
// R-021), and whether it was used.
type Approval struct {
	Grant        authority.Grant `json:"grant"`
	Used         authority.Usage `json:"used"`
	Session      string          `json:"session"`
	IncidentID   string          `json:"incidentId"`
	MitigationID string          `json:"mitigationId"`
	Version      int64           `json:"resourceVersion"`
	Arrival      string          `json:"arrival"` // how it reached the server
	ApprovedAt   evidence.Time   `json:"approvedAt"`
	ConsumedAt   *evidence.Time  `json:"consumedAt"`
}

// ArrivalPageForm is how every approval arrives: with the one-time nonce that the page's
// approval form was given for this session, digest and version (L-9). It shows that whoever
// approved had that page, and not that a person pressed the button.
const ArrivalPageForm = "page-form-nonce"

// Consumed reports whether the one use of the approval is used up.
func (a *Approval) Consumed() bool {
	return a.ConsumedAt != nil || !a.Grant.UsesLeft(ToolOf(Execute), a.Used)
}

// Live reports whether the approval lets an execution pass at now.
func (a *Approval) Live(now evidence.Time) bool { return !a.Consumed() && a.Grant.Live(now) }

// Execution is the record of one execution. An exact retry gets it again.
type Execution struct {
	ID             string        `json:"id"`
	MitigationID   string        `json:"mitigationId"`
	Digest         string        `json:"actionDigest"`
	Version        int64         `json:"resourceVersion"` // that was executed; the session is one further after it
	IdempotencyKey string        `json:"idempotencyKey"`
	ApprovalID     string        `json:"approvalId"`
	Outcome        string        `json:"outcome"` // success or partial_failure
	Status         string        `json:"status"`  // that it led to
	Before         Metrics       `json:"before"`
	After          Metrics       `json:"after"`
	ExecutedAt     evidence.Time `json:"executedAt"`
}

// definition is the machine. A chain begins with the receipt that states its subject.
var definition = machine.Definition[Session]{
	Kind: Kind, Version: Version, Limit: MaxReceipts,
	Progress: func(s *Session) *machine.Progress { return &s.Progress },
	Events:   func() []machine.Event[Session] { return []machine.Event[Session]{&Receipt{}} },
	Begins:   func(e machine.Event[Session]) bool { return e.(*Receipt).Subject != nil },
}

// Decode reads a stored session and refuses another machine's.
func Decode(raw []byte) (*Session, error) { return definition.Decode(raw) }

// EventTypes lists the types of the machine's events.
func EventTypes() []string { return definition.Types() }

// New is a session in which nothing has happened.
func New() *Session {
	return &Session{Status: Investigating, Version: 1, Metrics: TheIncident.Baseline}
}

// Digest names the action that applies a mitigation at a version (R-023, G-27).
func Digest(mitigationID string, version int64) string {
	return authority.Digest(authority.DomainRunbook, struct {
		IncidentID      string `json:"incidentId"`
		MitigationID    string `json:"mitigationId"`
		ResourceVersion int64  `json:"resourceVersion"`
	}{TheIncident.ID, mitigationID, version})
}

// Key is the idempotency key of an action in a session (R-024, G-27).
func Key(session, digest string) string {
	sum := sha256.Sum256([]byte("execute:" + session + ":" + digest))
	return "rr_" + hex.EncodeToString(sum[:16])
}

// SessionID makes the id of a session that begins at a time, from the hash that its cookie
// is kept as: a UUIDv7 (RFC 9562) whose random bits are those of the hash. hash is lowercase
// hex SHA-256.
func SessionID(at evidence.Time, hash string) string {
	const variants = "89ab"
	v := variants[hash[3]&3]
	ms := hexMillis(at)
	return "ses_" + ms + "7" + hash[:3] + string(v) + hash[4:19]
}

func hexMillis(at evidence.Time) string {
	var b [6]byte
	for i := range b {
		b[i] = byte(int64(at) >> (8 * (5 - i)))
	}
	return hex.EncodeToString(b[:])
}

// IsSessionID reports whether s has the form of a session's id that began at a time.
func IsSessionID(s string, at evidence.Time) bool {
	const prefix, digits = "ses_", 32
	if len(s) != len(prefix)+digits || s[:len(prefix)] != prefix || s[4:16] != hexMillis(at) {
		return false
	}
	u := s[4:]
	return authority.IsID(u[:8] + "-" + u[8:12] + "-" + u[12:16] + "-" + u[16:20] + "-" + u[20:])
}

// Identity is how receipts and pages name a session's browser: by the end of its id, which
// was derived from the hash of the cookie. It names no person.
func Identity(session string) string {
	return "anonymous browser session " + session[max(0, len(session)-12):]
}
