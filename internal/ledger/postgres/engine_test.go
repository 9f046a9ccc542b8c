package postgres

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/ledger/ledgertest"
	"countersign/internal/pgtest"
)

// begin opens the database and starts it.
func begin(t testing.TB, url string, o Options) *Ledger {
	t.Helper()
	l, err := open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	l.start()
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func runKey() ledger.Key {
	return ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, ID: uuid.Must(uuid.NewV7()).String()}
}

// write is a Change of one subject without events.
func write(key ledger.Key, revision int64, state string) ledger.Change {
	return ledger.Change{Writes: []ledger.Write{{Key: key, Revision: revision, Head: evidence.Genesis, State: []byte(state)}}}
}

func mustStore(t testing.TB, l *Ledger, c ledger.Change) {
	t.Helper()
	if r := l.Commit(t.Context(), c); r.Outcome != ledger.Stored {
		t.Fatal(r.Err())
	}
}

// revision reads a subject behind the engine's back; 0 when it is not there.
func revision(t testing.TB, conn *pgx.Conn, key ledger.Key) (n int64) {
	t.Helper()
	err := conn.QueryRow(t.Context(), `SELECT coalesce((SELECT revision FROM subjects WHERE workspace = $1 AND kind = $2 AND id = $3), 0)`,
		key.Workspace, key.Kind, key.ID).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// patience bounds how long a fact of the server is asked for until it is there.
const patience = time.Minute

// waiting returns when that many sessions of the database wait for a lock, or
// when until says so.
func waiting(t testing.TB, conn *pgx.Conn, want int, until func() bool) {
	t.Helper()
	sessions(t, conn, `wait_event_type = 'Lock'`, want, until)
}

// sessions returns when the condition holds for that many sessions of the
// database, or when until says so.
func sessions(t testing.TB, conn *pgx.Conn, condition string, want int, until func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !until() {
		var n int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND `+condition).Scan(&n); err != nil {
			t.Fatalf("%d of %d sessions with %s: %v", n, want, condition, err)
		}
		if n >= want {
			return
		}
	}
}

func never() bool { return false }

// quiet returns when no session of the ledger runs a statement.
func quiet(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	sessions(t, conn, `NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'countersign' AND state = 'active')`, 1, never)
}

// locked holds the rows of subjects in a transaction of its own until release.
func locked(t testing.TB, url string, keys ...ledger.Key) (release func()) {
	t.Helper()
	tx, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(keys))
	for n, key := range keys {
		ids[n] = key.ID
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM subjects WHERE id = ANY($1) FOR UPDATE`, ids); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// committer is waited, or what a control puts in its place.
type committer func(*Ledger, ledger.Change) ledger.Result

func waited(l *Ledger, c ledger.Change) ledger.Result { return l.Commit(context.Background(), c) }

func commit(l *Ledger, c ledger.Change) <-chan ledger.Result {
	answer := make(chan ledger.Result, 1)
	go func() { answer <- l.Commit(context.Background(), c) }()
	return answer
}

// A claim has checked the freeze and waits for a row when the workspace is
// frozen. The freeze must not be answered before the claim is. With the lock
// taken out, it is, and the claim is stored behind it.
func TestFreezeWaitsForClaims(t *testing.T) {
	t.Parallel()
	if err := freezeBehindClaim(t, Options{}); err != nil {
		t.Error(err)
	}
	if err := freezeBehindClaim(t, Options{Unlocked: true}); err == nil {
		t.Error("control: without the lock the check notices nothing")
	}
}

func freezeBehindClaim(t *testing.T, o Options) error {
	url := pgtest.Database(t, Migrate)
	a, b := begin(t, url, o), begin(t, url, o)
	look := connect(t, url)
	key := runKey()
	mustStore(t, a, write(key, 0, `{}`))
	release := locked(t, url, key)
	claim := write(key, 1, `{"claimed":true}`)
	claim.Freezable = true
	claimed := commit(a, claim)
	waiting(t, look, 1, never)

	freeze := write(ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindWorkspace, ID: ledger.DefaultWorkspace}, 0, `{}`)
	freeze.Writes[0].Attributes = []ledger.Attribute{{Name: ledger.AttributeFrozen, Value: "1"}}
	frozen := commit(b, freeze)
	waiting(t, look, 2, func() bool { return len(frozen) > 0 })
	early := len(frozen) > 0
	release()
	if r := <-frozen; r.Outcome != ledger.Stored {
		t.Fatalf("freeze: %v", r.Err())
	}
	r := <-claimed
	if early && r.Outcome == ledger.Stored {
		return errors.New("a claim is stored behind a freeze that was answered")
	}
	if r.Outcome != ledger.Stored {
		return fmt.Errorf("the claim was first and is not stored: %w", r.Err())
	}
	return nil
}

