package contexthttp

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
)

// S-037: what the body of each route may hold, at its bounds and beyond, and nothing else:
// a start has no place for a prompt or an answer. Characters are counted, not bytes.
func TestBodies(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const invalid, unknown, long = "400 body_invalid", "400 unknown_field", "400 value_too_long"
	text := func(n int) string { return `"` + strings.Repeat("é", n) + `"` }
	for _, c := range []struct{ route, body, want string }{
		{startID, `{}`, "201"}, {startID, `{"clientRef":` + text(512) + `}`, "201"}, {startID, `{"clientRef":` + text(513) + `}`, long},
		{startID, `{"clientRef":null}`, invalid}, {startID, `{"clientRef":["a"]}`, invalid}, {startID, `{"clientref":"a"}`, unknown},
		{startID, `{"clientRef":"a","clientRef":"a"}`, invalid}, {startID, `[]`, invalid}, {startID, `null`, invalid}, {startID, `"a"`, invalid},
		{startID, ` `, invalid}, {startID, `{`, invalid}, {startID, `{}{}`, invalid}, {startID, "{\"clientRef\":\"\xff\"}", invalid}, {startID, `{"clientRef":"\u0000"}`, invalid},
		{startID, `{"clientRef":1.5}`, invalid}, {startID, `{"prompt":"x"}`, unknown}, {startID, `{"a/b~c":1,"z":{"deep":[1]}}`, unknown},
		{"context-compass", `{}`, invalid}, {"context-compass", `{"task":""}`, invalid}, {"context-compass", `{"task":` + text(4000) + `}`, "200"}, {"context-compass", `{"task":` + text(4001) + `}`, long},
		{"context-resolve", `{"ref":` + text(200) + `}`, "200"}, {"context-resolve", `{"ref":` + text(201) + `}`, long},
		{"context-find", `{"query":` + text(500) + `}`, "200"}, {"context-find", `{"query":` + text(501) + `}`, long},
		{"context-find", `{"query":"a","limit":20}`, "200"}, {"context-find", `{"query":"a","limit":21}`, long}, {"context-find", `{"query":"a","limit":0}`, invalid}, {"context-find", `{"query":"a","limit":"5"}`, invalid},
		{"context-why", `{"ref":"a"}`, "200"}, {"context-why", `{"interactionId":"int_01940e2e7c0070008000000000000001"}`, "200"}, {"context-why", `{}`, invalid},
		{"context-why", `{"ref":"a","interactionId":"int_01940e2e7c0070008000000000000001"}`, invalid}, {"context-why", `{"interactionId":"int_7"}`, invalid},
		{"context-report-gap", `{"task":"a"}`, "200"}, {"context-report-gap", `{"ref":"a","detail":` + text(2000) + `}`, "200"}, {"context-report-gap", `{"ref":"a","detail":` + text(2001) + `}`, long},
		{"context-report-gap", `{"detail":"a"}`, invalid}, {"context-report-gap", `{"task":"a","ref":"a"}`, invalid},
		{"context-test", `{"caseId":"a"}`, "200"}, {"context-test", `{"task":"a","expectRefs":["a"]}`, "200"}, {"context-test", `{"task":"a"}`, invalid}, {"context-test", `{"expectRefs":["a"]}`, invalid},
		{"context-test", `{"caseId":"a","task":"a"}`, invalid}, {"context-test", `{"caseId":"a","task":"a","expectRefs":["a"]}`, invalid}, {"context-test", `{"task":"a","expectRefs":[]}`, invalid},
		{"context-test", `{"task":"a","expectRefs":["a",1]}`, invalid}, {"context-test", `{"task":"a","expectRefs":[""]}`, invalid}, {"context-test", `{"task":"a","expectRefs":"a"}`, invalid},
		{"context-test", `{"task":"a","expectRefs":["` + strings.Repeat(`a","`, 19) + `a"]}`, "200"}, {"context-test", `{"task":"a","expectRefs":["` + strings.Repeat(`a","`, 20) + `a"]}`, long},
		{"context-test", `{"task":"a","expectRefs":[` + text(201) + `]}`, long},
		{"context-doctor", `{}`, "200"}, {"context-doctor", `{"a":1}`, unknown},
		{"complete-context-turn", `{"status":"completed"}`, "200"}, {"complete-context-turn", `{"status":"cancelled"}`, "200"}, {"complete-context-turn", `{"status":"failed","note":` + text(1900) + `}`, "200"},
		{"complete-context-turn", `{"status":"failed","note":"` + strings.Repeat("n", 2000) + `"}`, "200"}, {"complete-context-turn", `{"status":"failed","note":"` + strings.Repeat("n", 2001) + `"}`, long},
		{"complete-context-turn", `{"status":"COMPLETED"}`, "400 status_not_allowed"}, {"complete-context-turn", `{"status":""}`, "400 status_not_allowed"}, {"complete-context-turn", `{"status":"expired"}`, "400 status_not_allowed"},
		{"complete-context-turn", `{}`, invalid}, {"complete-context-turn", `{"status":null}`, invalid}, {"complete-context-turn", `{"status":"completed","output":"x"}`, unknown},
		{"record-bridge-receipt", `{"kind":"http.response","digest":"` + strings.Repeat("0", 64) + `"}`, "201"}, {"record-bridge-receipt", `{"kind":"file.delete","digest":"` + strings.Repeat("0", 64) + `"}`, invalid},
		{"record-bridge-receipt", `{"kind":"file.read","digest":"` + strings.Repeat("A", 64) + `"}`, invalid}, {"record-bridge-receipt", `{"kind":"file.read"}`, invalid},
	} {
		r := routeOf(t, c.route)
		request := good(r)
		request.raw = c.body
		got, answer := request.send(t, s, r)
		if got != c.want { // the recorder answers every tool as doctor would
			t.Errorf("%s %.80s: %s, want %s\n%s", c.route, c.body, got, c.want, answer)
		}
		if taken := len(request.recorder.asked) == 1; taken != (c.want[0] == '2') {
			t.Errorf("%s %.80s: asked %q", c.route, c.body, request.recorder.asked)
		}
		if c.want[0] == '4' && !strings.Contains(answer, `"errors":[{"location":"body`) {
			t.Errorf("%s %.80s: no place\n%s", c.route, c.body, answer)
		}
	}
}

