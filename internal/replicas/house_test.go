package replicas_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/replica"
	"countersign/internal/supervision/decide"
)

func TestMain(m *testing.M) { os.Exit(replica.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// house is an installation with three replicas, its store, and who speaks to them.
type house struct {
	t *testing.T
	*replica.Installation
	shop     *replica.Shop
	replicas []*replica.Replica
	front    *replica.Front
	http     *http.Client // goes to each replica in turn
	cookie   string
}

// patient lets a dispatch leave whenever a busy machine comes to it; the product has a
// second for that.
var patient = replica.Options{Doors: decide.Doors{Window: true}}

// newHouse starts three replicas, with these options or patiently.
func newHouse(t *testing.T, options ...replica.Options) *house {
	t.Helper()
	if options == nil {
		options = []replica.Options{patient, patient, patient}
	}
	h := &house{t: t, Installation: replica.Prepare(t, replica.PostgreSQL)}
	h.shop = h.OpenShop(t)
	h.replicas = h.Start(t, options...)
	h.front = h.Front(h.replicas...)
	h.http = h.front.Client()
	h.cookie = h.signIn()
	return h
}

// at is the house as somebody sees it who speaks to these replicas alone.
func (h *house) at(places ...int) *house {
	var some []*replica.Replica
	for _, i := range places {
		some = append(some, h.replicas[i])
	}
	part := *h
	part.front = h.Front(some...)
	part.http = part.front.Client()
	return &part
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	value  any // of the body, nil when it is no JSON
}

func read(status int, header http.Header, body []byte) answer {
	a := answer{status, header, body, nil}
	_ = json.Unmarshal(body, &a.value) // what is no JSON has no members
	return a
}

// at follows members and places of arrays; a way that leads nowhere is nil.
func (a answer) at(way ...any) any {
	v := a.value
	for _, step := range way {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if v = nil; step >= 0 && step < len(list) {
				v = list[step]
			}
		}
	}
	return v
}

func (a answer) text(way ...any) string { s, _ := a.at(way...).(string); return s }

// is fails unless the answer has the status and the reason code.
func (a answer) is(t testing.TB, what string, status int, reason string) answer {
	t.Helper()
	if a.status != status || a.text("reasonCode") != reason {
		t.Fatalf("%s: %d %s, want %d %s\n%.600s", what, a.status, a.text("reasonCode"), status, reason, a.body)
	}
	return a
}

// send sends one request, once.
func (h *house) send(method, path string, body any, headers ...string) (answer, error) {
	var raw []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		raw = b
	default:
		var err error
		if raw, err = json.Marshal(b); err != nil {
			return answer{}, err
		}
	}
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.Origin+path, bytes.NewReader(raw))
	if err != nil {
		return answer{}, err
	}
	r.GetBody = nil // what is sent again is sent again by the test
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := h.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return read(resp.StatusCode, resp.Header, content), err
}

func (h *house) asOwner() []string {
	headers := []string{"Origin", h.Origin, "X-Halfspan-Owner", "1"}
	if h.cookie != "" {
		headers = append(headers, "Cookie", h.cookie)
	}
	return headers
}

// owner sends an owner's request; path is what follows /api/v1/owner.
func (h *house) owner(method, path string, body any) answer {
	h.t.Helper()
	a, err := h.send(method, "/api/v1/owner"+path, body, h.asOwner()...)
	must(h.t, err)
	return a
}

func (h *house) signIn() string {
	h.t.Helper()
	secret, err := keys.ReadSecret(filepath.Join(h.Dir, "owner.secret"))
	must(h.t, err)
	cookie, _, _ := strings.Cut(h.trySecret(secret).is(h.t, "sign in", 200, "").header.Get("Set-Cookie"), ";")
	return cookie
}

func (h *house) trySecret(secret string) answer {
	h.t.Helper()
	a, err := h.send("POST", "/api/v1/owner/session", map[string]any{"secret": secret}, "Origin", h.Origin, "X-Halfspan-Owner", "1")
	must(h.t, err)
	return a
}

// budgets are exactly enough for what each service's terms say without being given.
var budgets = map[string]string{"merchant": "13700", "bank": "5000", "broker": "10000"}

