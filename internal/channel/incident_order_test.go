package channel_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/runbook/control"
)

// rows counts everything that a request could leave in the ledger.
func (h *house) rows() string {
	h.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(h.dir, "countersign.db")+"?mode=ro")
	must(h.t, err)
	defer db.Close()
	var counts []string
	for _, table := range []string{"subjects", "attributes", "events", "texts", "idempotency", "credentials", "blobs"} {
		var n int
		must(h.t, db.QueryRow("SELECT count(*) FROM "+table).Scan(&n))
		counts = append(counts, fmt.Sprint(table, " ", n))
	}
	return strings.Join(counts, ", ")
}

// rawPost is a request as it is sent, byte for byte.
type rawPost struct {
	headers http.Header
	query   string
	body    string
}

// wrong is one thing that is wrong with a request.
type wrong struct {
	name   string
	status int
	reason string
	make   func(*rawPost)
}

// wrongs are in the order of checking. Each leaves room for all that come later. The last
// two steps are wrong of every request without a cookie where the test makes them so.
var wrongs = []wrong{
	{"no origin", 403, "origin_rejected", func(r *rawPost) { r.headers.Del("Origin") }},
	{"content type", 415, "content_type_rejected", func(r *rawPost) { r.headers.Set("Content-Type", "text/plain") }},
	{"too large", 413, "BODY_TOO_LARGE", func(r *rawPost) { r.body += strings.Repeat(" ", 16<<10) }},
	{"no JSON", 400, "invalid_json", func(r *rawPost) { r.body = strings.Replace(r.body, "}", ",}", 1) }},
	{"unknown member", 422, "invalid_request", func(r *rawPost) { r.body = strings.Replace(r.body, "{", `{"approved":true,`, 1) }},
	{"too many sessions", 429, "RATE_LIMITED", func(*rawPost) {}},
	{"no such mitigation", 422, "invalid_mitigation", func(r *rawPost) { r.body = strings.Replace(r.body, "restore-pool", "delete-everything", 1) }},
}

// send sends a good compare with something wrong.
func (v *visitor) send(list ...wrong) answer {
	v.t.Helper()
	r := rawPost{http.Header{"Origin": {v.origin}, "Content-Type": {"application/json"}}, "", `{"operation":"compare","channel":"api","mitigationId":"restore-pool"}`}
	for _, w := range slices.Backward(list) {
		w.make(&r)
	}
	return v.do("POST", "/api/v1/incident"+r.query, []byte(r.body), func(q *http.Request) {
		q.Header = r.headers
		if v.cookie != "" {
			incidentCookie(v.cookie)(q)
		}
	})
}

// R-063 G-24: of a request that is wrong in several ways the first is answered, whichever
// two they are. Nothing is stored before the decision.
func TestIncidentOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	first := h.visitor()
	first.ask(reading()).is(t, "the first session", 200, "")
	for range control.MaxNew - 1 {
		h.visitor().ask(reading()).is(t, "a session", 200, "")
	}
	before, tried := h.rows(), 0
	limited := slices.IndexFunc(wrongs, func(w wrong) bool { return w.status == 429 })
	for i, w := range wrongs {
		for _, later := range append([]wrong{w}, wrongs[i+1:]...) {
			tried++
			v, what, both := h.visitor(), w.name+", "+later.name, []wrong{w}
			if later.name != w.name {
				both = append(both, later)
			}
			if i > limited {
				v.cookie = first.cookie // who has a session is not limited
			}
			a := v.send(both...)
			a.is(t, what, w.status, w.reason)
			if a.header.Get("Set-Cookie") != "" || i <= limited && strings.Contains(string(a.body), `"snapshot"`) {
				t.Errorf("%s: a session was begun, or something decided: %s", what, a.body)
			}
			if (w.status == 429) != (a.header.Get("Retry-After") != "") {
				t.Errorf("%s: Retry-After %q", what, a.header.Get("Retry-After"))
			}
			if i == limited && h.rows() != before {
				t.Errorf("%s: the ledger has %s, before %s", what, h.rows(), before)
			}
		}
		if i < limited && h.rows() != before {
			t.Errorf("%s: the ledger has %s, before %s", w.name, h.rows(), before)
		}
	}
	if tried != len(wrongs)*(len(wrongs)+1)/2 {
		t.Errorf("%d requests", tried)
	}
	// Control: the decision left its receipt, and so does a good request.
	if h.rows() == before {
		t.Error("a decided refusal has left nothing")
	}
	first.send().is(t, "a good request", 200, "")
}

