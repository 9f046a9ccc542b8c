package app_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/internal/app"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
)

// visitor is a browser at the incident workflow of a running installation.
type visitor struct {
	*desk
	cookie string
}

func (d *desk) visitor() *visitor { return &visitor{desk: d} }

func (v *visitor) header() map[string]string {
	h := map[string]string{"Origin": v.origin}
	if v.cookie != "" {
		h["Cookie"] = "countersign_incident=" + v.cookie
	}
	return h
}

// asks sends a request and keeps the cookie that it is given.
func (v *visitor) asks(body any) heard {
	v.t.Helper()
	r := send(v.t, "POST", v.origin+"/api/v1/incident", body, v.header())
	for _, c := range (&http.Response{Header: r.header}).Cookies() {
		v.cookie = c.Value
	}
	return r
}

func (v *visitor) sees(path string) heard {
	v.t.Helper()
	return send(v.t, "GET", v.origin+"/api/v1/incident"+path, nil, v.header())
}

// stages stages a mitigation, which this returns.
func (v *visitor) stages(mitigation string) map[string]any {
	v.t.Helper()
	version := v.sees("").is(v.t, "look", 200, "").at("resourceVersion")
	r := v.asks(map[string]any{"operation": "stage", "channel": "webmcp", "mitigationId": mitigation, "expectedVersion": version}).is(v.t, "stage", 200, "")
	return r.at("snapshot", "staged").(map[string]any)
}

// approving is what the page sends for what is staged.
func (v *visitor) approving(staged map[string]any) map[string]any {
	v.t.Helper()
	nonce, err := v.app.IncidentNonce(v.t.Context(), v.cookie)
	must(v.t, err)
	return map[string]any{"operation": "approve", "channel": "human", "actionDigest": staged["actionDigest"], "resourceVersion": staged["resourceVersion"], "formNonce": nonce}
}

func executing(staged map[string]any) map[string]any {
	return map[string]any{"operation": "execute", "channel": "webmcp", "actionDigest": staged["actionDigest"], "resourceVersion": staged["resourceVersion"], "idempotencyKey": staged["idempotencyKey"]}
}

// approved is a mitigation that is staged and approved.
func (v *visitor) approved() map[string]any {
	v.t.Helper()
	staged := v.stages("restore-pool")
	v.asks(v.approving(staged)).is(v.t, "approve", 200, "")
	return staged
}

func withIncident(c *app.Config) { c.Incident = true }

// The incident workflow is there only where it was asked for: else its paths are not found,
// for whoever asks, and its page is none.
func TestIncidentOff(t *testing.T) {
	routes := []struct{ method, path string }{{"GET", "/api/v1/incident"}, {"POST", "/api/v1/incident"}, {"GET", "/api/v1/incident/evidence"}, {"GET", "/incident"}}
	off := openDesk(t, "")
	for _, r := range routes {
		for who, headers := range map[string]map[string]string{"nobody": {"Origin": off.origin}, "the owner": off.headers(), "an agent": {"Authorization": "Bearer x"}} {
			got := send(t, r.method, off.origin+r.path, nil, headers).is(t, r.method+" "+r.path+" by "+who, 404, "NOT_FOUND")
			if !strings.Contains(fmt.Sprint(got.at("detail")), "started with --incident") {
				t.Errorf("%s %s does not say how to have it: %s", r.method, r.path, got.body)
			}
		}
	}
	page := send(t, "GET", off.origin+"/incident", nil, map[string]string{"Accept": "text/html"})
	if page.status != 404 || !strings.Contains(string(page.body), "There is no such page") || !strings.Contains(string(page.body), "started with --incident") {
		t.Errorf("a browser is shown %d %s", page.status, page.body)
	}
	if other := send(t, "GET", off.origin+"/incidents", nil, map[string]string{"Accept": "text/html"}); other.status != 404 || strings.Contains(string(other.body), "--incident") {
		t.Errorf("at another path a browser is shown %d %s", other.status, other.body)
	}
	if off.app.Incident() {
		t.Error("it says that it is on")
	}
	// Control: with it they are there.
	on := openDesk(t, "", withIncident)
	for _, r := range routes {
		var body any
		if r.method == "POST" {
			body = map[string]any{"operation": "snapshot", "channel": "api"}
		}
		got := send(t, r.method, on.origin+r.path, body, map[string]string{"Origin": on.origin})
		if want := map[bool]int{true: 404, false: 200}[strings.HasSuffix(r.path, "/evidence")]; got.status != want { // no session
			t.Errorf("%s %s: %d, want %d", r.method, r.path, got.status, want)
		}
	}
	if !on.app.Incident() {
		t.Error("it says that it is off")
	}
}

