package app_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/audit"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/service/bank"
	"countersign/internal/supervision/service/broker"
	"countersign/internal/supervision/service/merchant"
)

// desk is an owner at a running installation.
type desk struct {
	t      *testing.T
	app    *app.App
	origin string
	dir    string
	clock  *ledger.Clock
	cookie string
}

// open serves a new installation and signs the owner in.
func openDesk(t *testing.T, url string, edits ...func(*app.Config)) *desk {
	t.Helper()
	d := &desk{t: t, dir: filepath.Join(t.TempDir(), "D"), clock: new(ledger.Clock)}
	must(t, app.Init(context.Background(), d.dir, url))
	c := app.Config{Dir: d.dir, Addr: "localhost:0", Database: url, Clock: d.clock}
	for _, f := range edits {
		f(&c)
	}
	d.app, _ = serve(t, c)
	d.origin = d.app.Origin()
	d.signIn()
	return d
}

func (d *desk) signIn() {
	d.t.Helper()
	secret, err := keys.ReadSecret(filepath.Join(d.dir, "owner.secret"))
	must(d.t, err)
	r := d.ask("POST", "/session", map[string]any{"secret": secret})
	d.cookie = r.header.Get("Set-Cookie")
	d.cookie, _, _ = strings.Cut(d.cookie, ";")
}

// move moves the clock and signs in again when the session has ended by then.
func (d *desk) move(by time.Duration) {
	d.t.Helper()
	d.clock.Move(by)
	if d.ask("GET", "/status", nil).status == http.StatusUnauthorized {
		d.signIn()
	}
}

// heard is an answer.
type heard struct {
	status int
	header http.Header
	body   []byte
}

// at follows members and places of arrays; a way that leads nowhere is nil.
func (h heard) at(way ...any) any {
	var v any
	_ = json.Unmarshal(h.body, &v)
	for _, step := range way {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if v = nil; step < len(list) {
				v = list[step]
			}
		}
	}
	return v
}

// is fails unless the answer has the status and the reason code.
func (h heard) is(t *testing.T, what string, status int, reason string) heard {
	t.Helper()
	code, _ := h.at("reasonCode").(string)
	if h.status != status || code != reason {
		t.Fatalf("%s: %d %s, want %d %s\n%.600s", what, h.status, code, status, reason, h.body)
	}
	return h
}

func send(t *testing.T, method, url string, body any, headers map[string]string) heard {
	t.Helper()
	return sendAs(t, client.New(), "", method, url, body, headers)
}

