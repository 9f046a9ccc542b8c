package contexthttp_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign/evidence"
	"countersign/internal/channel/contexthttp"
	"countersign/internal/channel/edge"
	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/traces"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/pgtest"
	"countersign/internal/supervision/records"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type engine interface {
	perimeter.Ledger
	records.Ledger
	Close() error
}

// house is a server of the public routes alone, on a real port, over a real ledger.
type house struct {
	t       *testing.T
	config  perimeter.Config
	ledger  engine
	p       *perimeter.Perimeter
	clock   *ledger.Clock
	origin  string
	addr    string
	project string
	log     *logs
	path    string // of the SQLite file; empty on PostgreSQL
	rows    func() string
	mu      sync.Mutex
	fault   func(point string) error // of the engine
}

// logs keeps what is logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// tables hold everything that a refused request could leave.
var tables = []string{"subjects", "attributes", "events", "texts", "idempotency", "credentials", "blobs"}

func counting(table func(name string) (int, error)) func() string {
	return func() string {
		var counts []string
		for _, name := range tables {
			n, err := table(name)
			if err != nil {
				return err.Error()
			}
			counts = append(counts, fmt.Sprint(name, " ", n))
		}
		return strings.Join(counts, ", ")
	}
}

// failing is asked at every point of the engine.
func (h *house) failing(point string) error {
	h.mu.Lock()
	fault := h.fault
	h.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(point)
}

// failAt sets the engine's faults; nil: none.
func (h *house) failAt(fault func(point string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = fault
}

func openSQLite(h *house) {
	h.path = filepath.Join(h.t.TempDir(), "countersign.db")
	must(h.t, sqlite.Create(h.t.Context(), h.path))
	l, err := sqlite.Open(h.t.Context(), h.path, sqlite.Options{Clock: h.clock, Fault: h.failing})
	must(h.t, err)
	h.ledger = l
	db, err := sql.Open("sqlite", "file:"+h.path+"?mode=ro")
	must(h.t, err)
	h.t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // the version is one that a connection sees
	count := counting(func(name string) (n int, err error) {
		err = db.QueryRow("SELECT count(*) FROM " + name).Scan(&n)
		return n, err
	})
	seen, counted := -1, ""
	h.rows = func() string {
		var version int // another one after every commit of others
		must(h.t, db.QueryRow("PRAGMA data_version").Scan(&version))
		if version != seen {
			seen, counted = version, count()
		}
		return counted
	}
}

func openPostgres(h *house) {
	url := pgtest.Database(h.t, postgres.Migrate)
	l, err := postgres.Open(h.t.Context(), url, postgres.Options{Clock: h.clock, Fault: h.failing})
	must(h.t, err)
	h.ledger = l
	conn, err := pgx.Connect(h.t.Context(), url)
	must(h.t, err)
	h.t.Cleanup(func() { conn.Close(context.Background()) })
	h.rows = counting(func(name string) (n int, err error) {
		err = conn.QueryRow(context.Background(), "SELECT count(*) FROM "+name).Scan(&n)
		return n, err
	})
}

// newHouse makes a project at acme/support with a Build for production and none for
// staging, and serves it.
func newHouse(t *testing.T, open func(*house), edits ...func(*perimeter.Config)) *house {
	t.Helper()
	h := &house{t: t, clock: &ledger.Clock{}, log: &logs{}}
	open(h)
	t.Cleanup(func() { h.ledger.Close() })
	listener, err := net.Listen("tcp", "localhost:0")
	must(t, err)
	h.addr = listener.Addr().String()
	h.origin = fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	key, mac := evidence.NewSigningKey(private), []byte(rand.Text())
	log := slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.config = perimeter.Config{
		Ledger: h.ledger, Chains: records.New(h.ledger, ledger.DefaultWorkspace, key), Signing: key, Issuer: h.origin, Workspace: ledger.DefaultWorkspace, Log: log,
		MAC: func(parts ...string) []byte {
			m := hmac.New(sha256.New, mac)
			m.Write([]byte(strings.Join(parts, "\x00")))
			return m.Sum(nil)
		},
	}
	for _, edit := range edits {
		edit(&h.config)
	}
	h.p = perimeter.New(h.config)
	t.Cleanup(func() { h.p.Close() })
	api, err := edge.New(edge.Config{
		Origin: h.origin, Title: "test", Version: "1", Log: log,
		Unavailable: func(err error) bool {
			return errors.Is(err, perimeter.ErrUnavailable) || errors.Is(err, perimeter.ErrUnknown)
		},
	})
	must(t, err)
	contexthttp.Register(api, h.p)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	server := &edge.Server{API: api, Wrap: proxied}
	go func() { served <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	v, err := h.p.CreateProject(t.Context(), "acme", "support", session)
	must(t, err)
	h.project = v.ID
	h.publish("acme", "support", project.Production, handbook...)
	return h
}

// proxied stands for a trusted proxy that says how a request reached it.
func proxied(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if said := r.Header.Get("X-Forwarded-Proto"); said != "" {
			r = r.WithContext(contexthttp.Forwarded(r.Context(), said == "https"))
		}
		next.ServeHTTP(w, r)
	})
}

