package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"countersign/internal/keys"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
)

var (
	// ErrNoLedger is about a PostgreSQL database that no Init has made a ledger of.
	// Its name may be mistyped: only Init may take it for an installation's.
	ErrNoLedger = errors.New("app: the database holds no ledger")
	// ErrForeign is about a ledger that was made with other keys.
	ErrForeign = errors.New("app: the ledger belongs to another installation")
)

// record is what a database says of itself, read before anything is written to it.
type record struct {
	migrations   []string          // that were applied, by name, in order
	fingerprints map[string]string // of the keys that it belongs to, by name
}

// inspect reads the record of the PostgreSQL database at address, or of the SQLite
// file of the folder dir when address is "". A database without a ledger has an
// empty record.
func inspect(ctx context.Context, dir, address string) (r record, err error) {
	driver, tables := "pgx", `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`
	if address == "" {
		if err := present(dir); err != nil {
			return r, err
		}
		path, err := filepath.Abs(databaseFile(dir))
		if err != nil {
			return r, err
		}
		file := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"mode": {"rw"}, "_busy_timeout": {"5000"}}.Encode()}
		driver, tables, address = "sqlite", `SELECT name FROM sqlite_schema WHERE type = 'table'`, file.String()
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		return r, fmt.Errorf("app: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	there := map[string]bool{}
	if err := each(ctx, db, tables, 1, func(row []string) { there[row[0]] = true }); err != nil {
		return r, err
	}
	if there["migrations"] {
		if err := each(ctx, db, `SELECT name FROM migrations ORDER BY number`, 1, func(row []string) { r.migrations = append(r.migrations, row[0]) }); err != nil {
			return r, err
		}
	}
	if there["fingerprints"] {
		r.fingerprints = map[string]string{}
		err = each(ctx, db, `SELECT name, fingerprint FROM fingerprints`, 2, func(row []string) { r.fingerprints[row[0]] = row[1] })
	}
	return r, err
}

// each hands over the rows of a query whose columns are texts.
func each(ctx context.Context, db *sql.DB, query string, columns int, take func(row []string)) (err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("app: reading the database: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row, into := make([]string, columns), make([]any, columns)
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("app: reading the database: %w", err)
		}
		take(row)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("app: reading the database: %w", err)
	}
	return nil
}

// present returns nil when the folder holds a SQLite ledger.
func present(dir string) error {
	_, err := os.Stat(databaseFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there: give --database when the ledger is on PostgreSQL, else restore the file", databaseFile(dir))
	}
	return err
}

// belongs returns nil when the ledger was made with these keys. A SQLite file in
// the folder of its keys may be one that its Init had no time to bind.
func (r record) belongs(k *keys.Keys, url string) error {
	switch {
	case len(r.fingerprints) == 0 && url != "":
		return ErrNoLedger
	case len(r.fingerprints) > 0 && !maps.Equal(r.fingerprints, k.Fingerprints()):
		return ErrForeign
	}
	return nil
}

// Migrate applies pending migrations to the ledger of the folder dir, or to the
// PostgreSQL database at url, and returns their names; nothing pending is no
// error. The ledger has to be that of the folder's keys: else it is ErrForeign or
// ErrNoLedger, and nothing is written.
func Migrate(ctx context.Context, dir, url string) (applied []string, err error) {
	k, err := keys.Load(dir)
	if err != nil {
		return nil, err
	}
	before, err := inspect(ctx, dir, url)
	if err == nil {
		err = before.belongs(k, url)
	}
	if err != nil {
		return nil, err
	}
	if url != "" {
		err = postgres.Migrate(ctx, url)
	} else {
		err = sqlite.Migrate(ctx, databaseFile(dir))
	}
	// Some may be in place when a later one failed.
	after, errAfter := inspect(ctx, dir, url)
	if len(after.migrations) > len(before.migrations) {
		applied = after.migrations[len(before.migrations):]
	}
	return applied, errors.Join(err, errAfter)
}