// sendAs sends with a client of its own and under another Host.
func sendAs(t *testing.T, c *http.Client, host, method, url string, body any, headers map[string]string) heard {
	t.Helper()
	var raw []byte
	if body != nil {
		var err error
		raw, err = json.Marshal(body)
		must(t, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(raw))
	must(t, err)
	r.Host = cmp.Or(host, r.Host)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	resp, err := c.Do(r)
	must(t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	must(t, err)
	return heard{resp.StatusCode, resp.Header, content}
}

// ask sends an owner's request; path is what follows /api/v1/owner.
func (d *desk) ask(method, path string, body any) heard {
	d.t.Helper()
	return send(d.t, method, d.origin+"/api/v1/owner"+path, body, d.headers())
}

// headers are those of an owner's request.
func (d *desk) headers() map[string]string {
	h := map[string]string{"Origin": d.origin, "X-Halfspan-Owner": "1"}
	if d.cookie != "" {
		h["Cookie"] = d.cookie
	}
	return h
}

// policyBody is a policy that leaves out submitting an order.
func policyBody(edits ...func(map[string]any)) map[string]any {
	b := map[string]any{
		"name": "Look and prepare", "service": "merchant", "environment": "local", "mode": "bounded", "budgetCents": "13700", "provider": "replay",
		"operations": []string{"merchant.catalog", "merchant.product", "merchant.cart.add"}, "channels": []string{"http"},
	}
	for _, f := range edits {
		f(b)
	}
	return b
}

func with(name string, value any) func(map[string]any) {
	return func(b map[string]any) { b[name] = value }
}

// draft begins a policy and returns its id.
func (d *desk) draft(edits ...func(map[string]any)) string {
	d.t.Helper()
	r := d.ask("POST", "/workspace/guardians", policyBody(edits...)).is(d.t, "draft", 201, "")
	return r.at("guardianId").(string)
}

func (d *desk) verify(id string, revision int) heard {
	d.t.Helper()
	return d.ask("POST", "/workspace/guardians/"+id+"/verify", map[string]any{"revision": revision})
}

func (d *desk) activate(id string, revision int) heard {
	d.t.Helper()
	return d.ask("POST", "/workspace/guardians/"+id+"/activate", map[string]any{"revision": revision})
}

// publish drafts, verifies and activates a policy.
func (d *desk) publish(edits ...func(map[string]any)) string {
	d.t.Helper()
	id := d.draft(edits...)
	d.republish(id, 1)
	return id
}

func (d *desk) republish(id string, revision int) {
	d.t.Helper()
	if r := d.verify(id, revision).is(d.t, "verify", 200, ""); r.at("verification", "passed") != true {
		d.t.Fatalf("the verification failed: %v", failures(r))
	}
	d.activate(id, revision).is(d.t, "activate", 200, "")
}

// failures lists the tests of a verification that have not passed, with their results.
func failures(h heard) (names []string) {
	tests, _ := h.at("verification", "tests").([]any)
	for _, raw := range tests {
		test := raw.(map[string]any)
		if test["result"] != "passed" {
			names = append(names, test["name"].(string)+": "+test["result"].(string))
		}
	}
	return names
}

// boundRun is the body of a run that leaves to its policy what it can.
func boundRun(guardian string, edits ...func(map[string]any)) map[string]any {
	b := map[string]any{"service": "merchant", "channel": "http", "instruction": "Buy one keyboard.", "guardianId": guardian}
	for _, f := range edits {
		f(b)
	}
	return b
}

// H-213 H-214: a policy goes from its draft to a run that is bound to it, and every chain verifies.
func TestGuardianPolicy(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		d := openDesk(t, url)
		id := d.draft()
		d.ask("POST", "/runs", boundRun(id)).is(t, "a run of a draft", 409, "GUARDIAN_NOT_PUBLISHED")
		d.activate(id, 1).is(t, "activate a draft", 409, "GUARDIAN_NOT_VERIFIED")
		verified := d.verify(id, 1).is(t, "verify", 200, "")
		if verified.at("verification", "passed") != true || verified.at("status") != "verified" {
			t.Fatalf("verification: %s", verified.body)
		}
		if got := failures(verified); !slices.Equal(got, []string{"webmcp.native: not_measured"}) {
			t.Errorf("not passed: %v", got)
		}
		published := d.activate(id, 1).is(t, "activate", 200, "")
		if published.at("status") != "published" || published.at("published", "version") != 1.0 {
			t.Fatalf("publication: %s", published.body)
		}
		run := d.ask("POST", "/runs", boundRun(id)).is(t, "a bound run", 201, "")
		if run.at("mode") != "bounded" || run.at("budgetCents") != "13700" || run.at("interrogator") != "replay" ||
			run.at("guardianBinding", "guardianId") != id || run.at("guardianBinding", "policyVersion") != 1.0 || run.at("guardianBinding", "policy") != "current" {
			t.Errorf("the bound run: %s", run.body)
		}
		runs := d.ask("GET", "/runs", nil).is(t, "list", 200, "")
		if list := runs.at("runs").([]any); len(list) != 1 {
			t.Errorf("%d runs are listed, want the bound one alone", len(list))
		}
		for _, path := range []string{"/workspace/guardians/" + id + "/evidence", "/workspace/evidence", "/runs/" + run.at("runId").(string) + "/evidence"} {
			d.lawful(path)
		}
	})
}

