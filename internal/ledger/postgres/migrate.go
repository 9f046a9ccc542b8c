package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"countersign/internal/ledger"
)

// What Open says about a database that is not this program's.
var (
	ErrPending = ledger.ErrPending
	ErrNewer   = ledger.ErrNewer
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = ledger.ReadMigrations(migrationFiles)

// MigrationNames returns the names of the migrations that this program knows,
// in order.
func MigrationNames() []string { return migrations.Names() }

// Migrate creates the schema in the database at url or brings it up to date,
// each migration in a transaction of its own. Nothing pending is no error.
// Several calls at once wait for each other. A ledger that is being served is brought
// up to date by nobody: [ledger.ErrServed].
func Migrate(ctx context.Context, url string) error { return migrate(ctx, url, migrations) }

func migrate(ctx context.Context, url string, known ledger.Migrations) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	// The session's end frees the lock.
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, lockKey("migrate", "")); err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	_, err = conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS migrations (
		number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied BIGINT NOT NULL)`)
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	applied, err := recorded(ctx, conn)
	if err != nil {
		return err
	}
	pending, err := known.Pending(applied)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if len(pending) > 0 {
		alone, err := lockServed(ctx, conn, `SELECT pg_try_advisory_lock($1)`)
		if err == nil && !alone {
			err = ledger.ErrServed
		}
		if err != nil {
			return fmt.Errorf("postgres: migrate: %w", err)
		}
	}
	for _, m := range pending {
		if err := applyMigration(ctx, conn, m); err != nil {
			return fmt.Errorf("postgres: migration %s: %w", m.Name, err)
		}
	}
	return nil
}

func applyMigration(ctx context.Context, conn *pgx.Conn, m ledger.Migration) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, m.SQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO migrations (number, name, checksum, applied)
			VALUES ($1, $2, $3, floor(extract(epoch FROM clock_timestamp()) * 1000))`, m.Number, m.Name, m.Checksum)
		return err
	})
}

// recorded returns what the database says was applied: nothing when it holds no
// ledger.
func recorded(ctx context.Context, q querier) (ledger.Migrations, error) {
	var exists bool
	if err := q.QueryRow(ctx, `SELECT to_regclass('migrations') IS NOT NULL`).Scan(&exists); err != nil {
		return nil, fmt.Errorf("postgres: migrations: %w", err)
	}
	if !exists {
		return nil, nil
	}
	rows, err := q.Query(ctx, `SELECT number, name, checksum FROM migrations ORDER BY number`)
	if err != nil {
		return nil, fmt.Errorf("postgres: migrations: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Migration, error) {
		var m ledger.Migration
		err := row.Scan(&m.Number, &m.Name, &m.Checksum)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: migrations: %w", err)
	}
	return list, nil
}

// querier is what a connection and a pool have in common.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