// Two claims of one run that wait together: one wins, since they never share a
// statement. Put into one statement by hand, both win.
func TestTwoClaimsInOneBatch(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Migrate)
	l := begin(t, url, Options{})
	claims := func() []*job {
		key := runKey()
		mustStore(t, l, write(key, 0, `{}`))
		a, b := write(key, 1, `{"by":"a"}`), write(key, 1, `{"by":"b"}`)
		return []*job{newJob(&a), newJob(&b)}
	}
	won := func(pair []*job) (n int) {
		for _, j := range pair {
			if r := <-j.answered; r.Outcome == ledger.Stored {
				n++
			}
		}
		return n
	}
	for range 20 {
		pair := claims()
		group := &queue{waiting: slices.Clone(pair), limit: 64}
		group.wake = sync.NewCond(&group.mu)
		for len(group.waiting) > 0 {
			l.commit(group.cut(64))
		}
		if n := won(pair); n != 1 {
			t.Fatalf("%d of two claims won", n)
		}
	}
	pair := claims()
	l.commit(pair)
	if n := won(pair); n != 2 {
		t.Errorf("control: %d of two claims in one statement won", n)
	}
}

// A permit that another transaction spends behind the statement's snapshot fails
// the whole statement. The neighbours are stored all the same, and the claim is a
// conflict. So are the neighbours of a Change that the server refuses, by what it
// holds or for a full disk or a failed write.
func TestFailedStatementHarmsNoNeighbour(t *testing.T) {
	t.Parallel()
	harmsNoNeighbour(t, (*Ledger).commit)
}

func harmsNoNeighbour(t testing.TB, commit func(*Ledger, []*job)) {
	url := pgtest.Database(t, Migrate)
	var transactions atomic.Int64
	l := begin(t, url, Options{Fault: func(point string) error {
		if point == beforeBegin {
			transactions.Add(1)
		}
		return nil
	}})
	look := connect(t, url)
	group := func(spoil func(*ledger.Change)) (jobs []*job) {
		for n := range 4 {
			c := write(runKey(), 0, `{}`)
			if n == 1 {
				spoil(&c)
			}
			jobs = append(jobs, newJob(&c))
		}
		return jobs
	}
	check := func(jobs []*job, outcome ledger.Outcome, which ledger.Which) {
		t.Helper()
		for n, j := range jobs {
			r, want := <-j.answered, ledger.Stored
			if n == 1 {
				want = outcome
			}
			if r.Outcome != want || n == 1 && r.Which != which {
				t.Errorf("Change %d: %v", n, r.Err())
			}
			if stored := revision(t, look, j.change.Writes[0].Key) == 1; stored != (want == ledger.Stored) {
				t.Errorf("Change %d: stored is %v", n, stored)
			}
		}
		if n := transactions.Swap(0); n != 5 {
			t.Errorf("%d transactions, want one for all and one for each", n)
		}
	}

	tx, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `INSERT INTO spent_permits VALUES ('default', 'p', 'run', 'r', 'claimed', '', 'x')`); err != nil {
		t.Fatal(err)
	}
	jobs := group(func(c *ledger.Change) {
		c.Fates = []ledger.Fate{{Workspace: ledger.DefaultWorkspace, PermitID: "p", Subject: c.Writes[0].Key, Fate: "claimed"}}
	})
	go commit(l, jobs)
	waiting(t, look, 1, never)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(jobs, ledger.Conflict, ledger.OnPermit)

	jobs = group(func(c *ledger.Change) { c.Writes[0].Attributes = []ledger.Attribute{{Name: "n", Value: "no\x00text"}} })
	commit(l, jobs)
	check(jobs, ledger.NotStored, "")

	for _, full := range []ledgertest.Refusal{backend.DiskFull, backend.IOError} {
		jobs = group(func(c *ledger.Change) {
			c.Writes[0].Sealed = []ledger.Sealed{{Name: "large", Bytes: make([]byte, 60_000)}}
		})
		mend, err := full.Begin(t.Context(), l, url, jobs[1].change.Writes[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		commit(l, jobs)
		check(jobs, ledger.NotStored, "")
		if err := mend(); err != nil {
			t.Fatal(err)
		}
	}
}

// cutSessions ends every other session of the database and returns when they
// are gone.
func cutSessions(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var n int
		if err := conn.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
			AND application_name = 'countersign'`).Scan(&n); err != nil || n == 0 {
			return err
		}
	}
}

// All sessions are ended by the server while a commit stands at each fail point.
// The answer says what is in the table, and the engine mends itself: the next
// commit is stored, and the holder of its leases is alive again.
func TestKilledConnections(t *testing.T) {
	t.Parallel()
	for _, point := range Points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Database(t, Migrate)
			look, admin := connect(t, url), connect(t, url)
			var armed atomic.Bool
			l := begin(t, url, Options{Fault: func(p string) error {
				if p == point && armed.CompareAndSwap(true, false) {
					return cutSessions(context.Background(), admin)
				}
				return nil
			}})
			for range 5 {
				key := runKey()
				armed.Store(true)
				r := l.Commit(t.Context(), write(key, 0, `{}`))
				if armed.Load() {
					t.Fatal("the point was not hit")
				}
				stored := revision(t, look, key) == 1
				if r.Outcome != ledger.Stored && r.Outcome != ledger.NotStored || stored != (r.Outcome == ledger.Stored) {
					t.Fatalf("%v, and stored is %v", r.Err(), stored)
				}
				mustStore(t, l, write(runKey(), 0, `{}`))
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for alive := false; !alive; {
				var free bool
				if err := look.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock_shared($1)`, lockKey("holder", l.Holder())).Scan(&free); err != nil {
					t.Fatal(err)
				}
				alive = !free
			}
		})
	}
}

