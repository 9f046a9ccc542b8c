package control_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/pgtest"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
	"countersign/internal/supervision/records"
)

// TestMain keeps rapid from leaving files of failed draws in the tree; a failure prints
// its draws and its seed.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.checks": "15"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(pgtest.Main(m))
}

type engine interface {
	control.Ledger
	records.Ledger
	Close() error
}

// between stands between a plane and its ledger, where a test may do something.
type between struct {
	engine
	commit func(ctx context.Context, c ledger.Change, commit func(context.Context, ledger.Change) ledger.Result) ledger.Result
	load   func(*ledger.Subject)
	events func([]evidence.Event) []evidence.Event
	fails  string // a read that does
}

var errBroken = errors.New("the connection is broken")

func (b *between) broken(read string) error {
	if b.fails == read {
		return errBroken
	}
	return nil
}

func (b *between) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if b.commit != nil {
		return b.commit(ctx, c, b.engine.Commit)
	}
	return b.engine.Commit(ctx, c)
}

func (b *between) Load(ctx context.Context, key ledger.Key) (ledger.Subject, time.Time, error) {
	s, now, err := b.engine.Load(ctx, key)
	if b.load != nil {
		b.load(&s)
	}
	return s, now, errors.Join(err, b.broken("load"))
}

func (b *between) Events(ctx context.Context, key ledger.Key, after int64, limit int) ([]evidence.Event, error) {
	list, err := b.engine.Events(ctx, key, after, limit)
	if b.events != nil {
		list = b.events(list)
	}
	return list, errors.Join(err, b.broken("events"))
}

func (b *between) Find(ctx context.Context, q ledger.Query) ([]ledger.Subject, error) {
	list, err := b.engine.Find(ctx, q)
	return list, errors.Join(err, b.broken("find"))
}

func (b *between) Record(ctx context.Context, workspace, principal, key string) (ledger.Record, error) {
	if err := b.broken("record"); err != nil {
		return ledger.Record{}, err
	}
	if b.broken("no record") != nil {
		return ledger.Record{}, ledger.ErrNotFound
	}
	return b.engine.Record(ctx, workspace, principal, key)
}

func (b *between) Credential(ctx context.Context, workspace, hash string) (ledger.Credential, time.Time, error) {
	if err := b.broken("credential"); err != nil {
		return ledger.Credential{}, time.Time{}, err
	}
	return b.engine.Credential(ctx, workspace, hash)
}

func (b *between) Now(ctx context.Context) (time.Time, error) {
	now, err := b.engine.Now(ctx)
	return now, errors.Join(err, b.broken("now"))
}

// house is a plane on an engine whose clock stands until it is moved.
type house struct {
	*control.Plane
	t      *testing.T
	config control.Config
	ledger *between
	clock  *ledger.Clock
	start  func() engine            // opens the ledger
	rows   func(text string) string // what a query yields, in one string
	path   string                   // of the SQLite file; "" on PostgreSQL
	frozen bool
	epoch  int64 // freezes that the plane hears of
}

// dawn is when every test begins.
var dawn = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func onSQLite(t *testing.T, h *house) {
	h.clock.Source = func() time.Time { return dawn }
	h.path = filepath.Join(t.TempDir(), "countersign.db")
	must(t, sqlite.Create(t.Context(), h.path))
	h.start = func() engine {
		l, err := sqlite.Open(t.Context(), h.path, sqlite.Options{Clock: h.clock})
		must(t, err)
		return l
	}
	h.rows = func(text string) (all string) {
		db, err := sql.Open("sqlite", "file:"+h.path+"?mode=ro")
		must(t, err)
		defer db.Close()
		must(t, db.QueryRowContext(t.Context(), text).Scan(&all))
		return all
	}
}