// S-050 to S-054: of an observation exactly event, tool and toolUseId are taken, each of
// its own form and bound. Whatever else comes is refused, asks nothing of the perimeter,
// and is not repeated.
func TestObservationTakesThreeMembers(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := routeOf(t, "observe-context-turn")
	try := func(edit func(map[string]any)) (string, *try, string) {
		request := good(r)
		edit(request.body)
		got, answer := request.send(t, s, r)
		return got, request, answer
	}
	got, request, _ := try(func(map[string]any) {})
	if want := "observe " + goodTurn + " key-of-sixteen-c pre_tool_use mcp__seif__context_compass toolu_01"; got != "201" || len(request.recorder.asked) != 1 || request.recorder.asked[0] != want {
		t.Fatalf("%s, asked %q", got, request.recorder.asked)
	}
	for _, name := range []string{"toolInput", "tool_input", "input", "prompt", "result", "output", "metadata", "customer", "session_id", "Event", "tool_use_id"} {
		for _, value := range []any{planted, map[string]any{"secret": planted}, []any{planted}, nil} {
			got, request, answer := try(func(b map[string]any) { b[name] = value })
			if got != "400 unknown_field" || len(request.recorder.asked) != 0 || strings.Contains(answer, planted) || !strings.Contains(answer, `"body.`+name+`"`) {
				t.Errorf("%s: %s, asked %q\n%s", name, got, request.recorder.asked, answer)
			}
		}
	}
	for _, c := range []struct {
		member, value, want string
	}{
		{"event", "post_tool_use", "400 event_not_allowed"}, {"event", "PreToolUse", "400 event_not_allowed"}, {"event", "", "400 event_not_allowed"}, {"event", strings.Repeat("e", 1000), "400 event_not_allowed"},
		{"tool", "mcp__other__tool", "400 tool_not_allowed"}, {"tool", "Bash", "400 tool_not_allowed"}, {"tool", "mcp__seif__", "400 tool_not_allowed"}, {"tool", "mcp__seif__Compass", "400 tool_not_allowed"},
		{"tool", "xmcp__seif__a", "400 tool_not_allowed"}, {"tool", "mcp__seif__a b", "400 tool_not_allowed"}, {"tool", "mcp__seif__a\n", "400 tool_not_allowed"},
		{"tool", "mcp__seif__" + strings.Repeat("a", 64), "201"}, {"tool", "mcp__seif__" + strings.Repeat("a", 65), "400 tool_not_allowed"},
		{"toolUseId", "", "400 body_invalid"}, {"toolUseId", "a b", "400 body_invalid"}, {"toolUseId", "ü", "400 body_invalid"}, {"toolUseId", "aZ9_.:-", "201"},
		{"toolUseId", strings.Repeat("u", 128), "201"}, {"toolUseId", strings.Repeat("u", 129), "400 value_too_long"},
	} {
		if got, _, answer := try(func(b map[string]any) { b[c.member] = c.value }); got != c.want {
			t.Errorf("%s %.30q: %s, want %s\n%s", c.member, c.value, got, c.want, answer)
		}
	}
	for _, name := range []string{"event", "tool", "toolUseId"} {
		if got, _, _ := try(func(b map[string]any) { delete(b, name) }); got != "400 body_invalid" {
			t.Errorf("without %s: %s", name, got)
		}
	}
}