// The server ends every session of both pools, all of which were in use a moment
// ago. Each of the next reads and commits succeeds at once: none is handed a dead
// session. From a pool that does not look, as many fail as it has sessions.
func TestPoolsOfDeadSessions(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Migrate)
	admin := connect(t, url)
	l := begin(t, url, Options{})
	key := runKey()
	mustStore(t, l, write(key, 0, `{}`))
	config := l.reads.Config()
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	blind, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer blind.Close()
	for range 5 {
		for _, pool := range []*pgxpool.Pool{l.writes, l.reads, blind} {
			fill(t, pool)
		}
		if err := cutSessions(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
		for n := range directWriters + spare {
			if _, _, err := l.Load(t.Context(), key); err != nil {
				t.Fatalf("read %d: %v", n, err)
			}
			mustStore(t, l, write(runKey(), 0, `{}`))
		}
		for n := range readers {
			if _, err := blind.Exec(t.Context(), `SELECT 1`); err == nil {
				t.Fatalf("control: query %d of a pool that does not look succeeds", n)
			}
		}
	}
}

// fill opens every session that the pool may have.
func fill(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	for pool.Stat().AcquiredConns() < pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
}

// The answer is lost while the server still waits for a row. The fate is fixed
// before the caller is told: what was not stored then never is.
func TestLostAnswerOfARunningStatement(t *testing.T) {
	t.Parallel()
	lostAnswer(t, waited)
}

func lostAnswer(t testing.TB, commit committer) {
	url := pgtest.Database(t, Migrate)
	look := connect(t, url)
	var armed atomic.Bool
	l := begin(t, url, Options{Fault: func(p string) error {
		if p == afterSend && armed.CompareAndSwap(true, false) {
			waiting(t, look, 1, never)
			return errors.New("cut")
		}
		return nil
	}})
	key := runKey()
	mustStore(t, l, write(key, 0, `{}`))
	release := locked(t, url, key)
	armed.Store(true)
	if r := commit(l, write(key, 1, `{"n":1}`)); r.Outcome != ledger.NotStored {
		t.Errorf("cut while it waited: %v, %v", r.Outcome, r.Cause)
	}
	release()
	quiet(t, look)
	mustStore(t, l, write(key, 1, `{"n":2}`)) // would be a conflict behind the first
	if n := revision(t, look, key); n != 2 {
		t.Errorf("revision %d, want 2", n)
	}
}

