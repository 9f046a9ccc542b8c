package app_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign/internal/app"
	"countersign/internal/keys"
	"countersign/internal/ledger/sqlite"
)

// tables counts what a database holds.
func tables(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(context.Background())
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&n))
	return n
}

// A database that no init has seen, which a mistyped name may lead to, stays empty
// whatever command but init is given it.
func TestDatabaseWithoutLedger(t *testing.T) {
	ctx, url, dir := t.Context(), unmigrated(t), filepath.Join(t.TempDir(), "D")
	must(t, keys.Init(dir))
	if a, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:0", Database: url}); !errors.Is(err, app.ErrNoLedger) {
		if a != nil {
			a.Close()
		}
		t.Errorf("serve: %v, want ErrNoLedger", err)
	}
	if applied, err := app.Migrate(ctx, dir, url); !errors.Is(err, app.ErrNoLedger) || len(applied) > 0 {
		t.Errorf("migrate: %v, %v, want ErrNoLedger", applied, err)
	}
	if n := tables(t, url); n != 0 {
		t.Errorf("the database has %d tables now", n)
	}
	// Negative control: init may take it.
	other := filepath.Join(t.TempDir(), "E")
	must(t, app.Init(ctx, other, url))
	if n := tables(t, url); n == 0 {
		t.Error("init made no tables: the test shows nothing")
	}
}

// A schema to which no keys are bound is what an init left that was killed: the
// next one finishes it, and serve does not take it for its own.
func TestDatabaseUnbound(t *testing.T) {
	ctx, url, root := t.Context(), unmigrated(t), t.TempDir()
	must(t, app.Init(ctx, filepath.Join(root, "killed"), url))
	conn, err := pgx.Connect(ctx, url)
	must(t, err)
	_, err = conn.Exec(ctx, `DELETE FROM fingerprints`)
	must(t, errors.Join(err, conn.Close(ctx)))
	if _, err := app.Open(ctx, app.Config{Dir: filepath.Join(root, "killed"), Addr: "localhost:0", Database: url}); !errors.Is(err, app.ErrNoLedger) {
		t.Errorf("serve: %v, want ErrNoLedger", err)
	}
	must(t, app.Init(ctx, filepath.Join(root, "D"), url))
}

// The database of another installation is left alone, and no keys are made for it.
func TestDatabaseOfAnother(t *testing.T) {
	ctx, url, root := t.Context(), unmigrated(t), t.TempDir()
	first, second := filepath.Join(root, "first"), filepath.Join(root, "second")
	must(t, app.Init(ctx, first, url))
	if err := app.Init(ctx, second, url); !errors.Is(err, app.ErrForeign) {
		t.Errorf("init: %v, want ErrForeign", err)
	}
	if _, err := os.Stat(second); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("init left a folder behind: %v", err)
	}
	must(t, keys.Init(second))
	if _, err := app.Migrate(ctx, second, url); !errors.Is(err, app.ErrForeign) {
		t.Errorf("migrate: %v, want ErrForeign", err)
	}
	if applied, err := app.Migrate(ctx, first, url); err != nil || len(applied) > 0 {
		t.Errorf("migrate with its own keys: %v, %v", applied, err)
	}
}

// Several inits at once that were given one database: one has it, and the others
// leave nothing behind.
func TestInitRace(t *testing.T) {
	url, root := unmigrated(t), t.TempDir()
	outcome := make(chan error)
	const callers = 4
	for i := range callers {
		go func() {
			dir := filepath.Join(root, string(rune('a'+i)))
			err := app.Init(context.Background(), dir, url)
			if _, there := os.Stat(dir); err != nil && !errors.Is(there, fs.ErrNotExist) {
				err = errors.Join(err, errors.New("the folder is still there"))
			}
			outcome <- err
		}()
	}
	won := 0
	for range callers {
		switch err := <-outcome; {
		case err == nil:
			won++
		case !errors.Is(err, app.ErrForeign) || err.Error() != app.ErrForeign.Error():
			t.Errorf("a loser: %v, want ErrForeign alone", err)
		}
	}
	if won != 1 {
		t.Errorf("%d inits have the database, want 1", won)
	}
}

// What was applied is named, and only that.
func TestMigrateNames(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "D")
	must(t, app.Init(ctx, dir, ""))
	if applied, err := app.Migrate(ctx, dir, ""); err != nil || len(applied) > 0 {
		t.Errorf("nothing pending: %v, %v", applied, err)
	}
	must(t, os.Remove(filepath.Join(dir, "countersign.db")))
	must(t, os.WriteFile(filepath.Join(dir, "countersign.db"), nil, 0o600)) // of a program that knew no migration
	if applied, err := app.Migrate(ctx, dir, ""); err != nil || !slices.Equal(applied, sqlite.MigrationNames()) {
		t.Errorf("all pending: %v, %v, want %v", applied, err, sqlite.MigrationNames())
	}
	must(t, os.RemoveAll(filepath.Join(dir, "countersign.db")))
	if _, err := app.Migrate(ctx, dir, ""); err == nil {
		t.Error("migrate made a SQLite ledger")
	}
	if _, err := os.Stat(filepath.Join(dir, "countersign.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("migrate left a file behind: %v", err)
	}
}