// S-055: what looks like a secret is rejected, not redacted: a signed chain would hold it as
// it is. It is not repeated, whatever it was said in.
func TestObservationRejectsSecrets(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := routeOf(t, "observe-context-turn")
	long := strings.Repeat("Ab3dEf-_", 6)[:43]
	for member, values := range map[string][]string{
		"toolUseId": {"seif_" + long, "toolu_seif_" + long, "SEIF_" + long, "mcp__seif__seif_" + long, "cs_run_" + long, "sk-ant-api03-" + long, "4111111111111111", "toolu_4111-1111-1111-1111", "eyJhbGciOiJub25lIn0.eyJhIjoxfQ.x"},
		"tool":      {"mcp__seif__4111111111111111", "mcp__seif__ghp_" + strings.Repeat("a1b2", 9), "seif_" + long, "Bearer " + long},
	} {
		for _, value := range values {
			request := good(r)
			request.body[member] = value
			got, answer := request.send(t, s, r)
			if got != "400 body_invalid" || len(request.recorder.asked) != 0 || !strings.Contains(answer, "looks like a secret") || strings.Contains(answer, value) {
				t.Errorf("%s %q: %s, asked %q\n%s", member, value, got, request.recorder.asked, answer)
			}
		}
	}
	for _, value := range []string{"toolu_01AbCdEfGhIjKlMnOpQrStUv", "call_019cb73d-3271-7001-a97a-e979a578a81b", "mcp__seif__context_compass-toolu_01AbCdEfGhIjKlMnOpQrStUv"} {
		request := good(r)
		request.body["toolUseId"] = value
		if got, answer := request.send(t, s, r); got != "201" {
			t.Errorf("control: %q: %s\n%s", value, got, answer)
		}
	}
}

// S-032 S-058: the Idempotency-Key, once, of 16 to 160 URL-safe characters.
func TestIdempotencyKeyForm(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, id := range []string{startID, "observe-context-turn", "complete-context-turn", "record-bridge-receipt"} {
		r := routeOf(t, id)
		for _, c := range []struct {
			keys []string
			good bool
		}{
			{nil, false}, {[]string{""}, false}, {[]string{strings.Repeat("k", 15)}, false}, {[]string{strings.Repeat("k", 16)}, true}, {[]string{strings.Repeat("k", 160)}, true},
			{[]string{strings.Repeat("k", 161)}, false}, {[]string{"AZaz09-_.~AZaz09"}, true}, {[]string{"aaaaaaaaaaaaaaa+"}, false}, {[]string{"aaaaaaaaaaaaaaa "}, false},
			{[]string{strings.Repeat("ü", 16)}, false}, {[]string{strings.Repeat("k", 16), strings.Repeat("k", 16)}, false}, {[]string{"\"" + strings.Repeat("k", 16) + "\""}, false},
		} {
			request := good(r)
			request.header["Idempotency-Key"] = c.keys
			got, _ := request.send(t, s, r)
			if want := got == "400 idempotency_key_invalid"; want == c.good || c.good != (len(request.recorder.asked) == 1) {
				t.Errorf("%s %.40q: %s, asked %q", id, c.keys, got, request.recorder.asked)
			}
		}
	}
}

