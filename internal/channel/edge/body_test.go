package edge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/canon"
	"countersign/internal/channel/bounds"
	"countersign/internal/channel/edge"
)

func record(h http.Handler, a ask) int { return recordAll(h, a).Code }

func recordAll(h http.Handler, a ask) *httptest.ResponseRecorder {
	r := httptest.NewRequest(a.method, a.path, strings.NewReader(a.body))
	r.Header = a.header
	if a.host != "" {
		r.Host = a.host
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

type badBody struct {
	name, body string
	location   string // in errors; empty: not compared
	schema     bool   // only the schema refuses it, not the grammar
}

func nested(depth int) string {
	return `{"name":"a","count":1,"amountCents":"1","tags":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
}

// badBodies is the list of the issue ("Bad input").
var badBodies = []badBody{
	{"nothing", "", "", false},
	{"white space", " \n", "", false},
	{"not JSON", "name=a", "", false},
	{"cut short", `{"name":"a"`, "", false},
	{"unknown member", `{"name":"a","count":1,"amountCents":"1","sudo":true}`, "body.sudo", true},
	{"duplicate member", `{"name":"a","name":"b","count":1,"amountCents":"1"}`, "body.name", false},
	{"duplicate by escape", `{"name":"a","n\u0061me":"b","count":1,"amountCents":"1"}`, "body.name", false},
	{"wrong case", `{"NAME":"a","count":1,"amountCents":"1"}`, "", true},
	{"wrong case beside the right one", `{"name":"a","Name":"b","count":1,"amountCents":"1"}`, "body.Name", true},
	{"missing member", `{"name":"a","count":1}`, "body", true},
	{"trailing bytes", good + `x`, "", false},
	{"a second value", good + good, "", false},
	{"trailing NUL", good + "\x00", "", false},
	{"wrong type", `{"name":1,"count":1,"amountCents":"1"}`, "body.name", true},
	{"null for a string", `{"name":null,"count":1,"amountCents":"1"}`, "body.name", true},
	{"null for an array", `{"name":"a","count":1,"amountCents":"1","tags":null}`, "body.tags", true},
	{"null for an item", `{"name":"a","count":1,"amountCents":"1","tags":["x",null]}`, "body.tags[1]", true},
	{"string for an integer", `{"name":"a","count":"1","amountCents":"1"}`, "body.count", true},
	{"number for a decimal string", `{"name":"a","count":1,"amountCents":100}`, "body.amountCents", true},
	{"leading zero in a decimal string", `{"name":"a","count":1,"amountCents":"0100"}`, "body.amountCents", true},
	{"fraction", `{"name":"a","count":1.5,"amountCents":"1"}`, "body.count", false},
	{"fraction of zero", `{"name":"a","count":1.0,"amountCents":"1"}`, "body.count", false},
	{"exponent", `{"name":"a","count":1e0,"amountCents":"1"}`, "body.count", false},
	{"2^53", `{"name":"a","count":9007199254740992,"amountCents":"1"}`, "body.count", false},
	{"2^53+1", `{"name":"a","count":9007199254740993,"amountCents":"1"}`, "body.count", false},
	{"out of range", `{"name":"a","count":10,"amountCents":"1"}`, "body.count", true},
	{"negative", `{"name":"a","count":-1,"amountCents":"1"}`, "body.count", true},
	{"NUL by escape", `{"name":"a\u0000","count":1,"amountCents":"1"}`, "body.name", false},
	{"NUL in a member name", `{"name":"a","count":1,"amountCents":"1","x\u0000":1}`, "", false},
	{"control character", "{\"name\":\"a\x01\",\"count\":1,\"amountCents\":\"1\"}", "", false},
	{"lone high surrogate", `{"name":"\ud800","count":1,"amountCents":"1"}`, "", false},
	{"lone low surrogate", `{"name":"\udc00a","count":1,"amountCents":"1"}`, "", false},
	{"broken UTF-8", "{\"name\":\"\xff\",\"count\":1,\"amountCents\":\"1\"}", "", false},
	{"overlong UTF-8", "{\"name\":\"\xc0\xaf\",\"count\":1,\"amountCents\":\"1\"}", "", false},
	{"byte order mark", "\xef\xbb\xbf" + good, "", false},
	{"UTF-16", "\xff\xfe{\x00}\x00", "", false},
	{"nested 33 deep", nested(32), "", false},
	{"nested 10,000 deep", strings.Repeat("[", 10_000), "", false},
	{"comment", `/**/` + good, "", false},
	{"NaN", `{"name":"a","count":NaN,"amountCents":"1"}`, "", false},
	{"an array", `[` + good + `]`, "body", true},
	{"a string", `"a"`, "body", true},
	{"null", `null`, "body", true},
	{"too long a string", `{"name":"` + strings.Repeat("a", 21) + `","count":1,"amountCents":"1"}`, "body.name", true},
	{"too many items", `{"name":"a","count":1,"amountCents":"1","tags":["1","2","3","4"]}`, "body.tags", true},
}

// accepted returns the names of bad bodies that were not refused as they must be.
func accepted(send func(badBody) (status int, reason string)) (names []string) {
	for _, b := range badBodies {
		if status, reason := send(b); status != 400 || reason != "INVALID_REQUEST" {
			names = append(names, fmt.Sprintf("%s: %d %s", b.name, status, reason))
		}
	}
	return names
}

func TestBadBodies(t *testing.T) {
	s := serve(t)
	send := func(b badBody) (int, string) {
		got := s.mustSend(t, s.open(b.body))
		if b.location != "" && (len(got.errors) == 0 || got.errors[0].Location != b.location) {
			t.Errorf("%s: errors %+v, want %s named", b.name, got.errors, b.location)
		}
		if next := s.mustSend(t, s.open(good)); next.status != 200 {
			t.Errorf("%s: the next good request got %s", b.name, next)
		}
		return got.status, got.reason
	}
	for _, name := range accepted(send) {
		t.Error(name)
	}
	if n := s.effects.Load(); n != int64(len(badBodies)) {
		t.Errorf("%d effects, want the %d of the good requests", n, len(badBodies))
	}
}

// TestBadBodiesNegativeControl sends the list to a handler with the standard
// library's decoder; the check must notice.
func TestBadBodiesNegativeControl(t *testing.T) {
	lenient := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in thingInput
		if err := json.NewDecoder(r.Body).Decode(&in.Body); err != nil {
			http.Error(w, "INVALID_REQUEST", 400)
		}
	})
	names := accepted(func(b badBody) (int, string) {
		w := recordAll(lenient, ask{method: http.MethodPost, path: "/", body: b.body})
		return w.Code, strings.TrimSpace(w.Body.String())
	})
	for _, must := range []string{"duplicate member", "wrong case beside the right one", "trailing bytes", "NUL by escape", "lone high surrogate", "broken UTF-8", "unknown member"} {
		if !strings.Contains(strings.Join(names, "\n")+":", must+": 200") {
			t.Errorf("%s was not noticed", must)
		}
	}
}

// TestRawBodies asks an operation that decodes by itself: the grammar holds there
// too, under the operation's own reason.
func TestRawBodies(t *testing.T) {
	s := serve(t)
	for _, b := range badBodies {
		if b.schema {
			continue
		}
		a := s.open(b.body)
		a.path = "/raw"
		s.expect(t, b.name, a, "400 MALFORMED_PROPOSAL")
	}
	a := s.open(`{ "any" : [1, "x"] }`)
	a.path = "/raw"
	if got := s.mustSend(t, a); got.status != 200 || !strings.Contains(got.body, `{ \"any\" : [1, \"x\"] }`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	a.path += "?x=1"
	s.expect(t, "an unknown parameter is not the report's fault", a, "400 INVALID_REQUEST")
	a = s.open(good).with("Content-Type", "")
	a.path = "/raw"
	s.expect(t, "no type", a, "415 CONTENT_TYPE_REJECTED")
}

func TestGoodBodies(t *testing.T) {
	s := serve(t)
	for name, body := range map[string]string{
		"plain":           good,
		"white space":     " \t\r\n" + good + " \n",
		"another order":   `{"amountCents":"100","count":1,"name":"a"}`,
		"escapes":         `{"n\u0061me":"\ud83d\ude00","count":1,"amountCents":"0"}`,
		"nullable null":   `{"name":"a","count":1,"amountCents":"1","note":null}`,
		"optional absent": `{"name":"a","count":0,"amountCents":"999999999999"}`,
	} {
		s.expect(t, name, s.open(body), "200")
	}
	got := s.mustSend(t, s.open(good))
	if got.body != `{"name":"a","tags":[]}` || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("answer %s as %s", got.body, got.header.Get("Content-Type"))
	}
}

func TestBodyBound(t *testing.T) {
	s := serve(t)
	sized := func(n int) ask { return s.open(good + strings.Repeat(" ", n-len(good))) }
	s.expect(t, "one byte under", sized(65535), "200")
	s.expect(t, "at the bound", sized(65536), "200")
	s.expect(t, "one byte over", sized(65537), "413 BODY_TOO_LARGE")
	s.expect(t, "far over", sized(8<<20), "413 BODY_TOO_LARGE")
	s.expect(t, "over and no JSON", s.open(strings.Repeat("x", 65537)), "413 BODY_TOO_LARGE")
	s.expect(t, "over and of another type", sized(65537).with("Content-Type", "text/plain"), "415 CONTENT_TYPE_REJECTED")
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 65537, strings.Repeat(" ", 65537))
	resp := s.wire(t, "POST /open/here HTTP/1.1\r\nHost: "+s.addr+"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk+"0\r\n\r\n")
	if resp.StatusCode != 413 {
		t.Errorf("chunked: %d", resp.StatusCode)
	}
	s.expect(t, "the next request", s.open(good), "200")
}

// H-088: a body says that it is JSON, once and in UTF-8.
func TestContentType(t *testing.T) {
	s := serve(t)
	a := s.open(good)
	for _, test := range []struct {
		value string
		want  string
	}{
		{"application/json", "200"},
		{"application/json; charset=utf-8", "200"},
		{"application/json;charset=UTF-8", "200"},
		{"Application/JSON", "200"},
		{"", "415 CONTENT_TYPE_REJECTED"},
		{"text/plain", "415 CONTENT_TYPE_REJECTED"},
		{"text/json", "415 CONTENT_TYPE_REJECTED"},
		{"application/jsonp", "415 CONTENT_TYPE_REJECTED"},
		{"application/problem+json", "415 CONTENT_TYPE_REJECTED"},
		{"application/x-www-form-urlencoded", "415 CONTENT_TYPE_REJECTED"},
		{"multipart/form-data; boundary=x", "415 CONTENT_TYPE_REJECTED"},
		{"application/json; charset=utf-16", "415 CONTENT_TYPE_REJECTED"},
		{"application/json; version=1", "415 CONTENT_TYPE_REJECTED"},
		{"application/json, text/plain", "415 CONTENT_TYPE_REJECTED"},
		{"application/json; charset", "415 CONTENT_TYPE_REJECTED"},
	} {
		s.expect(t, "type "+test.value, a.with("Content-Type", test.value), test.want)
	}
	s.expect(t, "two types", a.and("Content-Type", "application/json"), "415 CONTENT_TYPE_REJECTED")
	s.expect(t, "gzip", a.with("Content-Encoding", "gzip"), "415 CONTENT_TYPE_REJECTED")
	s.expect(t, "another Accept", a.with("Accept", "text/html"), "200")
}

func TestParameters(t *testing.T) {
	s := serve(t)
	for _, test := range []struct {
		query string
		named string // places in errors, in order; empty: the request is good
	}{
		{"", ""}, {"?", ""}, {"?&", ""}, {"?limit=1", ""}, {"?limit=100", ""}, {"?l%69mit=7", ""},
		{"?limit=0", "query.limit"},
		{"?limit=101", "query.limit"},
		{"?limit=x", "query.limit"},
		{"?limit=%201", "query.limit"},
		{"?limit=", "query.limit"},
		{"?limit", "query.limit"},
		{"?&limit=&", "query.limit"},
		{"?limit=1&limit=1", "query.limit"},
		{"?limit=1&limit=", "query.limit"},
		{"?limit=1&l%69mit=1", "query.limit"},
		{"?limit=1;x=2", "query"},
		{"?limit=%zz", "query"},
		{"?Limit=1", "query.Limit"},
		{"?sudo=1", "query.sudo"},
		{"?sudo", "query.sudo"},
		{"?=1", "query."},
		{"?limit[]=1", "query.limit[]"},
		{"?sudo=1&limit=&Limit=1", "query.Limit query.limit query.sudo"},
	} {
		a := s.open(good)
		a.path += test.query
		want := "400 INVALID_REQUEST"
		if test.named == "" {
			want = "200"
		}
		var named []string
		for _, e := range s.expect(t, test.query, a, want).errors {
			named = append(named, e.Location)
		}
		if got := strings.Join(named, " "); got != test.named {
			t.Errorf("%s: errors name %q, want %q", test.query, got, test.named)
		}
	}
	if n := s.effects.Load(); n != 6 {
		t.Errorf("%d effects, want the 6 of the good requests", n)
	}
	a := s.open(good).with("X-Idempotency-Key", "k")
	s.expect(t, "one key", a, "200")
	s.expect(t, "two keys", a.and("X-Idempotency-Key", "k"), "400 INVALID_REQUEST")
	s.expect(t, "a long key", a.with("X-Idempotency-Key", strings.Repeat("k", 161)), "400 INVALID_REQUEST")
	get := ask{method: http.MethodGet, path: "/open/here"}
	s.expect(t, "GET", get, "200")
	get.body = "{}"
	s.expect(t, "GET with a body", get.with("Content-Type", "application/json"), "400 INVALID_REQUEST")
}

// TestNothingSubmittedComesBack looks for a marker in every kind of refusal.
func TestNothingSubmittedComesBack(t *testing.T) {
	s := serve(t, func(s *site) {
		edge.Register(s.api, edge.Operation{Operation: opOf("formats", "/formats")}, formats)
	})
	const marker = "5ecret-marker"
	long := strings.Repeat("m", 5000)
	for name, a := range map[string]ask{
		"value":            s.open(`{"name":"` + strings.Repeat(marker, 3) + `","count":1,"amountCents":"1"}`),
		"pattern":          s.open(`{"name":"a","count":1,"amountCents":"` + marker + `"}`),
		"type":             s.open(`{"name":"a","count":"` + marker + `","amountCents":"1"}`),
		"syntax":           s.open(`{"name":"` + marker + `"`),
		"value of unknown": s.open(`{"name":"a","count":1,"amountCents":"1","x":"` + marker + `"}`),
		"query":            func() ask { a := s.open(good); a.path += "?limit=" + marker; return a }(),
		"header":           s.open(good).with("X-Idempotency-Key", strings.Repeat(marker, 20)),
		"path":             func() ask { a := s.open(good); a.path = "/open/" + strings.Repeat(marker, 3); return a }(),
		"no route":         {method: http.MethodGet, path: "/" + marker},
		"token":            s.agent(http.MethodGet, "/api/v1/things/here", "").with("Authorization", "Bearer "+marker),
		"origin":           s.owner(http.MethodGet, "/api/v1/owner/things/here", "").with("Origin", "http://"+marker),
		"uuid, uri, date, duration, email": func() ask {
			v := canon.MustMarshal(marker + ":%zz\x7f")
			a := s.open(fmt.Sprintf(`{"id":%s,"link":%s,"at":%s,"for":%s,"mail":%s,"expr":"(`+marker+`"}`, v, v, v, v, v))
			a.path = "/formats"
			return a
		}(),
	} {
		got := s.mustSend(t, a)
		if got.status < 400 || strings.Contains(got.body, marker) || strings.Contains(fmt.Sprint(got.header), marker) {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	got := s.mustSend(t, s.open(`{"name":"a","count":1,"amountCents":"1","`+long+`":1}`))
	if len(got.body) > 1500 || !strings.Contains(got.body, "mmm") {
		t.Errorf("a long member name comes back with %d bytes", len(got.body))
	}
	var many strings.Builder
	for i := range 500 {
		fmt.Fprintf(&many, `"x%d":1,`, i)
	}
	if got := s.mustSend(t, s.open("{"+many.String()+good[1:])); len(got.errors) != 20 {
		t.Errorf("%d errors for 500 unknown members, want the first 20", len(got.errors))
	}
	if strings.Contains(s.log.String(), marker) {
		t.Error("the log holds what was submitted")
	}
}

func TestInterruptedBody(t *testing.T) {
	s := serve(t)
	for name, raw := range map[string]string{
		"a bad chunk": "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"nam\r\nzz\r\n",
	} {
		resp := s.wire(t, "POST /open/here HTTP/1.1\r\nHost: "+s.addr+"\r\nContent-Type: application/json\r\n"+raw)
		if resp.StatusCode != 400 || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", name, resp.StatusCode, resp.Header.Get("Content-Type"))
		}
	}
	if s.effects.Load() != 0 {
		t.Error("an effect")
	}
	s.expect(t, "the next request", s.open(good), "200")
}

// An operation may take a larger body than others, up to its own bound and no further. A
// client that sends it slowly has longer for it than for any other body, and no longer
// than the bound of the server's end.
func TestLargerBodies(t *testing.T) {
	const most = 3 << 20
	s := serve(t, func(s *site) {
		edge.Register(s.api, edge.Operation{Operation: huma.Operation{OperationID: "large", Method: http.MethodPost, Path: "/large"}, MaxBody: most},
			func(_ context.Context, in *rawInput) (*thingOutput, error) {
				s.effects.Add(int64(len(in.RawBody)))
				return &thingOutput{}, nil
			})
	})
	for size, want := range map[int]string{most: "200", most + 1: "413 BODY_TOO_LARGE", edge.MaxBody + 1: "200"} {
		a := s.open(good + strings.Repeat(" ", size-len(good)))
		a.path = "/large"
		got := s.expect(t, fmt.Sprint(size, " bytes"), a, want)
		if want != "200" && !strings.Contains(got.body, fmt.Sprintf("at most %d bytes", most)) {
			t.Errorf("the bound is not named: %s", got.body)
		}
		a.path = "/open/here"
		if got := s.expect(t, fmt.Sprint(size, " bytes elsewhere"), a, "413 BODY_TOO_LARGE"); !strings.Contains(got.body, fmt.Sprintf("at most %d bytes", edge.MaxBody)) {
			t.Errorf("the bound is not named: %s", got.body)
		}
	}
	if n := s.effects.Load(); n != most+edge.MaxBody+1 {
		t.Errorf("%d bytes arrived", n)
	}
	for _, bound := range []int64{-1, edge.LargestBody + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a bound of %d is taken", bound)
				}
			}()
			edge.Register(s.api, edge.Operation{Operation: huma.Operation{OperationID: "larger", Method: http.MethodPost, Path: "/larger"}, MaxBody: bound},
				func(context.Context, *rawInput) (*thingOutput, error) { return nil, nil })
		}()
	}
}

// deadlines are those that a request's reading was given.
type deadlines struct {
	*httptest.ResponseRecorder
	reading []time.Duration // from when they were set, in whole seconds; 0: none
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	in := time.Duration(0)
	if !at.IsZero() {
		in = time.Until(at).Round(time.Second)
	}
	d.reading = append(d.reading, in)
	return nil
}

func TestTimeToSendABody(t *testing.T) {
	s := serve(t, func(s *site) {
		for name, most := range map[string]int64{"small": 0, "largest": edge.LargestBody} {
			edge.Register(s.api, edge.Operation{Operation: huma.Operation{OperationID: name, Method: http.MethodPost, Path: "/" + name}, MaxBody: most},
				func(context.Context, *rawInput) (*thingOutput, error) { return &thingOutput{}, nil })
		}
	})
	for name, want := range map[string][]time.Duration{
		"small":   {bounds.BodyTimeout, 0},
		"largest": {bounds.BodyTimeout, 42 * time.Second, 0},
	} {
		r := httptest.NewRequest(http.MethodPost, "/"+name, strings.NewReader(good))
		r.Host = s.addr
		r.Header.Set("Content-Type", "application/json")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		s.api.ServeHTTP(w, r)
		if w.reading = slices.Compact(w.reading); !slices.Equal(w.reading, want) || w.Code != 200 {
			t.Errorf("%s: %d, deadlines %v, want %v", name, w.Code, w.reading, want)
		}
	}
}