// onEach runs a test on both engines.
func onEach(t *testing.T, test func(*testing.T, *house), edits ...func(*perimeter.Config)) {
	for name, open := range map[string]func(*house){"sqlite": openSQLite, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) { test(t, newHouse(t, open, edits...)) })
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// session names an owner's session.
var session = strings.Repeat("5", 64)

// marker stands in every document, so that context is recognized wherever it gets to.
const marker = "warehouse-marker-7f3a"

// handbook is a Build of two documents.
var handbook = []string{
	"---\nid: refunds\ntitle: Refunds\n---\nRefunds are paid within five days to the card. " + marker + "\n",
	"---\nid: shipping\ntitle: Shipping\n---\nParcels leave on the next working day. " + marker + "\n",
}

func (h *house) publish(handle, slug, environment string, files ...string) {
	h.t.Helper()
	id := project.ProjectID(handle, slug)
	_, err := h.p.PutDocuments(h.t.Context(), id, files)
	must(h.t, err)
	var docs []*content.Document
	for _, file := range files {
		d, faults := content.ParseDocument([]byte(file))
		must(h.t, content.Error(faults))
		docs = append(docs, d)
	}
	cases := []content.Case{{ID: "money-back", Task: "When are refunds paid?", ExpectRefs: []string{docs[0].Ref}}}
	_, err = h.p.Publish(h.t.Context(), id, environment, false, content.NewManifest(docs, cases), session)
	must(h.t, err)
}

// client makes a client of acme/support with the profile support and returns its token.
func (h *house) client(kind, environment, protocol string) string {
	h.t.Helper()
	_, token, err := h.p.CreateClient(h.t.Context(), h.project, project.ClientRequest{Name: "gateway", Kind: kind, Profile: "support", Environment: environment, TurnProtocol: protocol}, session)
	must(h.t, err)
	return token
}

// required makes a client of production that takes part in the turn protocol.
func (h *house) required() string {
	h.t.Helper()
	return h.client(project.Custom, project.Production, project.Required)
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	value  map[string]any
}

func (a answer) text(way ...string) string {
	var v any = a.value
	for _, name := range way {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	s, _ := v.(string)
	return s
}

// String is status and reason code.
func (a answer) String() string {
	return strings.TrimSpace(fmt.Sprint(a.status, " ", a.text("reasonCode")))
}

// is fails unless the answer has the status and reason code.
func (a answer) is(t testing.TB, what, want string) answer {
	t.Helper()
	if a.String() != want {
		t.Errorf("%s: %s, want %s\n%.500s", what, a, want, a.body)
	}
	return a
}

// send sends a request as it is, once.
func (h *house) send(c *http.Client, r *http.Request) (answer, error) {
	response, err := c.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: response.StatusCode, header: response.Header, body: body}
	_ = json.Unmarshal(body, &a.value) // what is no object has no members
	return a, nil
}

// request makes a request with a fresh key; headers are names and values.
func (h *house) request(token, path string, body any, headers ...string) *http.Request {
	h.t.Helper()
	raw, isRaw := body.(string)
	if !isRaw {
		b, err := json.Marshal(body)
		must(h.t, err)
		raw = string(b)
	}
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.origin+path, strings.NewReader(raw))
	must(h.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Idempotency-Key", rand.Text())
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

const base = "/acme/support/context"

// ask sends a request; path is what follows the base.
func (h *house) ask(token, path string, body any, headers ...string) answer {
	h.t.Helper()
	a, err := h.send(http.DefaultClient, h.request(token, base+path, body, headers...))
	must(h.t, err)
	return a
}

// open opens a turn and returns its id.
func (h *house) open(token string) string {
	h.t.Helper()
	return h.ask(token, "/turns/start", map[string]any{}).is(h.t, "start", "201").text("turn", "id")
}

var (
	completed   = map[string]any{"status": "completed"}
	task        = map[string]any{"task": "When are refunds paid?"}
	observation = map[string]any{"event": "pre_tool_use", "tool": "mcp__seif__context_compass", "toolUseId": "toolu_01"}
)

// events are the types of a turn's events, which verify.
func (h *house) events(id string) []string {
	h.t.Helper()
	var b bytes.Buffer
	must(h.t, h.p.Export(h.t.Context(), h.project, "contextturn", id, &b))
	raw := slices.Clone(b.Bytes())
	report, err := evidence.Verify(&b, evidence.Keys{{Public: h.config.Signing.Public()}}, evidence.Options{})
	must(h.t, err)
	if !report.OK() {
		h.t.Errorf("the turn %s does not verify: %+v", id, report)
	}
	x, err := evidence.ReadExport(bytes.NewReader(raw))
	must(h.t, err)
	var types []string
	for _, e := range x.Events {
		types = append(types, e.Type)
	}
	return types
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

// turnsOf selects all turns of the house's project.
func turnsOf(h *house) traces.TurnQuery {
	return traces.TurnQuery{Project: h.project, Limit: 100}
}
