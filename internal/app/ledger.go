package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"countersign/internal/contextturn/perimeter"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/settle"
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
	perimeter.Ledger
	settle.Ledger
	CheckInstallation(ctx context.Context, fingerprints map[string]string) error
	Ping(context.Context) error
	Close() error
}

// databaseFile is the SQLite ledger in a folder.
func databaseFile(dir string) string { return filepath.Join(dir, "countersign.db") }

// Init creates the folder dir with new keys and a new owner secret, and the
// ledger: SQLite in dir, or the schema in the PostgreSQL database at url, which
// has to be empty ([ErrForeign] when it is another installation's). The ledger is
// bound to the keys. It is keys.ErrExists when dir is initialized. A database that
// is not there or not empty leaves no folder behind.
func Init(ctx context.Context, dir, url string) error {
	if _, err := keys.Load(dir); url != "" && errors.Is(err, keys.ErrNotInitialized) {
		// The database first: it is what may not be there, or not be ours.
		if err := prepare(ctx, url); err != nil {
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
	if errors.Is(err, ErrForeign) {
		return errors.Join(err, keys.Remove(dir))
	}
	if err != nil {
		return fmt.Errorf("the keys in %s are there, the ledger is not; remove the folder and try again: %w", dir, err)
	}
	return nil
}

// prepare brings the schema into an empty database.
func prepare(ctx context.Context, url string) error {
	r, err := inspect(ctx, "", url)
	if err != nil {
		return err
	}
	if len(r.Keys) > 0 {
		return ErrForeign
	}
	return postgres.Migrate(ctx, url)
}

// bind notes in the ledger whose keys it belongs to. Of several Inits at once that
// were given one database the first has it; for the others it is ErrForeign.
func bind(ctx context.Context, dir, url string) error {
	k, err := keys.Load(dir)
	if err != nil {
		return err
	}
	l, _, err := openLedger(ctx, Config{Dir: dir, Database: url}, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(l.CheckInstallation(ctx, k.Fingerprints()), l.Close()); err != nil {
		if r, again := inspect(ctx, dir, url); again == nil && errors.Is(belongs(r, k, dir, url), ErrForeign) {
			return ErrForeign
		}
		return err
	}
	return nil
}

// openLedger opens the engine. failed is closed when it cannot go on; nil when
// the engine mends itself. afterCommit, unless nil, is called after each COMMIT.
func openLedger(ctx context.Context, c Config, afterCommit func()) (l engine, failed <-chan struct{}, err error) {
	if c.Clock == nil {
		c.Clock = new(ledger.Clock)
	}
	if c.Database != "" {
		p, err := postgres.Open(ctx, c.Database, postgres.Options{
			Clock: c.Clock, AfterCommit: afterCommit, Fault: c.EngineFault, Unlocked: c.Unlocked, Unpolled: c.Unpolled,
		})
		if err != nil {
			return nil, nil, err
		}
		return p, nil, nil
	}
	if err := present(c.Dir); err != nil {
		return nil, nil, err
	}
	s, err := sqlite.Open(ctx, databaseFile(c.Dir), sqlite.Options{Clock: c.Clock, AfterCommit: afterCommit, Fault: c.EngineFault})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Failed(), nil
}