func (h *house) body(service, target, mode string) map[string]any {
	return map[string]any{
		"service": service, "target": target, "channel": "http", "mode": mode, "budgetCents": budgets[service], "instruction": "Do what the terms say.",
	}
}

// create makes a run and returns its id.
func (h *house) create(service, target, mode string) string {
	h.t.Helper()
	return h.owner("POST", "/runs", h.body(service, target, mode)).is(h.t, "create", 201, "").text("runId")
}

func (h *house) view(run string) answer {
	h.t.Helper()
	return h.owner("GET", "/runs/"+run, nil).is(h.t, "view", 200, "")
}

// act sends what an owner does with a run.
func (h *house) act(run, route string, body any) answer {
	h.t.Helper()
	return h.owner("POST", "/runs/"+run+"/"+route, body)
}

// completed fails unless the run is, with everything spent and nothing else.
func (h *house) completed(run, service string) {
	h.t.Helper()
	if v := h.view(run); v.text("status") != "completed" || v.text("spentCents") != budgets[service] || v.text("reservedCents") != "0" {
		h.t.Errorf("%s run %s: %s, spent %s, reserved %s", service, run, v.text("status"), v.text("spentCents"), v.text("reservedCents"))
	}
}

// exported is the signed evidence of a chain, as it came.
func (h *house) exported(path string) []byte {
	h.t.Helper()
	return h.owner("GET", path, nil).is(h.t, "export", 200, "").body
}

// told are the events of a signed export.
func told(t testing.TB, export []byte) []evidence.Event {
	t.Helper()
	var e struct{ Events []evidence.Event }
	must(t, json.Unmarshal(export, &e))
	return e.Events
}

// export is a chain, verified.
func (h *house) export(path string) []evidence.Event {
	h.t.Helper()
	return h.verified(h.exported(path))
}

// verified are the events of an export that verifies with keys from outside.
func (h *house) verified(raw []byte) []evidence.Event {
	h.t.Helper()
	k, err := keys.Load(h.Dir)
	must(h.t, err)
	var trusted evidence.Keys
	for _, p := range k.EvidenceList() {
		trusted = append(trusted, evidence.TrustedKey{Public: p.Key, NotAfter: p.NotAfter})
	}
	options := audit.Options{Keys: trusted}
	if h.shop != nil {
		options.StoreKeys = []dispatch.TrustedKey{h.shop.Key}
	}
	report, err := audit.Verify(bytes.NewReader(raw), options)
	must(h.t, err)
	if !report.OK() {
		var b strings.Builder
		must(h.t, report.Print(&b, "an export"))
		h.t.Errorf("%s", b.String())
	}
	return told(h.t, raw)
}

func (h *house) events(run string) []evidence.Event {
	h.t.Helper()
	return h.export("/runs/" + run + "/evidence")
}

func count(events []evidence.Event, eventType string) (n int) {
	for _, e := range events {
		if e.Type == eventType {
			n++
		}
	}
	return n
}

// agent is an agent with the token of its run. It goes on over lost answers as
// api/protocol.md says.
type agent struct {
	*house
	run string
	client.Consumer
}

func (h *house) agent(run string) *agent {
	h.t.Helper()
	token := h.act(run, "session", map[string]any{}).is(h.t, "issue the token", 200, "").text("token")
	return &agent{h, run, client.Consumer{Origin: h.Origin, Token: token, HTTP: h.http}}
}

// ask sends one agent's request, once; path is what follows /api/v1.
func (a *agent) ask(method, path string, body any, headers ...string) answer {
	a.t.Helper()
	got, err := a.send(method, "/api/v1"+path, body, append(headers, "Authorization", "Bearer "+a.Token)...)
	must(a.t, err)
	return got
}

// steps are the entries or operations of a run from its beginning to its end.
var steps = map[string][]string{
	"merchant": {"merchant.catalog", "product:fieldwork-keyboard", "add:fieldwork-keyboard:1", "checkout:addr_home", "merchant.checkout.submit"},
	"bank":     {"bank.accounts", "bank.payees", "transactions:acct_checking", "transfer:acct_checking:payee_utility", "bank.transfer.status", "bank.transfer.submit"},
	"broker":   {"broker.account", "quote:SYNA", "broker.positions", "order:SYNA:buy:2:5000", "broker.order.status", "broker.order.submit"},
}