// The server crashes under load, twice, each time while a transaction is sent and
// its answer is then lost. In the first round the server is back at once and lost
// answers are looked up. In the second it stays down until everybody has been
// answered, and whoever waits for the lost answer is told Unknown. Every Stored is
// there after the recovery, no NotStored is, and the same opening goes on working.
func TestServerCrash(t *testing.T) {
	server, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	url := server.Database(t, Migrate)
	var armed atomic.Bool
	sent, down := make(chan struct{}), make(chan struct{})
	l := begin(t, url, Options{Fault: func(point string) error {
		if point == afterSend && armed.CompareAndSwap(true, false) {
			sent <- struct{}{}
			<-down
			return errors.New("the answer is lost")
		}
		return nil
	}})
	for _, patient := range []bool{false, true} {
		const callers, before = 24, 600
		answers := make(chan answer, 4096)
		var stored atomic.Int64
		var stop atomic.Bool
		loaded := make(chan struct{})
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for !stop.Load() {
					key := runKey()
					r := l.Commit(context.Background(), write(key, 0, `{}`))
					answers <- answer{key, r}
					if r.Outcome != ledger.Stored {
						return
					}
					if stored.Add(1) == before {
						close(loaded)
					}
				}
			})
		}
		go func() { wg.Wait(); close(answers) }()
		var all []answer
		done := make(chan struct{})
		go func() {
			defer close(done)
			for a := range answers {
				all = append(all, a)
			}
		}()
		<-loaded
		armed.Store(true)
		<-sent
		if err := server.StopImmediate(); err != nil {
			t.Fatal(err)
		}
		down <- struct{}{}
		if patient {
			<-done
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		stop.Store(true)
		<-done
		look := connect(t, url)
		truthful := func(t testing.TB, tell telling) {
			answeredTruly(t, look, all, tell, patient, before)
		}
		truthful(t, honest)
		if patient { // everybody else was told NotStored or Unknown
			ledgertest.RunControls(t, []ledgertest.Control{
				{Test: "TestServerCrash", Off: "saying what was not stored", Want: "and it is there: false",
					Check: func(t testing.TB) { truthful(t, as(ledger.NotStored, ledger.Stored)) }},
				{Test: "TestServerCrash", Off: "saying what is stored", Want: "and it is there: true",
					Check: func(t testing.TB) { truthful(t, as(ledger.Stored, ledger.NotStored)) }},
				{Test: "TestServerCrash", Off: "saying that a fate is unknown", Want: "nobody was told Unknown",
					Check: func(t testing.TB) { truthful(t, as(ledger.Unknown, ledger.NotStored)) }},
			})
		}
		mustStore(t, l, write(runKey(), 0, `{}`))
	}
}

// answer is what became of a Change that creates a subject.
type answer struct {
	key ledger.Key
	r   ledger.Result
}

// answeredTruly compares the answers, as they are told, with what is there.
func answeredTruly(t testing.TB, look *pgx.Conn, all []answer, tell telling, patient bool, want int) {
	t.Helper()
	count := make(map[ledger.Outcome]int)
	for _, a := range all {
		r := tell(a.r)
		count[r.Outcome]++
		there := revision(t, look, a.key) == 1
		switch {
		case r.Outcome == ledger.Stored && !there, r.Outcome == ledger.NotStored && there, r.Outcome == ledger.Conflict:
			t.Errorf("%v (%v), and it is there: %v", r.Outcome, r.Cause, there)
		}
	}
	t.Logf("down until all were answered: %v; answers: %v", patient, count)
	if patient && count[ledger.Unknown] == 0 {
		t.Error("nobody was told Unknown")
	}
	if count[ledger.Stored] < want {
		t.Errorf("%d commits were stored, want %d", count[ledger.Stored], want)
	}
}

// Two openings raise one subject 60 times together, with an event each: no step
// is lost and the chain has no gap.
func TestReplicasRace(t *testing.T) {
	t.Parallel()
	replicasRace(t, waited)
}

