package postgres

import (
	"errors"
	"slices"
	"testing"

	"countersign/internal/ledger"
	"countersign/internal/pgtest"
)

// A ledger is either served or had alone.
func TestOffline(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Migrate)
	l := begin(t, url, Options{})
	if o, err := OpenOffline(t.Context(), url, nil); !errors.Is(err, ledger.ErrServed) {
		t.Errorf("alone while it is served: %v, %v", o, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o, err := OpenOffline(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := Open(t.Context(), url, Options{}); err == nil {
		l.Close()
		t.Error("served while somebody has it alone")
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	begin(t, url, Options{})
}

// The sessions that may write hold a ledger, and so does the one that shows that its
// server is alive: each is enough when the others are gone.
func TestOfflineIsHeldOff(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*Ledger){
		"nothing":                 func(*Ledger) {},
		"the sessions that write": func(l *Ledger) { l.writes.Close() },
		"the presence":            func(l *Ledger) { l.presence.leave() },
		"control: both":           func(l *Ledger) { l.writes.Close(); l.presence.leave() },
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.Database(t, Migrate)
			l, err := open(t.Context(), url, Options{}) // nothing runs by itself
			if err != nil {
				t.Fatal(err)
			}
			defer l.closePools()
			gone(l)
			o, err := OpenOffline(t.Context(), url, nil)
			if err == nil {
				defer o.Close()
			}
			if held := errors.Is(err, ledger.ErrServed); held != (name != "control: both") {
				t.Errorf("without %s: %v", name, err)
			}
			l.presence.leave()
		})
	}
}

// A ledger that is served by an older program is not migrated under its feet; without
// anything pending nothing is in the way.
func TestMigrateWhileServed(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Migrate)
	l := begin(t, url, Options{})
	if err := Migrate(t.Context(), url); err != nil {
		t.Errorf("nothing pending: %v", err)
	}
	later := append(slices.Clone(migrations), ledger.Migration{Number: len(migrations) + 1, Name: "later", SQL: "CREATE TABLE later (a INTEGER)", Checksum: "x"})
	if err := migrate(t.Context(), url, later); !errors.Is(err, ledger.ErrServed) {
		t.Errorf("while it is served: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), url, later); err != nil {
		t.Errorf("when nobody serves it: %v", err)
	}
}

// A server that lost every session, and with them what holds a replacement of its
// keys off, writes nothing more once they were replaced.
func TestReplacedKeysEndAServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		door func(*Ledger)
		want ledger.Outcome
	}{
		{"product", func(*Ledger) {}, ledger.NotStored},
		{"control: the keys are not compared", func(l *Ledger) { l.keys.Store(nil) }, ledger.Stored},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := pgtest.Database(t, Migrate)
			l := begin(t, url, Options{})
			if err := l.CheckInstallation(t.Context(), map[string]string{"evidence": "first"}); err != nil {
				t.Fatal(err)
			}
			mustStore(t, l, write(runKey(), 0, `{}`))
			test.door(l)
			conn := connect(t, url)
			if _, err := conn.Exec(t.Context(), `UPDATE fingerprints SET fingerprint = 'second'`); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if r := l.Commit(t.Context(), write(runKey(), 0, `{}`)); r.Outcome != test.want {
					t.Errorf("%v, want %v: %v", r.Outcome, test.want, r.Cause)
				}
			}
			if err := l.Ping(t.Context()); (err == nil) != (test.want == ledger.Stored) {
				t.Errorf("ping: %v", err)
			}
		})
	}
}

// The former key's last instant is not before the newest event, and a replacement that
// was made already tells the instant it had.
func TestReplaceKey(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Migrate)
	l := begin(t, url, Options{})
	if err := l.CheckInstallation(t.Context(), map[string]string{"evidence": "first", "mac": "m"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o, err := OpenOffline(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := o.ReplaceKey(t.Context(), "evidence", "other", "second"); !errors.Is(err, ledger.ErrOtherKey) {
		t.Errorf("another key: %v", err)
	}
	last, err := o.ReplaceKey(t.Context(), "evidence", "first", "second")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := o.ReplaceKey(t.Context(), "evidence", "first", "second"); err != nil || !again.Equal(last) {
		t.Errorf("again: %v, %v, want %v", again, err, last)
	}
	if _, err := o.ReplaceKey(t.Context(), "evidence", "second", "third"); err != nil {
		t.Fatal(err)
	}
	i, err := o.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"third": "", "second": "evidence", "first": "evidence", "fourth": "unknown"} {
		former, known := i.Knows(map[string]string{"evidence": key, "mac": "m"})
		if known != (want != "unknown") || want == "evidence" != (len(former) == 1) {
			t.Errorf("%s: %v, %v", key, former, known)
		}
	}
	if _, known := i.Knows(map[string]string{"evidence": "third"}); known {
		t.Error("an installation with a key less is known")
	}
}
