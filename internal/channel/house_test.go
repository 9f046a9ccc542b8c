package channel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/api"
	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/channel"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/owner"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/identity"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/runbook/control"
	"countersign/internal/supervision/attack"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/managed"
	"countersign/internal/supervision/model/replay"
	"countersign/internal/supervision/service/bank"
	"countersign/internal/supervision/service/broker"
	"countersign/internal/supervision/service/merchant"
	"countersign/internal/supervision/workspace"
	"countersign/store"
)

const ownerPrefix = "/api/v1/owner"

// house is a control plane that answers on a real port, with a real ledger and a
// real store behind it. Its client checks every answer against the document.
type house struct {
	t         *testing.T
	origin    string
	secret    string
	keys      *keys.Keys
	clock     *ledger.Clock
	ledger    *sqlite.Ledger
	gateway   *gateway.Gateway
	contexts  *perimeter.Perimeter
	incidents *control.Plane
	dir       string // of the control plane
	api       *edge.API
	store     string // its origin
	storeKey  dispatch.TrustedKey
	client    *http.Client
	cookie    string // of the owner who signed in first
}

type config struct {
	noStore   bool
	heartbeat time.Duration
	maxList   int              // bytes of a list; 0: the product's
	slow      time.Duration    // how long the store thinks before each answer
	unchecked bool             // an owner's session is looked at once and never again
	now       func() time.Time // nil: the system's clock
	executor  managed.Executor // nil: the authored one
	queue     int              // commits that wait, written one by one; 0: the product's
	fault     func(point string) error
	log       io.Writer // nil: nothing is logged
	without   string    // a check of package edge that is left out
}