// lawful exports a chain and verifies it with the key from the folder.
func (d *desk) lawful(path string) *audit.Report {
	d.t.Helper()
	return d.verifies(path, d.ask("GET", path, nil))
}

// verifies checks an export.
func (d *desk) verifies(path string, export heard) *audit.Report {
	d.t.Helper()
	export.is(d.t, "export", 200, "")
	k, err := keys.Load(d.dir)
	must(d.t, err)
	r, err := audit.Verify(bytes.NewReader(export.body), audit.Options{Keys: evidence.Keys{{Public: k.Evidence().Public()}}})
	must(d.t, err)
	if !r.OK() {
		var b strings.Builder
		must(d.t, r.Print(&b, path))
		d.t.Errorf("%s", b.String())
	}
	return r
}

// agent is an agent with its run's token.
type agent struct {
	t             *testing.T
	origin, token string
}

func (d *desk) agent(runID string) *agent {
	d.t.Helper()
	r := d.ask("POST", "/runs/"+runID+"/session", map[string]any{}).is(d.t, "issue the token", 200, "")
	return &agent{d.t, d.origin, r.at("token").(string)}
}

func (a *agent) ask(method, path string, body any, headers ...string) heard {
	a.t.Helper()
	h := map[string]string{"Authorization": "Bearer " + a.token}
	for i := 0; i < len(headers); i += 2 {
		h[headers[i]] = headers[i+1]
	}
	return send(a.t, method, a.origin+"/api/v1"+path, body, h)
}

// operations are those of the current catalog, each once.
func (a *agent) operations() (names []string) {
	a.t.Helper()
	list, _ := a.ask("GET", "/observation", nil).is(a.t, "observe", 200, "").at("catalog").([]any)
	for _, e := range list {
		names = append(names, e.(map[string]any)["operationId"].(string))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// act reports on the first entry of the operation and executes what is permitted.
func (a *agent) act(operation string) heard {
	a.t.Helper()
	seen := a.ask("GET", "/observation", nil).is(a.t, "observe", 200, "")
	list, _ := seen.at("catalog").([]any)
	i := slices.IndexFunc(list, func(e any) bool { return e.(map[string]any)["operationId"] == operation })
	if i < 0 {
		a.t.Fatalf("the catalog has no %s", operation)
	}
	e := list[i].(map[string]any)
	effect := e["effect"].(map[string]any)
	action := map[string]any{"kind": e["kind"], "operationId": operation, "targetRef": e["targetRef"], "args": e["args"]}
	turned := a.ask("POST", "/turns", map[string]any{
		"goalRestatement": "Buy one keyboard.", "selectedCandidateId": "1", "uncertainties": []string{},
		"candidates":     []any{map[string]any{"id": "1", "action": action, "purpose": "Next.", "disposition": "proposed", "rejectionReason": nil}},
		"justification":  map[string]any{"summary": "Next.", "evidenceRefs": []any{seen.at("observationId")}},
		"expectedEffect": map[string]any{"operationId": operation, "transactionProposalId": effect["transactionProposalId"], "disclosedFields": effect["disclosedFields"], "postconditions": effect["postconditions"]},
	}).is(a.t, "report", 200, "")
	permit, _ := turned.at("permit", "token").(string)
	return a.ask("POST", "/operation", map[string]any{"action": action}, "X-Step-Permit", permit, "X-Idempotency-Key", "key-of-"+operation)
}

// An operation outside the policy is neither in the catalog nor in the grant (H-215).
// Control: without a policy it is in both.
func TestBoundOperations(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		d := openDesk(t, url)
		granted := func(run heard) (names []string) {
			list, _ := run.at("grants", 0, "operations").([]any)
			for _, o := range list {
				names = append(names, o.(string))
			}
			return names
		}
		selected := []string{"merchant.cart.add", "merchant.catalog", "merchant.product"}
		run := d.ask("POST", "/runs", boundRun(d.publish())).is(t, "a bound run", 201, "")
		if got := d.agent(run.at("runId").(string)).operations(); !slices.Equal(got, selected) {
			t.Errorf("the catalog offers %v, want %v", got, selected)
		}
		if got := granted(run); !slices.Equal(slices.Sorted(slices.Values(got)), selected) {
			t.Errorf("granted are %v, want %v", got, selected)
		}
		free := d.ask("POST", "/runs", localRun).is(t, "a run without a policy", 201, "")
		if got := d.agent(free.at("runId").(string)).operations(); !slices.Contains(got, "merchant.cart") {
			t.Errorf("control: the catalog without a policy offers %v", got)
		}
		if !slices.Contains(granted(free), "merchant.checkout.submit") || free.at("guardianBinding") != nil {
			t.Errorf("control: a run without a policy: %s", free.body)
		}
	})
}

