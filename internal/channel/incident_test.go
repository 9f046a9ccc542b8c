package channel_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/internal/channel/edge"
	"countersign/internal/channel/runbookhttp"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// snapshot is the snapshot in an answer.
func (a answer) snapshot() map[string]any {
	s, _ := a.members()["snapshot"].(map[string]any)
	return s
}

// receipt is the data of the receipt in an answer, nil without one.
func (a answer) receipt() map[string]any {
	event, _ := a.members()["receipt"].(map[string]any)
	data, _ := event["data"].(map[string]any)
	return data
}

// without is a snapshot without the time that it was read at.
func without(s map[string]any) string {
	delete(s, "now")
	return string(mustJSON(s))
}

// R-004 R-006 R-011 R-025 R-026: one API carries the whole workflow, whatever the channel
// says: staged by a native tool, refused to a program, approved with the page's form,
// executed by the simulator, told again. What a request answers is what a reload shows.
func TestIncidentWorkflow(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.visitor()
	if s := v.get("").members(); s["session"] != nil || s["status"] != "investigating" || fmt.Sprint(s["resourceVersion"]) != "1" || s["staged"] != nil {
		t.Errorf("before the first request: %v", s)
	}
	last := v.ask(v.staging("restore-pool"))
	last.is(t, "stage", 200, "")
	if s := v.staged(); s["mitigationId"] != "restore-pool" || fmt.Sprint(s["resourceVersion"]) != "2" {
		t.Errorf("staged %v", s)
	}
	execution := v.executing()
	execution["channel"] = "api"
	a := v.ask(execution)
	a.is(t, "without an approval", 403, "approval_required")
	if r := a.receipt(); r["outcome"] != "blocked" || r["channel"] != "api" || a.snapshot()["status"] != "awaiting-approval" {
		t.Errorf("receipt %v, snapshot %v", r, a.snapshot()["status"])
	}
	a = v.ask(v.approving())
	a.is(t, "approve", 200, "")
	if approval := a.snapshot()["approval"].(map[string]any); approval["state"] != "active" || approval["arrival"] != "page-form-nonce" || approval["actionDigest"] != execution["actionDigest"] || a.receipt()["tool"] != nil {
		t.Errorf("approval %v, receipt %v", approval, a.receipt())
	}
	execution["channel"] = "simulator"
	first := v.ask(execution)
	first.is(t, "execute", 200, "")
	again := v.ask(execution)
	again.is(t, "again", 200, "")
	id := func(a answer) any {
		return a.members()["result"].(map[string]any)["execution"].(map[string]any)["id"]
	}
	if first.members()["replayed"] != false || again.members()["replayed"] != true || id(first) != id(again) || id(first) == nil {
		t.Errorf("first %s\nagain %s", first.body, again.body)
	}
	if s := again.snapshot(); s["status"] != "mitigated" || fmt.Sprint(s["resourceVersion"]) != "3" || s["approval"].(map[string]any)["state"] != "consumed" || s["lastExecution"].(map[string]any)["id"] != id(first) {
		t.Errorf("snapshot %v", s)
	}
	receipts := again.snapshot()["receipts"].(map[string]any)
	if fmt.Sprint(receipts["total"], receipts["returned"], receipts["truncated"], receipts["anchor"]) != "5 5 false <nil>" || receipts["verification"].(map[string]any)["verified"] != true {
		t.Errorf("receipts %v", receipts)
	}
	if reload, told := without(v.get("").members()), without(again.snapshot()); reload != told {
		t.Errorf("a reload shows\n%s\nwant\n%s", reload, told)
	}
	v.get("/evidence").is(t, "evidence", 200, "")
	v.ask(map[string]any{"operation": "reset", "channel": "human", "expectedVersion": 3}).is(t, "reset", 200, "")
}