// R-004 R-006: the workflow on a served installation, across a restart, on both engines: the
// cookie, the evidence and the record of the execution are those of before.
func TestIncidentRestart(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		dir := filepath.Join(t.TempDir(), "D")
		must(t, app.Init(context.Background(), dir, url))
		c := app.Config{Dir: dir, Addr: "localhost:0", Database: url, Incident: true}
		a, stop := serve(t, c)
		v := &visitor{desk: &desk{t: t, app: a, dir: dir, origin: a.Origin()}}
		staged := v.approved()
		first := v.asks(executing(staged)).is(t, "execute", 200, "")
		must(t, stop())

		a, _ = serve(t, c)
		v.app, v.origin = a, a.Origin()
		again := v.asks(executing(staged)).is(t, "again", 200, "")
		if again.at("replayed") != true || first.at("replayed") != false || again.at("result", "execution", "id") != first.at("result", "execution", "id") {
			t.Errorf("again %s", again.body)
		}
		if s := v.sees(""); s.at("status") != "mitigated" || s.at("receipts", "total") != 4.0 || s.at("receipts", "verification", "verified") != true {
			t.Errorf("afterwards %s", s.body)
		}
		v.verifies("/evidence", v.sees("/evidence"))
	})
}

// The workspace's freeze holds here too: nothing is approved or executed while it stands,
// and what was approved before is executed after it, within its five minutes. Reading says
// that it is frozen, and the refusal says once what that means for the incident.
func TestIncidentFrozen(t *testing.T) {
	d := openDesk(t, "", withIncident)
	v := d.visitor()
	staged := v.approved()
	if v.sees("").at("frozen") != false || d.visitor().sees("").at("frozen") != false {
		t.Error("it is frozen before it is")
	}
	d.ask("POST", "/freeze", map[string]any{"reason": "a test"}).is(t, "freeze", 200, "")
	if v.sees("").at("frozen") != true || d.visitor().sees("").at("frozen") != true {
		t.Error("a freeze is not shown")
	}
	r := v.asks(executing(staged)).is(t, "execute", 409, "FROZEN")
	want := "Nothing is approved or executed while the freeze lasts. Ask again when the owner has lifted the freeze; reading, comparing, staging and resetting work meanwhile."
	if r.at("title") != "Workspace frozen" || r.at("detail") != want || r.at("snapshot", "frozen") != true {
		t.Errorf("frozen: %s", r.body)
	}
	if r.at("receipt", "data", "outcome") != "blocked" || r.at("snapshot", "approval", "state") != "active" {
		t.Errorf("frozen: %s", r.body)
	}
	w := d.visitor()
	w.asks(w.approving(w.stages("restore-pool"))).is(t, "approve", 409, "FROZEN")
	d.ask("POST", "/unfreeze", map[string]any{"reason": "a test", "epoch": 1}).is(t, "unfreeze", 200, "")
	if after := v.asks(executing(staged)).is(t, "execute afterwards", 200, ""); after.at("snapshot", "frozen") != false {
		t.Errorf("afterwards %s", after.body)
	}
}

// G-24: a mitigation that was applied in part, which only a test's fault brings about, asks
// for recovery: nothing is staged on top of it until it is reset.
func TestIncidentPartialFailure(t *testing.T) {
	d := openDesk(t, "", withIncident, func(c *app.Config) { c.IncidentPartial = func() bool { return true } })
	v := d.visitor()
	r := v.asks(executing(v.approved())).is(t, "execute", 200, "")
	if r.at("result", "execution", "outcome") != "partial_failure" || r.at("snapshot", "status") != "recovery-required" || r.at("receipt", "data", "outcome") != "partial_failure" {
		t.Errorf("in part: %s", r.body)
	}
	stage := map[string]any{"operation": "stage", "channel": "api", "mitigationId": "restore-pool", "expectedVersion": 3}
	v.asks(stage).is(t, "stage", 409, "recovery_required")
	v.asks(map[string]any{"operation": "reset", "channel": "human", "expectedVersion": 3}).is(t, "reset", 200, "")
	stage["expectedVersion"] = 4
	v.asks(stage).is(t, "stage after the reset", 200, "")
	v.verifies("/evidence", v.sees("/evidence"))
}