// Mode, budget and provider are the policy's; whoever sends something else, or another
// service, channel or target, is refused (H-214, H-216).
func TestBoundMismatch(t *testing.T) {
	d := openDesk(t, "")
	id := d.publish()
	for name, value := range map[string]any{
		"mode": "exact", "budgetCents": "13699", "interrogator": "openai", "service": "bank", "channel": "browser", "target": "hosted",
	} {
		d.ask("POST", "/runs", boundRun(id, with(name, value))).is(t, "another "+name, 409, "GUARDIAN_MISMATCH")
	}
	for name, value := range map[string]any{"mode": "bounded", "budgetCents": "13700", "interrogator": "replay", "target": "local"} {
		d.ask("POST", "/runs", boundRun(id, with(name, value))).is(t, "the same "+name, 201, "")
	}
	d.ask("POST", "/runs", boundRun("01980000-0000-7000-8000-000000000009")).is(t, "an unknown policy", 404, "NOT_FOUND")
	d.ask("POST", "/runs", boundRun("nobody")).is(t, "no id", 400, "INVALID_REQUEST")
	unbound := boundRun(id)
	delete(unbound, "guardianId")
	d.ask("POST", "/runs", unbound).is(t, "neither budget nor policy", 400, "INVALID_REQUEST")
}

// A later version changes nothing in an active run, and new runs get it (H-210, H-217).
func TestNextVersion(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		d := openDesk(t, url)
		id := d.publish()
		run := d.ask("POST", "/runs", boundRun(id)).is(t, "a bound run", 201, "").at("runId").(string)
		agent := d.agent(run)
		before := d.ask("GET", "/runs/"+run, nil)
		narrow := policyBody(with("operations", []string{"merchant.catalog"}), with("budgetCents", "100"), with("revision", 1))
		d.ask("PUT", "/workspace/guardians/"+id, narrow).is(t, "edit", 200, "")
		d.ask("PUT", "/workspace/guardians/"+id, narrow).is(t, "edit from the former revision", 409, "REVISION_CONFLICT")
		d.republish(id, 2)
		agent.act("merchant.catalog").is(t, "an operation of both versions", 200, "")
		agent.act("merchant.product").is(t, "an operation of the first version alone", 200, "")
		after := d.ask("GET", "/runs/"+run, nil)
		if after.at("guardianBinding", "policy") != "superseded" {
			t.Errorf("the binding's label: %v", after.at("guardianBinding", "policy"))
		}
		for _, member := range []string{"policyVersion", "budgetCents", "mode"} {
			if before.at("guardianBinding", member) != after.at("guardianBinding", member) {
				t.Errorf("%s of the binding changed", member)
			}
		}
		if before.at("budgetCents") != after.at("budgetCents") || before.at("grants", 0, "grantId") != after.at("grants", 0, "grantId") {
			t.Errorf("budget or grant changed")
		}
		second := d.ask("POST", "/runs", boundRun(id)).is(t, "a new run", 201, "")
		if second.at("guardianBinding", "policyVersion") != 2.0 || second.at("budgetCents") != "100" {
			t.Errorf("the new run: %s", second.body)
		}
		d.lawful("/runs/" + run + "/evidence")
		d.lawful("/workspace/guardians/" + id + "/evidence")
	})
}