// S-026: the bearer token, once, and in no other place.
func TestToken(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, r := range routes() {
		for _, c := range []struct {
			what   string
			values []string
			query  string
			want   string
		}{
			{"nothing", nil, "", "missing"}, {"empty", []string{""}, "", "missing"}, {"no scheme", []string{goodToken}, "", "missing"}, {"another scheme", []string{"Basic " + goodToken}, "", "missing"},
			{"no token", []string{"Bearer "}, "", "missing"}, {"two blanks", []string{"Bearer  " + goodToken}, "", "missing"}, {"two", []string{"Bearer " + goodToken, "Bearer " + goodToken}, "", "missing"},
			{"two in one", []string{"Bearer " + goodToken + ", Bearer " + goodToken}, "", "missing"}, {"a long one", []string{"Bearer " + strings.Repeat("a", 300)}, "", "missing"},
			{"in the query", nil, "access_token=" + goodToken, "missing"}, {"unknown", []string{"Bearer " + goodToken[1:]}, "", "invalid"}, {"in another case", []string{"Bearer " + strings.ToLower(goodToken)}, "", "invalid"},
		} {
			request := good(r)
			request.header["Authorization"], request.query = c.values, c.query
			if got, answer := request.send(t, s, r); got != "401 token_"+c.want || strings.Contains(answer, goodToken) {
				t.Errorf("%s, %s: %s\n%s", r.id, c.what, got, answer)
			}
		}
		request := good(r)
		request.header.Set("Authorization", "bearer "+goodToken)
		if got, _ := request.send(t, s, r); got[0] != '2' {
			t.Errorf("%s, the scheme in lower case: %s", r.id, got)
		}
	}
}

