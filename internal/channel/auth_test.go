package channel_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"countersign/internal/channel/edge"
)

// route is a documented operation with the path of one run, or of one project.
type route struct {
	*operation
	path string
}

// routes are the operations of a family, about one run.
func routes(run, of string) []route {
	var list []route
	for _, o := range document().operations {
		if family(o.Path) == of {
			list = append(list, route{o, strings.ReplaceAll(o.Path, "{id}", run)})
		}
	}
	return list
}

// routes are the owner's operations about one project.
func (p *project) routes() []route {
	list := routes("{id}", "project")
	for i := range list {
		list[i].path = p.in(list[i].path)
	}
	return list
}

func both(edits ...edit) edit {
	return func(r *http.Request) {
		for _, f := range edits {
			f(r)
		}
	}
}

func cookie(value string) edit {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: edge.OwnerCookie, Value: value}) }
}

// G-20 H-083 to H-087 L-6, on every owner route: Authorization before the cookie,
// the session before the origin, the origin before everything in the body. Each
// step's request is wrong in all later steps too. The routes of projects have no owner
// header; the rest holds for them.
func TestOwnerOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.agent("local")
	p := h.project("support")
	before, projects := h.total(c.run), p.recorded()
	bad := both(set("Origin", "http://evil.example"), set("Sec-Fetch-Site", "cross-site"), set("Content-Type", "text/plain"))
	for _, o := range append(routes(c.run, "owner"), p.routes()...) {
		ask := func(what string, status int, reason string, edits ...edit) {
			t.Helper()
			var body any
			if o.Method == "POST" && o.RequestBody != nil {
				body = []byte("{")
			}
			h.do(o.Method, o.path, body, edits...).is(t, o.ID+": "+what, status, reason)
		}
		for what, authorization := range map[string]string{
			"the run's token": "Bearer " + c.token, "an unknown token": "Bearer x", "another scheme": "Basic eDp4", "an empty header": "",
			"a client's token": "Bearer " + p.token, "the token of a client without turns": "Bearer " + p.plainToken,
		} {
			ask(what, 403, edge.BearerOnOwnerRoute, bad, set("Authorization", authorization))
			ask(what+" beside a session", 403, edge.BearerOnOwnerRoute, h.asOwner(h.cookie), set("Authorization", authorization))
		}
		if o.ID != "sign-in" {
			for what, e := range map[string]edit{
				"no cookie": func(*http.Request) {}, "unknown cookie": cookie(strings.Repeat("A", 43)), "the run's token as cookie": cookie(c.token), "a client's token as cookie": cookie(p.token),
				"the secret as cookie": cookie(h.secret), "two cookies": both(cookie(h.cookie), cookie(h.cookie)),
			} {
				ask(what, 401, edge.AuthenticationRequired, bad, e)
				ask(what+" and all else right", 401, edge.AuthenticationRequired, h.asOwner(""), e)
			}
		}
		for what, e := range map[string]edit{
			"another origin": set("Origin", "http://evil.example"), "another port": set("Origin", "http://localhost:1"), "null": set("Origin", "null"),
			"cross-site": set("Sec-Fetch-Site", "cross-site"), "same-site": set("Sec-Fetch-Site", "same-site"),
			"two origins": func(r *http.Request) { r.Header["Origin"] = []string{h.origin, h.origin} },
		} {
			ask(what, 403, edge.OriginRejected, h.asOwner(h.cookie), e)
		}
		if o.Method == "GET" {
			continue
		}
		ask("no origin", 403, edge.OriginRejected, h.asOwner(h.cookie), drop("Origin"), drop("X-Halfspan-Owner"))
		if family(o.Path) == "project" {
			continue
		}
		ask("no owner header", 403, edge.OwnerHeaderRequired, h.asOwner(h.cookie), drop("X-Halfspan-Owner"), set("Content-Type", "text/plain"))
		ask("owner header 0", 403, edge.OwnerHeaderRequired, h.asOwner(h.cookie), set("X-Halfspan-Owner", "0"))
	}
	if n := h.total(c.run); n != before {
		t.Errorf("%d events, before %d", n, before)
	}
	if n := p.recorded(); n != projects {
		t.Errorf("of the project:\n%s\nbefore:\n%s", n, projects)
	}
	if a := c.ask("GET", "/capabilities", nil); a.text("status") != "ready" {
		t.Errorf("a token on owner routes is no misuse (L-6), yet the run is %s", a.text("status"))
	}
}