// The hours of H-208 and H-211 over HTTP.
func TestPolicyTimes(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		d := openDesk(t, url)
		id := d.draft()
		d.verify(id, 1).is(t, "verify", 200, "")
		d.move(time.Hour)
		d.activate(id, 1).is(t, "an hour later", 409, "GUARDIAN_NOT_VERIFIED")
		d.republish(id, 1)
		run := d.ask("POST", "/runs", boundRun(id)).is(t, "a bound run", 201, "").at("runId").(string)
		d.move(24 * time.Hour)
		d.ask("POST", "/runs", boundRun(id)).is(t, "24 hours later", 409, "GUARDIAN_DEGRADED")
		g := d.ask("GET", "/workspace", nil)
		if g.at("guardians", 0, "status") != "degraded" || g.at("guardians", 0, "readiness", "newRuns", "reasonCode") != "GUARDIAN_DEGRADED" {
			t.Errorf("the workspace: %s", g.body)
		}
		if got := d.ask("GET", "/runs/"+run, nil); got.at("guardianBinding", "policy") != "degraded" {
			t.Errorf("the active run: %v", got.at("guardianBinding"))
		}
		d.republish(id, 1)
		d.ask("POST", "/runs", boundRun(id)).is(t, "published again", 201, "")
	})
}

// Custom and remote services stay drafts, and a provider that is not built is not drafted
// (H-199, H-200, H-212, L-1).
func TestStaysDraft(t *testing.T) {
	d := openDesk(t, "")
	service := map[string]any{"name": "Elsewhere", "kind": "custom", "environment": "production", "origin": "https://elsewhere.invalid", "description": "Not ours."}
	registered := d.ask("POST", "/workspace/services", service).is(t, "register", 201, "")
	for name, edit := range map[string]func(map[string]any){
		"custom": func(b map[string]any) { delete(b, "service"); b["serviceId"] = registered.at("serviceId") },
		"remote": with("environment", "production"),
	} {
		id := d.draft(edit)
		d.verify(id, 1).is(t, "verify "+name, 501, "NOT_IMPLEMENTED")
		d.activate(id, 1).is(t, "activate "+name, 501, "NOT_IMPLEMENTED")
	}
	d.ask("POST", "/workspace/guardians", policyBody(with("provider", "openai"))).is(t, "another provider", 501, "NOT_IMPLEMENTED")
	w := d.ask("GET", "/workspace", nil).is(t, "the workspace", 200, "")
	if w.at("services", 0, "origin") != "https://elsewhere.invalid" || w.at("services", 0, "description") != "Not ours." || len(w.at("guardians").([]any)) != 2 {
		t.Errorf("the workspace: %s", w.body)
	}
}

// Negative control: an installation whose owner routes have no guard is found out by its
// own verification.
func TestVerificationWithoutGuard(t *testing.T) {
	d := openDesk(t, "", func(c *app.Config) { c.Without = "owner" })
	id := d.draft()
	got := failures(d.verify(id, 1).is(t, "verify", 200, ""))
	for _, want := range []string{"caller.run_token_on_owner_route", "origin.foreign_read", "origin.foreign_change", "origin.missing"} {
		if !slices.Contains(got, want+": failed") {
			t.Errorf("%s has passed; not passed: %v", want, got)
		}
	}
	d.activate(id, 1).is(t, "activate", 409, "GUARDIAN_NOT_VERIFIED")
}

