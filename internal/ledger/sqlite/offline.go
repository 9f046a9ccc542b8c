package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"countersign/internal/ledger"
)

// Inspect reads what the file at path says of its installation. It writes nothing,
// and the file may be served meanwhile.
func Inspect(ctx context.Context, path string) (i ledger.Installation, err error) {
	// Not read-only: after a crash only a connection that may write can read the WAL.
	db, err := sql.Open("sqlite", dsn(path, "rw"))
	if err != nil {
		return i, fmt.Errorf("sqlite: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	return inspect(ctx, db)
}

func inspect(ctx context.Context, db *sql.DB) (i ledger.Installation, err error) {
	tables := map[string]bool{}
	err = pairs(ctx, db, `SELECT name, '' FROM sqlite_schema WHERE type = 'table'`, func(name, _ string) { tables[name] = true })
	if err == nil && tables["migrations"] {
		err = pairs(ctx, db, `SELECT name, '' FROM migrations ORDER BY number`, func(name, _ string) { i.Migrations = append(i.Migrations, name) })
	}
	if err == nil && tables["fingerprints"] {
		i.Keys = map[string]string{}
		err = pairs(ctx, db, `SELECT name, fingerprint FROM fingerprints`, func(name, key string) { i.Keys[name] = key })
	}
	if err == nil && tables["former_keys"] {
		i.Former = map[string][]string{}
		err = pairs(ctx, db, `SELECT name, fingerprint FROM former_keys ORDER BY retired, fingerprint`, func(name, key string) { i.Former[name] = append(i.Former[name], key) })
	}
	return i, err
}

// pairs hands over the rows of a query of two texts.
func pairs(ctx context.Context, db *sql.DB, query string, take func(a, b string)) error {
	found, err := db.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("sqlite: reading the file: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var a, b string
		if err := found.Scan(&a, &b); err != nil {
			return fmt.Errorf("sqlite: reading the file: %w", err)
		}
		take(a, b)
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("sqlite: reading the file: %w", err)
	}
	return nil
}

// Offline is a ledger that nobody serves as long as it is open: it holds the lock of
// the file's folder.
type Offline struct {
	lock  folderLock
	db    *sql.DB
	clock *ledger.Clock
}

// OpenOffline opens the ledger at path alone, or returns [ErrLocked], [ErrPending] or
// [ErrNewer]. A nil clock is the system's.
func OpenOffline(ctx context.Context, path string, clock *ledger.Clock) (_ *Offline, err error) {
	if err := exists(path); err != nil {
		return nil, err
	}
	if clock == nil {
		clock = new(ledger.Clock)
	}
	o := &Offline{clock: clock}
	if o.lock, err = lockFolder(path); err != nil {
		return nil, err
	}
	if o.db, err = sql.Open("sqlite", writerDSN(path)); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %w", err), o.lock.unlock())
	}
	o.db.SetMaxOpenConns(1)
	applied, err := recorded(ctx, o.db)
	if err == nil {
		err = migrations.Check(applied)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %w", err), o.Close())
	}
	return o, nil
}

// Inspect reads what the ledger says of its installation.
func (o *Offline) Inspect(ctx context.Context) (ledger.Installation, error) {
	return inspect(ctx, o.db)
}

// ReplaceKey makes to the key of that name in place of from, which is a former one
// from then on. It returns the former key's last instant: now, and not before the
// newest event nor the last replacement. A ledger that has to in place of from already
// is left as it is, and tells when that was. One with another key is
// [ledger.ErrOtherKey].
func (o *Offline) ReplaceKey(ctx context.Context, name, from, to string) (last time.Time, err error) {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return last, fmt.Errorf("sqlite: replacing a key: %w", err)
	}
	defer tx.Rollback() // after Commit it does nothing
	var current string
	var newest sql.NullInt64
	err = tx.QueryRowContext(ctx, `SELECT fingerprint, (SELECT max(at) FROM (SELECT max(updated) AS at FROM subjects UNION ALL SELECT max(retired) FROM former_keys))
		FROM fingerprints WHERE name = ?`, name).Scan(&current, &newest)
	if err != nil {
		return last, fmt.Errorf("sqlite: replacing a key: %w", err)
	}
	if last = o.clock.Now(); newest.Valid && last.UnixMilli() < newest.Int64 {
		last = time.UnixMilli(newest.Int64).UTC()
	}
	switch current {
	case to:
		var retired int64
		err := tx.QueryRowContext(ctx, `SELECT retired FROM former_keys WHERE name = ? AND fingerprint = ?`, name, from).Scan(&retired)
		if err != nil {
			return last, fmt.Errorf("sqlite: replacing a key: %w", err)
		}
		return time.UnixMilli(retired).UTC(), nil
	case from:
	default:
		return last, fmt.Errorf("%w: %s", ledger.ErrOtherKey, name)
	}
	_, err = tx.ExecContext(ctx, `UPDATE fingerprints SET fingerprint = ? WHERE name = ?`, to, name)
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO former_keys (name, fingerprint, retired) VALUES (?, ?, ?)`, name, from, last.UnixMilli())
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return last, fmt.Errorf("sqlite: replacing a key: %w", err)
	}
	return last, nil
}

// Close frees the file and its folder.
func (o *Offline) Close() error { return errors.Join(o.db.Close(), o.lock.unlock()) }
