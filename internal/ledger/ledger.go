// Package ledger defines the one write of countersign: a guarded commit that
// stores a transition and its evidence together or not at all.
//
// A subject is a thing with state: a run, a local service's state for one run,
// the workspace. A caller loads subjects, lets a pure function decide, and
// hands the outcome as one [Change] to Commit. The ledger stores every part of
// the Change or none. It answers one of four outcomes, see [Outcome]; a caller
// that gets [Conflict] reloads and decides again, and never patches.
//
// Two engines implement the same methods: package sqlite (embedded, one
// process) and package postgres (several replicas). Package ledgertest runs the
// same tests on both. This package holds only the words they share and the
// in-process wake-ups ([Hub]).
package ledger

import (
	"errors"
	"fmt"
	"time"

	"countersign/evidence"
)

// DefaultWorkspace is the one workspace of an installation (H-024).
const DefaultWorkspace = "default"

// Kinds of subject.
const (
	KindRun       = "run"       // a supervised run
	KindService   = "service"   // a local service's state for one run; has no events of its own
	KindWorkspace = "workspace" // freezes and other facts of the whole workspace
)

// Attributes of the workspace subject that engines look at.
const (
	// AttributeFrozen freezes the workspace: a Change with Freezable is refused
	// while it is there.
	AttributeFrozen = "frozen"
	// AttributeFreezes is how many freezes the workspace has seen, as a decimal
	// number; absent: none. A Change with Freezable states it.
	AttributeFreezes = "freezes"
)

var (
	// ErrNotFound is returned by reads for what the ledger does not hold.
	ErrNotFound = errors.New("ledger: not found")
	// ErrQueueFull is the cause of [NotStored] when the commit queue has no room.
	ErrQueueFull = errors.New("ledger: commit queue is full, try again")
	// ErrClosed is the cause of [NotStored] after Close.
	ErrClosed = errors.New("ledger: closed")
)

// Key names a subject.
type Key struct{ Workspace, Kind, ID string }

func (k Key) String() string { return k.Workspace + "/" + k.Kind + "/" + k.ID }

// Subject is a subject as it was read.
type Subject struct {
	Key
	Revision  int64     // the ledger's guard, from 1; never leaves the ledger
	Sequence  int64     // of the newest event, 0 when there is none
	Head      string    // hash of the newest event, evidence.Genesis when there is none
	State     []byte    // canonical JSON, the bytes that were stored
	Due       time.Time // when settling has work to do; zero when never
	UpdatedAt time.Time // timestamp of the newest event; zero when there is none
}

// NewSubject is a subject that is not there yet.
func NewSubject(key Key) Subject { return Subject{Key: key, Head: evidence.Genesis} }

// Link is where the next event of the subject goes.
func (s Subject) Link() evidence.Link { return evidence.Link{Sequence: s.Sequence, Hash: s.Head} }

// Overdue is a subject whose Due has come, and when that was.
type Overdue struct {
	Key
	Since time.Time
}

// Attribute is what lists filter by. A subject has at most one value a name.
type Attribute struct{ Name, Value string }

// Write is the next state of one subject.
type Write struct {
	Key
	Revision   int64            // the revision read; 0 creates and requires absence
	Head       string           // the head read; evidence.Genesis for a new subject
	State      []byte           // canonical JSON, at most MaxState bytes
	Due        time.Time        // zero: never
	Attributes []Attribute      // replace all of the subject's attributes
	Events     []evidence.Event // appended; sealed behind the head read
	Texts      []evidence.Text  // erasable texts that the events commit to
	Sealed     []Sealed         // encrypted values, replaced by name
}

// MaxState is the largest state of a subject in bytes.
const MaxState = 32 << 10

// Sealed is a value encrypted under the sealing key, such as a hosted session.
type Sealed struct {
	Name  string
	Bytes []byte // nil removes
}

// Guard is a subject that a decision leaned on and does not write: its revision
// is checked and not bumped.
type Guard struct {
	Key
	Revision int64 // 0 requires absence
}