// G-24: each refusal has its status and says what to do; it leaves a receipt or, having
// lost to another version, none, and the answer holds that with the snapshot.
func TestIncidentRefusals(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	v, other := h.visitor(), h.visitor()
	digest, key := strings.Repeat("a", 64), "rr_"+strings.Repeat("0", 32)
	refused := func(what string, body map[string]any, status int, reason, receipt string) {
		t.Helper()
		before := len(v.get("").members()["receipts"].(map[string]any)["items"].([]any))
		a := v.ask(body)
		a.is(t, what, status, reason)
		outcome, _ := a.receipt()["outcome"].(string)
		after := int(a.snapshot()["receipts"].(map[string]any)["total"].(float64))
		if outcome != receipt || after-before != map[bool]int{true: 1}[receipt != ""] {
			t.Errorf("%s: the receipt says %q, want %q; %d receipts, before %d", what, outcome, receipt, after, before)
		}
		if detail := a.text("detail"); len(detail) < 40 || !strings.HasSuffix(detail, ".") {
			t.Errorf("%s: detail %q", what, detail)
		}
	}
	with := func(body map[string]any, name string, value any) map[string]any { body[name] = value; return body }
	stage := func(name string, version any) map[string]any {
		return map[string]any{"operation": "stage", "channel": "api", "mitigationId": name, "expectedVersion": version}
	}
	refused("nothing staged", map[string]any{"operation": "execute", "channel": "api", "actionDigest": digest, "resourceVersion": 1, "idempotencyKey": key}, 422, "nothing_staged", "blocked")
	refused("nothing to approve", map[string]any{"operation": "approve", "channel": "human", "actionDigest": digest, "resourceVersion": 1, "formNonce": "x"}, 422, "nothing_staged", "blocked")
	refused("an invented mitigation", stage("drop-database", 1), 422, "invalid_mitigation", "error")
	refused("an old version", stage("restore-pool", 7), 409, "stale_state", "")
	refused("an old reset", map[string]any{"operation": "reset", "channel": "api", "expectedVersion": 7}, 412, "stale_reset", "")
	v.stage("shift-traffic")
	other.stage("shift-traffic")
	refused("no approval", v.executing(), 403, "approval_required", "blocked")
	refused("an old execution", with(v.executing(), "resourceVersion", 1), 412, "stale_execution", "blocked")
	refused("an old approval", with(v.approving(), "actionDigest", digest), 412, "stale_approval", "")
	h.owner("POST", "/freeze", map[string]any{"reason": "a test"}).is(t, "freeze", 200, "")
	refused("a frozen approval", v.approving(), 409, "FROZEN", "blocked")
	h.owner("POST", "/unfreeze", map[string]any{"reason": "a test", "epoch": 1}).is(t, "unfreeze", 200, "")
	v.ask(v.approving()).is(t, "approve", 200, "")
	refused("another session's key", with(v.executing(), "idempotencyKey", other.staged()["idempotencyKey"]), 403, "identity_mismatch", "blocked")
	refused("nobody's key", with(v.executing(), "idempotencyKey", key), 412, "stale_execution", "blocked")
	h.clock.Move(5 * minute)
	refused("five minutes later", v.executing(), 403, "approval_expired", "blocked")
	v.ask(v.approving()).is(t, "approve again", 200, "")
	execution := v.executing()
	v.ask(execution).is(t, "execute", 200, "")
	refused("the key for another version", with(v.executing(), "resourceVersion", 3), 409, "idempotency_conflict", "blocked")
	refused("a used approval", with(v.executing(), "idempotencyKey", key), 409, "approval_consumed", "blocked")
	refused("approving what is done", with(v.approving(), "formNonce", "x"), 409, "approval_consumed", "blocked")
}

