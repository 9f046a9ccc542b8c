package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

var (
	// ErrPending is returned by Open for a file of an older program.
	ErrPending = errors.New("sqlite: the ledger has pending migrations; run `countersign migrate`")
	// ErrNewer is returned for a file of a newer program.
	ErrNewer = errors.New("sqlite: the ledger was migrated by a newer program; use that one")
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
	for i, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".sql")
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) {
			panic("sqlite: migration out of order: " + name)
		}
		text, err := fs.ReadFile(files, path)
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

// Create makes a new, empty ledger at path, readable by its owner only. The
// folder must exist; an existing file is an error (fs.ErrExist) and untouched.
func Create(ctx context.Context, path string) (err error) {
	lock, err := lockFolder(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.unlock()) }()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("sqlite: create: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("sqlite: create: %w", err)
	}
	if err := migrate(ctx, path, migrations); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return syncFolder(path)
}

// Migrate applies the pending migrations of the ledger at path, each in a
// transaction of its own. Nothing pending is no error.
func Migrate(ctx context.Context, path string) (err error) {
	if err := exists(path); err != nil {
		return err
	}
	lock, err := lockFolder(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.unlock()) }()
	return migrate(ctx, path, migrations)
}

func exists(path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("sqlite: no ledger, run `countersign init`: %w", err)
	}
	return nil
}

func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, path string, known []migration) (err error) {
	db, err := sql.Open("sqlite", writerDSN(path))
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS migrations (
		number INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied INTEGER NOT NULL) STRICT`)
	if err != nil {
		return fmt.Errorf("sqlite: migrate: %w", err)
	}
	applied, err := checkMigrations(ctx, db, known)
	if err != nil && !errors.Is(err, ErrPending) {
		return err
	}
	for _, m := range known[applied:] {
		if err := m.apply(ctx, db); err != nil {
			return fmt.Errorf("sqlite: migration %s: %w", m.name, err)
		}
	}
	return nil
}

func (m migration) apply(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, m.sql); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO migrations (number, name, checksum, applied) VALUES (?, ?, ?, ?)`,
		m.number, m.name, m.checksum, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	return tx.Commit()
}

// checkMigrations compares the record in the file with known and returns how
// many are applied. The record must be a prefix of known, byte for byte.
func checkMigrations(ctx context.Context, db *sql.DB, known []migration) (applied int, err error) {
	rows, err := db.QueryContext(ctx, `SELECT number, name, checksum FROM migrations ORDER BY number`)
	if err != nil {
		return 0, fmt.Errorf("sqlite: not a ledger: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var m migration
		if err := rows.Scan(&m.number, &m.name, &m.checksum); err != nil {
			return 0, fmt.Errorf("sqlite: migrations: %w", err)
		}
		if m.number > len(known) {
			return applied, fmt.Errorf("%w: %s", ErrNewer, m.name)
		}
		if want := known[applied]; m.number != want.number || m.name != want.name || m.checksum != want.checksum {
			return applied, fmt.Errorf("sqlite: migration %d of the file is not the %s of this program", m.number, want.name)
		}
		applied++
	}
	if err := rows.Err(); err != nil {
		return applied, fmt.Errorf("sqlite: migrations: %w", err)
	}
	if applied < len(known) {
		return applied, fmt.Errorf("%w: %s", ErrPending, known[applied].name)
	}
	return applied, nil
}
