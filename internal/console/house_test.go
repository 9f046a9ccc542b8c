package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"countersign/dispatch"
	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/store"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve opens the installation at an address and serves it until stop.
func (h *house) serve(addr string) {
	h.t.Helper()
	a, err := app.Open(h.t.Context(), app.Config{
		Dir: h.dir, Addr: addr, Clock: h.clock, Store: h.store,
		Doors:    decide.Doors{Window: true}, // a busy machine would miss the second in which bytes have to leave
		Incident: true, IncidentPartial: h.partial.Load,
	})
	must(h.t, err)
	h.origin = a.Origin()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- errors.Join(a.Serve(ctx), a.Close()) }()
	h.stop = func() {
		stop()
		must(h.t, <-served)
	}
}

// house is the product as it is served, on SQLite in a folder of its own, with a store
// whose answers can get lost.
type house struct {
	t       *testing.T
	dir     string
	origin  string
	secret  string
	clock   *ledger.Clock
	owner   *client.Owner
	store   *gateway.Store
	stop    func()
	lost    atomic.Int32 // what of an order gets lost on the way
	partial atomic.Bool  // executions of the incident workflow fail in part
}

// What gets lost of an order.
const (
	lostNothing int32 = iota
	lostAnswer        // the store acts, and nobody hears of it
	lostRequest       // it never arrives
)

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, dir: filepath.Join(t.TempDir(), "D"), clock: &ledger.Clock{}}
	must(t, app.Init(t.Context(), h.dir, ""))
	h.store = h.openStore()
	h.serve("localhost:0")
	t.Cleanup(func() { h.stop() })
	var err error
	h.secret, err = keys.ReadSecret(filepath.Join(h.dir, "owner.secret"))
	must(t, err)
	h.signIn()
	return h
}

func (h *house) signIn() {
	h.t.Helper()
	h.owner = &client.Owner{Origin: h.origin, HTTP: client.New()}
	_, err := h.owner.SignIn(h.t.Context(), h.secret)
	must(h.t, err)
}

func (h *house) openStore() *gateway.Store {
	h.t.Helper()
	list, err := os.ReadFile(filepath.Join(h.dir, "keys", "dispatch.pub"))
	must(h.t, err)
	trust, err := dispatch.ParseKeys(list)
	must(h.t, err)
	dir := filepath.Join(h.t.TempDir(), "store")
	must(h.t, store.Create(dir))
	server := httptest.NewUnstartedServer(nil)
	origin := "http://" + server.Listener.Addr().String()
	s, err := store.Open(dir, store.Options{Origin: origin, Trust: trust, Clock: h.clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(h.t, err)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lost := h.lost.Load()
		if r.URL.Path != "/api/orders" {
			lost = lostNothing
		}
		if lost != lostRequest {
			s.Handler().ServeHTTP(map[bool]http.ResponseWriter{true: w, false: httptest.NewRecorder()}[lost == lostNothing], r)
		}
		if lost != lostNothing {
			panic(http.ErrAbortHandler)
		}
	})
	server.Start()
	h.t.Cleanup(func() { server.Close(); must(h.t, s.Close()) })
	return &gateway.Store{Origin: origin, Keys: []dispatch.TrustedKey{s.ReceiptKey()}}
}

const instruction = "Buy one Fieldwork keyboard for $137 total using the approved terms."

// create makes a run; edits change what is asked for.
func (h *house) create(edits ...map[string]any) string {
	h.t.Helper()
	body := map[string]any{"service": "merchant", "target": "local", "channel": "http", "mode": "bounded", "budgetCents": "13700", "instruction": instruction}
	for _, e := range edits {
		for name, value := range e {
			body[name] = value
		}
	}
	id, _, err := h.owner.CreateRun(h.t.Context(), body)
	must(h.t, err)
	return id
}

// agent is a consumer of a run, over HTTP.
type agent struct {
	h *house
	client.Consumer
	run    string
	words  string // of every prose in its reports
	permit struct {
		Token  string          `json:"token"`
		Action json.RawMessage `json:"action"`
	}
}

func (h *house) agent(run string) *agent {
	h.t.Helper()
	s, _, err := h.owner.IssueToken(h.t.Context(), run)
	must(h.t, err)
	return &agent{h: h, run: run, words: "The next step.", Consumer: client.Consumer{Origin: s.Origin, Token: s.Token, HTTP: client.New()}}
}

type object = map[string]any

// entries are the controls that the agent needs for a purchase, in order.
var purchase = []string{"merchant.catalog", "product:fieldwork-keyboard", "add:fieldwork-keyboard:1", "checkout:addr_home", "submit"}