// R-065 R-067 L-9: no channel that an agent has approves, not with the page's nonce either,
// and the page's own channel does not without it. The nonce is in no answer of the API.
func TestIncidentApprovalIsThePages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v, other := h.visitor(), h.visitor()
	v.stage("restore-pool")
	other.stage("restore-pool")
	nonce := v.approving()["formNonce"].(string)
	if len(nonce) != 64 {
		t.Fatalf("nonce %q", nonce)
	}
	try := func(what, channel string, nonce any) {
		t.Helper()
		body := v.approving()
		body["channel"] = channel
		if body["formNonce"] = nonce; nonce == nil {
			delete(body, "formNonce")
		}
		a := v.ask(body)
		a.is(t, what, 403, "approval_required")
		if a.snapshot()["approval"] != nil || a.receipt()["outcome"] != "blocked" || strings.Contains(string(mustJSON(a.receipt())), nonceOr(nonce)) {
			t.Errorf("%s: %s", what, a.body)
		}
	}
	for _, channel := range []string{"webmcp", "simulator", "api"} {
		try(channel, channel, nil)
		try(channel+" with the nonce", channel, nonce)
	}
	for what, value := range map[string]any{"no nonce": nil, "an empty one": "", "another session's": other.approving()["formNonce"], "a made-up one": strings.Repeat("0", 64), "another case": strings.ToUpper(nonce), "a part": nonce[:63]} {
		try(what, "human", value)
	}
	for _, a := range []answer{v.get(""), v.get("/evidence"), v.ask(reading()), v.ask(map[string]any{"operation": "compare", "channel": "webmcp"})} {
		if strings.Contains(string(a.body), nonce) || a.status != 200 {
			t.Errorf("%d: an answer of the API holds the nonce", a.status)
		}
	}
	// Control: with the page's channel and nonce it is approved, for this session alone.
	a := v.ask(v.approving())
	a.is(t, "the page", 200, "")
	if a.snapshot()["approval"] == nil || other.get("").members()["approval"] != nil || strings.Contains(string(a.body), nonce) {
		t.Errorf("approved: %s", a.body)
	}
}

// no operation that an agent or a client of context can call approves, and approve is
// no tool.
func TestNoAgentApproves(t *testing.T) {
	t.Parallel()
	of := map[string]int{}
	for _, o := range document().operations {
		if strings.Contains(strings.ToLower(o.ID+o.Path), "approv") {
			of[family(o.Path)]++
		}
	}
	if fmt.Sprint(of) != "map[owner:1]" { // the control: the owner's own is found
		t.Errorf("operations that approve, by whose they are: %v", of)
	}
	if tool := incident.ToolOf(incident.Approve); tool != "" {
		t.Errorf("approve is the tool %q", tool)
	}
}

func nonceOr(nonce any) string {
	if s, _ := nonce.(string); s != "" {
		return s
	}
	return "formNonce"
}

