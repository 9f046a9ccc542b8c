package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/ledger"
)

// Inspect reads what the database at url says of its installation. It writes
// nothing, and the database may be served meanwhile.
func Inspect(ctx context.Context, url string) (i ledger.Installation, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return i, fmt.Errorf("postgres: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return inspect(ctx, conn)
}

func inspect(ctx context.Context, conn *pgx.Conn) (i ledger.Installation, err error) {
	there := map[string]bool{}
	err = pairs(ctx, conn, `SELECT tablename, '' FROM pg_tables WHERE schemaname = current_schema()`, func(name, _ string) { there[name] = true })
	if err == nil && there["migrations"] {
		err = pairs(ctx, conn, `SELECT name, '' FROM migrations ORDER BY number`, func(name, _ string) { i.Migrations = append(i.Migrations, name) })
	}
	if err == nil && there["fingerprints"] {
		i.Keys, err = installed(ctx, conn)
	}
	if err == nil && there["former_keys"] {
		i.Former = map[string][]string{}
		err = pairs(ctx, conn, `SELECT name, fingerprint FROM former_keys ORDER BY retired, fingerprint`, func(name, key string) { i.Former[name] = append(i.Former[name], key) })
	}
	return i, err
}

// installed reads the fingerprints of the keys in use.
func installed(ctx context.Context, q querier) (map[string]string, error) {
	keys := map[string]string{}
	return keys, pairs(ctx, q, `SELECT name, fingerprint FROM fingerprints`, func(name, key string) { keys[name] = key })
}

// pairs hands over the rows of a query of two texts.
func pairs(ctx context.Context, q querier, query string, take func(a, b string)) error {
	rows, err := q.Query(ctx, query)
	if err == nil {
		var a, b string
		_, err = pgx.ForEachRow(rows, []any{&a, &b}, func() error {
			take(a, b)
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("postgres: reading the database: %w", err)
	}
	return nil
}

// served is the lock that every session which may write holds shared, and that
// [Offline] holds alone.
var served = lockKey("served", "")

// lockServed takes the lock, with a little patience: the server frees those of a
// session that ended a moment later.
func lockServed(ctx context.Context, conn *pgx.Conn, try string) (locked bool, err error) {
	for limit := time.Now().Add(2 * time.Second); ; {
		if err := conn.QueryRow(ctx, try, served).Scan(&locked); err != nil || locked || time.Now().After(limit) {
			return locked, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Offline is a ledger that nobody serves as long as it is open: no server can open
// it, nor write to it with a session that it opens anew.
type Offline struct {
	conn  *pgx.Conn
	clock *ledger.Clock
}

// OpenOffline opens the ledger at url alone, or returns [ledger.ErrServed],
// [ErrPending] or [ErrNewer]. Of a nil clock the offset is zero.
func OpenOffline(ctx context.Context, url string, clock *ledger.Clock) (_ *Offline, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if clock == nil {
		clock = new(ledger.Clock)
	}
	o := &Offline{conn, clock}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	alone, err := lockServed(ctx, conn, `SELECT pg_try_advisory_lock($1)`)
	if err == nil && !alone {
		err = ledger.ErrServed
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	applied, err := recorded(ctx, conn)
	if err == nil {
		err = migrations.Check(applied)
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return o, nil
}

// Inspect reads what the ledger says of its installation.
func (o *Offline) Inspect(ctx context.Context) (ledger.Installation, error) {
	return inspect(ctx, o.conn)
}

// ReplaceKey makes to the key of that name in place of from, which is a former one
// from then on. It returns the former key's last instant: now by the server's
// clock, and not before the newest event nor the last replacement. A ledger that has to in place of from already
// is left as it is, and tells when that was. One with another key is
// [ledger.ErrOtherKey].
func (o *Offline) ReplaceKey(ctx context.Context, name, from, to string) (last time.Time, err error) {
	err = pgx.BeginFunc(ctx, o.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
			return err
		}
		var current string
		var now time.Time
		var newest *int64
		err := tx.QueryRow(ctx, `SELECT fingerprint, clock_timestamp(), greatest((SELECT max(updated) FROM subjects), (SELECT max(retired) FROM former_keys))
			FROM fingerprints WHERE name = $1`, name).Scan(&current, &now, &newest)
		if err != nil {
			return err
		}
		last = now.Add(o.clock.Offset()).UTC().Truncate(time.Millisecond)
		if newest != nil && last.UnixMilli() < *newest {
			last = moment(newest)
		}
		switch current {
		case to:
			var retired int64
			err := tx.QueryRow(ctx, `SELECT retired FROM former_keys WHERE name = $1 AND fingerprint = $2`, name, from).Scan(&retired)
			last = moment(&retired)
			return err
		case from:
		default:
			return fmt.Errorf("%w: %s", ledger.ErrOtherKey, name)
		}
		if _, err := tx.Exec(ctx, `UPDATE fingerprints SET fingerprint = $1 WHERE name = $2`, to, name); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO former_keys (name, fingerprint, retired) VALUES ($1, $2, $3)`, name, from, last.UnixMilli())
		return err
	})
	if err != nil {
		return last, fmt.Errorf("postgres: replacing a key: %w", err)
	}
	return last, nil
}

// Close frees the database.
func (o *Offline) Close() error { return o.conn.Close(context.Background()) }
