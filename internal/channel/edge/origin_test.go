package edge_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/identity"
)

// violations of the owner's rules, each with the answer it gets, in the order in
// which they answer (G-20).
type violation struct {
	name string
	do   func(s *site, a ask) ask
	want string
}

var violations = []violation{
	{"Authorization header", func(s *site, a ask) ask { return a.with("Authorization", "Bearer "+s.token) }, "403 BEARER_ON_OWNER_ROUTE"},
	{"no session", func(_ *site, a ask) ask { return a.with("Cookie", "") }, "401 AUTHENTICATION_REQUIRED"},
	{"foreign Origin", func(_ *site, a ask) ask { return a.with("Origin", "http://evil.example") }, "403 ORIGIN_REJECTED"},
	{"no owner header", func(_ *site, a ask) ask { return a.with("X-Halfspan-Owner", "") }, "403 OWNER_HEADER_REQUIRED"},
	{"wrong type", func(_ *site, a ask) ask { return a.with("Content-Type", "text/plain") }, "415 CONTENT_TYPE_REJECTED"},
	{"bad body", func(_ *site, a ask) ask { a.body = strings.Replace(a.body, `"name"`, `"NAME"`, 1); return a }, "400 INVALID_REQUEST"},
	{"unknown id", func(_ *site, a ask) ask { a.path = strings.Replace(a.path, "here", "away", 1); return a }, "404 NOT_FOUND"},
	{"wrong state", func(_ *site, a ask) ask { a.body = strings.Replace(a.body, `"count":1`, `"count":9`, 1); return a }, "409 RUN_NOT_READY"},
}

// breaches sends every violation alone and every pair of two, and returns what
// was not answered by the earlier one.
func breaches(s *site) (found []string) {
	request := s.owner(http.MethodPost, s.owned+"/here", good)
	try := func(name string, a ask, want string) {
		switch got, err := s.send(a); {
		case err != nil:
			found = append(found, fmt.Sprintf("%s: %v", name, err))
		case got.String() != want:
			found = append(found, fmt.Sprintf("%s: %s, want %s", name, got, want))
		}
	}
	for i, v := range violations {
		try(v.name, v.do(s, request), v.want)
		for _, later := range violations[i+1:] {
			try(v.name+" and "+later.name, v.do(s, later.do(s, request)), v.want)
		}
	}
	return found
}

// H-022 H-083 H-087 G-20: each rule refuses, alone and before every later one.
func TestOwnerRulesInOrder(t *testing.T) {
	s := serve(t)
	for _, b := range breaches(s) {
		t.Error(b)
	}
	if n := s.effects.Load(); n != 0 {
		t.Errorf("%d refused requests had an effect", n)
	}
	s.expect(t, "a good request", s.owner(http.MethodPost, "/api/v1/owner/things/here", good), "200")
	if n := s.effects.Load(); n != 1 {
		t.Errorf("the good request had %d effects", n)
	}
}

// S-016 G-35: before the routes of projects the same rules stand in the same order, but
// for the header that their protocol does not know, which changes nothing there.
func TestProjectRulesInOrder(t *testing.T) {
	s := serve(t)
	s.owned = projectThings
	for _, b := range breaches(s) {
		if !strings.HasPrefix(b, "no owner header: 200 ") && !strings.HasPrefix(b, "no owner header and ") {
			t.Error(b)
		}
	}
	if n := s.effects.Load(); n != 1 {
		t.Errorf("%d effects, want the one of the request without the owner header", n)
	}
	for _, value := range []string{"1", "0", ""} {
		s.expect(t, "x-halfspan-owner "+value, s.owner(http.MethodPost, projectThings+"/here", good).with("X-Halfspan-Owner", value), "200")
	}
	for _, path := range []string{"/api/projects", "/api/projects/", "/api/projects/nothing/here"} {
		s.expect(t, path, ask{method: http.MethodGet, path: path}, "401 AUTHENTICATION_REQUIRED")
		s.expect(t, path, s.agent(http.MethodGet, path, ""), "403 BEARER_ON_OWNER_ROUTE")
	}
	read := s.owner(http.MethodGet, projectThings+"/here", "")
	s.expect(t, "a read without Origin", read.with("Origin", ""), "200")
	s.expect(t, "a read from elsewhere", read.with("Origin", "http://evil.example"), "403 ORIGIN_REJECTED")
	s.expect(t, "a read for another site", read.with("Sec-Fetch-Site", "cross-site"), "403 ORIGIN_REJECTED")
	s.expect(t, "a request for another site", s.owner(http.MethodPost, projectThings+"/here", good).with("Sec-Fetch-Site", "same-site"), "403 ORIGIN_REJECTED")
}