// S-028 S-029 S-030: production is the path without an environment and the one that names
// it, and takes HTTPS, a trusted proxy's word for it, or this machine; staging is named.
func TestAddressesAndHTTPS(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := routeOf(t, startID)
	for _, c := range []struct {
		environment, bound, peer string
		tls                      bool
		said                     any // by a trusted proxy
		want                     int
		reason                   string
	}{
		{"", project.Production, "127.0.0.1:1", false, nil, 201, ""},
		{"", project.Production, "[::1]:1", false, nil, 201, ""},
		{"", project.Production, "[::ffff:127.0.0.9]:1", false, nil, 201, ""},
		{"", project.Production, "10.0.0.1:1", false, nil, 403, turn.HTTPSRequired},
		{"", project.Production, "somewhere", false, nil, 403, turn.HTTPSRequired},
		{"", project.Production, "10.0.0.1:1", true, nil, 201, ""},
		{"", project.Production, "10.0.0.1:1", false, true, 201, ""},
		{"", project.Production, "127.0.0.1:1", false, false, 403, turn.HTTPSRequired},
		{"", project.Production, "127.0.0.1:1", true, false, 403, turn.HTTPSRequired},
		{"production", project.Production, "127.0.0.1:1", false, nil, 201, ""},
		{"production", project.Production, "10.0.0.1:1", false, nil, 403, turn.HTTPSRequired},
		{"staging", project.Staging, "10.0.0.1:1", false, nil, 201, ""},
		{"staging", project.Production, "127.0.0.1:1", false, nil, 403, turn.EnvironmentMismatch},
		{"", project.Staging, "127.0.0.1:1", false, nil, 403, turn.EnvironmentMismatch},
		{"production", project.Staging, "127.0.0.1:1", false, nil, 403, turn.EnvironmentMismatch},
		{"Staging", project.Staging, "127.0.0.1:1", false, nil, 404, "NOT_FOUND"},
		{"test", project.Production, "10.0.0.1:1", false, nil, 404, "NOT_FOUND"},
	} {
		request := good(r)
		request.environment = c.environment
		request.recorder.caller.Client.Environment = c.bound
		s.recorder = request.recorder
		q := httptest.NewRequest(http.MethodPost, "http://localhost:8420"+request.path(r), strings.NewReader("{}"))
		q.Header, q.RemoteAddr = request.header, c.peer
		// What a client writes into these headers counts for nothing.
		q.Header.Set("X-Forwarded-Proto", "https")
		q.Header.Set("Forwarded", "proto=https")
		if c.tls {
			q.TLS = &tls.ConnectionState{}
		}
		if said, ok := c.said.(bool); ok {
			q = q.WithContext(Forwarded(q.Context(), said))
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, q)
		if w.Code != c.want || c.reason != "" && !strings.Contains(w.Body.String(), `"reasonCode":"`+c.reason+`"`) {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
		// What a proxy kept to itself is not known here: the token may have been safe.
		if c.reason == turn.HTTPSRequired && (!strings.Contains(w.Body.String(), "X-Forwarded-Proto: https") || strings.Contains(w.Body.String(), "in the clear")) {
			t.Errorf("%+v: %s", c, w.Body)
		}
		if taken := len(s.recorder.asked) == 1; taken != (c.want == 201) {
			t.Errorf("%+v: asked %q", c, s.recorder.asked)
		}
	}
}

// A body is measured by the bytes that arrive, whether its length was told or not.
func TestBodyBounds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, r := range routes() {
		want := 16 << 10
		if strings.HasPrefix(r.path, "/turns/") {
			want = 4 << 10
		}
		for _, chunked := range []bool{false, true} {
			for _, over := range []int{0, 1, 1 << 20} {
				request := good(r)
				request.raw = mustJSON(t, request.body)
				request.pad, request.chunked = want-len(request.raw)+over, chunked
				got, _ := request.send(t, s, r)
				if taken := got[0] == '2'; taken != (over == 0) || !taken && got != "413 too_large" {
					t.Errorf("%s, %d over, chunked %v: %s", r.id, over, chunked, got)
				}
			}
		}
	}
}

