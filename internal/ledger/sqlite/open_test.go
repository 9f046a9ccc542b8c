package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/ledger"
)

func create(t testing.TB) string {
	t.Helper()
	return backend.Create(t)
}

func mustOpen(t testing.TB, path string, o Options) *Ledger {
	t.Helper()
	return mustOpenWith(t, Open, path, o)
}

// opener is Open, or what a control puts in its place.
type opener func(context.Context, string, Options) (*Ledger, error)

func mustOpenWith(t testing.TB, open opener, path string, o Options) *Ledger {
	t.Helper()
	l, err := open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func newChange(id string) ledger.Change {
	return ledger.Change{Writes: []ledger.Write{{
		Key: ledger.Key{Workspace: "default", Kind: "run", ID: id}, Head: evidence.Genesis, State: []byte(`{}`),
	}}}
}

// edit changes the file behind the engine's back.
func edit(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", writerDSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query); err != nil {
		t.Fatal(err)
	}
}

func TestCreateKeepsWhatIsThere(t *testing.T) {
	path := create(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Create(t.Context(), path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second Create: %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file changed, %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestOpenNeverCreates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "countersign.db")
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "countersign init") {
		t.Errorf("open of nothing: %v", err)
	}
	if err := Migrate(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("migrate of nothing: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file appeared: %v", err)
	}
}

func TestFolderLock(t *testing.T) { locked(t, Open) }

func locked(t testing.TB, open opener) {
	path := create(t)
	l := mustOpenWith(t, open, path, Options{})
	if second, err := open(t.Context(), path, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open: %v", err)
		if err == nil {
			second.Close()
		}
	}
	if err := Migrate(t.Context(), path); !errors.Is(err, ErrLocked) {
		t.Errorf("Migrate beside Open: %v", err)
	}
	if err := Create(t.Context(), filepath.Join(filepath.Dir(path), "other.db")); !errors.Is(err, ErrLocked) {
		t.Errorf("Create beside Open: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path, Options{})
}

func TestMigrationsRefused(t *testing.T) {
	for _, one := range []struct {
		name, edit string
		want       error
	}{
		{"pending", `DELETE FROM migrations`, ErrPending},
		{"newer", `INSERT INTO migrations VALUES (3, '0003_later', 'x', 0)`, ErrNewer},
	} {
		path := create(t)
		edit(t, path, one.edit)
		if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, one.want) {
			t.Errorf("%s: %v", one.name, err)
		}
	}
	if !strings.Contains(ErrPending.Error(), "run `countersign migrate`") {
		t.Errorf("pending does not say what to run: %v", ErrPending)
	}
	path := create(t)
	edit(t, path, `UPDATE migrations SET checksum = 'another'`)
	if _, err := Open(t.Context(), path, Options{}); err == nil || errors.Is(err, ErrPending) || errors.Is(err, ErrNewer) {
		t.Errorf("another checksum: %v", err)
	}
	edit(t, path, `DROP TABLE migrations`)
	if _, err := Open(t.Context(), path, Options{}); err == nil {
		t.Error("a file that is no ledger was opened")
	}
}

// A later migration is pending until Migrate, applied once, and one that fails
// leaves nothing.
func TestMigrate(t *testing.T) {
	path := create(t)
	files := fstest.MapFS{"migrations/0003_next.sql": {Data: []byte(`CREATE TABLE next (a TEXT) STRICT;`)}}
	for _, name := range MigrationNames() {
		text, err := migrationFiles.ReadFile("migrations/" + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		files["migrations/"+name+".sql"] = &fstest.MapFile{Data: text}
	}
	known := ledger.ReadMigrations(files)
	for range 2 {
		if err := migrate(t.Context(), path, known); err != nil {
			t.Fatal(err)
		}
	}
	files["migrations/0004_broken.sql"] = &fstest.MapFile{Data: []byte(`CREATE TABLE half (a TEXT) STRICT; CREATE TABLE next (a TEXT) STRICT;`)}
	if err := migrate(t.Context(), path, ledger.ReadMigrations(files)); err == nil {
		t.Error("a broken migration passed")
	}
	db, err := sql.Open("sqlite", readerDSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var tables, record int
	if err := db.QueryRow(`SELECT (SELECT count(*) FROM sqlite_schema WHERE name IN ('next', 'half')), (SELECT max(number) FROM migrations)`).Scan(&tables, &record); err != nil {
		t.Fatal(err)
	}
	if tables != 1 || record != 3 {
		t.Errorf("%d tables and record %d, want 1 and 3", tables, record)
	}
}

func TestLinkedPair(t *testing.T) {
	if err := checkLinked(); err != nil {
		t.Error(err)
	}
	if err := checkPair([]*debug.Module{{Path: driverModule, Version: driverVersion}, {Path: libcModule, Version: "v1.0.0"}}); err == nil {
		t.Error("another libc was let through")
	}
	if err := checkPair([]*debug.Module{{Path: driverModule, Version: "x", Replace: &debug.Module{Path: driverModule, Version: "v1.0.0"}}}); err == nil {
		t.Error("a replaced driver was let through")
	}
	text, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{driverModule + " " + driverVersion, libcModule + " " + libcVersion} {
		if !strings.Contains(string(text), want) {
			t.Errorf("go.mod does not require %s", want)
		}
	}
}

// What commits rely on is asked of the connections themselves.
func TestConnections(t *testing.T) {
	path := create(t)
	l := mustOpen(t, path, Options{})
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "wal_autocheckpoint": "1000", "secure_delete": "1", "temp_store": "2"} {
		db, err := sql.Open("sqlite", writerDSN(path))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var got string
		if err := db.QueryRow(`PRAGMA ` + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", pragma, got, err, want)
		}
	}
	for range readers {
		if _, err := l.reads.db.Exec(`DELETE FROM subjects`); err == nil {
			t.Error("a connection for reads can write")
		}
	}
}

// The bytes of an erased text are in no file of the folder.
func TestEraseTextBytes(t *testing.T) {
	path := create(t)
	l := mustOpen(t, path, Options{})
	secret := "a sentence that nobody keeps " + strings.Repeat("and keeps ", 900) // with overflow pages
	text := evidence.NewText([evidence.SaltSize]byte{1}, secret)
	c := newChange("r")
	c.Writes[0].Texts = []evidence.Text{text}
	if r := l.Commit(t.Context(), c); r.Outcome != ledger.Stored {
		t.Fatal(r.Err())
	}
	holds := func() bool {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), "nobody keeps") || strings.Contains(string(raw), "and keeps and keeps") {
				return true
			}
		}
		return false
	}
	if !holds() {
		t.Fatal("negative control: the text is not found before it is erased")
	}
	if err := l.EraseText(t.Context(), c.Writes[0].Key, text.Commitment); err != nil {
		t.Fatal(err)
	}
	if holds() {
		t.Error("the erased text is still in a file")
	}
}

