package app_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/app"
	"countersign/internal/keys"
	"countersign/internal/pgtest"
)

// headOf is the run's head as its view shows it.
func headOf(t *testing.T, c app.Config, id string) string {
	t.Helper()
	c.Addr = "localhost:0"
	a, stop := serve(t, c)
	defer func() { must(t, stop()) }()
	r, err := signedIn(t, a.Origin(), c.Dir).Export(context.Background(), id)
	if err != nil || r.Status != http.StatusOK {
		t.Fatalf("the run: %d %s, %v", r.Status, r.Reason, err)
	}
	var export struct{ Head string }
	must(t, json.Unmarshal(r.Body, &export))
	return export.Head
}

// changes makes a run unless it has its id, and issues a token for it.
func changes(t *testing.T, c app.Config, id string) string {
	t.Helper()
	c.Addr = "localhost:0"
	a, stop := serve(t, c)
	defer func() { must(t, stop()) }()
	owner, err := signedIn(t, a.Origin(), c.Dir), error(nil)
	if id == "" {
		id, _, err = owner.CreateRun(context.Background(), localRun)
		must(t, err)
	}
	_, _, err = owner.IssueToken(context.Background(), id)
	must(t, err)
	return id
}

// A copy of the folder, taken while nothing serves, is a whole backup on SQLite.
func TestBackupSQLite(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
	must(t, app.Init(ctx, dir, ""))
	id := changes(t, app.Config{Dir: dir}, "")
	backup := filepath.Join(t.TempDir(), "backup")
	must(t, os.CopyFS(backup, os.DirFS(dir)))
	must(t, filepath.WalkDir(backup, func(path string, e fs.DirEntry, err error) error { // CopyFS gives everybody what the umask lets it
		if err == nil && !e.IsDir() && !strings.HasSuffix(path, ".pub") {
			err = os.Chmod(path, 0o600)
		}
		return err
	}))
	must(t, os.Chmod(backup, 0o700))
	must(t, os.Chmod(filepath.Join(backup, "keys"), 0o700))
	before := headOf(t, app.Config{Dir: dir}, id)
	if got := headOf(t, app.Config{Dir: backup}, id); got != before {
		t.Errorf("the restored head is %s, want %s", got, before)
	}
	must(t, os.RemoveAll(dir))
	must(t, os.Rename(backup, dir))
	changes(t, app.Config{Dir: dir}, id) // and it can be written to
}

// pg_dump and pg_restore into another database do it on PostgreSQL, with the same
// keys and no others.
func TestBackupPostgreSQL(t *testing.T) {
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop()) })
	empty := func() string {
		return server.Database(t, func(context.Context, string) error { return nil })
	}
	ctx, dir, url := context.Background(), filepath.Join(t.TempDir(), "D"), empty()
	must(t, app.Init(ctx, dir, url))
	id := changes(t, app.Config{Dir: dir, Database: url}, "")
	before := headOf(t, app.Config{Dir: dir, Database: url}, id)
	dump, restored := filepath.Join(t.TempDir(), "backup.dump"), empty()
	program(t, server, "pg_dump", "--format", "custom", "--file", dump, url)
	changes(t, app.Config{Dir: dir, Database: url}, id) // is not in the backup
	if headOf(t, app.Config{Dir: dir, Database: url}, id) == before {
		t.Fatal("the head did not move: the test shows nothing")
	}
	program(t, server, "pg_restore", "--no-owner", "--exit-on-error", "--dbname", restored, dump)
	if got := headOf(t, app.Config{Dir: dir, Database: restored}, id); got != before {
		t.Errorf("the restored head is %s, want %s", got, before)
	}
	changes(t, app.Config{Dir: dir, Database: restored}, id)
	other := filepath.Join(t.TempDir(), "E")
	must(t, keys.Init(other))
	if a, err := app.Open(ctx, app.Config{Dir: other, Addr: "localhost:0", Database: restored}); err == nil || !strings.Contains(err.Error(), "key is not the one") {
		if a != nil {
			a.Close()
		}
		t.Errorf("other keys: %v, want a refusal", err)
	}
}

// program runs a client program of the server's distribution.
func program(t *testing.T, server *pgtest.Server, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), server.Bin(name), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