// 256 random bits name the session, of which the ledger has the hash alone; they are
// in the cookie and in no answer. R-062 over http.
func TestIncidentCookie(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.visitor()
	a := v.ask(reading())
	cookies := (&http.Response{Header: a.header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies", len(cookies))
	}
	c := cookies[0]
	if c.Name != "countersign_incident" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 24*60*60 || c.Secure {
		t.Errorf("cookie %+v", c)
	}
	if raw, err := base64.RawURLEncoding.DecodeString(c.Value); err != nil || len(raw) != 32 {
		t.Errorf("%q is not 256 bits", c.Value)
	}
	sum := sha256.Sum256([]byte(c.Value))
	if _, _, err := h.ledger.Credential(t.Context(), "default", hex.EncodeToString(sum[:])); err != nil {
		t.Errorf("the hash is not stored: %v", err)
	}
	for _, name := range []string{"countersign.db", "countersign.db-wal"} {
		if file, err := os.ReadFile(filepath.Join(h.dir, name)); err == nil && strings.Contains(string(file), c.Value) {
			t.Errorf("%s holds the cookie", name)
		}
	}
	for _, a := range []answer{a, v.get(""), v.get("/evidence"), v.ask(v.staging("restore-pool"))} {
		if strings.Contains(string(a.body), c.Value) {
			t.Error("an answer holds the cookie")
		}
	}
	if b := h.visitor(); b.ask(reading()).status != 200 || b.cookie == c.Value {
		t.Error("two sessions have one cookie")
	}
}

// R-062 over https, R-064 G-24: every answer denies framing and caching; where the origin
// is https the cookie is Secure.
func TestIncidentHeaders(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const origin = "https://countersign.example"
	api, err := edge.New(edge.Config{Origin: origin, Title: "t", Version: "1"})
	must(t, err)
	runbookhttp.Register(api, h.incidents)
	send := func(method, path, body string, headers ...string) *http.Response {
		r := httptest.NewRequest(method, origin+path, strings.NewReader(body))
		r.RemoteAddr = "192.0.2.1:1234"
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w.Result()
	}
	read := `{"operation":"snapshot","channel":"api"}`
	begun := send("POST", "/api/v1/incident", read, "Origin", origin, "Content-Type", "application/json")
	for want, response := range map[int]*http.Response{
		200: begun,
		403: send("POST", "/api/v1/incident", read, "Content-Type", "application/json"),
		415: send("POST", "/api/v1/incident", read, "Origin", origin),
		404: send("GET", "/api/v1/incident/evidence", ""),
		405: send("PUT", "/api/v1/incident", ""),
		204: send("OPTIONS", "/api/v1/incident", ""),
		422: send("POST", "/api/v1/incident", `{"operation":"compare","channel":"api","mitigationId":"none"}`, "Origin", origin, "Content-Type", "application/json"),
	} {
		if response.StatusCode != want {
			t.Errorf("%d, want %d", response.StatusCode, want)
		}
		for name, value := range map[string]string{
			"X-Frame-Options": "DENY", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cache-Control": "no-store",
			"Access-Control-Allow-Origin": "", "Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
		} {
			if got := response.Header.Get(name); got != value {
				t.Errorf("%d: %s is %q, want %q", want, name, got, value)
			}
		}
	}
	if c := begun.Cookies(); len(c) != 1 || !c[0].Secure || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode {
		t.Errorf("cookies %v", c)
	}
}

// L-14, R-061: a session's cookie that is there more than once is refused by every route,
// with what to do, and nothing is stored: a session would begin with every request, without
// a word. With one of them alone the session is as it was.
func TestIncidentCookieTwice(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.visitor()
	v.stage("restore-pool")
	shown, before := without(v.get("").members()), h.rows()
	for what, other := range map[string]string{"another": "x", "the same": v.cookie, "an empty one": ""} {
		planted := func(r *http.Request) { r.Header.Add("Cookie", runbookhttp.CookieName+"="+other) }
		for name, a := range map[string]answer{"GET": v.get("", planted), "GET evidence": v.get("/evidence", planted), "POST": v.ask(reading(), planted), "POST staging": v.ask(v.staging("shift-traffic"), planted)} {
			a.is(t, name+" with "+what, 422, "invalid_request")
			if detail := a.text("detail"); !strings.Contains(detail, "more than once") || !strings.Contains(detail, "remove the cookies named countersign_incident") || fmt.Sprint(a.named()) != "[header.Cookie]" || a.header.Get("Set-Cookie") != "" {
				t.Errorf("%s with %s: %s", name, what, a.body)
			}
		}
	}
	if after := h.rows(); after != before {
		t.Errorf("what was refused has changed the ledger: %s, before %s", after, before)
	}
	if got := without(v.get("").members()); got != shown { // control
		t.Errorf("with one cookie the session is %s, was %s", got, shown)
	}
}

// rows of the ledger that were altered or taken out are no failure: the
// snapshot is told, with what was verified saying that it does not hold, by GET and POST.
func TestIncidentAltered(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(h.dir, "countersign.db")+"?_pragma=busy_timeout(5000)")
	must(t, err)
	defer db.Close()
	for what, c := range map[string]struct {
		alter                     string
		hashes, links, signatures bool
		left                      int
	}{
		"nothing":                {"UPDATE events SET type = type WHERE subject = ?", true, true, true, 4},
		"a hash cut short":       {"UPDATE events SET hash = 'ab' WHERE subject = ? AND sequence = 2", false, false, true, 4},
		"the newest hash gone":   {"UPDATE events SET hash = '' WHERE subject = ? AND sequence = 4", false, false, true, 4},
		"data that is no JSON":   {"UPDATE events SET data = x'7b' WHERE subject = ? AND sequence = 2", false, true, false, 4},
		"data that is not UTF-8": {`UPDATE events SET data = x'22ff22' WHERE subject = ? AND sequence = 2`, false, true, false, 4},
		"no data":                {"UPDATE events SET data = x'' WHERE subject = ? AND sequence = 3", false, true, false, 4},
		"a member twice":         {`UPDATE events SET data = CAST('{"a":1,"a":2}' AS BLOB) WHERE subject = ? AND sequence = 3`, false, true, false, 4},
		"a hash that is no text": {`UPDATE events SET hash = CAST(x'ff' AS TEXT) WHERE subject = ? AND sequence = 3`, false, false, true, 4},
		"the newest taken out":   {"DELETE FROM events WHERE subject = ? AND sequence = 4", true, false, true, 3},
		"the first taken out":    {"DELETE FROM events WHERE subject = ? AND sequence = 1", true, false, true, 3},
		"one taken out":          {"DELETE FROM events WHERE subject = ? AND sequence = 3", true, false, true, 3},
		"all taken out":          {"DELETE FROM events WHERE subject = ?", true, false, true, 0},
	} {
		v := h.visitor()
		for range 4 {
			v.ask(reading()).is(t, "read", 200, "")
		}
		id := v.get("").members()["session"].(map[string]any)["id"]
		_, err := db.Exec(c.alter, id)
		must(t, err)
		a := v.get("")
		a.is(t, what, 200, "")
		receipts := a.members()["receipts"].(map[string]any)
		verified := receipts["verification"].(map[string]any)
		got := fmt.Sprint(verified["verified"], verified["hashes"], verified["links"], verified["signatures"], len(receipts["items"].([]any)), receipts["total"])
		if want := fmt.Sprint(c.hashes && c.links && c.signatures, c.hashes, c.links, c.signatures, c.left, 4); got != want {
			t.Errorf("%s: verified %s, want %s", what, got, want)
		}
		again := v.ask(reading())
		again.is(t, what+", another request", 200, "")
		if verified := again.snapshot()["receipts"].(map[string]any)["verification"].(map[string]any)["verified"]; verified != (what == "nothing") {
			t.Errorf("%s: after another request verified is %v", what, verified)
		}
		if e := v.get("/evidence"); (e.status == 200) != (what == "nothing") {
			t.Errorf("%s: the export: %d", what, e.status)
		}
	}
}