// TestOwnerRulesNegativeControl switches one rule off at a time and demands that
// breaches notices that one, and no other. The rules of the guard are off when the
// request is mended before the guard sees it, those of the edge by a door, those
// of the handler in the handler of these tests.
func TestOwnerRulesNegativeControl(t *testing.T) {
	mend := func(change func(*site, http.Header)) func(*site) {
		return func(s *site) {
			g := edge.OwnerGuard(s.origin, s.owners.Verify)
			s.api.Guard(s.owned+"/", edge.Guard{Check: func(r *http.Request) (*http.Request, error) {
				mended := r.Clone(r.Context())
				change(s, mended.Header)
				return g.Check(mended)
			}})
		}
	}
	without := func(check string) func(*site) {
		return func(s *site) {
			s.api.Without(check)
			s.owned = "/api/v1/owner/lax"
			s.things(s.owned, "lax")
		}
	}
	off := map[string]func(*site){
		"Authorization header": mend(func(_ *site, h http.Header) { h.Del("Authorization") }),
		"no session":           mend(func(s *site, h http.Header) { h.Set("Cookie", edge.OwnerCookie+"="+s.cookie) }),
		"foreign Origin":       mend(func(s *site, h http.Header) { h.Set("Origin", s.origin) }),
		"no owner header":      mend(func(_ *site, h http.Header) { h.Set("X-Halfspan-Owner", "1") }),
		"wrong type":           without("type"),
		"bad body":             without("body"),
		"unknown id":           func(s *site) { s.off = "unknown id" },
		"wrong state":          func(s *site) { s.off = "wrong state" },
	}
	for _, v := range violations {
		t.Run(v.name, func(t *testing.T) {
			s := serve(t, off[v.name])
			noticed := false
			for _, b := range breaches(s) {
				alone := strings.HasPrefix(b, v.name+": 200 ")
				noticed = noticed || alone
				if !alone && !strings.HasPrefix(b, v.name+" and ") {
					t.Errorf("another rule is off too: %s", b)
				}
			}
			if !noticed {
				t.Error("the rule was off and nothing was noticed")
			}
			if n := s.effects.Load(); n != 1 {
				t.Errorf("%d effects, want the one of the request that broke this rule alone", n)
			}
		})
	}
}

// TestEachCheckProtects sends a request that breaks one rule of the edge. With that
// check switched off it gets through to the handler; with another one off it does
// not.
func TestEachCheckProtects(t *testing.T) {
	type breach struct {
		do        func(s *site) ask
		want, off string // the answer with the check, and without it
	}
	at := func(path, body string) func(*site) ask {
		return func(s *site) ask {
			a := s.open(body)
			a.path = path
			return a
		}
	}
	get := func(path string) func(*site) ask {
		return func(*site) ask { return ask{method: http.MethodGet, path: path} }
	}
	breaches := map[string][]breach{
		"route": {{get("/lax//here"), "404 NOT_FOUND", "307 "}}, // the mux redirects
		"no body": {{func(*site) ask {
			return ask{method: http.MethodGet, path: "/lax/here", body: "{}"}
		}, "400 INVALID_REQUEST", "200 "}},
		"type": {
			{func(s *site) ask { return s.open(good).with("Content-Type", "text/plain") }, "415 CONTENT_TYPE_REJECTED", "200 "},
			{func(s *site) ask { return s.open(good).with("Content-Encoding", "gzip") }, "415 CONTENT_TYPE_REJECTED", "200 "},
		},
		"size": {{at("/lax/here", good+strings.Repeat(" ", edge.MaxBody)), "413 BODY_TOO_LARGE", "200 "}},
		"body": {
			{at("/lax/here", `{"name":"a","name":"b","count":1,"amountCents":"1"}`), "400 INVALID_REQUEST", "200 "},
			{at("/lax/here", `{"name":"a","count":1,"amountCents":"1","sudo":true}`), "400 INVALID_REQUEST", "200 "},
			{at("/lax/here", `{"name":"a","count":1,"amountCents":"1","tags":null}`), "400 INVALID_REQUEST", "200 "},
			{at("/lax-raw", `{"a":1,"a":2}`), "400 MALFORMED_PROPOSAL", "200 "},
		},
		"parameters": {{at("/lax/here?limit=1&limit=2", good), "400 INVALID_REQUEST", "200 "}},
	}
	for off := range breaches {
		t.Run(off, func(t *testing.T) {
			s := serve(t, func(s *site) {
				s.api.Without(off)
				s.things("/lax", "lax")
				s.raw("/lax-raw", "lax-raw")
			})
			for check, list := range breaches {
				for _, b := range list {
					a, want := b.do(s), b.want
					if strings.HasPrefix(a.path, "/open") {
						a.path = "/lax/here"
					}
					if check == off {
						want = b.off
					}
					if got := s.mustSend(t, a); got.String() != want {
						t.Errorf("a request against %q: %s, want %s (%s)", check, got, want, got.body)
					}
				}
			}
		})
	}
}

