package invariant_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/pgtest"
)

// TestMain keeps rapid from leaving files of failed draws in the tree; a failure prints
// its draws and its seed.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.checks": fmt.Sprint(sequences), "rapid.shrinktime": "20s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	if task := os.Getenv(childVariable); task != "" {
		os.Exit(runChild(task))
	}
	os.Exit(pgtest.Main(m))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// engines runs a test on SQLite and on PostgreSQL; database makes an empty one and
// returns its URL, "" for SQLite.
func engines(t *testing.T, f func(t *testing.T, database func() string)) {
	t.Run("sqlite", func(t *testing.T) { f(t, func() string { return "" }) })
	t.Run("postgres", func(t *testing.T) {
		f(t, func() string { return pgtest.Database(t, func(context.Context, string) error { return nil }) })
	})
}

// start is when the clocks of this package stand.
var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// standing makes a database's own clock stand at start: what the product asks it for is
// found among its tables first.
func standing(t testing.TB, url string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	must(t, err)
	_, err = c.Exec(t.Context(), fmt.Sprintf(`
		CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS $$ SELECT timestamptz '%s' $$;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET search_path = public, pg_catalog', current_database()); END $$`,
		start.Format(time.RFC3339)))
	must(t, errors.Join(err, c.Close(t.Context())))
}

// A house is an installation under test with its owner. Its origin is a name of its own,
// so that it stays the same whatever port the server gets.
type house struct {
	t      testing.TB
	config app.Config
	addr   string // at which it is served
	stop   func()
	cookie string
	http   *http.Client
	ledger *sql.DB
}

const origin = "http://control.test"

// openHouse initializes an installation and serves it with a clock that stands. edits are for
// doors and the like.
func openHouse(t testing.TB, database string, edits ...func(*app.Config)) *house {
	t.Helper()
	clock := &ledger.Clock{Source: func() time.Time { return start }}
	return openWith(t, database, clock, edits...)
}

func openWith(t testing.TB, database string, clock *ledger.Clock, edits ...func(*app.Config)) *house {
	t.Helper()
	h := found(t, database, clock, edits...)
	h.serve()
	h.signIn()
	return h
}

// found initializes an installation, which nobody serves yet.
func found(t testing.TB, database string, clock *ledger.Clock, edits ...func(*app.Config)) *house {
	t.Helper()
	h := &house{t: t, config: app.Config{Dir: filepath.Join(t.TempDir(), "D"), Addr: "127.0.0.1:0", Origin: origin, Database: database, Clock: clock}, http: client.New(), stop: func() {}}
	must(t, app.Init(context.Background(), h.config.Dir, database))
	if database != "" && clock.Source != nil {
		standing(t, database)
	}
	for _, f := range edits {
		f(&h.config)
	}
	engine, name := "pgx", database
	if database == "" {
		engine, name = "sqlite", "file:"+filepath.Join(h.config.Dir, "countersign.db")+"?mode=ro"
	}
	var err error
	h.ledger, err = sql.Open(engine, name)
	must(t, err)
	t.Cleanup(func() {
		h.stop()
		must(t, h.ledger.Close())
	})
	return h
}

// serve serves the installation until stop is called.
func (h *house) serve() {
	h.t.Helper()
	a, err := app.Open(context.Background(), h.config)
	must(h.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- errors.Join(a.Serve(ctx), a.Close()) }()
	h.addr, h.http, h.stop = a.Addr(), client.New(), func() {
		cancel()
		h.http.CloseIdleConnections()
		must(h.t, <-served)
		h.stop = func() {}
	}
}

func (h *house) restart() {
	h.stop()
	h.serve()
}

// A heard is an answer.
type heard struct {
	status int
	reason string // reasonCode of a problem
	header http.Header
	body   []byte
}

func (a heard) String() string { return fmt.Sprintf("%d %s", a.status, a.reason) }

// into reads the body.
func (a heard) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// is fails unless the answer is that, and returns it.
func (a heard) is(t testing.TB, what, want string) heard {
	t.Helper()
	if a.String() != want {
		t.Fatalf("%s: %s, want %s\n%.500s", what, a, want, a.body)
	}
	return a
}

// send sends one request and reads its answer.
func (h *house) send(method, path string, body any, headers ...string) heard {
	h.t.Helper()
	a, err := h.try(method, path, body, headers...)
	must(h.t, err)
	return a
}

