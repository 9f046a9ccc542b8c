package app_test

import (
	"bytes"
	"context"
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
)

// desk is an owner at a running installation.
type desk struct {
	t      *testing.T
	app    *app.App
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
	var raw []byte
	if body != nil {
		var err error
		raw, err = json.Marshal(body)
		must(t, err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(raw))
	must(t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	resp, err := client.New().Do(r)
	must(t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	must(t, err)
	return heard{resp.StatusCode, resp.Header, content}
}

// ask sends an owner's request; path is what follows /api/v1/owner.
func (d *desk) ask(method, path string, body any) heard {
	d.t.Helper()
	h := map[string]string{"Origin": d.app.Origin(), "X-Halfspan-Owner": "1"}
	if d.cookie != "" {
		h["Cookie"] = d.cookie
	}
	return send(d.t, method, d.app.Origin()+"/api/v1/owner"+path, body, h)
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

// A policy goes from its draft to a run that is bound to it, and every chain verifies.
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
	export := d.ask("GET", path, nil).is(d.t, "export", 200, "")
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
