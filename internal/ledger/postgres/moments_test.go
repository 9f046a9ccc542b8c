package postgres

import (
	"context"
	"sync/atomic"
	"testing"

	"countersign/internal/ledger"
	"countersign/internal/ledger/ledgertest"
	"countersign/internal/pgtest"
)

// moments are where the server, and nobody else, has a transaction in its hands.
// Each is asked of the server before the client is killed.
var moments = []ledgertest.Moment{
	{Name: "statement waits for a row", Reach: waitForRows},
	{Name: "COMMIT runs a deferred trigger", Reach: waitInCommit},
	{Name: "COMMIT is flushed and not answered", Durable: true, Create: privateDatabase, Reach: waitForStandby},
}

// waitForRows locks the rows that the transactions are about to update.
func waitForRows(t testing.TB, url string, subjects []ledger.Key, resume func()) (release func()) {
	t.Helper()
	release = locked(t, url, subjects...)
	resume()
	waiting(t, connect(t, url), len(subjects), never)
	return release
}

// waitInCommit lets a trigger that runs at COMMIT wait for a lock. Nothing of the
// transaction is durable then.
func waitInCommit(t testing.TB, url string, subjects []ledger.Key, resume func()) (release func()) {
	t.Helper()
	holder := connect(t, url)
	for _, sql := range []string{
		`SELECT pg_advisory_lock(1)`,
		`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$`,
		`CREATE CONSTRAINT TRIGGER wait AFTER UPDATE ON subjects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()`,
	} {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	resume()
	waiting(t, connect(t, url), len(subjects), never)
	return func() {
		if _, err := holder.Exec(context.Background(), `SELECT pg_advisory_unlock(1)`); err != nil {
			t.Error(err)
		}
	}
}

// privateDatabase is on a server of its own, for settings of a whole server.
func privateDatabase(t testing.TB) string {
	t.Helper()
	server, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server.Database(t, Migrate)
}

// waitForStandby lets the server wait for a standby that is not there: the commit
// record is flushed, and the answer is not sent. The server takes the setting in by
// and by, so a session commits until it has to wait itself.
func waitForStandby(t testing.TB, url string, subjects []ledger.Key, resume func()) (release func()) {
	t.Helper()
	admin, first := connect(t, url), connect(t, url)
	set := func(value string) {
		for _, sql := range []string{`ALTER SYSTEM SET synchronous_standby_names = '` + value + `'`, `SELECT pg_reload_conf()`} {
			if _, err := admin.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	}
	set("nobody")
	var enough atomic.Bool
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !enough.Load() {
			_, err = first.Exec(context.Background(), `INSERT INTO probe (one, at) VALUES (1, 0) ON CONFLICT (one) DO UPDATE SET at = excluded.at`)
		}
		done <- err
	}()
	sessions(t, admin, `wait_event = 'SyncRep'`, 1, never)
	enough.Store(true)
	resume()
	sessions(t, admin, `wait_event = 'SyncRep' AND application_name = 'countersign'`, len(subjects), never)
	return func() {
		set("")
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