// Record remembers that an idempotency key created an object or claimed an
// effect. It lives as long as the row it answers for.
type Record struct {
	Workspace   string
	Principal   string // run session, named client or incident session; never a token
	Key         string
	Fingerprint string // lowercase hex SHA-256 over operation, resource, permit id, body digest
	Subject     Key    // whose chain tells the answer
	Object      string // execution id or another object of that chain
	Sequence    int64  // of the event that the record came with
}

// Fate is the one end that an issued permit has. Written once: a second fate of
// the same permit is a conflict, which makes a permit single-use even if every
// other guard failed.
type Fate struct {
	Workspace string
	PermitID  string
	Subject   Key
	Fate      string // claimed, expired or revoked
	Cause     string // of a revocation: owner, state, terminate, session
	Execution string // the execution that claimed it; empty otherwise
}

// Credential is a hashed secret: a login session or a restricted token.
type Credential struct {
	Workspace  string
	Hash       string // lowercase hex SHA-256 of the secret
	Kind       string // CredentialOwner, CredentialRun, CredentialContext or CredentialIncident
	Subject    string // run, context client or incident session; empty for an owner session
	Generation int64  // compared with the generation in the subject's state
	Origin     string // origin recorded at issue
	ExpiresAt  time.Time
}

// Kinds of credential.
const (
	CredentialOwner    = "owner"
	CredentialRun      = "run"
	CredentialContext  = "context"
	CredentialIncident = "incident"
)

// Change is one transition: everything in it is stored, or nothing.
type Change struct {
	Writes      []Write
	Guards      []Guard
	Record      *Record
	Fates       []Fate
	Credentials []Credential // inserted; the same hash again is a conflict
	Revoke      []string     // credential hashes to delete in Writes' workspace or Workspace
	Workspace   string       // of the freeze check and of Revoke
	NotAfter    time.Time    // zero: no limit; at commit now >= NotAfter is a conflict
	Freezable   bool         // issues, claims or dispatches: refused while the workspace is frozen
	FreezeEpoch int64        // of a Freezable Change: the freezes that the workspace has seen; another number is a conflict
}

// Outcome says what became of a Change.
type Outcome uint8

const (
	// Stored: every part is durable.
	Stored Outcome = iota + 1
	// Conflict: a guard failed and no row was left. Reload and decide again.
	Conflict
	// NotStored: no row was left, for a reason that is not a guard (queue full,
	// I/O error, closed). The same Change may be tried again.
	NotStored
	// Unknown: the ledger cannot say. After an unknown commit of a dispatch
	// intent nothing may be sent.
	Unknown
)

func (o Outcome) String() string {
	switch o {
	case Stored:
		return "stored"
	case Conflict:
		return "conflict"
	case NotStored:
		return "not stored"
	case Unknown:
		return "unknown"
	}
	return "invalid outcome"
}

// Which names the guard that failed.
type Which string

// Guards of a Change.
const (
	OnSubject    Which = "subject"    // revision or head of a Write
	OnGuard      Which = "guard"      // revision of a read guard
	OnRecord     Which = "record"     // the idempotency key exists
	OnPermit     Which = "permit"     // the permit has a fate already
	OnCredential Which = "credential" // the hash exists
	OnExpiry     Which = "expired"    // NotAfter has come
	OnFreeze     Which = "frozen"     // the workspace is frozen
	OnEpoch      Which = "epoch"      // the workspace has seen another number of freezes
)

// Result is the answer of Commit. Cause explains NotStored and Unknown for
// operators; Which and On say what failed in a Conflict.
type Result struct {
	Outcome Outcome
	Which   Which
	On      Key // of the subject or guard; zero otherwise
	Cause   error
}

// Err returns nil for Stored and an error that says the rest.
func (r Result) Err() error {
	switch r.Outcome {
	case Stored:
		return nil
	case Conflict:
		return fmt.Errorf("ledger: conflict on %s %s", r.Which, r.On)
	default:
		return fmt.Errorf("ledger: %s: %w", r.Outcome, r.Cause)
	}
}

// Query selects subjects of one kind, newest first. Where holds attributes that
// must all match. Limit is at most 100.
type Query struct {
	Workspace, Kind string
	Where           []Attribute
	Before          string // id: only subjects that are older; the cursor of the next page
	Limit           int
}