// L-14: a cookie that is unknown or 24 hours old is none: a GET shows an
// incident of nobody and creates nothing, and the next POST begins another session.
func TestIncidentCookieThatIsNone(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	v := h.visitor()
	v.stage("restore-pool")
	session := func(a answer) any {
		s, _ := a.members()["session"].(map[string]any)
		return s["id"]
	}
	own := session(v.get(""))
	if own == nil {
		t.Fatal("no session")
	}
	none := func(what, value string, edits ...edit) {
		t.Helper()
		before := h.rows()
		b := &visitor{h, value}
		if a := b.get("", edits...); a.status != 200 || session(a) != nil || a.members()["staged"] != nil || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
		b.get("/evidence", edits...).is(t, what, 404, "NOT_FOUND")
		if after := h.rows(); after != before {
			t.Errorf("%s: a GET has changed the ledger: %s, before %s", what, after, before)
		}
		b.ask(reading(), edits...).is(t, what, 200, "")
		if got := session(b.get("")); got == own || got == nil || b.cookie == value {
			t.Errorf("%s: session %v", what, got)
		}
	}
	none("unknown", strings.Repeat("A", 43))
	none("no cookie", "")
	none("junk", "x")
	none("the owner's", h.cookie)
	h.clock.Move(24*60*minute - time.Millisecond)
	if got := session(v.get("")); got != own {
		t.Errorf("a millisecond before its end: session %v", got)
	}
	h.clock.Move(time.Millisecond)
	none("24 hours later", v.cookie)
}

