package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres/blob"
	"countersign/internal/ledger/postgres/outbox"
)

// Options of one opening. The zero value is the product's.
type Options struct {
	Clock       *ledger.Clock            // its offset is added to the server's clock; nil: no offset
	BatchLimit  int                      // most Changes in one statement; 0: 64
	QueueSize   int                      // most Changes that wait; 0: 1,024
	Fault       func(point string) error // tests only: called at every fail point, an error is taken as the engine's own
	AfterCommit func()                   // called after each COMMIT, before the answers
	Unlocked    bool                     // tests only: commits do not take the freeze lock
	Unpolled    bool                     // tests only: watched subjects are not polled
}

const (
	defaultBatchLimit = 64
	defaultQueueSize  = 1024
	// readers is the most reads that run at once; more wait.
	readers = 8
	// spare sessions of the writers' pool serve NOTIFY, Ping and the like.
	spare = 4
	// commitLimit is the longest that a statement may run; the server ends it
	// first, the client a little later.
	commitLimit = 10 * time.Second
	// readLimit is the longest that a read may take, the wait for a session included,
	// however long its caller would wait: a server that is reached and does not answer
	// must not hold requests, nor the settler, for good.
	readLimit = commitLimit + 2*time.Second
)

// Ledger is an open ledger on PostgreSQL. Its methods are safe for concurrent
// use.
type Ledger struct {
	*blobs
	options  Options
	writes   *pgxpool.Pool
	reads    *pgxpool.Pool
	queue    *queue
	hub      ledger.Hub
	outbox   *outbox.Outbox
	presence *presence
	keys     atomic.Pointer[map[string]string] // fingerprints, once CheckInstallation was asked about them
	patience time.Duration                     // with a read: readLimit, only tests set less
	blocked  time.Duration                     // blockedFor, only tests set another

	writers   sync.WaitGroup
	services  sync.WaitGroup
	stop      context.CancelFunc // ends the services
	closeOnce sync.Once
}

// blobs are the methods of [blob.Store].
type blobs = blob.Store

// Open opens the ledger in the database at url, a postgres:// URL. It returns
// [ErrPending] or [ErrNewer] when the schema is not this program's, and an error
// when the server is a standby. ctx bounds the opening only.
func Open(ctx context.Context, url string, options Options) (*Ledger, error) {
	l, err := open(ctx, url, options)
	if err != nil {
		return nil, err
	}
	l.start()
	return l, nil
}

// open does everything but starting what runs by itself.
func open(ctx context.Context, url string, options Options) (_ *Ledger, err error) {
	if options.Clock == nil {
		options.Clock = new(ledger.Clock)
	}
	if options.BatchLimit <= 0 {
		options.BatchLimit = defaultBatchLimit
	}
	if options.QueueSize <= 0 {
		options.QueueSize = defaultQueueSize
	}
	l := &Ledger{patience: readLimit, blocked: blockedFor, options: options, queue: newQueue(options.QueueSize, options.BatchLimit), outbox: outbox.New()}
	defer func() {
		if err != nil {
			l.closePools()
		}
	}()
	if l.writes, err = openPool(ctx, url, directWriters+spare, writerSession, l.enter); err != nil {
		return nil, err
	}
	if l.reads, err = openPool(ctx, url, readers, readerSession, nil); err != nil {
		return nil, err
	}
	l.blobs = &blobs{
		Writes: l.writes, Reads: l.reads, Patiently: l.patiently,
		Before: func() error { return l.fault(beforeBegin) }, After: func() error { return l.fault(afterCommit) },
	}
	applied, err := recorded(ctx, l.reads)
	if err != nil {
		return nil, err
	}
	if err = migrations.Check(applied); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err = l.Ping(ctx); err != nil {
		return nil, err
	}
	l.presence, err = arrive(ctx, l.writes.Config().ConnConfig, rand.Text())
	return l, err
}

// enter prepares a session that may write. While it lives the keys of the ledger
// cannot be replaced; when they were, before it came, it is refused.
//
// A pooler that stands between may keep the settings of the session from the server, so
// the isolation is asked for.
func (l *Ledger) enter(ctx context.Context, c *pgx.Conn) error {
	var level string
	if err := c.QueryRow(ctx, `SHOW transaction_isolation`).Scan(&level); err != nil {
		return err
	}
	if level != isolation {
		return fmt.Errorf("postgres: transactions are %s, and have to be %s: let whatever stands between pass default_transaction_isolation on", level, isolation)
	}
	entered, err := lockServed(ctx, c, `SELECT pg_try_advisory_lock_shared($1)`)
	if err != nil {
		return err
	}
	if !entered {
		return errors.New("postgres: the ledger's keys are being replaced")
	}
	if keys := l.keys.Load(); keys != nil {
		stored, err := installed(ctx, c)
		if err == nil && len(stored) > 0 {
			err = sameInstallation(stored, *keys)
		}
		if err != nil {
			return err
		}
	}
	return fence(ctx, c)
}

// start runs the writers and the services that wake watchers.
func (l *Ledger) start() {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	for range directWriters {
		l.writers.Go(l.write)
	}
	l.services.Go(func() { l.attend(ctx) })
	l.services.Go(func() { l.notify(ctx) })
	if !l.options.Unpolled {
		l.services.Go(func() { l.poll(ctx) })
	}
}