func TestOriginAndSite(t *testing.T) {
	s := serve(t)
	post := s.owner(http.MethodPost, "/api/v1/owner/things/here", good)
	get := s.owner(http.MethodGet, "/api/v1/owner/things/here", "").with("Origin", "").with("X-Halfspan-Owner", "")
	head := get
	head.method = http.MethodHead
	port := s.addr[strings.LastIndex(s.addr, ":"):]
	for _, test := range []struct {
		name string
		ask  ask
		want string
	}{
		{"POST without Origin", post.with("Origin", ""), "403 ORIGIN_REJECTED"},
		{"Origin null", post.with("Origin", "null"), "403 ORIGIN_REJECTED"},
		{"Origin with a slash", post.with("Origin", s.origin+"/"), "403 ORIGIN_REJECTED"},
		{"Origin https", post.with("Origin", "https://"+s.addr), "403 ORIGIN_REJECTED"},
		{"Origin of another name", post.with("Origin", "http://localhost"+port), "403 ORIGIN_REJECTED"},
		{"Origin of another port", post.with("Origin", "http://127.0.0.1:1"), "403 ORIGIN_REJECTED"},
		{"Origin in capitals", post.with("Origin", strings.ToUpper(s.origin)), "403 ORIGIN_REJECTED"},
		{"Origin extended", post.with("Origin", s.origin+".evil.example"), "403 ORIGIN_REJECTED"},
		{"two Origins", post.and("Origin", s.origin), "403 ORIGIN_REJECTED"},
		{"GET with a foreign Origin", get.with("Origin", "http://evil.example"), "403 ORIGIN_REJECTED"},
		{"cross-site", post.with("Sec-Fetch-Site", "cross-site"), "403 ORIGIN_REJECTED"},
		{"same-site", post.with("Sec-Fetch-Site", "same-site"), "403 ORIGIN_REJECTED"},
		{"cross-site GET", get.with("Sec-Fetch-Site", "cross-site"), "403 ORIGIN_REJECTED"},
		{"two sites", post.with("Sec-Fetch-Site", "same-origin").and("Sec-Fetch-Site", "cross-site"), "403 ORIGIN_REJECTED"},
		{"an unknown site", post.with("Sec-Fetch-Site", "SAME-ORIGIN"), "403 ORIGIN_REJECTED"},
		{"owner header 0", post.with("X-Halfspan-Owner", "0"), "403 OWNER_HEADER_REQUIRED"},
		{"owner header true", post.with("X-Halfspan-Owner", "true"), "403 OWNER_HEADER_REQUIRED"},
		{"owner header twice", post.and("X-Halfspan-Owner", "1"), "403 OWNER_HEADER_REQUIRED"},
		{"an empty Authorization header", ask{post.method, post.path, post.and("Authorization", "").header, post.body, ""}, "403 BEARER_ON_OWNER_ROUTE"},
		{"Basic", post.with("Authorization", "Basic eDp5"), "403 BEARER_ON_OWNER_ROUTE"},
		{"same-origin", post.with("Sec-Fetch-Site", "same-origin"), "200"},
		{"none", post.with("Sec-Fetch-Site", "none"), "200"},
		{"no Sec-Fetch-Site", post, "200"},
		{"GET without Origin", get, "200"},
		{"GET with Origin", get.with("Origin", s.origin), "200"},
		{"HEAD without Origin", head, "200"},
	} {
		s.expect(t, test.name, test.ask, test.want)
	}
}

