package channel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/api"
	"countersign/evidence"
	"countersign/internal/channel/owner"
)

const minute = time.Minute

// H-001 H-090 H-104 H-105
func TestInstallation(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.owner("GET", "/status", nil)
	if want := string(mustJSON(testStatus)); fmt.Sprint(decoded(t, a.body)) != fmt.Sprint(decoded(t, []byte(want))) {
		t.Errorf("status %s, want %s", a.body, want)
	}
	key := h.keys.Evidence()
	a = h.owner("GET", "/public-key", nil)
	want := map[string]any{"keyId": key.ID, "publicKey": encodedKey(key.Public()), "file": encodedKey(key.Public()) + "\n"}
	if !maps.Equal(a.members(), want) {
		t.Errorf("public key %v, want %v", a.members(), want)
	}
	if parsed, err := evidence.ParseKeys([]byte(a.text("file"))); err != nil || len(parsed) != 1 || !bytes.Equal(parsed[0].Public, key.Public()) {
		t.Errorf("file %q: %v", a.text("file"), err)
	}
	a = h.owner("GET", "/specification", nil)
	if !bytes.Equal(a.body, api.Protocol) || a.header.Get("Content-Type") != "text/markdown; charset=utf-8" || !strings.Contains(string(a.body), "Version: 0.1") {
		t.Errorf("the specification is not api/protocol.md with its version (H-001): %.60q", a.body)
	}
}

// with is the good create body with one member changed; nil drops it.
func with(target, name string, value any) map[string]any {
	body := createBody(target)
	if body[name] = value; value == nil {
		delete(body, name)
	}
	return body
}

// H-115 H-118 H-119 H-120 H-121 G-21 L-1: what is not built is 501 and named, an omitted mode or channel counts
// as its default; what is not known is 400. Neither makes a run.
func TestCreateRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const unbuilt, invalid = "NOT_IMPLEMENTED", "INVALID_REQUEST"
	for _, c := range []struct {
		member string
		value  any // nil: omitted
		status int
		reason string
		names  string // what the detail or errors name
	}{
		{"channel", nil, 501, unbuilt, `channel "browser"`}, {"channel", "browser", 501, unbuilt, `channel "browser"`},
		{"channel", "mcp", 501, unbuilt, `channel "mcp"`}, {"channel", "webmcp", 501, unbuilt, `channel "webmcp"`},
		{"executionMode", "live", 501, unbuilt, `executionMode "live"`}, {"executor", "openai", 501, unbuilt, `executor "openai"`},
		{"interrogator", "openai", 501, unbuilt, `interrogator "openai"`}, {"reasoningEvidence", true, 501, unbuilt, "reasoningEvidence"},

		{"service", nil, 400, invalid, "service"}, {"service", "shop", 400, invalid, "body.service"}, {"service", "Merchant", 400, invalid, "body.service"},
		{"target", "remote", 400, invalid, "body.target"}, {"channel", "smtp", 400, invalid, "body.channel"}, {"channel", "", 400, invalid, "body.channel"},
		{"trafficActor", "robot", 400, invalid, "body.trafficActor"}, {"mode", "free", 400, invalid, "body.mode"}, {"executionMode", "dry", 400, invalid, "body.executionMode"},
		{"executor", "other", 400, invalid, "body.executor"}, {"interrogator", "other", 400, invalid, "body.interrogator"},
		{"reasoningEvidence", "true", 400, invalid, "body.reasoningEvidence"},
		{"budgetCents", nil, 400, invalid, "budgetCents"}, {"budgetCents", 13700, 400, invalid, "body.budgetCents"}, {"budgetCents", "137.00", 400, invalid, "body.budgetCents"},
		{"budgetCents", "-1", 400, invalid, "body.budgetCents"}, {"budgetCents", "013700", 400, invalid, "body.budgetCents"}, {"budgetCents", "", 400, invalid, "body.budgetCents"},
		{"budgetCents", "1000000000000", 400, invalid, "body.budgetCents"}, {"budgetCents", "1e3", 400, invalid, "body.budgetCents"}, {"budgetCents", "13700\n", 400, invalid, "body.budgetCents"},
		{"instruction", nil, 400, invalid, "instruction"}, {"instruction", "", 400, invalid, "body.instruction"}, {"instruction", strings.Repeat("ä", 2001), 400, invalid, "body.instruction"},
		{"guardianBinding", "x", 400, invalid, "body.guardianBinding"}, {"Mode", "bounded", 400, invalid, "body.Mode"},
	} {
		a := h.owner("POST", "/runs", with("local", c.member, c.value))
		what := fmt.Sprintf("%s %v", c.member, c.value)
		a.is(t, what, c.status, c.reason)
		if !strings.Contains(a.text("detail")+string(mustJSON(a.members()["errors"])), c.names) {
			t.Errorf("%s: the answer does not name %s\n%s", what, c.names, a.body)
		}
	}
	if n := h.runs(); n != 0 {
		t.Errorf("%d runs were made", n)
	}
	h.create("local")
}