// Half a connection is enough: a client that has sent everything and ends its side is
// answered, and a body that ends too early is no JSON.
func TestIncidentHalfClosed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	host := strings.TrimPrefix(h.origin, "http://")
	for request, want := range map[string]string{
		"GET /api/v1/incident HTTP/1.1\r\nHost: " + host + "\r\n\r\n": "200",
		"POST /api/v1/incident HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + h.origin + "\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n" + `{"operation":"snapshot","channel":"api"}`: "200",
		"POST /api/v1/incident HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + h.origin + "\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n" + `{"operation":"snapshot","channel":"api"}`: "400 invalid_json",
	} {
		conn, err := net.Dial("tcp", host)
		must(t, err)
		_, err = io.WriteString(conn, request)
		must(t, err)
		must(t, conn.(*net.TCPConn).CloseWrite())
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, err)
		conn.Close()
		if status, reason, _ := strings.Cut(want, " "); fmt.Sprint(response.StatusCode) != status || !strings.Contains(string(body), reason) {
			t.Errorf("%.40q: %d %s, want %s", request, response.StatusCode, body, want)
		}
	}
}

// a client that hangs up while its execution is decided ends nothing: the record is
// stored, and the retry gets it.
func TestIncidentHangUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	asked := make(chan context.Context, 1)
	hangUp := make(chan struct{})
	h.incidents = h.newIncidents(func(c *control.Config) {
		c.Fault = func(point string) error {
			select {
			case ctx := <-asked: // of the execution alone
				close(hangUp)
				<-ctx.Done()
			default:
			}
			return nil
		}
	})
	api, err := edge.New(edge.Config{Origin: h.origin, Title: "t", Version: "1"})
	must(t, err)
	runbookhttp.Register(api, h.incidents)
	v := h.visitor()
	v.stage("restore-pool")
	v.ask(v.approving()).is(t, "approve", 200, "")
	execution := v.executing()
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "POST", h.origin+"/api/v1/incident", strings.NewReader(string(mustJSON(execution))))
	r.Header.Set("Content-Type", "application/json")
	v.credential()(r)
	asked <- ctx
	served := make(chan int, 1)
	go func() {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		served <- w.Code
	}()
	<-hangUp
	cancel()
	if got := <-served; got != 200 {
		t.Errorf("%d, want 200", got)
	}
	again := v.ask(execution)
	again.is(t, "the retry", 200, "")
	if again.members()["replayed"] != true || again.snapshot()["status"] != "mitigated" {
		t.Errorf("the retry: %s", again.body)
	}
}

// L-14 R-040: the session begins with the first request that leaves a receipt, refused ones
// too; who named an old version leaves none, and begins none.
func TestIncidentSessionBegins(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	before := h.rows()
	stale := h.visitor()
	a := stale.ask(map[string]any{"operation": "reset", "channel": "api", "expectedVersion": 7})
	a.is(t, "an old version", 412, "stale_reset")
	if stale.cookie != "" || a.receipt() != nil || a.snapshot()["session"] != nil || h.rows() != before {
		t.Errorf("an old version begins a session: %s", a.body)
	}
	v := h.visitor()
	a = v.ask(map[string]any{"operation": "compare", "channel": "api", "mitigationId": "none"})
	a.is(t, "no such mitigation", 422, "invalid_mitigation")
	if v.cookie == "" || a.snapshot()["session"] == nil || fmt.Sprint(v.get("").members()["receipts"].(map[string]any)["total"]) != "1" {
		t.Errorf("a refusal with a receipt begins no session: %s", a.body)
	}
	session := a.snapshot()["session"].(map[string]any)
	if life := at(t, session["expiresAt"]).Sub(at(t, session["openedAt"])); life != 24*time.Hour {
		t.Errorf("the session lasts %s", life)
	}
	// Control: the next request goes on in it.
	if a = v.ask(reading()); a.header.Get("Set-Cookie") != "" || a.snapshot()["session"].(map[string]any)["id"] != session["id"] {
		t.Errorf("the next request: %s", a.body)
	}
}

