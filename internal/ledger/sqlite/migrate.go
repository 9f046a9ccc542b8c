package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"countersign/internal/ledger"
)

// What Open says about a file that is not this program's.
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

func migrate(ctx context.Context, path string, known ledger.Migrations) (err error) {
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
	applied, err := recorded(ctx, db)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	pending, err := known.Pending(applied)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	for _, m := range pending {
		if err := applyMigration(ctx, db, m); err != nil {
			return fmt.Errorf("sqlite: migration %s: %w", m.Name, err)
		}
	}
	return nil
}

func applyMigration(ctx context.Context, db *sql.DB, m ledger.Migration) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, m.SQL); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO migrations (number, name, checksum, applied) VALUES (?, ?, ?, ?)`,
		m.Number, m.Name, m.Checksum, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	return tx.Commit()
}

// recorded returns what the file says was applied.
func recorded(ctx context.Context, db *sql.DB) (ledger.Migrations, error) {
	rows, err := db.QueryContext(ctx, `SELECT number, name, checksum FROM migrations ORDER BY number`)
	if err != nil {
		return nil, fmt.Errorf("not a ledger: %w", err)
	}
	defer rows.Close()
	var list ledger.Migrations
	for rows.Next() {
		var m ledger.Migration
		if err := rows.Scan(&m.Number, &m.Name, &m.Checksum); err != nil {
			return nil, fmt.Errorf("migrations: %w", err)
		}
		list = append(list, m)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return list, nil
}