// permit is a live permit with the body that it is good for.
type permit struct {
	id, token string
	body      []byte
}

// reply reads what the consumer got.
func reply(t testing.TB, what string, r client.Reply, err error) answer {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return read(r.Status, nil, r.Body)
}

// reportOn is a well-formed report on an entry of an observation, by its id or operation.
func reportOn(seen answer, id string) ([]byte, error) {
	list, _ := seen.at("catalog").([]any)
	i := slices.IndexFunc(list, func(e any) bool {
		return e.(map[string]any)["entryId"] == id || e.(map[string]any)["operationId"] == id
	})
	if i < 0 {
		return nil, fmt.Errorf("the catalog has no %s", id)
	}
	e := list[i].(map[string]any)
	effect := e["effect"].(map[string]any)
	return json.Marshal(map[string]any{
		"goalRestatement": "Do what the terms say.", "selectedCandidateId": "1", "uncertainties": []string{},
		"candidates": []any{map[string]any{
			"id": "1", "action": map[string]any{"kind": e["kind"], "operationId": e["operationId"], "targetRef": e["targetRef"], "args": e["args"]},
			"purpose": "It is next.", "disposition": "proposed", "rejectionReason": nil,
		}},
		"justification": map[string]any{"summary": "It is next.", "evidenceRefs": []any{seen.at("observationId")}},
		"expectedEffect": map[string]any{
			"operationId": e["operationId"], "transactionProposalId": effect["transactionProposalId"], "disclosedFields": effect["disclosedFields"], "postconditions": effect["postconditions"],
		},
	})
}

// report observes and reports on an entry.
func (a *agent) report(id string) []byte {
	a.t.Helper()
	r, err := a.Get(a.t.Context(), "/api/v1/observation")
	raw, err := reportOn(reply(a.t, "observe for "+id, r, err).is(a.t, "observe for "+id, 200, ""), id)
	must(a.t, err)
	return raw
}

// allow reports on an entry and gets its permit.
func (a *agent) allow(id string) permit {
	a.t.Helper()
	r, err := a.Propose(a.t.Context(), a.report(id))
	turn := reply(a.t, "report on "+id, r, err).is(a.t, "report on "+id, 200, "")
	p := permit{id: turn.text("permit", "permitId"), token: turn.text("permit", "token")}
	if p.token == "" {
		a.t.Fatalf("%s: no permit\n%.600s", id, turn.body)
	}
	p.body, err = json.Marshal(map[string]any{"action": turn.at("permit", "action")})
	must(a.t, err)
	return p
}

// cycle does one whole action, with each of its requests to another replica.
func (a *agent) cycle(id string) answer {
	a.t.Helper()
	p := a.allow(id)
	r, err := a.Operate(a.t.Context(), p.token, p.body)
	got := reply(a.t, id, r, err).is(a.t, id, 200, "")
	if got.text("state") != "verified" {
		a.t.Fatalf("%s: %s", id, got.body)
	}
	return got
}

// shares prints how many answers came from each replica, and fails when one gave less
// than a fifth of all.
func (h *house) shares() {
	h.t.Helper()
	all, served := 0, h.front.Served()
	for _, n := range served {
		all += n
	}
	var b strings.Builder
	for _, r := range h.replicas {
		n := served[r.Name]
		fmt.Fprintf(&b, ", %s %d (%d %%)", r.Name, n, 100*n/all)
		if 5*n < all {
			h.t.Errorf("%s gave %d of %d answers, less than a fifth", r.Name, n, all)
		}
	}
	h.t.Logf("%d answers%s", all, b.String())
}

// orders fails unless the shop has so many, each for an execution of its own.
func (h *house) orders(want int) {
	h.t.Helper()
	list, err := h.shop.Orders(h.t.Context())
	must(h.t, err)
	if len(list) != want {
		h.t.Errorf("the shop has %d orders, want %d", len(list), want)
	}
}

// each does the same at once for all of a list.
func each[T any](list []T, f func(T)) {
	var wg sync.WaitGroup
	for _, x := range list {
		wg.Go(func() { f(x) })
	}
	wg.Wait()
}
