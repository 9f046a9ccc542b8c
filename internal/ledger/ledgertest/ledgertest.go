// Package ledgertest is the exerciser of the ledger's engines: one list of
// tests that every engine passes, with faults injected at every write.
//
// An engine's own test package describes itself with a [Backend], hands it to
// [Main] from TestMain and to [Run] from one test:
//
//	func TestMain(m *testing.M) { ledgertest.Main(m, backend) }
//	func TestLedger(t *testing.T) { ledgertest.Run(t, backend) }
//
// Main is needed because some tests start the test binary again as a child and
// kill it. Run gives every test its name from one table, so that the lists of
// two engines can be compared by name; [Names] returns it.
//
// A safety test has a negative control, which runs the same check against the
// same engine with one guard switched off, and fails when the check does not
// notice. Checks that return an error have it beside them; those that report to a
// testing.TB have it in one table ([RunControls]).
package ledgertest

import (
	"context"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// Engine is what both engines offer to the control plane. All methods are safe
// for concurrent use.
type Engine interface {
	// Commit stores a Change or none of it. A Change that is not well formed
	// ([ledger.Change.Validate]) is NotStored. A caller whose context ends while its
	// Change is queued or being written gets Unknown with the context's error;
	// the Change keeps its fate. NotAfter is compared with the time of the
	// transaction, which is never before the newest event of the Change. A context that has ended before the call is
	// NotStored.
	Commit(ctx context.Context, c ledger.Change) ledger.Result
	// Now returns the time that decisions and expiries are measured with.
	Now(ctx context.Context) (time.Time, error)
	// Load reads a subject and the time that came with the read, which is not
	// before the subject's UpdatedAt. The time is valid with ErrNotFound too.
	Load(ctx context.Context, key ledger.Key) (ledger.Subject, time.Time, error)
	// Events returns the events of a subject with a sequence above after, in
	// order; none is no error. A limit below 1 or above 1,000 means 1,000.
	Events(ctx context.Context, key ledger.Key, after int64, limit int) ([]evidence.Event, error)
	// Find returns subjects, newest id first. A limit below 1 or above 100 means 100.
	Find(ctx context.Context, q ledger.Query) ([]ledger.Subject, error)
	// Record, Fate and Credential read one row each or return ErrNotFound. An
	// expired credential is returned: the caller compares with the time.
	Record(ctx context.Context, workspace, principal, key string) (ledger.Record, error)
	Fate(ctx context.Context, workspace, permitID string) (ledger.Fate, error)
	Credential(ctx context.Context, workspace, hash string) (ledger.Credential, time.Time, error)
	// Texts returns the texts of a subject that are not erased, by commitment.
	Text(ctx context.Context, key ledger.Key, commitment string) (evidence.Text, error)
	Texts(ctx context.Context, key ledger.Key) ([]evidence.Text, error)
	// EraseText removes salt and text for good; ErrNotFound when they are not there.
	EraseText(ctx context.Context, key ledger.Key, commitment string) error
	// SealedValue returns an encrypted value or ErrNotFound.
	SealedValue(ctx context.Context, key ledger.Key, name string) ([]byte, error)
	// PutBlobs stores what is not there yet. It is not one transaction: after an
	// error a part may be stored, and the same call may be made again. What
	// [ledger.CheckBlobs] refuses leaves nothing.
	PutBlobs(ctx context.Context, blobs []ledger.Blob) error
	// Blobs returns those that exist, in the order asked; Missing the hashes of the
	// others. What [ledger.CheckHashes] refuses is an error.
	Blobs(ctx context.Context, workspace string, hashes []string) ([]ledger.Blob, error)
	Missing(ctx context.Context, workspace string, hashes []string) ([]string, error)
	// Due returns subjects whose Due is not after now, longest overdue first and by
	// key where that is equal: those behind after, which is zero or one of an earlier
	// answer. A limit below 1 or above 1,000 means 1,000.
	Due(ctx context.Context, after ledger.Overdue, limit int) ([]ledger.Overdue, error)
	// Watch wakes after a commit that wrote the subject.
	Watch(key ledger.Key) *ledger.Watcher
	// CheckInstallation stores the fingerprints on the first call ever and
	// refuses any other set afterwards.
	CheckInstallation(ctx context.Context, fingerprints map[string]string) error
	// Ping writes to the database, so that nil means: a commit is possible.
	Ping(ctx context.Context) error
	// Holder names this opening as the holder of leases; HolderAlive says
	// whether the opening of that name still lives.
	Holder() string
	HolderAlive(ctx context.Context, holder string) (bool, error)
	// Close finishes what is queued and frees everything. Later commits are
	// NotStored with ErrClosed. A second Close returns nil.
	Close() error
}

// Options of one opening.
type Options struct {
	Clock       *ledger.Clock            // nil: the system's time
	BatchLimit  int                      // most Changes in one group; 0: the engine's default
	QueueSize   int                      // most Changes that wait; 0: the engine's default
	Fault       func(point string) error // called at every fail point; an error is taken as the engine's own; may block
	AfterCommit func()                   // called after each COMMIT, before the answers
}

// Backend describes an engine to the exerciser.
type Backend struct {
	Name string

	// Points are all fail points in the order of a commit. The first is reached
	// once a transaction before anything is sent to the database.
	Points []string
	// Durable are those of the points at which the transaction is stored
	// already: a fault there is "stored but reported failed".
	Durable []string
	// Migrations are the migrations' names, in order. They must equal [Migrations].
	Migrations []string
	// Replicas is how many openings of one database may live at once.
	Replicas int
	// Writers is how many transactions can be under way at once in one opening:
	// when that many are held at Points[0], the next Commit waits in the queue.
	Writers int

	// Create makes an empty, migrated database that is removed when the test
	// ends, and returns where it is: any string that Open understands, in
	// another process too.
	Create func(t testing.TB) (location string)
	// Open opens what Create made.
	Open func(ctx context.Context, location string, o Options) (Engine, error)
	// Gone returns when no transaction of a process that was killed is under way
	// any more: a server may still be committing the last one. nil where a process
	// takes its transactions with it.
	Gone func(t testing.TB, location string)
	// DiskFull and IOError let the database run into a full disk and into a write
	// or read that fails.
	DiskFull, IOError Refusal
	// Divides says that a Change which the storage refuses takes no other Change
	// of its group with it.
	Divides bool
	// Moments are the points of a commit that lie in a server.
	Moments []Moment
	// Rows counts the rows of every table but the migration record, read behind
	// the engine's back while it is open.
	Rows func(t testing.TB, location string) map[string]int64

	weaken weakening // negative controls only
}

// Migrations are the names that every engine's migrations have.
var Migrations = []string{"0001_ledger", "0002_former_keys"}