// onPostgres puts a clock that stands in front of the database's own, so that an end can be
// hit to the millisecond.
func onPostgres(t *testing.T, h *house) {
	url := pgtest.Database(t, postgres.Migrate)
	h.rows = func(text string) (all string) {
		c, err := pgx.Connect(t.Context(), url)
		must(t, err)
		defer c.Close(t.Context())
		must(t, c.QueryRow(t.Context(), text).Scan(&all))
		return all
	}
	c, err := pgx.Connect(t.Context(), url)
	must(t, err)
	_, err = c.Exec(t.Context(), fmt.Sprintf(`
		CREATE SCHEMA standing;
		CREATE FUNCTION standing.clock_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS $$ SELECT timestamptz '%s' $$;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET search_path = standing, pg_catalog, public', current_database()); END $$`,
		dawn.Format(time.RFC3339)))
	must(t, err)
	must(t, c.Close(t.Context()))
	h.start = func() engine {
		l, err := postgres.Open(t.Context(), url, postgres.Options{Clock: h.clock})
		must(t, err)
		return l
	}
}

func onEach(t *testing.T, test func(*testing.T, *house)) {
	t.Helper()
	for name, engine := range map[string]func(*testing.T, *house){"sqlite": onSQLite, "postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			h := &house{t: t, clock: &ledger.Clock{}}
			engine(t, h)
			h.ledger = &between{engine: h.start()}
			t.Cleanup(func() { h.ledger.Close() })
			public, private, err := ed25519.GenerateKey(rand.Reader)
			must(t, err)
			key, mac := evidence.NewSigningKey(private), make([]byte, 32)
			rand.Read(mac)
			h.config = control.Config{
				Ledger: h.ledger, Chains: records.New(h.ledger, ledger.DefaultWorkspace, key), Signing: key, Keys: evidence.Keys{{Public: public}},
				Issuer: "http://localhost:8420", Workspace: ledger.DefaultWorkspace,
				MAC: func(parts ...string) []byte {
					m := hmac.New(sha256.New, mac)
					m.Write([]byte(strings.Join(parts, "\x00")))
					return m.Sum(nil)
				},
				Freeze: func(context.Context) (bool, int64, error) { return h.frozen, h.epoch, nil },
			}
			h.open()
			test(t, h)
		})
	}
}

// open makes a plane of the house's configuration.
func (h *house) open() { h.Plane = control.New(h.config) }

// replica is another plane on the same ledger, as another process has it.
func (h *house) replica() *control.Plane {
	c := h.config
	c.Ledger = h.ledger.engine
	return control.New(c)
}

// restart closes the ledger and opens it again.
func (h *house) restart() {
	h.t.Helper()
	must(h.t, h.ledger.Close())
	h.ledger.engine = h.start()
	h.open()
}