func replicasRace(t testing.TB, commit committer) {
	url := pgtest.Database(t, Migrate)
	a, b := begin(t, url, Options{}), begin(t, url, Options{})
	key := runKey()
	signing := signingKey(t)
	step := func(l *Ledger) (ledger.Result, error) {
		s, now, err := l.Load(t.Context(), key)
		if errors.Is(err, ledger.ErrNotFound) {
			s, err = ledger.Subject{Key: key, Head: evidence.Genesis}, nil
		}
		if err != nil {
			return ledger.Result{}, err
		}
		events, err := evidence.Seal(signing, key.ID, s.Link(), now, []evidence.Draft{{ID: uuid.Must(uuid.NewV7()).String(), Type: "step", Data: map[string]any{}}})
		if err != nil {
			return ledger.Result{}, err
		}
		return commit(l, ledger.Change{Writes: []ledger.Write{{Key: key, Revision: s.Revision, Head: s.Head, State: []byte(`{}`), Events: events}}}), nil
	}
	var wg sync.WaitGroup
	for _, l := range []*Ledger{a, b, a, b} {
		wg.Go(func() {
			for done := 0; done < 15; {
				r, err := step(l)
				switch {
				case err != nil || r.Outcome != ledger.Stored && r.Outcome != ledger.Conflict:
					t.Errorf("%v, %v", r.Err(), err)
					return
				case r.Outcome == ledger.Stored:
					done++
				}
			}
		})
	}
	wg.Wait()
	s, _, err := b.Load(t.Context(), key)
	if err != nil || s.Revision != 60 || s.Sequence != 60 {
		t.Fatalf("revision %d, sequence %d, %v: want 60", s.Revision, s.Sequence, err)
	}
	events, err := a.Events(t.Context(), key, 0, 0)
	if err != nil || len(events) != 60 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for n, e := range events {
		if e.Sequence != int64(n+1) || n > 0 && e.PreviousHash != events[n-1].Hash {
			t.Fatalf("the chain breaks at %d", n+1)
		}
	}
}

// A watcher of another replica is woken by NOTIFY alone, and by the poll alone
// when the notification is lost.
func TestWakesOtherReplicas(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		unpolled bool
		lost     error
	}{"NOTIFY": {unpolled: true}, "poll": {lost: errors.New("lost")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Database(t, Migrate)
			var notifications atomic.Int64
			writer := begin(t, url, Options{Fault: func(point string) error {
				if point != beforeNotify {
					return nil
				}
				notifications.Add(1)
				return one.lost
			}})
			reader := begin(t, url, Options{Unpolled: one.unpolled})
			key := runKey()
			mustStore(t, writer, write(key, 0, `{}`))
			w := reader.Watch(key)
			defer w.Close()
			for n := int64(1); n <= 3; n++ {
				if !one.unpolled && n == 1 {
					<-w.C // the first look at a subject
				}
				mustStore(t, writer, write(key, n, `{}`))
				for {
					<-w.C
					if s, _, err := reader.Load(t.Context(), key); err != nil || s.Revision == n+1 {
						if err != nil {
							t.Fatal(err)
						}
						break
					}
				}
			}
			if notifications.Load() == 0 {
				t.Error("there was no notification to lose")
			}
		})
	}
}

// Durability is a setting of our sessions, whatever the database's default is.
func TestSessionsFlush(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Migrate)
	conn := connect(t, url)
	var name string
	if err := conn.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `ALTER DATABASE `+name+` SET synchronous_commit = off`); err != nil {
		t.Fatal(err)
	}
	l := begin(t, url, Options{})
	var setting string
	if err := l.writes.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&setting); err != nil || setting != "on" {
		t.Errorf("synchronous_commit is %q, %v", setting, err)
	}
	if _, err := l.reads.Exec(t.Context(), `DELETE FROM events`); err == nil {
		t.Error("a reader's session can write")
	}
}

// Four migrations at once make one schema; a database of an older or newer
// program, or of another one, is refused.
func TestMigrate(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	if _, err := Open(t.Context(), url, Options{}); !errors.Is(err, ErrPending) {
		t.Errorf("an empty database: %v", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := Migrate(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	begin(t, url, Options{})
	conn := connect(t, url)
	for _, one := range []struct {
		sql  string
		want error
	}{
		{`INSERT INTO migrations VALUES (3, '0003_later', 'x', 0)`, ErrNewer},
		{`DELETE FROM migrations`, ErrPending},
		{`INSERT INTO migrations VALUES (1, '0001_ledger', 'another', 0)`, nil},
	} {
		if _, err := conn.Exec(t.Context(), one.sql); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), url, Options{}); err == nil || one.want != nil && !errors.Is(err, one.want) {
			t.Errorf("%s: %v", one.sql, err)
		}
	}
	if err := Migrate(t.Context(), url); err == nil {
		t.Error("a schema of other bytes is migrated")
	}
}

func TestLockKeysDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[int64]bool)
	for _, purpose := range []string{"migrate", "holder", "freeze", "installation", "served"} {
		for _, name := range []string{"", "a", "b"} {
			if key := lockKey(purpose, name); seen[key] {
				t.Errorf("%s %q has the key of another lock", purpose, name)
			} else {
				seen[key] = true
			}
		}
	}
}

func signingKey(t testing.TB) evidence.SigningKey {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return evidence.NewSigningKey(private)
}