func newHouse(t *testing.T, edit ...func(*config)) *house {
	t.Helper()
	var c config
	for _, f := range edit {
		f(&c)
	}
	h := &house{t: t, clock: &ledger.Clock{Source: c.now}}
	dir := filepath.Join(t.TempDir(), "control")
	must(t, keys.Init(dir))
	var err error
	h.keys, err = keys.Load(dir)
	must(t, err)
	h.secret, h.dir = h.keys.Secret(), dir
	path := filepath.Join(dir, "countersign.db")
	must(t, sqlite.Create(t.Context(), path))
	l, err := sqlite.Open(t.Context(), path, sqlite.Options{Clock: h.clock, QueueSize: c.queue, BatchLimit: min(c.queue, 1), Fault: c.fault})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	h.ledger = l

	listener, err := net.Listen("tcp", "localhost:0")
	must(t, err)
	h.origin = fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	guardian, err := replay.NewGuardian()
	must(t, err)
	g := gateway.Config{
		Ledger: l, Keys: h.keys, Issuer: h.origin, Services: []gateway.Service{merchant.Adapter{}, bank.Adapter{}, broker.Adapter{}}, Guardian: guardian,
		Sender: dispatch.NewClient(nil), Log: slog.New(slog.DiscardHandler), Workspace: ledger.DefaultWorkspace,
		Doors: decide.Doors{Window: true}, // a busy machine would miss the second in which bytes have to leave
	}
	if !c.noStore {
		g.Store = h.openStore(dir, c.slow)
	}
	h.gateway = gateway.New(g)
	h.contexts = perimeter.New(perimeter.Config{
		Ledger: l, Chains: h.gateway, Signing: h.keys.Evidence(), MAC: h.keys.MAC, Issuer: h.origin, Workspace: ledger.DefaultWorkspace, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { h.contexts.Close() })
	h.incidents = h.newIncidents()
	h.answer(listener, c)
	h.client = &http.Client{Transport: &contract{t: t, next: &http.Transport{}}}
	h.cookie = h.signIn()
	return h
}

// answer makes the API and serves it at a listener.
func (h *house) answer(l net.Listener, c config) {
	h.t.Helper()
	var err error
	log := slog.New(slog.DiscardHandler)
	if c.log != nil {
		log = slog.New(slog.NewJSONHandler(c.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	h.api, err = edge.New(edge.Config{
		Log: log, Without: c.without, Origin: h.origin, Title: channel.Title, Version: channel.Version, Ready: func(context.Context) error { return nil },
		Unavailable: func(err error) bool {
			return slices.ContainsFunc([]error{gateway.ErrUnavailable, gateway.ErrUnknown, perimeter.ErrUnavailable, perimeter.ErrUnknown, control.ErrUnavailable, control.ErrUnknown, control.ErrFull}, func(passing error) bool { return errors.Is(err, passing) })
		},
	})
	must(h.t, err)
	var sessions identity.Ledger = h.ledger
	if c.unchecked {
		sessions = &onceLooked{Ledger: h.ledger}
	}
	owners := identity.NewOwners(sessions, ledger.DefaultWorkspace, h.secret)
	channel.Routes(h.api, owner.Config{
		Gateway: h.gateway, Steps: h.steps(c.executor), Owners: owners, Keys: evidence.Keys{{Public: h.keys.Evidence().Public()}},
		Specification: api.Protocol, Status: testStatus, Heartbeat: c.heartbeat, MaxList: c.maxList, Workspace: h.workspace(owners), Attacks: h.attacks(owners), Hosting: h.hosting,
	}, h.contexts, h.incidents)
	h.serve(l)
}

// workspace verifies policies against this house's own server.
func (h *house) workspace(owners *identity.Owners) *workspace.Workspace {
	return workspace.New(workspace.Config{
		Ledger: h.ledger, Signing: h.keys.Evidence(), Issuer: h.origin, Workspace: ledger.DefaultWorkspace, Runs: h.gateway, Services: h.gateway.Services,
		Channels: []string{"http"}, Log: slog.New(slog.DiscardHandler), HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Base: h.origin,
		SignIn: h.signingIn(owners, "verification"),
	})
}

// attacks are played against this house's own server.
func (h *house) attacks(owners *identity.Owners) *attack.Runner {
	return attack.New(attack.Config{
		Runs: h.gateway, Ledger: h.ledger, Workspace: ledger.DefaultWorkspace, Log: slog.New(slog.DiscardHandler),
		HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Base: h.origin, Origin: h.origin, SignIn: h.signingIn(owners, "attack"),
	})
}

// signingIn makes sessions for what acts as an owner within the server.
func (h *house) signingIn(owners *identity.Owners, purpose string) func(context.Context) (string, func(context.Context) error, error) {
	return func(ctx context.Context) (string, func(context.Context) error, error) {
		cookie, session, err := owners.SignIn(ctx, h.secret, purpose)
		return edge.OwnerCookie + "=" + cookie, func(ctx context.Context) error { return owners.SignOut(ctx, session) }, err
	}
}

// hosting stands for what package app says.
func (h *house) hosting(context.Context) (owner.Hosting, error) {
	at := evidence.TimeOf(h.clock.Now())
	return owner.Hosting{
		Database: owner.Database{Engine: "sqlite", Connected: true}, Runtime: owner.Runtime{Location: "local", Platform: "linux/amd64", Origin: h.origin},
		Worker: owner.Worker{Name: "settler", InProcess: true, Status: "running", LastPassAt: &at}, SigningKey: h.keys.Evidence().ID, CheckedAt: at,
	}, nil
}

// beside is another API over the same ledger.
func (h *house) beside(c config) *house {
	h.t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	must(h.t, err)
	other := *h
	other.origin = fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	other.answer(listener, c)
	return &other
}

// testStatus stands for what package app says.
var testStatus = owner.Status{
	Version: channel.Version, Ledger: "sqlite",
	Providers: []owner.Capability{{Name: "replay", Available: true}, {Name: "openai", Reason: "not built"}},
	Channels:  []owner.Capability{{Name: "http", Available: true}, {Name: "browser", Reason: "not built"}},
	Targets:   []owner.Capability{{Name: "local", Available: true}, {Name: "hosted", Available: true}},
	Browser:   owner.Capability{Name: "browser", Reason: "not built"},
}

func (h *house) serve(l net.Listener) {
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- (&edge.Server{API: h.api}).Serve(ctx, l) }()
	h.t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			h.t.Error(err)
		}
	})
}