func (h *house) try(method, path string, body any, headers ...string) (heard, error) {
	raw, isRaw := body.([]byte)
	if body != nil && !isRaw {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return heard{}, err
		}
	}
	r, err := http.NewRequest(method, "http://"+h.addr+path, bytes.NewReader(raw))
	if err != nil {
		return heard{}, err
	}
	r.Host = strings.TrimPrefix(h.config.Origin, "http://")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := h.http.Do(r)
	if err != nil {
		return heard{}, err
	}
	defer resp.Body.Close()
	out := heard{status: resp.StatusCode, header: resp.Header}
	if out.body, err = io.ReadAll(resp.Body); err != nil {
		return heard{}, err
	}
	if out.status >= 400 {
		var problem struct{ ReasonCode string }
		if err := json.Unmarshal(out.body, &problem); err != nil {
			return heard{}, fmt.Errorf("%d: %w: %s", out.status, err, out.body)
		}
		out.reason = problem.ReasonCode
	}
	return out, nil
}

func (h *house) signIn() {
	h.t.Helper()
	h.cookie = ""
	secret, err := keys.ReadSecret(filepath.Join(h.config.Dir, "owner.secret"))
	must(h.t, err)
	a := h.owner("POST", "/session", map[string]any{"secret": secret}).is(h.t, "sign in", ok)
	h.cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
}

// owner sends an owner's request; path is what follows /api/v1/owner.
func (h *house) owner(method, path string, body any, headers ...string) heard {
	h.t.Helper()
	return h.send(method, "/api/v1/owner"+path, body, append(h.ownerHeaders(), headers...)...)
}

func (h *house) ownerHeaders() []string {
	return []string{"Cookie", h.cookie, "Origin", h.config.Origin, "X-Halfspan-Owner", "1"}
}

// create makes a run and returns its id.
func (h *house) create(service, mode string, budget int, more map[string]any) string {
	h.t.Helper()
	body := map[string]any{"service": service, "mode": mode, "budgetCents": fmt.Sprint(budget), "channel": "http", "instruction": "Do what the terms say."}
	if service == "merchant" {
		body["terms"] = map[string]any{"origin": "local", "productId": "fieldwork-keyboard", "quantity": 1, "addressRef": "addr_home", "maxTotalCents": fmt.Sprint(most)}
	}
	for name, value := range more {
		body[name] = value
	}
	var run struct{ RunID string }
	h.owner("POST", "/runs", body).is(h.t, "create", "201 ").into(h.t, &run)
	return run.RunID
}

// An event is one line of a timeline.
type event struct {
	Sequence int
	Type     string
	Data     json.RawMessage
}

// A view is what an owner sees of a run.
type view struct {
	Status, Head              string
	SpentCents, ReservedCents cents
	StopContext               *struct{ Category, ReasonCode string }
	Proposal                  *struct{ ProposalID, EffectDigest string }
	Executions                []struct{ ExecutionID, State string }
	Timeline                  []event
}

func (h *house) view(run string) (v view) {
	h.t.Helper()
	h.owner("GET", "/runs/"+run, nil).is(h.t, "view", ok).into(h.t, &v)
	return v
}

// A stored is what the ledger holds of a run, read past the server: the view of a long
// run takes far longer.
type stored struct {
	Status    string
	Stop      *struct{ Category, ReasonCode string } `json:"stopContext"`
	Budget    struct{ SpentCents, ReservedCents cents }
	Proposal  *struct{ ProposalID string }
	Execution *struct{ ExecutionID string }
}

// stored reads the state of a run and its events after that one.
func (h *house) stored(run string, after int) (s stored, events []event) {
	h.t.Helper()
	var state []byte
	must(h.t, h.ledger.QueryRow(fmt.Sprintf(`SELECT state FROM subjects WHERE workspace = '%s' AND kind = 'run' AND id = '%s'`, ledger.DefaultWorkspace, run)).Scan(&state))
	must(h.t, json.Unmarshal(state, &s))
	rows, err := h.ledger.Query(fmt.Sprintf(`SELECT sequence, type, data FROM events WHERE workspace = '%s' AND kind = 'run' AND subject = '%s' AND sequence > %d ORDER BY sequence`, ledger.DefaultWorkspace, run, after))
	must(h.t, err)
	defer rows.Close()
	for rows.Next() {
		var e event
		must(h.t, rows.Scan(&e.Sequence, &e.Type, (*[]byte)(&e.Data)))
		events = append(events, e)
	}
	must(h.t, rows.Err())
	return s, events
}

// An agent has the token of its run.
type agent struct {
	*house
	run, token string
}