// H-114 H-116 H-122 H-123 H-193 G-21: the defaults of a create body, and what is taken as it was given.
func TestCreateDefaults(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.owner("POST", "/runs", with("local", "target", nil))
	a.is(t, "create", 201, "")
	v := a.members()
	for name, want := range map[string]any{
		"service": "merchant", "target": "local", "channel": "http", "mode": "bounded", "trafficActor": "agent", "executionMode": "replay", "executor": "replay",
		"interrogator": "replay", "reasoningEvidence": false, "budgetCents": "13700", "spentCents": "0", "reservedCents": "0", "currency": "USD", "status": "ready",
		"outcome": "active", "stopContext": nil, "pendingPermit": nil, "lastDecision": nil, "session": nil, "workspace": "default",
		"instruction": "Buy one Fieldwork keyboard for $137 total using the approved terms.",
	} {
		if v[name] != want {
			t.Errorf("%s is %v, want %v", name, v[name], want)
		}
	}
	// L-2: the fixture's terms, whatever the instruction says.
	terms := map[string]any{"origin": "local", "productId": "fieldwork-keyboard", "quantity": 1.0, "addressRef": "addr_home", "maxTotalCents": "13700"}
	for _, instruction := range []string{"Buy.", "Buy nine of fieldworks-keyboard for $900 and send them to addr_office.", strings.Repeat("ä", 2000)} {
		a := h.owner("POST", "/runs", with("local", "instruction", instruction))
		a.is(t, "create", 201, "")
		if got, _ := a.members()["terms"].(map[string]any); !maps.Equal(got, terms) || a.text("instruction") != instruction {
			t.Errorf("terms %v, want %v", got, terms)
		}
	}
	// H-193: attribution is taken as reported.
	if a := h.owner("POST", "/runs", with("local", "trafficActor", "human")); a.text("trafficActor") != "human" {
		t.Errorf("trafficActor %q", a.text("trafficActor"))
	}
	if a := h.owner("POST", "/runs", with("local", "budgetCents", "0")); a.text("budgetCents") != "0" {
		t.Errorf("a budget of nothing: %d %s", a.status, a.body)
	}
}