func at(t *testing.T, v any) time.Time {
	t.Helper()
	s, _ := v.(string)
	when, err := time.Parse(time.RFC3339, s)
	must(t, err)
	return when
}

// G-24: the snapshot holds the fixture as it is published, in whole units.
func TestIncidentFixture(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.visitor().get("").members()
	shows := s["incident"].(map[string]any)
	for way, want := range map[string]string{
		"id": "INC-2841", "service": "checkout-api", "severity": "SEV-2", "change": "map[from:120 id:db-pool-842 setting:max connections summary:A change cut the database connection pool. to:40]",
		"baseline": "map[errorsPerMille:87 p95LatencyMs:4800 poolUsePercent:94]", "targets": "map[errorsPerMille:10 p95LatencyMs:1500 poolUsePercent:75]",
	} {
		if got := fmt.Sprint(shows[way]); got != want {
			t.Errorf("%s is %s, want %s", way, got, want)
		}
	}
	var catalog []string
	for _, m := range s["mitigations"].([]any) {
		m := m.(map[string]any)
		projected := m["projected"].(map[string]any)
		catalog = append(catalog, fmt.Sprint(m["id"], " ", m["risk"], " ", projected["p95LatencyMs"], " ", projected["errorsPerMille"]))
	}
	if got, want := strings.Join(catalog, "; "), "restore-pool low 1200 6; shift-traffic medium 1800 11; scale-workers medium 3900 64"; got != want {
		t.Errorf("catalog %s, want %s", got, want)
	}
	if len(s["boundary"].([]any)) < 5 {
		t.Errorf("boundary %v", s["boundary"])
	}
}

// R-020 R-053 R-055: an approval ends five minutes after it was given; of a longer chain the
// newest hundred receipts are returned, with the one before them as their anchor.
func TestIncidentSnapshotOfALongChain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	v := h.visitor()
	v.stage("scale-workers")
	a := v.ask(v.approving())
	a.is(t, "approve", 200, "")
	approval := a.snapshot()["approval"].(map[string]any)
	if life := at(t, approval["expiresAt"]).Sub(at(t, approval["approvedAt"])); life != 5*time.Minute || approval["consumedAt"] != nil {
		t.Errorf("approval %v", approval)
	}
	for range 100 {
		_, err := h.incidents.Do(t.Context(), v.cookie, "192.0.2.1", incident.Request{Operation: incident.Snapshot, Channel: incident.API}, "")
		must(t, err)
	}
	a = v.ask(reading())
	a.is(t, "read", 200, "")
	r := a.snapshot()["receipts"].(map[string]any)
	items := r["items"].([]any)
	first, last := items[0].(map[string]any), items[len(items)-1].(map[string]any)
	if got, want := fmt.Sprint(r["total"], " ", r["returned"], " ", r["truncated"], " ", len(items), " ", first["sequence"], " ", last["sequence"]), "103 100 true 100 4 103"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	anchor := r["anchor"].(map[string]any)
	if fmt.Sprint(anchor["sequence"]) != "3" || anchor["hash"] != first["previousHash"] || r["head"] != fmt.Sprint("103:", last["hash"]) || r["verification"].(map[string]any)["verified"] != true {
		t.Errorf("anchor %v, head %v, verification %v", anchor, r["head"], r["verification"])
	}
}