// S-027: content types of which the body is refused unread.
func TestContentType(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := routeOf(t, startID)
	for value, good1 := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/JSON;charset=UTF-8": true,
		"": false, "text/plain": false, "application/json; charset=latin1": false, "application/problem+json": false, "application/json; x=y": false, "application/jsonp": false,
	} {
		request := good(r)
		request.header["Content-Type"] = []string{value}
		if got, _ := request.send(t, s, r); (got == "201") != good1 || !good1 && got != "415 content_type" {
			t.Errorf("%q: %s", value, got)
		}
	}
	for what, edit := range map[string]func(http.Header){
		"none": func(h http.Header) { delete(h, "Content-Type") }, "two": func(h http.Header) { h["Content-Type"] = []string{"application/json", "application/json"} },
		"encoded": func(h http.Header) { h.Set("Content-Encoding", "gzip") },
	} {
		request := good(r)
		edit(request.header)
		if got, _ := request.send(t, s, r); got != "415 content_type" {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// Query parameters and the profile: nothing is passed over.
func TestParametersAndProfile(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, r := range routes() {
		for query, want := range map[string]string{"limit=5": "400 unknown_field", "a=%zz": "400 body_invalid", "a=" + planted: "400 unknown_field"} {
			request := good(r)
			request.query = query
			if got, answer := request.send(t, s, r); got != want || strings.Contains(answer, planted) || !strings.Contains(answer, `"location":"query`) {
				t.Errorf("%s?%s: %s\n%s", r.id, query, got, answer)
			}
		}
		for _, profiles := range [][]string{{"sales"}, {""}, {"Support"}, {"support", "support"}} {
			request := good(r)
			request.header[profileHeader] = profiles
			if got, _ := request.send(t, s, r); got != "403 profile_mismatch" {
				t.Errorf("%s with the profile %q: %s", r.id, profiles, got)
			}
		}
		request := good(r)
		request.header.Set("X-SEIF-Profile", "support")
		if got, _ := request.send(t, s, r); got[0] != '2' {
			t.Errorf("%s with its own profile: %s", r.id, got)
		}
	}
}

// A turn that a path names in a malformed way is one that is not there; what its key was
// used for before is for the perimeter to say, so that it is asked.
func TestMalformedTurnInPath(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, id := range []string{"observe-context-turn", "complete-context-turn"} {
		r := routeOf(t, id)
		for _, name := range []string{"trn_7", "x", "trn_01940E2E7C0070008000000000000001", "%00", "trn_01940e2e7c0070008000000000000001%2F"} {
			request := good(r)
			request.id = name
			request.send(t, s, r)
			if len(request.recorder.asked) != 1 || !strings.Contains(request.recorder.asked[0], " trn_ ") {
				t.Errorf("%s %s: asked %q", id, name, request.recorder.asked)
			}
		}
	}
}

// Every tool and no other path is served, by POST alone, whoever asks.
func TestPaths(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	served := map[string]bool{}
	for _, r := range routes() {
		served[r.path] = true
	}
	for _, name := range turn.Tools {
		if !served["/"+name] {
			t.Errorf("%s is not served", name)
		}
	}
	for _, c := range []struct {
		method, path, want string
	}{
		{"POST", "/acme/support/context/delete", "404 NOT_FOUND"}, {"POST", "/acme/support/context/", "404 NOT_FOUND"}, {"POST", "/acme/support/context/compass/", "404 NOT_FOUND"},
		{"POST", "/acme/support/context/Compass", "404 NOT_FOUND"}, {"POST", "/acme/support/context/turns/" + goodTurn, "404 NOT_FOUND"}, {"POST", "/acme/support/staging/context/x", "404 NOT_FOUND"},
		{"GET", "/acme/support/context/compass", "405 METHOD_NOT_ALLOWED"}, {"GET", "/acme/support/context/turns/start", "405 METHOD_NOT_ALLOWED"}, {"PUT", "/acme/support/staging/context/doctor", "405 METHOD_NOT_ALLOWED"},
		{"DELETE", "/acme/support/context/turns/" + goodTurn + "/complete", "405 METHOD_NOT_ALLOWED"}, {"OPTIONS", "/acme/support/context/compass", "204 "},
	} {
		q := httptest.NewRequest(c.method, "http://localhost:8420"+c.path, nil)
		q.RemoteAddr = "203.0.113.7:4711"
		w := httptest.NewRecorder()
		s.ServeHTTP(w, q)
		if got := fmt.Sprint(w.Code, " ", reasonIn(w.Body.String())); got != c.want || c.want[:3] == "405" && w.Header().Get("Allow") != "POST, OPTIONS" {
			t.Errorf("%s %s: %s, Allow %q", c.method, c.path, got, w.Header().Get("Allow"))
		}
	}
}

// The form that reads a body is the schema that the document publishes.
func TestFormIsTheDocument(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	n := 0
	for path, item := range s.OpenAPI().Paths {
		if item.Post == nil {
			continue
		}
		n++
		reference := item.Post.RequestBody.Content["application/json"].Schema.Ref
		schema := s.OpenAPI().Components.Schemas.SchemaFromRef(reference)
		if schema == nil || schema.Type != huma.TypeObject || schema.AdditionalProperties != false {
			t.Errorf("%s: the body's schema %q is %+v", path, reference, schema)
			continue
		}
		for name, m := range schema.Properties {
			if _, known := reflect.TypeFor[said]().FieldByNameFunc(func(field string) bool {
				f, _ := reflect.TypeFor[said]().FieldByName(field)
				return f.Tag.Get("json") == name
			}); !known {
				t.Errorf("%s: nothing reads %s", path, name)
			}
			if m.Type == huma.TypeString && m.MaxLength == nil && len(m.Enum) == 0 && m.Pattern == "" {
				t.Errorf("%s: %s has no bound", path, name)
			}
		}
	}
	if n != 2*len(routes()) {
		t.Errorf("%d operations, want two for each of %d routes", n, len(routes()))
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func reasonIn(body string) string {
	_, rest, _ := strings.Cut(body, `"reasonCode":"`)
	reason, _, _ := strings.Cut(rest, `"`)
	return reason
}