// at moves the clock to so long after dawn.
func (h *house) at(after time.Duration) { h.clock.Move(after - h.clock.Offset()) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// browser is one session's side.
type browser struct {
	h      *house
	on     *control.Plane // nil: the house's
	remote string         // "": 192.0.2.1
	cookie string
}

// ask sends a request, once, and tells the reason of a refusal.
func (b *browser) ask(r incident.Request, nonce string) (*control.Answer, string, error) {
	if problem := r.Problem(); problem != "" {
		return nil, "", errors.New(problem)
	}
	on := b.on
	if on == nil {
		on = b.h.Plane
	}
	a, err := on.Do(b.h.t.Context(), b.cookie, cmp.Or(b.remote, "192.0.2.1"), r, nonce)
	if d, denied := errors.AsType[*authority.Denial](err); denied {
		return a, d.Reason, nil
	}
	return a, "", err
}

func (b *browser) do(operation, channel string, in incident.Input, nonce string) (*control.Answer, string) {
	b.h.t.Helper()
	a, reason, err := b.ask(incident.Request{Operation: operation, Channel: channel, Input: in}, nonce)
	must(b.h.t, err)
	b.cookie = cmp.Or(a.Cookie, b.cookie)
	return a, reason
}

func (b *browser) now() *control.Snapshot {
	b.h.t.Helper()
	s, err := b.h.Snapshot(b.h.t.Context(), b.cookie)
	must(b.h.t, err)
	return s
}

// form is the nonce of the page's form as it is now.
func (b *browser) form() string {
	b.h.t.Helper()
	_, nonce, err := b.h.Form(b.h.t.Context(), b.cookie)
	must(b.h.t, err)
	return nonce
}

func (b *browser) stage(mitigation string) *incident.Staged {
	b.h.t.Helper()
	a, reason := b.do(incident.Stage, incident.API, staging(mitigation, b.now().Version), "")
	if reason != "" {
		b.h.t.Fatalf("stage: %s", reason)
	}
	return a.Snapshot.Staged
}

func (b *browser) approve() (*control.Answer, string) {
	b.h.t.Helper()
	return b.do(incident.Approve, incident.Human, approving(b.now().Staged), b.form())
}

// approved stages and approves.
func (b *browser) approved(mitigation string) *incident.Staged {
	b.h.t.Helper()
	s := b.stage(mitigation)
	if _, reason := b.approve(); reason != "" {
		b.h.t.Fatalf("approve: %s", reason)
	}
	return s
}

func (b *browser) execute(s *incident.Staged) (*control.Answer, string) {
	b.h.t.Helper()
	return b.do(incident.Execute, incident.WebMCP, executing(s), "")
}

// executed executes, and fails unless that is done now.
func (b *browser) executed(s *incident.Staged) *incident.Execution {
	b.h.t.Helper()
	a, reason := b.execute(s)
	if reason != "" || a.Replayed {
		b.h.t.Fatalf("execute: %q, replayed %v", reason, a.Replayed)
	}
	return a.Result.Execution
}

func (b *browser) reset() {
	b.h.t.Helper()
	if _, reason := b.do(incident.Reset, incident.API, resetting(b.now().Version), ""); reason != "" {
		b.h.t.Fatalf("reset: %s", reason)
	}
}

func (b *browser) read() (*control.Answer, string) {
	b.h.t.Helper()
	return b.do(incident.Snapshot, incident.API, incident.Input{}, "")
}

func staging(mitigation string, version int64) incident.Input {
	return incident.Input{MitigationID: &mitigation, ExpectedVersion: &version}
}

func approving(s *incident.Staged) incident.Input {
	return incident.Input{ActionDigest: &s.Digest, ResourceVersion: &s.Version}
}

func executing(s *incident.Staged) incident.Input {
	return incident.Input{ActionDigest: &s.Digest, ResourceVersion: &s.Version, IdempotencyKey: &s.IdempotencyKey}
}

func resetting(version int64) incident.Input { return incident.Input{ExpectedVersion: &version} }

// chain is the session's evidence, verified with the keys from outside and replayed.
func (b *browser) chain() []evidence.Event {
	b.h.t.Helper()
	var file bytes.Buffer
	found, err := b.h.Export(b.h.t.Context(), b.cookie, &file)
	must(b.h.t, err)
	if !found {
		return nil
	}
	var list []evidence.Event
	replay := incident.NewReplay()
	report, err := evidence.Verify(&file, b.h.config.Keys, evidence.Options{Each: func(e evidence.Event) error {
		list = append(list, e)
		replay.Apply(e)
		return nil
	}})
	must(b.h.t, err)
	if !report.OK() || !replay.Known() || len(replay.Unlawful()) != 0 {
		b.h.t.Errorf("the chain of %d receipts: verified %v, unlawful %+v", len(list), report.OK(), replay.Unlawful())
	}
	return list
}

// told is what a receipt says.
func told(t testing.TB, e *evidence.Event) incident.Receipt {
	t.Helper()
	var r incident.Receipt
	if e != nil {
		must(t, json.Unmarshal(e.Data, &r))
	}
	return r
}

// is fails unless a request was refused for the reason, "" of none, and left a receipt of
// the outcome, "" of none.
func is(t *testing.T, what string, a *control.Answer, got, reason, outcome string) {
	t.Helper()
	if r := told(t, a.Receipt); got != reason || r.Outcome != outcome {
		t.Errorf("%s: %q with a receipt of %q, want %q with %q", what, got, r.Outcome, reason, outcome)
	} else if outcome == incident.Blocked && (r.Result.ReasonCode == nil || *r.Result.ReasonCode != reason) {
		t.Errorf("%s: the receipt says %v", what, r.Result.ReasonCode)
	}
}