func (h *house) openStore(control string, slow time.Duration) *gateway.Store {
	list, err := os.ReadFile(filepath.Join(control, "keys", "dispatch.pub"))
	must(h.t, err)
	trust, err := dispatch.ParseKeys(list)
	must(h.t, err)
	dir := filepath.Join(h.t.TempDir(), "store")
	must(h.t, store.Create(dir))
	server := httptest.NewUnstartedServer(nil)
	h.store = "http://" + server.Listener.Addr().String()
	s, err := store.Open(dir, store.Options{Origin: h.store, Trust: trust, Clock: h.clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(h.t, err)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(slow)
		s.Handler().ServeHTTP(w, r)
	})
	server.Start()
	h.t.Cleanup(func() { server.Close(); s.Close() })
	h.storeKey = s.ReceiptKey()
	return &gateway.Store{Origin: h.store, Keys: []dispatch.TrustedKey{h.storeKey}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// reason is the reasonCode of a refusal, else nothing.
func (a answer) reason() string { return a.text("reasonCode") }

// members is the body as an object.
func (a answer) members() map[string]any {
	var m map[string]any
	json.Unmarshal(a.body, &m) // what is no object has no members
	return m
}

func (a answer) text(name string) string {
	s, _ := a.members()[name].(string)
	return s
}

// is fails unless the answer has the status and the reason code.
func (a answer) is(t testing.TB, what string, status int, reason string) {
	t.Helper()
	if a.status != status || a.reason() != reason {
		t.Errorf("%s: %d %s, want %d %s\n%.400s", what, a.status, a.reason(), status, reason, a.body)
	}
}

type edit func(*http.Request)

func set(name, value string) edit { return func(r *http.Request) { r.Header.Set(name, value) } }
func drop(name string) edit       { return func(r *http.Request) { r.Header.Del(name) } }

// do sends a request; body is nil, bytes as they are, or a value for JSON.
func (h *house) do(method, path string, body any, edits ...edit) answer {
	h.t.Helper()
	response, err := h.client.Do(h.request(method, path, body, edits...))
	must(h.t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(h.t, err)
	return answer{response.StatusCode, response.Header, content}
}

func (h *house) request(method, path string, body any, edits ...edit) *http.Request {
	h.t.Helper()
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		content = bytes.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		must(h.t, err)
		content = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.origin+path, content)
	must(h.t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, f := range edits {
		f(r)
	}
	return r
}

// asOwner is everything that an owner's request carries beside its session.
func (h *house) asOwner(cookie string) edit {
	return func(r *http.Request) {
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: edge.OwnerCookie, Value: cookie})
		}
		if r.Method != http.MethodGet {
			r.Header.Set("Origin", h.origin)
			r.Header.Set("X-Halfspan-Owner", "1")
		}
	}
}

// owner sends an owner's request; path is what follows /api/v1/owner.
func (h *house) owner(method, path string, body any, edits ...edit) answer {
	h.t.Helper()
	return h.do(method, ownerPrefix+path, body, append([]edit{h.asOwner(h.cookie)}, edits...)...)
}

func (h *house) signIn() string {
	h.t.Helper()
	a := h.do("POST", ownerPrefix+"/session", map[string]any{"secret": h.secret}, h.asOwner(""))
	a.is(h.t, "sign in", 200, "")
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == edge.OwnerCookie {
			return c.Value
		}
	}
	h.t.Fatal("signing in sets no cookie")
	return ""
}

func createBody(target string) map[string]any {
	return map[string]any{
		"service": "merchant", "target": target, "channel": "http", "mode": "bounded", "budgetCents": "13700",
		"instruction": "Buy one Fieldwork keyboard for $137 total using the approved terms.",
	}
}

// create makes a run and returns its id.
func (h *house) create(target string) string {
	h.t.Helper()
	a := h.owner("POST", "/runs", createBody(target))
	a.is(h.t, "create", 201, "")
	return a.text("runId")
}

// consumer is an agent with the token of its run.
type consumer struct {
	*house
	run, token string
}

// agent makes a run and issues its token.
func (h *house) agent(target string) *consumer {
	h.t.Helper()
	c := &consumer{house: h, run: h.create(target)}
	c.token = h.issue(c.run)
	return c
}

func (h *house) issue(run string) string {
	h.t.Helper()
	a := h.owner("POST", "/runs/"+run+"/session", nil)
	a.is(h.t, "issue the token", 200, "")
	return a.text("token")
}

// ask sends an agent's request; path is what follows /api/v1.
func (c *consumer) ask(method, path string, body any, edits ...edit) answer {
	c.t.Helper()
	return c.do(method, "/api/v1"+path, body, append([]edit{set("Authorization", "Bearer "+c.token)}, edits...)...)
}

