package postgres

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/jackc/pgx/v5"
)

var (
	// ErrPending is returned by Open for a database of an older program.
	ErrPending = errors.New("postgres: the ledger has pending migrations; run `countersign migrate`")
	// ErrNewer is returned for a database of a newer program.
	ErrNewer = errors.New("postgres: the ledger was migrated by a newer program; use that one")
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one numbered file. Numbers start at 1 and have no gap; a file
// that was released is never edited, which the checksum holds.
type migration struct {
	number   int
	name     string // as in 0001_ledger
	sql      string
	checksum string
}

var migrations = readMigrations(migrationFiles)

func readMigrations(files fs.FS) []migration {
	paths, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		panic(err)
	}
	list := make([]migration, 0, len(paths))
	for i, p := range paths {
		name := strings.TrimSuffix(path.Base(p), ".sql")
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) {
			panic("postgres: migration out of order: " + name)
		}
		text, err := fs.ReadFile(files, p)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		list = append(list, migration{i + 1, name, string(text), hex.EncodeToString(sum[:])})
	}
	return list
}

// MigrationNames returns the names of the migrations that this program knows,
// in order.
func MigrationNames() []string {
	names := make([]string, len(migrations))
	for i, m := range migrations {
		names[i] = m.name
	}
	return names
}

// Migrate creates the schema in the database at url or brings it up to date,
// each migration in a transaction of its own. Nothing pending is no error.
// Several calls at once wait for each other.
func Migrate(ctx context.Context, url string) error { return migrate(ctx, url, migrations) }

func migrate(ctx context.Context, url string, known []migration) (err error) {
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
	applied, err := checkMigrations(ctx, conn, known)
	if err != nil && !errors.Is(err, ErrPending) {
		return err
	}
	for _, m := range known[applied:] {
		if err := m.apply(ctx, conn); err != nil {
			return fmt.Errorf("postgres: migration %s: %w", m.name, err)
		}
	}
	return nil
}

func (m migration) apply(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, m.sql); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO migrations (number, name, checksum, applied)
			VALUES ($1, $2, $3, floor(extract(epoch FROM clock_timestamp()) * 1000))`, m.number, m.name, m.checksum)
		return err
	})
}

// checkMigrations compares the record in the database with known and returns
// how many are applied. The record must be a prefix of known, byte for byte.
func checkMigrations(ctx context.Context, q querier, known []migration) (applied int, err error) {
	var exists bool
	if err := q.QueryRow(ctx, `SELECT to_regclass('migrations') IS NOT NULL`).Scan(&exists); err != nil {
		return 0, fmt.Errorf("postgres: migrations: %w", err)
	}
	if !exists {
		return 0, fmt.Errorf("%w: the database holds no ledger", ErrPending)
	}
	rows, err := q.Query(ctx, `SELECT number, name, checksum FROM migrations ORDER BY number`)
	if err != nil {
		return 0, fmt.Errorf("postgres: migrations: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var m migration
		if err := rows.Scan(&m.number, &m.name, &m.checksum); err != nil {
			return 0, fmt.Errorf("postgres: migrations: %w", err)
		}
		if m.number > len(known) {
			return applied, fmt.Errorf("%w: %s", ErrNewer, m.name)
		}
		if want := known[applied]; m.number != want.number || m.name != want.name || m.checksum != want.checksum {
			return applied, fmt.Errorf("postgres: migration %d of the database is not the %s of this program", m.number, want.name)
		}
		applied++
	}
	if err := rows.Err(); err != nil {
		return applied, fmt.Errorf("postgres: migrations: %w", err)
	}
	if applied < len(known) {
		return applied, fmt.Errorf("%w: %s", ErrPending, known[applied].name)
	}
	return applied, nil
}

// querier is what a connection and a pool have in common.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