func TestHostIsTheConfiguredOne(t *testing.T) {
	s := serve(t)
	port := s.addr[strings.LastIndex(s.addr, ":"):]
	requests := map[string]ask{
		"owner": s.owner(http.MethodPost, "/api/v1/owner/things/here", good),
		"agent": s.agent(http.MethodPost, "/api/v1/things/here", good),
		"open":  s.open(good),
		"none":  {method: http.MethodGet, path: "/nothing"},
	}
	for name, a := range requests {
		for _, host := range []string{"evil.example", "evil.example" + port, "localhost" + port, "127.0.0.1", "127.0.0.1:1", s.addr + ".evil.example"} {
			a.host = host
			s.expect(t, name+" at "+host, a, "403 ORIGIN_REJECTED")
		}
	}
	if n := s.effects.Load(); n != 0 {
		t.Errorf("%d effects", n)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := s.mustSend(t, ask{method: http.MethodGet, path: path, host: "10.0.0.1"}); got.status != 200 || got.body != "ok\n" {
			t.Errorf("%s by address: %d %q", path, got.status, got.body)
		}
	}
}

// TestHostNegativeControl serves the same routes with the Host mended on the way in.
func TestHostNegativeControl(t *testing.T) {
	s := serve(t)
	mended := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Host = s.addr
			h.ServeHTTP(w, r)
		})
	}
	a := s.open(good)
	a.host = "evil.example"
	if got := record(mended(s.api), a); got != 200 || s.effects.Load() != 1 {
		t.Errorf("with the rule off: %d, %d effects", got, s.effects.Load())
	}
	if got := record(s.api, a); got != 403 || s.effects.Load() != 1 {
		t.Errorf("with the rule on: %d, %d effects", got, s.effects.Load())
	}
}

func TestGuardsCoverUnknownPathsAndMethods(t *testing.T) {
	s := serve(t)
	for _, path := range []string{"/api/v1/owner", "/api/v1/owner/", "/api/v1/owner/nothing", "/api/v1/owner/things/here/more", "/api/v1/%6fwner/things/here", "/api/v1/owner/things%2fhere"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodOptions, http.MethodPatch, "BREW"} {
			s.expect(t, "owner "+method+" "+path, ask{method: method, path: path}, "401 AUTHENTICATION_REQUIRED")
		}
	}
	for _, path := range []string{"/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v1/things/here/more", "/api/v1/ownerx/y"} {
		s.expect(t, "agent "+path, ask{method: http.MethodGet, path: path}, "401 AUTHENTICATION_REQUIRED")
	}
	for _, path := range []string{"//api/v1/owner/things/here", "/x/../api/v1/owner/things/here", "/api//v1/owner/things/here", "/api/v1/owner/../owner/things/here"} {
		a := s.owner(http.MethodPost, path, good)
		got := s.wire(t, "POST "+path+" HTTP/1.1\r\nHost: "+s.addr+"\r\nContent-Length: 0\r\n\r\n")
		if got.StatusCode != 404 && got.StatusCode != 401 {
			t.Errorf("%s without a session: %d", path, got.StatusCode)
		}
		s.expect(t, path, a, "404 NOT_FOUND")
	}
	s.expect(t, "a dot in the path", s.owner(http.MethodPost, "/api/v1/./owner/things/here", good), "401 AUTHENTICATION_REQUIRED")
	if n := s.effects.Load(); n != 0 {
		t.Errorf("%d effects", n)
	}
	s.expect(t, "owner unknown path", s.owner(http.MethodGet, "/api/v1/owner/nothing", ""), "404 NOT_FOUND")
	got := s.expect(t, "owner wrong method", s.owner(http.MethodPut, "/api/v1/owner/things/here", ""), "405 METHOD_NOT_ALLOWED")
	if allow := got.header.Get("Allow"); allow != "GET, HEAD, POST, OPTIONS" {
		t.Errorf("Allow: %s", allow)
	}
	got = s.expect(t, "OPTIONS", ask{method: http.MethodOptions, path: "/open/here", header: http.Header{"Origin": {"http://evil.example"}, "Access-Control-Request-Method": {"POST"}}}, "204")
	if got.header.Get("Allow") != "GET, HEAD, POST, OPTIONS" || got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("OPTIONS: %v", got.header)
	}
}