// L-1 L-2 G-06: terms have exactly the five members, and their origin is the
// configured store's.
func TestCreateTerms(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	good := func(target string) map[string]any {
		origin := "local"
		if target == "hosted" {
			origin = h.store
		}
		return map[string]any{"origin": origin, "productId": "fieldwork-keyboard", "quantity": 2, "addressRef": "addr_office", "maxTotalCents": "20000"}
	}
	for _, target := range []string{"local", "hosted"} {
		a := h.owner("POST", "/runs", with(target, "terms", good(target)))
		a.is(t, "good terms", 201, "")
		if got, want := decoded(t, mustJSON(a.members()["terms"])), decoded(t, mustJSON(good(target))); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("terms %v, want %v", got, want)
		}
	}
	runs := h.runs()
	bad := map[string]any{"nothing": map[string]any{}, "a string": "fixture", "an array": []any{}, "null": json.RawMessage("null")}
	for name := range good("local") {
		missing := good("local")
		delete(missing, name)
		bad["without "+name] = missing
		cased := maps.Clone(missing)
		cased[strings.ToUpper(name[:1])+name[1:]] = good("local")[name]
		bad["wrong case of "+name] = cased
		null := good("local")
		null[name] = nil
		bad["null "+name] = null
	}
	for name, value := range map[string]any{
		"origin": "http://127.0.0.1:1", "quantity": 0, "maxTotalCents": 20000, "productId": "", "addressRef": strings.Repeat("x", 65),
	} {
		wrong := good("local")
		wrong[name] = value
		bad["wrong "+name] = wrong
	}
	for _, quantity := range []any{-1, "2", json.RawMessage("1.5"), json.RawMessage("9007199254740993"), 1 << 40} {
		wrong := good("local")
		wrong["quantity"] = quantity
		bad[fmt.Sprintf("quantity %v", quantity)] = wrong
	}
	extra := good("local")
	extra["currency"] = "USD"
	bad["one more"] = extra
	bad["the store's origin for a local run"] = good("hosted")
	for what, terms := range bad {
		h.owner("POST", "/runs", with("local", "terms", terms)).is(t, what, 400, "INVALID_REQUEST")
	}
	h.owner("POST", "/runs", with("hosted", "terms", good("local"))).is(t, "the local origin for a hosted run", 400, "INVALID_REQUEST")
	if n := h.runs(); n != runs {
		t.Errorf("%d runs, before %d", n, runs)
	}
}

// L-1: without a configured store a hosted create is 503 and makes no run.
func TestHostedWithoutStore(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *config) { c.noStore = true })
	h.owner("POST", "/runs", createBody("hosted")).is(t, "hosted", 503, "HOSTED_UNREACHABLE")
	if n := h.runs(); n != 0 {
		t.Errorf("%d runs were made", n)
	}
	h.create("local")
}

// H-091: newest first, and nextCursor leads through all runs once.
func TestList(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if a := h.owner("GET", "/runs", nil); len(a.members()["runs"].([]any)) != 0 || a.members()["nextCursor"] != nil {
		t.Errorf("without runs: %s", a.body)
	}
	var newest []string
	for range 5 {
		newest = append([]string{h.create("local")}, newest...)
	}
	for _, limit := range []int{1, 2, 4, 5, 6, 100} {
		var got []string
		pages, cursor := 0, ""
		for {
			a := h.owner("GET", fmt.Sprintf("/runs?limit=%d%s", limit, cursor), nil)
			a.is(t, "list", 200, "")
			page := a.members()["runs"].([]any)
			if pages++; len(page) > limit || len(page) == 0 {
				t.Fatalf("limit %d: a page of %d", limit, len(page))
			}
			for _, v := range page {
				got = append(got, v.(map[string]any)["runId"].(string))
			}
			if a.members()["nextCursor"] == nil {
				break
			}
			cursor = "&cursor=" + a.text("nextCursor")
		}
		if want := (5 + limit - 1) / limit; !slices.Equal(got, newest) || pages != want {
			t.Errorf("limit %d: %d pages of %v, want %d of %v", limit, pages, got, want, newest)
		}
	}
	// A run of a list is the whole view.
	inList := h.owner("GET", "/runs?limit=1", nil).members()["runs"].([]any)[0]
	one := h.view(newest[0])
	delete(one, "now") // when it was read
	delete(inList.(map[string]any), "now")
	if fmt.Sprint(one) != fmt.Sprint(inList) {
		t.Error("the list's view is not the run's")
	}
	for _, query := range []string{"limit=0", "limit=101", "limit=-1", "limit=x", "limit=1.5", "cursor=x", "cursor=" + strings.Repeat("1", 37), "cursor=%00", "Limit=1", "limit=", "limit", "cursor=", "cursor=&limit=1", "limit=1&limit=1", "after=1"} {
		a := h.owner("GET", "/runs?"+query, nil)
		a.is(t, query, 400, "INVALID_REQUEST")
		parameter, _, _ := strings.Cut(query, "=")
		if !strings.Contains(a.text("detail")+string(mustJSON(a.members()["errors"])), "query."+parameter) {
			t.Errorf("%s: the answer does not name the parameter\n%s", query, a.body)
		}
	}
}

