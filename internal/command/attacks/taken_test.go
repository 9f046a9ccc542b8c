package attacks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/app"
	"countersign/internal/command"
	"countersign/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// Of two commands that were given one empty database the second to bind it is told so, and
// what to do with the flags that this command has. The first one's ledger stays its own.
func TestDatabaseTakenMeanwhile(t *testing.T) {
	database := command.Database{Database: pgtest.Database(t, func(context.Context, string) error { return nil })}
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	must(t, initialize(t.Context(), first, database))
	err := initialize(t.Context(), second, database)
	if !errors.Is(err, app.ErrForeign) || command.StatusOf(err) != command.NotReady {
		t.Fatalf("the second got %v", err)
	}
	if text := err.Error(); strings.Contains(text, "--dir") || !strings.Contains(text, "give --database an empty one") {
		t.Errorf("the second is told %q", text)
	}
	if _, err := os.Stat(second); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the second has left a folder: %v", err)
	}
	if _, err := app.Migrate(t.Context(), first, database.Database); err != nil {
		t.Errorf("the ledger of the first: %v", err)
	}
	// Control: a command that has --dir is told of it.
	if text := command.Mend(err, second, database).Error(); !strings.Contains(text, "give --dir the folder") {
		t.Errorf("with --dir: %q", text)
	}
}