func TestAgentRoutes(t *testing.T) {
	s := serve(t)
	a := s.agent(http.MethodPost, "/api/v1/things/here", good)
	for _, test := range []struct {
		name string
		ask  ask
		want string
	}{
		{"no credential", a.with("Authorization", ""), "401 AUTHENTICATION_REQUIRED"},
		{"the owner's cookie instead", a.with("Authorization", "").with("Cookie", edge.OwnerCookie+"="+s.cookie), "401 AUTHENTICATION_REQUIRED"},
		{"the owner's cookie as bearer", a.with("Authorization", "Bearer "+s.cookie), "401 AUTHENTICATION_REQUIRED"},
		{"two Authorization headers", a.and("Authorization", "Bearer "+s.token), "401 AUTHENTICATION_REQUIRED"},
		{"two spaces", a.with("Authorization", "Bearer  "+s.token), "401 AUTHENTICATION_REQUIRED"},
		{"no scheme", a.with("Authorization", s.token), "401 AUTHENTICATION_REQUIRED"},
		{"Basic", a.with("Authorization", "Basic "+s.token), "401 AUTHENTICATION_REQUIRED"},
		{"a list", a.with("Authorization", "Bearer "+s.token+", Bearer x"), "401 AUTHENTICATION_REQUIRED"},
		{"an unknown token", a.with("Authorization", "Bearer cs_run_"+strings.Repeat("A", 43)), "401 AUTHENTICATION_REQUIRED"},
		{"no credential and a wrong type", a.with("Authorization", "").with("Content-Type", "text/plain"), "401 AUTHENTICATION_REQUIRED"},
		{"no credential and a bad body", func() ask { b := a.with("Authorization", ""); b.body = "{"; return b }(), "401 AUTHENTICATION_REQUIRED"},
		{"bearer in lower case", a.with("Authorization", "bearer "+s.token), "200"},
		{"the owner's cookie beside it", a.with("Cookie", edge.OwnerCookie+"="+s.cookie), "200"},
		{"a foreign Origin", a.with("Origin", "http://evil.example"), "200"},
	} {
		got := s.expect(t, test.name, test.ask, test.want)
		if got.status == 401 && !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("%s: WWW-Authenticate %q", test.name, got.header.Get("WWW-Authenticate"))
		}
	}
	if n := s.effects.Load(); n != 3 {
		t.Errorf("%d effects, want 3", n)
	}
	s.expect(t, "a run token on an owner route", s.owner(http.MethodGet, "/api/v1/owner/things/here", "").with("Authorization", "Bearer "+s.token).with("Cookie", ""), "403 BEARER_ON_OWNER_ROUTE")
}

// TestMisuse: a lookup may refuse with a reason of its own (L-6).
func TestMisuse(t *testing.T) {
	s := serve(t, func(s *site) {
		s.api.Guard("/api/v1/things/", edge.BearerGuard(func(context.Context, string) (identity.Credential, error) {
			return identity.Credential{}, &authority.Denial{Reason: authority.CredentialMisuse, Detail: "The token belongs to another origin."}
		}))
	})
	s.expect(t, "misuse", s.agent(http.MethodPost, "/api/v1/things/here", good), "403 CREDENTIAL_MISUSE")
	if s.effects.Load() != 0 {
		t.Error("an effect")
	}
}

