package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
)

var (
	// ErrNoLedger is about a PostgreSQL database that no Init has made a ledger of.
	// Its name may be mistyped: only Init may take it for an installation's.
	ErrNoLedger = errors.New("app: the database holds no ledger")
	// ErrForeign is about a ledger that was made with other keys.
	ErrForeign = errors.New("app: the ledger belongs to another installation")
	// ErrFormerKeys is about a folder that a rotation has left behind: the ledger knows
	// a newer key.
	ErrFormerKeys = errors.New("app: the folder's keys are older than the ledger's")
)

// inspect reads what the PostgreSQL database at address says of its installation, or
// the SQLite file of the folder dir when address is "".
func inspect(ctx context.Context, dir, address string) (ledger.Installation, error) {
	if address != "" {
		return postgres.Inspect(ctx, address)
	}
	if err := present(dir); err != nil {
		return ledger.Installation{}, err
	}
	return sqlite.Inspect(ctx, databaseFile(dir))
}

// present returns nil when the folder holds a SQLite ledger.
func present(dir string) error {
	_, err := os.Stat(databaseFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there: give --database when the ledger is on PostgreSQL, else restore the file", databaseFile(dir))
	}
	return err
}

// belongs returns nil when the ledger i was made with these keys, or knows them as the
// ones in use. A SQLite file in the folder of its keys may be one that its Init had no
// time to bind.
func belongs(i ledger.Installation, k *keys.Keys, dir, url string) error {
	if len(i.Keys) == 0 {
		if url != "" {
			return ErrNoLedger
		}
		return nil
	}
	former, known := i.Knows(k.Fingerprints())
	switch {
	case !known:
		return ErrForeign
	case len(former) == 0:
		return nil
	}
	return leftBehind(dir, former[0])
}

// leftBehind is the error of a folder with a key that the ledger has a newer one of.
func leftBehind(dir, name string) error {
	if keys.Interrupted(dir, name) {
		return &keys.InterruptedError{Name: name}
	}
	return fmt.Errorf("%w: the %s key was replaced", ErrFormerKeys, name)
}

// otherKeys says why the ledger refused the folder's keys.
func (a *App) otherKeys(ctx context.Context, refusal error) error {
	i, err := inspect(ctx, a.config.Dir, a.config.Database)
	if err == nil {
		err = belongs(i, a.keys, a.config.Dir, a.config.Database)
	}
	if _, interrupted := errors.AsType[*keys.InterruptedError](err); interrupted || errors.Is(err, ErrFormerKeys) {
		return err
	}
	return fmt.Errorf("%w; give --dir the folder that the ledger was made with", refusal)
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
		err = belongs(before, k, dir, url)
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
	if len(after.Migrations) > len(before.Migrations) {
		applied = after.Migrations[len(before.Migrations):]
	}
	return applied, errors.Join(err, errAfter)
}