// A verification finds its own server: behind a proxy, whose origin nobody here answers
// at, and under TLS with a certificate that only the configuration trusts.
func TestVerificationFindsItself(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	secure := client.New()
	secure.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}}
	for _, c := range []struct {
		name, scheme, host string
		client             *http.Client
		config             app.Config
	}{
		{"behind a proxy", "http", "control.invalid", client.New(), app.Config{Origin: "https://control.invalid"}},
		{"under TLS", "https", "", secure, app.Config{TLSCert: certFile, TLSKey: keyFile}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "D")
			must(t, app.Init(context.Background(), dir, ""))
			c.config.Dir, c.config.Addr = dir, "localhost:0"
			a, _ := serve(t, c.config)
			secret, err := keys.ReadSecret(filepath.Join(dir, "owner.secret"))
			must(t, err)
			cookie, host := "", c.host
			if host == "" {
				host = strings.TrimPrefix(a.Origin(), "https://")
			}
			ask := func(method, path string, body any) heard {
				t.Helper()
				return sendAs(t, c.client, host, method, c.scheme+"://"+a.Addr()+"/api/v1/owner"+path, body, map[string]string{"Origin": a.Origin(), "X-Halfspan-Owner": "1", "Cookie": cookie})
			}
			cookie, _, _ = strings.Cut(ask("POST", "/session", map[string]any{"secret": secret}).header.Get("Set-Cookie"), ";")
			id := ask("POST", "/workspace/guardians", policyBody()).is(t, "draft", 201, "").at("guardianId").(string)
			r := ask("POST", "/workspace/guardians/"+id+"/verify", map[string]any{"revision": 1}).is(t, "verify", 200, "")
			if r.at("verification", "passed") != true {
				t.Errorf("not passed: %v", failures(r))
			}
		})
	}
}

// GET /hosting tells what there is and no secret (H-230).
func TestHosting(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		d := openDesk(t, url)
		h := d.ask("GET", "/hosting", nil).is(t, "hosting", 200, "")
		engine := "sqlite"
		if url != "" {
			engine = "postgres"
		}
		if h.at("database", "engine") != engine || h.at("database", "connected") != true || h.at("runtime", "location") != "local" ||
			h.at("worker", "name") != "settler" || h.at("worker", "inProcess") != true || h.at("worker", "status") != "running" || h.at("signingKey") != d.app.Fingerprint() {
			t.Errorf("%s", h.body)
		}
		checked, err := evidence.ParseTime(h.at("checkedAt").(string))
		if err != nil || time.Since(checked).Abs() > time.Minute {
			t.Errorf("checked at %v", h.at("checkedAt"))
		}
		for _, secret := range []string{d.dir, "postgres://"} {
			if strings.Contains(string(h.body), secret) {
				t.Errorf("it holds %s: %s", secret, h.body)
			}
		}
	})
}

// Nothing of a verification is counted as operation (H-207).
func TestVerificationIsNoOperation(t *testing.T) {
	d := openDesk(t, "", func(c *app.Config) { c.MetricsAddr = "127.0.0.1:0" })
	counts := func() string {
		t.Helper()
		body := string(send(t, "GET", "http://"+d.app.MetricsAddr()+"/metrics", nil, nil).body)
		var lines []string
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "countersign_decisions_total") || strings.HasPrefix(line, "countersign_executions_total") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	before := counts()
	id := d.publish()
	if after := counts(); after != before {
		t.Errorf("a verification was counted:\n%s", after)
	}
	run := d.ask("POST", "/runs", boundRun(id)).is(t, "a bound run", 201, "").at("runId").(string)
	d.agent(run).act("merchant.catalog").is(t, "an operation", 200, "")
	if counts() == before {
		t.Error("control: an operation was not counted")
	}
}

// Every built-in service can be verified and published, in both modes (H-209).
func TestEveryService(t *testing.T) {
	d := openDesk(t, "")
	for _, service := range []gateway.Service{merchant.Adapter{}, bank.Adapter{}, broker.Adapter{}} {
		for _, mode := range []string{"exact", "bounded"} {
			t.Run(service.Name()+" "+mode, func(t *testing.T) {
				d.t = t
				id := d.publish(with("service", service.Name()), with("mode", mode), with("operations", service.Operations()))
				run := d.ask("POST", "/runs", boundRun(id, with("service", service.Name()))).is(t, "a bound run", 201, "")
				if run.at("mode") != mode || run.at("service") != service.Name() {
					t.Errorf("the run: %s", run.body)
				}
			})
		}
	}
}