// employ makes a run and its agent.
func (h *house) employ(service, mode string, budget int, more map[string]any) *agent {
	h.t.Helper()
	a := &agent{house: h, run: h.create(service, mode, budget, more)}
	a.issue()
	return a
}

func (a *agent) issue() {
	a.t.Helper()
	var s struct{ Token string }
	a.owner("POST", "/runs/"+a.run+"/session", nil).is(a.t, "issue a token", ok).into(a.t, &s)
	a.token = s.Token
}

// ask sends an agent's request; path is what follows /api/v1.
func (a *agent) ask(method, path string, body any, headers ...string) heard {
	a.t.Helper()
	return a.send(method, "/api/v1"+path, body, append([]string{"Authorization", "Bearer " + a.token}, headers...)...)
}

// An observation is what an agent is shown.
type observation struct {
	ObservationID string
	Catalog       []entry
}

type entry struct {
	Kind, EntryID, OperationID, TargetRef string
	Args                                  json.RawMessage
	Effect                                struct {
		DisclosedFields, Postconditions []string
		TransactionProposalID           *string
	}
}

func (e entry) action() map[string]any {
	return map[string]any{"kind": e.Kind, "operationId": e.OperationID, "targetRef": e.TargetRef, "args": e.Args}
}

// find returns the entry whose id begins so.
func (o observation) find(prefix string) (entry, bool) {
	for _, e := range o.Catalog {
		if strings.HasPrefix(e.EntryID, prefix) {
			return e, true
		}
	}
	return entry{}, false
}

func (a *agent) observe() (o observation) {
	a.t.Helper()
	a.ask("GET", "/observation", nil).is(a.t, "observe", ok).into(a.t, &o)
	return o
}

// reportOn is a well-formed report on an entry.
func reportOn(o string, e entry) map[string]any {
	return map[string]any{
		"goalRestatement":     "Do what the terms say.",
		"candidates":          []any{map[string]any{"id": "c1", "action": e.action(), "purpose": "It is the next step.", "disposition": "proposed", "rejectionReason": nil}},
		"selectedCandidateId": "c1",
		"justification":       map[string]any{"summary": "The catalog offers it.", "evidenceRefs": []string{o}},
		"expectedEffect": map[string]any{
			"operationId": e.OperationID, "transactionProposalId": e.Effect.TransactionProposalID,
			"disclosedFields": e.Effect.DisclosedFields, "postconditions": e.Effect.Postconditions,
		},
		"uncertainties": []string{},
	}
}

// A slip is a permit as its agent has it.
type slip struct {
	PermitID, Token string
	Action          json.RawMessage
}

func (s slip) body() map[string]any { return map[string]any{"action": s.Action} }

// allowed reports on an entry and returns the permit.
func (a *agent) allowed(prefix string) slip {
	a.t.Helper()
	o := a.observe()
	e, found := o.find(prefix)
	if !found {
		a.t.Fatalf("the catalog has no %s", prefix)
	}
	var turn struct{ Permit *slip }
	answer := a.ask("POST", "/turns", reportOn(o.ObservationID, e)).is(a.t, "report on "+prefix, ok)
	if answer.into(a.t, &turn); turn.Permit == nil {
		a.t.Fatalf("report on %s: no permit\n%s", prefix, answer.body)
	}
	return *turn.Permit
}

// operate uses a permit under a key.
func (a *agent) operate(s slip, key string) heard {
	a.t.Helper()
	return a.ask("POST", "/operation", s.body(), "X-Step-Permit", s.Token, "X-Idempotency-Key", key)
}

// do does all that the prefixes name, one after the other.
func (a *agent) do(prefixes ...string) {
	a.t.Helper()
	for _, p := range prefixes {
		s := a.allowed(p)
		a.operate(s, "key-of-"+s.PermitID).is(a.t, p, ok)
	}
}

// entries are the ids of the entries of the operations, by service, up to what is made
// up at each.
var entries = map[string]map[string]string{
	"merchant": {"read": "catalog", "add": "add:fieldwork-keyboard:1", "prepare": "checkout:addr_home", "commit": "submit:", "foreign": "add:fieldwork-mouse:1"},
	"bank":     {"read": "accounts", "prepare": "transfer:acct_checking:payee_utility", "commit": "submit:", "foreign": "transfer:acct_checking:payee_landlord"},
	"broker":   {"read": "quote:SYNA", "prepare": "order:SYNA:buy:2:5000", "commit": "submit:", "foreign": "order:SYNB:buy:2:5000"},
}
