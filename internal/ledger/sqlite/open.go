package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"countersign/internal/ledger"
)

// Options of Open. The zero value is what the product uses.
type Options struct {
	Clock      *ledger.Clock // nil: the system's time
	BatchLimit int           // most Changes in one transaction; 0: 64
	QueueSize  int           // most Changes that wait; 0: 1,024. A full queue refuses.

	// Fault and AfterCommit are doors for tests and benchmarks. Fault is called
	// at every one of Points; an error it returns is handled as the database's.
	// AfterCommit is called after each COMMIT, before the answers.
	Fault       func(point string) error
	AfterCommit func()
}

const (
	defaultBatchLimit = 64
	defaultQueueSize  = 1024
	readers           = 4 // connections for reads
)

// Ledger is an open ledger file. It is safe for concurrent use.
type Ledger struct {
	clock  *ledger.Clock
	hub    ledger.Hub
	holder string
	lock   folderLock
	reads  *reads
	recent recent
	queue  *queue
	writer *writer

	close    sync.Once
	closeErr error
}

// Open serves the ledger at path, which Create made, and holds its folder's
// lock until Close. It refuses a file whose migrations are not exactly this
// program's: ErrPending, ErrNewer. ctx limits the opening only.
func Open(ctx context.Context, path string, o Options) (*Ledger, error) {
	if err := checkLinked(); err != nil {
		return nil, err
	}
	if err := exists(path); err != nil {
		return nil, err
	}
	lock, err := lockFolder(path)
	if err != nil {
		return nil, err
	}
	l, err := open(ctx, path, o)
	if err != nil {
		return nil, errors.Join(err, lock.unlock())
	}
	l.lock = lock
	return l, nil
}

func open(ctx context.Context, path string, o Options) (*Ledger, error) {
	if o.Clock == nil {
		o.Clock = new(ledger.Clock)
	}
	if o.BatchLimit <= 0 {
		o.BatchLimit = defaultBatchLimit
	}
	if o.QueueSize <= 0 {
		o.QueueSize = defaultQueueSize
	}
	l := &Ledger{clock: o.Clock, holder: rand.Text(), queue: newQueue(o.QueueSize, o.BatchLimit)}
	l.writer = newWriter(path, l, o)
	// The writer first: after a crash, or on a copy without its -shm file, only
	// a connection that may write can recover the WAL.
	if err := l.writer.reopen(); err != nil {
		return nil, err
	}
	var err error
	if l.reads, err = openReads(ctx, path); err != nil {
		return nil, errors.Join(err, l.writer.tx.close())
	}
	go l.writer.run()
	return l, nil
}

// Close commits what is queued, then frees the connections and the lock.
// Commits that come later are NotStored with ledger.ErrClosed. Further calls
// return what the first one did.
func (l *Ledger) Close() error {
	l.close.Do(func() {
		l.queue.close(ledger.ErrClosed)
		<-l.writer.done
		l.recent.forget() // another process may write from now on
		l.closeErr = errors.Join(l.reads.close(), l.writer.closeErr, l.lock.unlock())
	})
	return l.closeErr
}

// Failed is closed when a COMMIT's fate could not be told. The ledger takes no
// commits any more and the process has to exit.
func (l *Ledger) Failed() <-chan struct{} { return l.writer.failed }

// Watch wakes after a commit that wrote the subject, until the watcher's Close.
func (l *Ledger) Watch(key ledger.Key) *ledger.Watcher { return l.hub.Watch(key) }

// Holder names this opening of the file as the holder of leases.
func (l *Ledger) Holder() string { return l.holder }

// HolderAlive reports whether holder is this very opening: the folder's lock
// makes every other one a former one.
func (l *Ledger) HolderAlive(_ context.Context, holder string) (bool, error) {
	return holder == l.holder, nil
}

// writerDSN waits for a lock up to 5 s, since a backup tool may read the file.
// secure_delete overwrites what was deleted, which erased texts rely on. What a
// savepoint needs to roll one Change back is kept in memory: in a file it was half
// of all writes.
func writerDSN(path string) string {
	return dsn(path, "rw", "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(1000)", "secure_delete(1)", "temp_store(2)")
}

func readerDSN(path string) string { return dsn(path, "ro", "query_only(1)") }

func dsn(path, mode string, pragmas ...string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	q := url.Values{"mode": {mode}, "_busy_timeout": {"5000"}, "_pragma": pragmas, "_txlock": {"immediate"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}