// a request that ends between its decision and the commit leaves nothing, and one
// that ends behind the commit is there when it is sent again.
func TestIncidentEndsInside(t *testing.T) {
	var at string
	d := openDesk(t, "", withIncident, func(c *app.Config) {
		c.IncidentFault = func(point string) error {
			if point == at {
				return errInside
			}
			return nil
		}
	})
	for _, c := range []struct {
		point    string
		status   int
		reason   string
		replayed bool
	}{{control.FaultDecided, 500, "INTERNAL", false}, {control.FaultStored, 503, "control_plane_unavailable", true}} {
		v := d.visitor()
		staged := v.approved()
		before := v.sees("").at("receipts", "total").(float64)
		at = c.point
		r := v.asks(executing(staged)).is(t, c.point, c.status, c.reason)
		at = ""
		if strings.Contains(string(r.body), hidden) {
			t.Errorf("%s: %s", c.point, r.body)
		}
		if got, want := v.sees("").at("receipts", "total").(float64)-before, map[bool]float64{true: 1}[c.replayed]; got != want {
			t.Errorf("%s: %v receipts, want %v", c.point, got, want)
		}
		if again := v.asks(executing(staged)).is(t, "again", 200, ""); again.at("replayed") != c.replayed || again.at("snapshot", "status") != "mitigated" {
			t.Errorf("%s, again: %s", c.point, again.body)
		}
	}
}

// L-14: new sessions are counted by the client's address. Behind a trusted proxy that is
// what the proxy says, whatever the client wrote before it; a header of anybody else counts
// for nothing, and one IPv6 network is one client.
func TestIncidentLimitBehindProxy(t *testing.T) {
	begin := func(a *app.App, forwarded string) int {
		headers := map[string]string{"Origin": a.Origin()}
		if forwarded != "" {
			headers["X-Forwarded-For"] = forwarded
		}
		return send(t, "POST", a.Origin()+"/api/v1/incident", map[string]any{"operation": "snapshot", "channel": "api"}, headers).status
	}
	dir := filepath.Join(t.TempDir(), "D")
	must(t, app.Init(context.Background(), dir, ""))
	c := app.Config{Dir: dir, Addr: "127.0.0.1:0", Incident: true}
	a, stop := serve(t, c)
	for i := range control.MaxNew {
		if got := begin(a, fmt.Sprintf("203.0.113.%d", i)); got != 200 {
			t.Fatalf("session %d: %d", i, got)
		}
	}
	if got := begin(a, "203.0.113.200"); got != 429 {
		t.Errorf("no proxy is trusted, another header: %d, want 429", got)
	}
	must(t, stop())

	c.TrustedProxies = networks("127.0.0.0/8")
	a, _ = serve(t, c)
	for i := range control.MaxNew {
		if got := begin(a, fmt.Sprintf("192.0.2.%d, 2001:db8:1:2::%x", i, i)); got != 200 {
			t.Fatalf("behind the proxy, session %d: %d", i, got)
		}
	}
	for forwarded, want := range map[string]int{"192.0.2.250, 2001:db8:1:2:3:4:5:6": 429, "2001:db8:1:3::1": 200, "203.0.113.7": 200, "": 429} {
		if got := begin(a, forwarded); got != want {
			t.Errorf("behind the proxy, %q: %d, want %d", forwarded, got, want)
		}
	}
}

// Negative control of the limit, and of the nonce over the real wire: without the guard the
// same requests pass.
func TestIncidentGuardsProtect(t *testing.T) {
	limit := openDesk(t, "", withIncident, func(c *app.Config) { c.IncidentWithout = "limit" })
	for i := range control.MaxNew + 1 {
		limit.visitor().asks(map[string]any{"operation": "snapshot", "channel": "api"}).is(t, fmt.Sprint("session ", i), 200, "")
	}
	for without, want := range map[string]int{"": 403, "form": 200} {
		d := openDesk(t, "", withIncident, func(c *app.Config) { c.IncidentWithout = without })
		v := d.visitor()
		body := v.approving(v.stages("restore-pool"))
		body["formNonce"] = strings.Repeat("0", 64)
		if got := v.asks(body).status; got != want {
			t.Errorf("without %q: a made-up nonce gets %d, want %d", without, got, want)
		}
	}
}

// A session that has ended no longer counts as open, whether or not the workflow is still
// served; what it left stays.
func TestIncidentSessionsAreSettled(t *testing.T) {
	for _, served := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "D")
		must(t, app.Init(context.Background(), dir, ""))
		c := app.Config{Dir: dir, Addr: "localhost:0", Incident: true, Clock: new(ledger.Clock)}
		a, stop := serve(t, c)
		v := &visitor{desk: &desk{t: t, app: a, dir: dir, origin: a.Origin()}}
		v.stages("restore-pool")
		open := func(a *app.App) int {
			n, err := a.OpenIncidents(t.Context())
			must(t, err)
			return n
		}
		if n := open(a); n != 1 {
			t.Errorf("%d sessions are open, want 1", n)
		}
		must(t, stop())
		c.Incident = served
		c.Clock.Move(24 * time.Hour)
		a, _ = serve(t, c)
		waitFor(t, "the session no longer counts", func() bool { return open(a) == 0 })
	}
}