// listed follows the cursors of a list and returns the size of each run's view, in
// bytes, page by page.
func (h *house) listed() (pages [][]int, ids []string) {
	h.t.Helper()
	for cursor := ""; ; {
		a := h.owner("GET", "/runs"+cursor, nil)
		a.is(h.t, "list", 200, "")
		var list struct{ Runs []json.RawMessage }
		must(h.t, json.Unmarshal(a.body, &list))
		sizes := []int{}
		for _, v := range list.Runs {
			var run struct{ RunID string }
			must(h.t, json.Unmarshal(v, &run))
			sizes, ids = append(sizes, len(v)), append(ids, run.RunID)
		}
		pages = append(pages, sizes)
		if a.members()["nextCursor"] == nil {
			return pages, ids
		}
		cursor = "?cursor=" + a.text("nextCursor")
	}
}

// The runs of one answer have at most 8 MB together, exactly that many bytes
// included. A run that is larger stands alone. The cursors lead through all runs
// once, whatever the bound.
func TestListBytes(t *testing.T) {
	t.Parallel()
	if owner.MaxList != 8<<20 {
		t.Errorf("a list has up to %d bytes, want 8 MB", owner.MaxList)
	}
	h := newHouse(t)
	for _, n := range []int{10, 700, 2000, 1, 300} {
		body := createBody("local")
		body["instruction"] = strings.Repeat("x", n)
		h.owner("POST", "/runs", body).is(t, "create", 201, "")
	}
	whole, newest := h.listed()
	if len(whole) != 1 || len(whole[0]) != 5 {
		t.Fatalf("pages %v, want one of five", whole)
	}
	sizes := whole[0]
	sum := func(n int) (bytes int) {
		for _, s := range sizes[:n] {
			bytes += s
		}
		return bytes
	}
	first := func(bound int) int {
		t.Helper()
		pages, ids := h.beside(config{maxList: bound}).listed()
		if !slices.Equal(ids, newest) {
			t.Errorf("a bound of %d: the cursors lead to %v, want %v", bound, ids, newest)
		}
		for _, page := range pages {
			bytes := 0
			for _, s := range page {
				bytes += s
			}
			if len(page) == 0 || bytes > bound && len(page) > 1 {
				t.Errorf("a bound of %d: a page of %v", bound, page)
			}
		}
		return len(pages[0])
	}
	for n := 2; n <= 5; n++ {
		for off, want := range map[int]int{-1: n - 1, 0: n, 1: n} {
			if got := first(sum(n) + off); got != want {
				t.Errorf("%d bytes fit into %d%+d: the first page has %d runs, want %d", sum(n), sum(n), off, got, want)
			}
		}
	}
	if got := first(1); got != 1 {
		t.Errorf("a bound of one byte: the first page has %d runs, want 1", got)
	}
	// Negative control: with the product's bound nothing is cut.
	if pages, _ := h.beside(config{}).listed(); len(pages) != 1 {
		t.Errorf("control: %d pages", len(pages))
	}
}