// entry observes and finds the entry by its id or operation.
func (c *consumer) entry(id string) (observation string, entry map[string]any) {
	c.t.Helper()
	a := c.ask("GET", "/observation", nil)
	a.is(c.t, "observe", 200, "")
	catalog, _ := a.members()["catalog"].([]any)
	for _, e := range catalog {
		if e := e.(map[string]any); e["entryId"] == id || e["operationId"] == id {
			return a.text("observationId"), e
		}
	}
	c.t.Fatalf("the catalog has no %s", id)
	return "", nil
}

func actionOf(entry map[string]any) map[string]any {
	action := map[string]any{}
	for _, name := range []string{"kind", "operationId", "targetRef", "url", "value", "args"} {
		if v, given := entry[name]; given {
			action[name] = v
		}
	}
	return action
}

// report is a well-formed report on the entry.
func (c *consumer) report(id string) map[string]any {
	c.t.Helper()
	observation, entry := c.entry(id)
	effect := entry["effect"].(map[string]any)
	return map[string]any{
		"goalRestatement": "Buy one Fieldwork keyboard for $137 total.",
		"candidates": []any{map[string]any{
			"id": "candidate-1", "action": actionOf(entry), "purpose": "It is the next step of the purchase.", "disposition": "proposed", "rejectionReason": nil,
		}},
		"selectedCandidateId": "candidate-1",
		"justification":       map[string]any{"summary": "The catalog offers it.", "evidenceRefs": []any{observation}},
		"expectedEffect": map[string]any{
			"operationId": entry["operationId"], "transactionProposalId": effect["transactionProposalId"],
			"disclosedFields": effect["disclosedFields"], "postconditions": effect["postconditions"],
		},
		"uncertainties": []any{},
	}
}

// permit is a live permit and the action it is for.
type permit struct {
	id, token string
	action    any
}

func permitOf(a answer) *permit {
	p, _ := a.members()["permit"].(map[string]any)
	if p == nil {
		return nil
	}
	return &permit{p["permitId"].(string), p["token"].(string), p["action"]}
}

// allow reports on the entry and returns its permit.
func (c *consumer) allow(id string) *permit {
	c.t.Helper()
	a := c.ask("POST", "/turns", c.report(id))
	a.is(c.t, "report on "+id, 200, "")
	p := permitOf(a)
	if p == nil {
		c.t.Fatalf("%s: no permit\n%s", id, a.body)
	}
	return p
}

// headers are those that bind an operation to its permit and key.
func (p *permit) headers() []edit {
	return []edit{set("X-Step-Permit", p.token), set("X-Idempotency-Key", "key-of-"+p.id)}
}

func (p *permit) body() map[string]any { return map[string]any{"action": p.action} }

func (c *consumer) operate(p *permit, edits ...edit) answer {
	c.t.Helper()
	return c.ask("POST", "/operation", p.body(), append(p.headers(), edits...)...)
}

// cycle runs one whole action.
func (c *consumer) cycle(id string) answer {
	c.t.Helper()
	a := c.operate(c.allow(id))
	a.is(c.t, id, 200, "")
	if a.text("state") != "verified" {
		c.t.Fatalf("%s: %s", id, a.body)
	}
	return a
}

var purchase = []string{"merchant.catalog", "product:fieldwork-keyboard", "add:fieldwork-keyboard:1", "checkout:addr_home", "merchant.checkout.submit"}

// view is the run as its owner sees it.
func (h *house) view(run string) map[string]any {
	h.t.Helper()
	a := h.owner("GET", "/runs/"+run, nil)
	a.is(h.t, "view", 200, "")
	return a.members()
}

// events counts a run's events by type.
func (h *house) events(run string) map[string]int {
	h.t.Helper()
	counts := map[string]int{}
	for _, line := range h.view(run)["timeline"].([]any) {
		counts[line.(map[string]any)["type"].(string)]++
	}
	return counts
}

// total is how many events the run has, read past the server.
func (h *house) total(run string) int {
	h.t.Helper()
	s, _, err := h.ledger.Load(h.t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, ID: run})
	must(h.t, err)
	return int(s.Sequence)
}

// runs is how many runs there are.
func (h *house) runs() int {
	h.t.Helper()
	list, _ := h.owner("GET", "/runs", nil).members()["runs"].([]any)
	return len(list)
}

func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