// H-088 H-164 G-20: content type before schema before 404 before 409.
func TestOwnerOrderOfBodies(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const unknown = "01940e2e-7c00-7000-8000-000000000001"
	ended := h.create("local")
	h.owner("POST", "/runs/"+ended+"/revoke", nil).is(t, "revoke", 200, "")
	for _, c := range []struct {
		name, method, path string
		body               any
		edit               edit
		status             int
		reason             string
	}{
		{"type", "POST", "/runs/" + unknown + "/session", []byte("{"), set("Content-Type", "text/plain"), 415, edge.ContentTypeRejected},
		{"schema", "POST", "/runs/" + unknown + "/session", []byte(`{"a":1}`), nil, 400, "INVALID_REQUEST"},
		{"no id", "POST", "/runs/7/session", nil, nil, 400, "INVALID_REQUEST"},
		{"not found", "POST", "/runs/" + unknown + "/session", nil, nil, 404, "NOT_FOUND"},
		{"state", "POST", "/runs/" + ended + "/session", nil, nil, 409, "RUN_NOT_READY"},
		{"revoke unknown", "POST", "/runs/" + unknown + "/revoke", nil, nil, 404, "NOT_FOUND"},
		{"revoke again", "POST", "/runs/" + ended + "/revoke", nil, nil, 200, ""},
		{"view unknown", "GET", "/runs/" + unknown, nil, nil, 404, "NOT_FOUND"},
		{"view no id", "GET", "/runs/x", nil, nil, 400, "INVALID_REQUEST"},
		{"evidence unknown", "GET", "/runs/" + unknown + "/evidence", nil, nil, 404, "NOT_FOUND"},
		{"events unknown", "GET", "/runs/" + unknown + "/events", nil, nil, 404, "NOT_FOUND"},
		{"unknown parameter", "GET", "/runs?all=1", nil, nil, 400, "INVALID_REQUEST"},
		{"parameter twice", "GET", "/runs?limit=1&limit=2", nil, nil, 400, "INVALID_REQUEST"},
		{"body where none is taken", "GET", "/runs/" + ended, []byte("{}"), nil, 400, "INVALID_REQUEST"},
	} {
		edits := []edit{}
		if c.edit != nil {
			edits = append(edits, c.edit)
		}
		h.owner(c.method, c.path, c.body, edits...).is(t, c.name, c.status, c.reason)
	}
}

// H-026 H-129 H-139, on every agent route: only the run's live token authenticates, and
// it does so before the body is looked at.
func TestAgentAuthentication(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.agent("local")
	former := c.token
	c.token = h.issue(c.run)
	before := h.total(c.run)
	for _, o := range routes(c.run, "agent") {
		for what, e := range map[string]edit{
			"nothing":                func(*http.Request) {},
			"the owner's cookie":     h.asOwner(h.cookie),
			"the token as cookie":    cookie(c.token),
			"the cookie as token":    set("Authorization", "Bearer "+h.cookie),
			"the secret as token":    set("Authorization", "Bearer "+h.secret),
			"a well-formed unknown":  set("Authorization", "Bearer cs_run_"+strings.Repeat("A", 43)),
			"the former token":       set("Authorization", "Bearer "+former),
			"another scheme":         set("Authorization", "Basic "+c.token),
			"no scheme":              set("Authorization", c.token),
			"no token":               set("Authorization", "Bearer "),
			"the token in the query": func(r *http.Request) { r.URL.RawQuery = "access_token=" + c.token },
			"two tokens": func(r *http.Request) {
				r.Header["Authorization"] = []string{"Bearer " + c.token, "Bearer " + c.token}
			},
		} {
			var body any
			if o.RequestBody != nil {
				body = []byte("{")
			}
			a := h.do(o.Method, o.path, body, e, set("Content-Type", "text/plain"))
			a.is(t, o.ID+": "+what, 401, edge.AuthenticationRequired)
			if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s: %s: WWW-Authenticate %q", o.ID, what, a.header.Get("WWW-Authenticate"))
			}
		}
	}
	if n := h.total(c.run); n != before {
		t.Errorf("%d events, before %d", n, before)
	}
	// Cookies are not looked at, whatever they hold.
	for _, value := range []string{h.cookie, "x", c.token} {
		c.ask("GET", "/capabilities", nil, cookie(value), set("Origin", "http://evil.example")).is(t, "a cookie beside the token", 200, "")
	}
	c.cycle("merchant.catalog")
}