// H-126 H-127: a view is complete, and no token, cookie or secret is in it, in a
// list or in evidence.
func TestNoCredentialIsShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.agent("hosted")
	former := c.token
	c.token = h.issue(c.run)
	for _, entry := range purchase[:3] {
		c.cycle(entry)
	}
	p := c.allow("checkout:addr_home")
	secrets := map[string]string{"token": c.token, "former token": former, "permit token": p.token, "MAC of the permit": strings.Split(p.token, ".")[1], "owner cookie": h.cookie, "owner secret": h.secret}
	for _, path := range []string{"/runs/" + c.run, "/runs", "/runs/" + c.run + "/evidence"} {
		shown := string(h.owner("GET", path, nil).body)
		for what, secret := range secrets {
			if strings.Contains(shown, secret) {
				t.Errorf("%s shows the %s", path, what)
			}
		}
		if strings.Contains(strings.ToLower(shown), "set-cookie") || strings.Contains(shown, "cs_run_") {
			t.Errorf("%s shows something like a credential", path)
		}
		if !strings.Contains(shown, p.id) {
			t.Errorf("%s does not show the permit's id", path)
		}
	}
	v := h.view(c.run)
	pending, _ := v["pendingPermit"].(map[string]any)
	if pending["permitId"] != p.id || pending["operationId"] != "merchant.checkout.prepare" {
		t.Errorf("pendingPermit %v", pending)
	}
	if len(v["executions"].([]any)) != 3 || v["lastDecision"].(map[string]any)["decision"] != "ALLOW" || v["session"].(map[string]any)["generation"] != 2.0 {
		t.Errorf("executions %v, decision %v, session %v", v["executions"], v["lastDecision"], v["session"])
	}
}

// H-096: revoke ends the run and its unused permit; what happened stays.
func TestRevoke(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	c := h.agent("local")
	done := c.allow("merchant.catalog")
	first := c.operate(done)
	first.is(t, "before", 200, "")
	live := c.allow("product:fieldwork-keyboard")
	a := h.owner("POST", "/runs/"+c.run+"/revoke", nil)
	a.is(t, "revoke", 200, "")
	v := a.members()
	if v["status"] != "revoked" || v["outcome"] != "revoked" || v["pendingPermit"] != nil || v["stopContext"].(map[string]any)["reasonCode"] != "OWNER_REVOKED" {
		t.Errorf("status %v, outcome %v, permit %v, stop %v", v["status"], v["outcome"], v["pendingPermit"], v["stopContext"])
	}
	report := c.report("merchant.cart")
	c.ask("POST", "/turns", report).is(t, "report", 409, "RUN_NOT_READY")
	c.operate(live).is(t, "the unused permit", 403, "PERMIT_REVOKED")
	replay := c.operate(done)
	replay.is(t, "a repeated request", 200, "")
	if !bytes.Equal(replay.body, first.body) || replay.header.Get("Idempotency-Replayed") != "true" {
		t.Error("the stored result is not returned after a revoke")
	}
	events := h.total(c.run)
	again := h.owner("POST", "/runs/"+c.run+"/revoke", map[string]any{})
	again.is(t, "revoke again", 200, "")
	if n := h.total(c.run); n != events {
		t.Errorf("revoking again wrote %d events", n-events)
	}
	if n := h.events(c.run)["execution.dispatched"]; n != 1 {
		t.Errorf("%d executions", n)
	}
}

// H-101 H-157: the export verifies with the key that is known from elsewhere, and
// not when one byte is changed.
func TestEvidence(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.agent("hosted")
	for _, entry := range purchase {
		c.cycle(entry)
	}
	a := h.owner("GET", "/runs/"+c.run+"/evidence", nil)
	a.is(t, "evidence", 200, "")
	if want := `attachment; filename="evidence-` + c.run + `.json"`; a.header.Get("Content-Disposition") != want {
		t.Errorf("Content-Disposition %q", a.header.Get("Content-Disposition"))
	}
	trusted := evidence.Keys{{Public: h.keys.Evidence().Public()}}
	verified := func(b []byte) bool {
		report, err := evidence.Verify(bytes.NewReader(b), trusted, evidence.Options{})
		return err == nil && report.OK()
	}
	if !verified(a.body) {
		t.Error("the export does not verify")
	}
	if head := h.view(c.run)["head"]; !strings.HasSuffix(head.(string), a.text("head")) {
		t.Errorf("head %v of the view, %s of the export", head, a.text("head"))
	}
	changed := bytes.Replace(a.body, []byte(`"13700"`), []byte(`"13701"`), 1)
	if verified(changed) {
		t.Error("a changed export verifies")
	}
}