// exactly the configured origin, named once, and no other site; whatever else a
// browser or a page of another site can send.
func TestIncidentOrigin(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	before := h.rows()
	header := func(name string, values ...string) edit { return func(r *http.Request) { r.Header[name] = values } }
	port := h.origin[strings.LastIndexByte(h.origin, ':'):]
	for name, e := range map[string]edit{
		"none": drop("Origin"), "null": set("Origin", "null"), "empty": set("Origin", ""), "another site": set("Origin", "https://evil.example"),
		"another port": set("Origin", "http://localhost:1"), "another scheme": set("Origin", strings.Replace(h.origin, "http:", "https:", 1)),
		"with a slash": set("Origin", h.origin+"/"), "another case": set("Origin", strings.ToUpper(h.origin)), "another name of the host": set("Origin", "http://127.0.0.1"+port),
		"longer": set("Origin", h.origin+".evil.example"), "twice": header("Origin", h.origin, h.origin),
		"from another site": header("Sec-Fetch-Site", "cross-site"), "from a sibling": header("Sec-Fetch-Site", "same-site"), "from anywhere": header("Sec-Fetch-Site", "same-origin", "cross-site"),
	} {
		refused := h.visitor().ask(reading(), e)
		refused.is(t, name, 403, "origin_rejected")
		if detail := fmt.Sprint(refused.members()["detail"]); !strings.HasSuffix(detail, ". Send the request to and from the configured origin.") {
			t.Errorf("%s does not say what to do: %q", name, detail)
		}
		if name != "none" && name != "empty" {
			h.visitor().get("", e).is(t, "GET: "+name, 403, "origin_rejected")
		}
	}
	if after := h.rows(); after != before {
		t.Errorf("the ledger has %s, before %s", after, before)
	}
	for name, e := range map[string]edit{"of this site": header("Sec-Fetch-Site", "same-origin"), "typed": header("Sec-Fetch-Site", "none"), "an older browser": drop("Sec-Fetch-Site")} {
		h.visitor().ask(reading(), e).is(t, name, 200, "")
		h.visitor().get("", e).is(t, name, 200, "")
	}
}

// a content type that a form of another site could send is refused, and one that
// says JSON in UTF-8 is taken.
func TestIncidentContentType(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", "application/json; charset=latin1", "application/json, text/plain"} {
		h.visitor().ask(reading(), set("Content-Type", kind)).is(t, kind, 415, "content_type_rejected")
	}
	h.visitor().ask(reading(), set("Content-Encoding", "gzip")).is(t, "gzip", 415, "content_type_rejected")
	h.visitor().ask(reading(), set("Content-Type", "Application/JSON; charset=UTF-8")).is(t, "JSON", 200, "")
	h.visitor().ask(append(mustJSON(reading()), bytes.Repeat([]byte(" "), 16<<10-len(mustJSON(reading())))...)).is(t, "16 KiB", 200, "")
	h.visitor().ask(append(mustJSON(reading()), bytes.Repeat([]byte(" "), 16<<10-len(mustJSON(reading()))+1)...)).is(t, "one byte more", 413, "BODY_TOO_LARGE")
}