// TestWhoIsAsking: handlers learn from the context who the guard let in.
func TestWhoIsAsking(t *testing.T) {
	s := serve(t, func(s *site) {
		edge.Register(s.api, edge.Operation{Operation: huma.Operation{OperationID: "whoami", Method: http.MethodGet, Path: "/api/v1/whoami"}},
			func(ctx context.Context, _ *struct{}) (*thingOutput, error) {
				c, ok := edge.CredentialFrom(ctx)
				if _, owner := edge.SessionFrom(ctx); owner || !ok {
					return nil, errors.New("not an agent")
				}
				out := &thingOutput{}
				out.Body.Name = c.Subject
				return out, nil
			})
	})
	if got := s.expect(t, "agent", s.agent(http.MethodGet, "/api/v1/whoami", ""), "200"); got.body != `{"name":"run-1","tags":[]}` {
		t.Error(got.body)
	}
}

func TestExpiredCredentials(t *testing.T) {
	s := serve(t)
	owner := s.owner(http.MethodGet, "/api/v1/owner/things/here", "")
	agent := s.agent(http.MethodGet, "/api/v1/things/here", "")
	s.expect(t, "fresh token", agent, "200")
	s.clock.Move(time.Hour)
	s.expect(t, "token after an hour", agent, "401 AUTHENTICATION_REQUIRED")
	s.expect(t, "session after an hour", owner, "200")
	s.clock.Move(11 * time.Hour)
	s.expect(t, "session after 12 hours", owner, "401 AUTHENTICATION_REQUIRED")
}

func TestSignInAndOut(t *testing.T) {
	s := serve(t)
	in := ask{method: http.MethodPost, path: edge.SessionPath, body: `{"secret":"` + s.secret + `"}`, header: http.Header{
		"Origin": {s.origin}, "X-Halfspan-Owner": {"1"}, "Content-Type": {"application/json"},
	}}
	wrong := in
	wrong.body = `{"secret":"wrong"}`
	for _, test := range []struct {
		name string
		ask  ask
		want string
	}{
		{"with a bearer", in.with("Authorization", "Bearer "+s.token), "403 BEARER_ON_OWNER_ROUTE"},
		{"without Origin", in.with("Origin", ""), "403 ORIGIN_REJECTED"},
		{"from elsewhere", in.with("Origin", "http://evil.example"), "403 ORIGIN_REJECTED"},
		{"cross-site", in.with("Sec-Fetch-Site", "cross-site"), "403 ORIGIN_REJECTED"},
		{"without the owner header", in.with("X-Halfspan-Owner", ""), "403 OWNER_HEADER_REQUIRED"},
		{"as a form", in.with("Content-Type", "application/x-www-form-urlencoded"), "415 CONTENT_TYPE_REJECTED"},
		{"without a secret", ask{in.method, in.path, in.header, `{}`, ""}, "400 INVALID_REQUEST"},
		{"with more", ask{in.method, in.path, in.header, `{"secret":"x","remember":true}`, ""}, "400 INVALID_REQUEST"},
	} {
		s.expect(t, test.name, test.ask, test.want)
	}
	got := s.expect(t, "the right secret", in, "200")
	cookies := (&http.Response{Header: got.header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("cookies: %v", got.header["Set-Cookie"])
	}
	c := cookies[0]
	if c.Name != "countersign_owner" || c.Path != "/" || c.MaxAge != 12*60*60 || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Domain != "" || len(c.Value) != 43 {
		t.Errorf("cookie %s", got.header["Set-Cookie"])
	}
	if strings.Contains(got.body, c.Value) || !strings.Contains(got.body, `"expiresAt"`) {
		t.Errorf("body %s", got.body)
	}
	out := s.owner(http.MethodDelete, edge.SessionPath, "").with("Cookie", c.Name+"="+c.Value)
	read := s.owner(http.MethodGet, "/api/v1/owner/things/here", "").with("Cookie", c.Name+"="+c.Value)
	s.expect(t, "the new session", read, "200")
	s.expect(t, "two session cookies", read.with("Cookie", c.Name+"="+c.Value+"; "+c.Name+"="+s.cookie), "401 AUTHENTICATION_REQUIRED")
	s.expect(t, "another cookie beside it", read.with("Cookie", "other=1; "+c.Name+"="+c.Value), "200")
	s.expect(t, "sign out without a session", out.with("Cookie", ""), "401 AUTHENTICATION_REQUIRED")
	s.expect(t, "sign out without the owner header", out.with("X-Halfspan-Owner", ""), "403 OWNER_HEADER_REQUIRED")
	if got := s.expect(t, "sign out", out, "204"); !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign out sets %q", got.header.Get("Set-Cookie"))
	}
	s.expect(t, "after signing out", read, "401 AUTHENTICATION_REQUIRED")
	s.expect(t, "another session", s.owner(http.MethodGet, "/api/v1/owner/things/here", ""), "200")

	for i := range 5 {
		got := s.expect(t, fmt.Sprint("wrong secret ", i+1), wrong, "401 AUTHENTICATION_REQUIRED")
		if got.header.Get("Set-Cookie") != "" || got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("headers %v", got.header)
		}
	}
	limited := s.expect(t, "sixth attempt", wrong, "429 RATE_LIMITED")
	if after := limited.header.Get("Retry-After"); after == "" || after == "0" || len(after) > 2 {
		t.Errorf("Retry-After %q", after)
	}
	s.expect(t, "the right secret", in, "200")
	s.clock.Move(time.Minute)
	s.expect(t, "a minute later", wrong, "401 AUTHENTICATION_REQUIRED")
	if log := s.log.String(); strings.Contains(log, s.secret) || strings.Contains(log, "wrong") {
		t.Error("the log holds a secret")
	}
}