// report is a report on the entry whose id, or operation, is named; edit changes the
// action.
func (a *agent) report(name string, edit ...func(action object)) []byte {
	a.h.t.Helper()
	r, err := a.Get(a.h.t.Context(), "/api/v1/observation")
	must(a.h.t, err)
	var seen struct {
		ObservationID string   `json:"observationId"`
		Catalog       []object `json:"catalog"`
	}
	must(a.h.t, json.Unmarshal(r.Body, &seen))
	var entry object
	for _, e := range seen.Catalog {
		if strings.HasPrefix(e["entryId"].(string), name) || e["operationId"] == name {
			entry = e
			break
		}
	}
	if entry == nil {
		a.h.t.Fatalf("the catalog has no %s: %s", name, r.Body)
	}
	action := object{"kind": entry["kind"], "operationId": entry["operationId"], "targetRef": entry["targetRef"], "args": entry["args"]}
	for _, f := range edit {
		f(action)
	}
	effect := entry["effect"].(object)
	report, err := json.Marshal(object{
		"goalRestatement":     a.words,
		"candidates":          []object{{"id": "c1", "action": action, "purpose": a.words, "disposition": "proposed", "rejectionReason": nil}},
		"selectedCandidateId": "c1",
		"justification":       object{"summary": a.words, "evidenceRefs": []string{seen.ObservationID}},
		"expectedEffect": object{
			"operationId": action["operationId"], "transactionProposalId": effect["transactionProposalId"],
			"disclosedFields": effect["disclosedFields"], "postconditions": effect["postconditions"],
		},
		"uncertainties": []string{},
	})
	must(a.h.t, err)
	return report
}

// propose sends a report and returns the verdict and its reason.
func (a *agent) propose(name string, edit ...func(action object)) (verdict, reason string) {
	a.h.t.Helper()
	r, err := a.Propose(a.h.t.Context(), a.report(name, edit...))
	must(a.h.t, err)
	if r.Status != http.StatusOK {
		a.h.t.Fatalf("report on %s: %s", name, r.Got())
	}
	answer := struct {
		Decision struct{ Decision, ReasonCode string }
		Permit   any
	}{Permit: &a.permit}
	must(a.h.t, json.Unmarshal(r.Body, &answer))
	return answer.Decision.Decision, answer.Decision.ReasonCode
}

// execute carries out what the permit names.
func (a *agent) execute() client.Reply {
	a.h.t.Helper()
	r, err := a.Operate(a.h.t.Context(), a.permit.Token, []byte(`{"action":`+string(a.permit.Action)+`}`))
	must(a.h.t, err)
	return r
}

// cycle proposes and executes.
func (a *agent) cycle(name string) {
	a.h.t.Helper()
	if verdict, reason := a.propose(name); verdict != "ALLOW" {
		a.h.t.Fatalf("%s: %s %s", name, verdict, reason)
	}
	if r := a.execute(); r.Status != http.StatusOK {
		a.h.t.Fatalf("%s: %s", name, r.Got())
	}
}

// buy goes through the whole purchase.
func (a *agent) buy() {
	a.h.t.Helper()
	for _, name := range purchase {
		a.cycle(name)
	}
}

// signedIn opens a browser whose person is signed in, at a path.
func (h *house) signedIn(path string) *tab {
	h.t.Helper()
	b := newTab(h.t)
	b.open(h.origin + path)
	b.signIn(h.secret)
	b.until(`location.pathname + location.search === "` + path + `"`)
	b.until("document.readyState === 'complete'")
	return b
}

// request sends one request as the owner, with a session of its own.
func (h *house) request(method, path string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequest(method, h.origin+"/api/v1/owner"+path, nil)
	must(h.t, err)
	r.Header.Set("Cookie", h.cookie())
	r.Header.Set("Origin", h.origin)
	r.Header.Set("X-Halfspan-Owner", "1")
	resp, err := http.DefaultClient.Do(r)
	must(h.t, err)
	h.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%s %s: %d", method, path, resp.StatusCode)
	}
	return resp
}

// get reads a resource of the owner's API.
func (h *house) get(path string, into any) {
	h.t.Helper()
	must(h.t, json.NewDecoder(h.request("GET", path).Body).Decode(into))
}

func (h *house) revoke(run string) { h.t.Helper(); h.request("POST", "/runs/"+run+"/revoke") }

// cookie signs in and returns the session as a Cookie header.
func (h *house) cookie() string {
	h.t.Helper()
	r, err := http.NewRequest("POST", h.origin+"/api/v1/owner/session", strings.NewReader(`{"secret":"`+h.secret+`"}`))
	must(h.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", h.origin)
	r.Header.Set("X-Halfspan-Owner", "1")
	resp, err := http.DefaultClient.Do(r)
	must(h.t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		h.t.Fatalf("signing in: %d", resp.StatusCode)
	}
	c := resp.Cookies()[0]
	return c.Name + "=" + c.Value
}
