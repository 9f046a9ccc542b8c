package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/supervision/gateway"
)

// Engines of a ledger.
const (
	SQLite     = "sqlite"
	PostgreSQL = "postgres"
)

// engine is what app needs of an open ledger beside what the gateway does.
type engine interface {
	gateway.Ledger
	CheckInstallation(ctx context.Context, fingerprints map[string]string) error
	Ping(context.Context) error
	Close() error
}

// databaseFile is the SQLite ledger in a folder.
func databaseFile(dir string) string { return filepath.Join(dir, "countersign.db") }

// Init creates the folder dir with new keys and a new owner secret, and the
// ledger: SQLite in dir, or the schema in the PostgreSQL database at url. The
// ledger is bound to the keys. It is keys.ErrExists when dir is initialized.
func Init(ctx context.Context, dir, url string) error {
	if _, err := keys.Load(dir); url != "" && errors.Is(err, keys.ErrNotInitialized) {
		// The server first: it is what may not be there.
		if err := postgres.Migrate(ctx, url); err != nil {
			return err
		}
	}
	if err := keys.Init(dir); err != nil {
		return err
	}
	var err error
	if url == "" {
		err = sqlite.Create(ctx, databaseFile(dir))
	}
	if err == nil {
		err = bind(ctx, dir, url)
	}
	if err != nil {
		return fmt.Errorf("the keys in %s are there, the ledger is not; remove the folder and try again: %w", dir, err)
	}
	return nil
}

// bind notes in the ledger whose keys it belongs to.
func bind(ctx context.Context, dir, url string) error {
	k, err := keys.Load(dir)
	if err != nil {
		return err
	}
	l, _, err := openLedger(ctx, Config{Dir: dir, Database: url}, nil)
	if err != nil {
		return err
	}
	return errors.Join(l.CheckInstallation(ctx, k.Fingerprints()), l.Close())
}

// Migrate applies pending migrations to the ledger of the folder dir, or to the
// PostgreSQL database at url. Nothing pending is no error.
func Migrate(ctx context.Context, dir, url string) error {
	if url != "" {
		return postgres.Migrate(ctx, url)
	}
	return sqlite.Migrate(ctx, databaseFile(dir))
}

// openLedger opens the engine. failed is closed when it cannot go on; nil when
// the engine mends itself. afterCommit, unless nil, is called after each COMMIT.
func openLedger(ctx context.Context, c Config, afterCommit func()) (l engine, failed <-chan struct{}, err error) {
	if c.Clock == nil {
		c.Clock = new(ledger.Clock)
	}
	if c.Database != "" {
		p, err := postgres.Open(ctx, c.Database, postgres.Options{Clock: c.Clock, AfterCommit: afterCommit})
		if err != nil {
			return nil, nil, err
		}
		return p, nil, nil
	}
	if _, err := os.Stat(databaseFile(c.Dir)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s is not there: give --database when the ledger is on PostgreSQL, else restore the file", databaseFile(c.Dir))
	}
	s, err := sqlite.Open(ctx, databaseFile(c.Dir), sqlite.Options{Clock: c.Clock, AfterCommit: afterCommit, Fault: c.engineFault})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Failed(), nil
}