// A token lives no longer than the grant, of 60 minutes at most (G-07).
func TestTokenExpires(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	c := h.agent("local")
	expires := h.view(c.run)["grants"].([]any)[0].(map[string]any)["expiresAt"]
	session := h.view(c.run)["session"].(map[string]any)
	if session["expiresAt"].(string) > expires.(string) || session["origin"] != h.origin {
		t.Errorf("session %v, grant until %v", session, expires)
	}
	h.clock.Move(59 * minute)
	c.ask("GET", "/capabilities", nil).is(t, "a minute before", 200, "")
	h.clock.Move(minute)
	c.ask("GET", "/capabilities", nil).is(t, "at the end of the grant", 401, edge.AuthenticationRequired)
}

// H-022: the owner's session ends with signing out and after 12 hours.
func TestOwnerSessionEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	second := h.signIn()
	h.do("DELETE", ownerPrefix+"/session", nil, h.asOwner(second)).is(t, "sign out", 204, "")
	h.do("GET", ownerPrefix+"/status", nil, h.asOwner(second)).is(t, "signed out", 401, edge.AuthenticationRequired)
	h.owner("GET", "/status", nil).is(t, "the other session", 200, "")
	h.clock.Move(12*60*minute - time.Millisecond)
	h.owner("GET", "/status", nil).is(t, "a millisecond before", 200, "")
	h.clock.Move(time.Millisecond)
	h.owner("GET", "/status", nil).is(t, "after 12 hours", 401, edge.AuthenticationRequired)
}

// Five wrong secrets a minute, then 429 for each further one. The right one is taken
// from the same address all the while, and its session freezes.
func TestWrongSecrets(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	try := func(secret string) answer {
		return h.do("POST", ownerPrefix+"/session", map[string]any{"secret": secret}, h.asOwner(""))
	}
	for i := range 5 {
		a := try(fmt.Sprintf("wrong-%d", i))
		a.is(t, "wrong secret", 401, edge.AuthenticationRequired)
		if a.header.Get("Set-Cookie") != "" {
			t.Error("a wrong secret sets a cookie")
		}
	}
	a := try("wrong")
	a.is(t, "the sixth", 429, edge.RateLimited)
	if a.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	h.do("POST", ownerPrefix+"/freeze", map[string]any{"reason": "An agent keeps signing in."}, h.asOwner(h.signIn())).is(t, "the owner freezes", 200, "")
	try("wrong").is(t, "the seventh", 429, edge.RateLimited)
	h.clock.Move(minute)
	try("wrong").is(t, "a minute later", 401, edge.AuthenticationRequired)
}

// What the session cookie is (G-20).
func TestOwnerCookie(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.do("POST", ownerPrefix+"/session", map[string]any{"secret": h.secret}, h.asOwner(""))
	cookies := (&http.Response{Header: a.header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies", len(cookies))
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*60*60 || c.Secure {
		t.Errorf("cookie %+v", c)
	}
	if len(c.Value) != 43 || strings.Contains(string(a.body), c.Value) {
		t.Errorf("want 256 bits in the cookie and nowhere else")
	}
}