// a body outside the grammar is invalid_json, one whose members are not those of the
// operation invalid_request, which names each; no value is repeated, and nothing is stored.
func TestBadIncidentBodies(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	v := h.visitor()
	v.stage("restore-pool")
	good := v.executing()
	before, tried := h.rows(), 0
	for _, bad := range badBodies(good) {
		tried++
		a := v.ask(bad.raw)
		switch {
		case a.status == 413 && len(bad.raw) > 16<<10:
			continue
		case a.status == 400 && a.reason() == "invalid_json", a.status == 422 && a.reason() == "invalid_request":
		default:
			t.Errorf("%s: %d %s\n%s", bad.name, a.status, a.reason(), a.body)
		}
		if len(a.named()) == 0 || strings.Contains(string(a.body), good["actionDigest"].(string)) {
			t.Errorf("%s: no place, or a value\n%s", bad.name, a.body)
		}
	}
	digest, key := strings.Repeat("a", 64), "rr_"+strings.Repeat("0", 32)
	for _, c := range []struct {
		body   string
		places string
	}{
		{`{}`, "[body.operation]"},
		{`{"operation":"approve-all","channel":"human"}`, "[body.operation]"},
		{`{"operation":"snapshot"}`, "[body.channel]"},
		{`{"operation":"snapshot","channel":"root"}`, "[body.channel]"},
		{`{"operation":"snapshot","channel":"api","mitigationId":"restore-pool"}`, "[body.mitigationId]"},
		{`{"operation":"compare","channel":"api","mitigationId":"Restore Pool"}`, "[body.mitigationId]"},
		{`{"operation":"compare","channel":"api","mitigationId":""}`, "[body.mitigationId]"},
		{`{"operation":"stage","channel":"api","mitigationId":"restore-pool"}`, "[body.expectedVersion]"},
		{`{"operation":"stage","channel":"api","mitigationId":"restore-pool","expectedVersion":0}`, "[body.expectedVersion]"},
		{`{"operation":"stage","channel":"api","mitigationId":"restore-pool","expectedVersion":-1}`, "[body.expectedVersion]"},
		{`{"operation":"stage","channel":"api","mitigationId":"restore-pool","expectedVersion":2,"actionDigest":"` + digest + `"}`, "[body.actionDigest]"},
		{`{"operation":"execute","channel":"api","actionDigest":"` + strings.ToUpper(digest) + `","resourceVersion":2,"idempotencyKey":"` + key + `"}`, "[body.actionDigest]"},
		{`{"operation":"execute","channel":"api","actionDigest":"` + digest + `","resourceVersion":2,"idempotencyKey":"rr_1"}`, "[body.idempotencyKey]"},
		{`{"operation":"execute","channel":"api","actionDigest":"` + digest + `","resourceVersion":2,"idempotencyKey":"` + key + `","formNonce":"x"}`, "[body.formNonce]"},
		{`{"operation":"approve","channel":"human","actionDigest":"` + digest + `","resourceVersion":2,"formNonce":"` + strings.Repeat("x", 129) + `"}`, "[body.formNonce]"},
		{`{"operation":"execute","channel":"api","actionDigest":"` + digest + `","resourceVersion":2,"idempotencyKey":"` + key + `","approved":true,"approval":{},"channel2":null}`, "[body.approval body.approved body.channel2]"},
		{`{"operation":1,"channel":null,"expectedVersion":"1","mitigationId":[],"formNonce":{}}`, "[body.channel body.expectedVersion body.formNonce body.mitigationId body.operation]"},
	} {
		a := v.ask([]byte(c.body))
		a.is(t, c.body, 422, "invalid_request")
		if got := fmt.Sprint(a.named()); got != c.places {
			t.Errorf("%s: errors name %s, want %s", c.body, got, c.places)
		}
	}
	for query, want := range map[string]string{"zzz=1": "[query.zzz]", "b=&a": "[query.a query.b]", "a=%zz": "[query]"} {
		a := v.do("POST", "/api/v1/incident?"+query, reading(), v.credential())
		a.is(t, query, 422, "invalid_request")
		if got := fmt.Sprint(a.named()); got != want {
			t.Errorf("?%s: errors name %s, want %s", query, got, want)
		}
		for _, path := range []string{"", "/evidence"} {
			v.get(path+"?"+query).is(t, path+"?"+query, 400, "INVALID_REQUEST")
		}
	}
	if tried < 50 || h.rows() != before {
		t.Errorf("%d bodies; the ledger has %s, before %s", tried, h.rows(), before)
	}
	v.ask(good).is(t, "the good request", 403, "approval_required")
}

// L-14: at most 100 sessions an hour begin from one address; those that are there go on,
// and a GET begins none. An hour after the first there is room for one more.
func TestIncidentLimit(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	old := h.visitor()
	old.ask(reading()).is(t, "the first", 200, "")
	h.clock.Move(20 * minute)
	for range control.MaxNew - 1 {
		h.visitor().ask(reading()).is(t, "a session", 200, "")
	}
	for range 3 {
		a := h.visitor().ask(reading())
		a.is(t, "one more", 429, "RATE_LIMITED")
		if got := a.header.Get("Retry-After"); got != "2400" {
			t.Errorf("Retry-After %s, want 2400: 40 minutes", got)
		}
	}
	h.visitor().get("").is(t, "reading", 200, "")
	old.ask(reading()).is(t, "who has a session", 200, "")
	h.clock.Move(40*minute - time.Millisecond)
	h.visitor().ask(reading()).is(t, "a millisecond before the hour", 429, "RATE_LIMITED")
	h.clock.Move(time.Millisecond)
	h.visitor().ask(reading()).is(t, "after an hour", 200, "")
	h.visitor().ask(reading()).is(t, "and again", 429, "RATE_LIMITED")
}