// Close finishes what is queued and frees everything. Later commits are
// NotStored with [ledger.ErrClosed]. Further calls return nil at once.
func (l *Ledger) Close() error {
	l.closeOnce.Do(func() {
		l.queue.close()
		l.writers.Wait()
		l.stop()
		l.services.Wait()
		l.closePools()
	})
	return nil
}

func (l *Ledger) closePools() {
	for _, pool := range []*pgxpool.Pool{l.writes, l.reads} {
		if pool != nil {
			pool.Close()
		}
	}
}

func (l *Ledger) fault(point string) error {
	if l.options.Fault == nil {
		return nil
	}
	return l.options.Fault(point)
}

// isolation is the level that every transaction runs at, whatever the database, the role
// or the environment has for a default. At repeatable read a claim that has waited for a
// freeze would still see the workspace as it was before. Only tests set another.
var isolation = "read committed"

// Sessions of the ledger. The planner is bound: every statement finds its rows
// by a key it is given, and a plan made while the tables were still empty must
// not scan them when they are large.
var (
	commonSession = map[string]string{
		"statement_timeout": fmt.Sprint(commitLimit.Milliseconds()),
		// Each statement of a transaction has to see what was committed before it began,
		// or else a lock that was waited for protects nothing: see enter.
		"default_transaction_isolation": isolation,
		"enable_seqscan":                "off",
		"plan_cache_mode":               "force_generic_plan",
		"jit":                           "off",
		// A client machine that vanished is noticed after half a minute.
		"tcp_keepalives_idle":     "10",
		"tcp_keepalives_interval": "5",
		"tcp_keepalives_count":    "4",
	}
	writerSession = map[string]string{
		"synchronous_commit": "on", // a commit that was answered survives power loss
		"enable_hashjoin":    "off",
		"enable_mergejoin":   "off",
	}
	readerSession = map[string]string{"default_transaction_read_only": "on"}
)

func openPool(ctx context.Context, url string, size int32, session map[string]string, connected func(context.Context, *pgx.Conn) error) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err) // pgx keeps the password out of it
	}
	config.MaxConns = size
	config.AfterConnect, config.ShouldPing = connected, mustPing
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	params := config.ConnConfig.RuntimeParams
	for _, settings := range []map[string]string{commonSession, session} {
		maps.Copy(params, settings)
	}
	if params["application_name"] == "" { // the URL may tell the sessions of replicas apart
		params["application_name"] = "countersign"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return pool, nil
}

// lockKey names an advisory lock. Locks of different purposes and names have
// different keys.
func lockKey(purpose, name string) int64 {
	sum := sha256.Sum256([]byte("countersign/" + purpose + "\x00" + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// patiently bounds what is asked of the server, however long ctx is.
func (l *Ledger) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.patience)
}

// Ping writes to the database and returns nil when a commit is possible.
func (l *Ledger) Ping(ctx context.Context) error {
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	_, err := l.writes.Exec(ctx, `
		INSERT INTO probe (one, at) VALUES (1, floor(extract(epoch FROM clock_timestamp()) * 1000))
		ON CONFLICT (one) DO UPDATE SET at = excluded.at`)
	if err != nil {
		return fmt.Errorf("postgres: not writable: %w", err)
	}
	return nil
}

// CheckInstallation stores the fingerprints of the installation's keys, by name,
// on the first call ever and refuses any other set afterwards, here and in every
// session that is opened later.
func (l *Ledger) CheckInstallation(ctx context.Context, fingerprints map[string]string) error {
	if len(fingerprints) == 0 {
		return errors.New("postgres: an installation has fingerprints")
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	before := l.keys.Swap(&fingerprints)
	err := pgx.BeginFunc(ctx, l.writes, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockKey("installation", "")); err != nil {
			return err
		}
		stored, err := installed(ctx, tx)
		if err != nil {
			return err
		}
		if len(stored) > 0 {
			return sameInstallation(stored, fingerprints)
		}
		for name, fingerprint := range fingerprints {
			if _, err := tx.Exec(ctx, `INSERT INTO fingerprints (name, fingerprint) VALUES ($1, $2)`, name, fingerprint); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.keys.Store(before)
		return fmt.Errorf("postgres: installation: %w", err)
	}
	return nil
}

func sameInstallation(stored, given map[string]string) error {
	for name, fingerprint := range given {
		if stored[name] != fingerprint {
			return fmt.Errorf("the %s key is not the one of this database", name)
		}
	}
	for name := range stored {
		if _, ok := given[name]; !ok {
			return fmt.Errorf("the database knows a %s key and this installation does not", name)
		}
	}
	return nil
}

// EraseText removes salt and text for good; [ledger.ErrNotFound] when they are
// not there.
func (l *Ledger) EraseText(ctx context.Context, key ledger.Key, commitment string) error {
	if !storable(key.Workspace, key.Kind, key.ID, commitment) {
		return ledger.ErrNotFound
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	tag, err := l.writes.Exec(ctx, `DELETE FROM texts WHERE workspace = $1 AND kind = $2 AND subject = $3 AND commitment = $4`,
		key.Workspace, key.Kind, key.ID, commitment)
	if err != nil {
		return fmt.Errorf("postgres: erase: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ledger.ErrNotFound
	}
	return nil
}
