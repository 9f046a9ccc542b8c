package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"countersign/internal/ledger"
	"countersign/internal/pgtest"
)

var workspaceKey = ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindWorkspace, ID: ledger.DefaultWorkspace}

// freezing is the Change that freezes the workspace.
func freezing(revision int64) ledger.Change {
	c := write(workspaceKey, revision, `{}`)
	c.Writes[0].Attributes = []ledger.Attribute{{Name: ledger.AttributeFrozen, Value: "1"}}
	return c
}

// beginAs opens a ledger whose transactions look after that time who blocks them, and are
// ended by the server after another. 0 leaves the product's.
func beginAs(t *testing.T, url string, look, limit time.Duration) *Ledger {
	t.Helper()
	if limit > 0 {
		was := commonSession["statement_timeout"]
		commonSession["statement_timeout"] = fmt.Sprint(limit.Milliseconds())
		t.Cleanup(func() { commonSession["statement_timeout"] = was })
	}
	l, err := open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.blocked = cmp.Or(look, l.blocked)
	l.start()
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// silentTransaction begins a transaction with one statement as a writer does, of which
// only the beginning arrives: the server waits for the rest with the locks held.
func silentTransaction(t *testing.T, url, sql string, args ...string) {
	t.Helper()
	conn := connect(t, url).PgConn()
	pipeline := conn.StartPipeline(t.Context())
	var values [][]byte
	for _, a := range args {
		values = append(values, []byte(a))
	}
	pipeline.SendQueryParams(sql, values, nil, nil, nil)
	pipeline.SendFlushRequest()
	if err := pipeline.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := pipeline.GetResults(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Conn().Close() }) // without a word
	sessions(t, connect(t, url), `state = 'active' AND wait_event = 'ClientRead'`, 1, never)
}

// A replica that fell silent in the middle of a transaction keeps nobody from freezing,
// nor from anything else; a transaction that a person left open is not ended.
func TestSilentTransaction(t *testing.T) {
	freezeLock := fmt.Sprint(lockKey("freeze", ledger.DefaultWorkspace))
	for _, c := range []struct {
		name, sql string
		args      []string
		change    func(key ledger.Key) ledger.Change
	}{
		{"a freeze", `SELECT pg_advisory_xact_lock_shared($1)`, []string{freezeLock}, func(ledger.Key) ledger.Change { return freezing(0) }},
		{"a write", `SELECT 1 FROM subjects WHERE kind = 'run' FOR UPDATE`, nil, func(key ledger.Key) ledger.Change { return write(key, 1, `{"n":2}`) }},
	} {
		blocked := func(t *testing.T, look, limit time.Duration) ledger.Result {
			url := pgtest.Database(t, Migrate)
			l := beginAs(t, url, look, limit)
			key := runKey()
			mustStore(t, l, write(key, 0, `{"n":1}`))
			silentTransaction(t, url, c.sql, c.args...)
			return l.Commit(t.Context(), c.change(key))
		}
		t.Run(c.name, func(t *testing.T) {
			if r := blocked(t, 0, 0); r.Outcome != ledger.Stored {
				t.Errorf("behind a silent transaction: %v", r.Err())
			}
		})
		t.Run(c.name+", control", func(t *testing.T) {
			if r := blocked(t, time.Hour, time.Second); r.Outcome == ledger.Stored {
				t.Error("stored behind a silent transaction that nobody has ended")
			}
		})
	}
	t.Run("a person's transaction stays", func(t *testing.T) {
		url := pgtest.Database(t, Migrate)
		l := beginAs(t, url, 50*time.Millisecond, time.Second)
		key := runKey()
		mustStore(t, l, write(key, 0, `{"n":1}`))
		release := locked(t, url, key)
		if r := l.Commit(t.Context(), write(key, 1, `{"n":2}`)); r.Outcome != ledger.NotStored {
			t.Errorf("behind an open transaction of somebody else: %v", r.Err())
		}
		release() // fails when that session was ended
	})
}

// L-8: what waits for a freeze is refused by it also in a database whose transactions
// are repeatable read by default, where a snapshot is older than the lock.
func TestIsolation(t *testing.T) {
	url := pgtest.Database(t, Migrate)
	err := execute(t.Context(), url, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', current_database(), 'repeatable read');
	END $$`)
	if err != nil {
		t.Fatal(err)
	}
	if r := behindFreeze(t, url); r.Outcome != ledger.Conflict || r.Which != ledger.OnFreeze {
		t.Errorf("a claim behind a freeze: %v, want the conflict", r.Err())
	}
	// Controls: sessions that keep the database's level are refused, and at that level the
	// claim passes.
	level := commonSession["default_transaction_isolation"]
	defer func() { isolation, commonSession["default_transaction_isolation"] = level, level }()
	commonSession["default_transaction_isolation"] = "repeatable read"
	if l, err := Open(t.Context(), url, Options{}); err == nil {
		t.Errorf("opened with transactions that are repeatable read: %v", l.Close())
	}
	isolation = "repeatable read"
	if r := behindFreeze(t, url); r.Outcome != ledger.Stored {
		t.Errorf("at repeatable read: %v; the check of this test cannot fail", r.Err())
	}
}

// behindFreeze lets a Change that must not pass a freeze wait for one's lock, and
// returns what became of it.
func behindFreeze(t *testing.T, url string) ledger.Result {
	t.Helper()
	l := begin(t, url, Options{})
	key, look := runKey(), connect(t, url)
	mustStore(t, l, write(key, 0, `{"n":1}`))
	s, _, err := l.Load(t.Context(), workspaceKey)
	if errors.Is(err, ledger.ErrNotFound) {
		mustStore(t, l, write(workspaceKey, 0, `{}`))
		s, _, err = l.Load(t.Context(), workspaceKey)
	}
	if err != nil {
		t.Fatal(err)
	}
	release := locked(t, url, workspaceKey)
	froze, claimed := make(chan ledger.Result, 1), make(chan ledger.Result, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() { froze <- l.Commit(ctx, freezing(s.Revision)) }()
	waiting(t, look, 1, never) // for the row, with the lock in its hands
	claim := write(key, 1, `{"n":2}`)
	claim.Freezable = true
	go func() { claimed <- l.Commit(ctx, claim) }()
	waiting(t, look, 2, never)
	release()
	if r := <-froze; r.Outcome != ledger.Stored {
		t.Fatalf("the freeze: %v", r.Err())
	}
	out := <-claimed
	mustStore(t, l, write(workspaceKey, s.Revision+1, `{}`))
	return out
}