func TestSecureCookieOnHTTPS(t *testing.T) {
	const origin = "https://control.example"
	s := serve(t) // only for its ledger
	api, err := edge.New(edge.Config{Origin: origin, Title: "test", Version: "0.1"})
	if err != nil {
		t.Fatal(err)
	}
	api.Guard(edge.OwnerPrefix, edge.OwnerGuard(origin, s.owners.Verify))
	edge.RegisterSessions(api, s.owners)
	w := recordAll(api, ask{method: http.MethodPost, path: edge.SessionPath, host: "control.example", body: `{"secret":"` + s.secret + `"}`, header: http.Header{
		"Origin": {origin}, "X-Halfspan-Owner": {"1"}, "Content-Type": {"application/json"},
	}})
	if c := w.Header().Get("Set-Cookie"); w.Code != 200 || !strings.Contains(c, "; Secure") {
		t.Errorf("%d %s", w.Code, c)
	}
	if w.Header().Get("Strict-Transport-Security") == "" {
		t.Error("no Strict-Transport-Security")
	}
}

func TestLedgerUnavailable(t *testing.T) {
	gone := fmt.Errorf("%w: %w", identity.ErrUnavailable, errors.New("disk gone"))
	s := serve(t, func(s *site) {
		s.api.Guard("/api/v1/owner/things/", edge.OwnerGuard(s.origin, func(context.Context, string) (identity.Session, error) {
			return identity.Session{}, gone
		}))
		s.api.Guard("/api/v1/things/", edge.BearerGuard(func(context.Context, string) (identity.Credential, error) {
			return identity.Credential{}, gone
		}))
	})
	for _, a := range []ask{s.owner(http.MethodGet, "/api/v1/owner/things/here", ""), s.agent(http.MethodGet, "/api/v1/things/here", "")} {
		got := s.expect(t, a.path, a, "503 LEDGER_UNAVAILABLE")
		if strings.Contains(got.body, "disk") || got.header.Get("Retry-After") != "1" {
			t.Errorf("%s %v", got.body, got.header)
		}
	}
	if !strings.Contains(s.log.String(), "disk gone") {
		t.Error("the operator was not told the cause")
	}
}

func TestParseOrigin(t *testing.T) {
	for _, s := range []string{"http://localhost:8420", "http://127.0.0.1:8420", "https://control.example", "https://control.example:8443", "http://[::1]:8420"} {
		if _, err := edge.ParseOrigin(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", "localhost:8420", "http://", "http://localhost:8420/", "http://localhost:80", "https://a:443", "http://a:", "HTTP://a", "http://A", "ftp://a", "http://u@a", "http://a?b", "http://a#b", "http://a/b", "null", "http://:8420", "http://a\x00"} {
		if _, err := edge.ParseOrigin(s); err == nil {
			t.Errorf("%q is taken for an origin", s)
		}
	}
}