// With the process's clock standing still the three cases of NotAfter are exact
// without an event to pin the time.
func TestNotAfterByClock(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	l := mustOpen(t, create(t), Options{Clock: &ledger.Clock{Source: func() time.Time { return at }}})
	for id, one := range map[string]struct {
		notAfter time.Time
		want     ledger.Outcome
	}{
		"below": {at.Add(time.Millisecond), ledger.Stored}, "equal": {at, ledger.Conflict}, "above": {at.Add(-time.Millisecond), ledger.Conflict},
	} {
		c := newChange(id)
		c.NotAfter = one.notAfter
		if r := l.Commit(t.Context(), c); r.Outcome != one.want {
			t.Errorf("%s: %v", id, r.Err())
		}
	}
}

// The set decides, not the order, and no two sets share a digest by where a
// name ends.
func TestAttributeDigest(t *testing.T) {
	a, b := ledger.Attribute{Name: "a", Value: "1"}, ledger.Attribute{Name: "b", Value: "2"}
	same := canon.Hash(digest([]ledger.Attribute{a, b}))
	if canon.Hash(digest([]ledger.Attribute{b, a})) != same {
		t.Error("the order counts")
	}
	for _, other := range [][]ledger.Attribute{nil, {a}, {a, {Name: "b", Value: "3"}}, {{Name: "a", Value: "1b"}, {Name: "", Value: "2"}}, {{Name: "a1", Value: ""}, b}} {
		if canon.Hash(digest(other)) == same {
			t.Errorf("%v has the digest of another set", other)
		}
	}
}

func TestPathWithSpecialCharacters(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a b?c#d%20e")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "countersign.db")
	if err := Create(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	l := mustOpen(t, path, Options{})
	if r := l.Commit(t.Context(), newChange("r")); r.Outcome != ledger.Stored {
		t.Error(r.Err())
	}
}

// A copy of a file that was in use, without its -shm file, opens and holds what
// was acknowledged.
func TestOpenCopyOfLiveFile(t *testing.T) {
	path := create(t)
	l := mustOpen(t, path, Options{})
	if r := l.Commit(t.Context(), newChange("r")); r.Outcome != ledger.Stored {
		t.Fatal(r.Err())
	}
	restored := filepath.Join(t.TempDir(), "countersign.db")
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(path + suffix)
		if err != nil || len(raw) == 0 {
			t.Fatalf("%s: %d bytes, %v", suffix, len(raw), err)
		}
		if err := os.WriteFile(restored+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := mustOpen(t, restored, Options{}).Load(t.Context(), newChange("r").Writes[0].Key); err != nil {
		t.Error(err)
	}
}
