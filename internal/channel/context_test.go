package channel_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"countersign/internal/channel/edge"
	contexts "countersign/internal/contextturn/project"
)

// open opens a turn of the project's client and returns its id.
func (p *project) open() string {
	p.t.Helper()
	s := p.ask(p.token, "/turns/start", map[string]any{}, key())
	s.is(p.t, "start", 201, "")
	return s.members()["turn"].(map[string]any)["id"].(string)
}

// in is the header of a turn.
func inTurn(turn string) edit { return set("X-SEIF-Turn-Id", turn) }

// contextBodies are good bodies of the operations of clients, by the end of their id.
var contextBodies = map[string]map[string]any{
	"start-context-turn":    {"clientRef": "job-7"},
	"context-compass":       {"task": "Is the money back on the card?"},
	"context-resolve":       {"ref": "refunds"},
	"context-find":          {"query": "refunds", "limit": 5},
	"context-why":           {"ref": "refunds"},
	"context-report-gap":    {"task": "Refunds abroad", "detail": "Nothing on customs."},
	"context-test":          {"caseId": "card-refund"},
	"context-doctor":        {},
	"observe-context-turn":  {"event": "pre_tool_use", "tool": "mcp__seif__context_compass", "toolUseId": "toolu_01"},
	"complete-context-turn": {"status": "completed", "note": "The provider answered."},
	"record-bridge-receipt": {"kind": "file.read", "digest": strings.Repeat("0a", 32)},
}

// contextRoute is an operation of clients with the path of a turn.
type contextRoute struct {
	route
	name string // of the operation, without what its environment adds
}

func (r contextRoute) body() map[string]any { return contextBodies[r.name] }

// tool reports whether a turn is named in a header and not in the path.
func (r contextRoute) tool() bool { return strings.HasPrefix(r.name, "context-") }

// contextRoutes are the operations of clients.
func contextRoutes(turn string) (list []contextRoute) {
	fill := strings.NewReplacer("{handle}", "acme", "{project}", "support", "{environment}", "production", "{id}", turn)
	for _, o := range document().operations {
		if strings.HasPrefix(o.Path, "/{handle}/") {
			list = append(list, contextRoute{route{o, fill.Replace(o.Path)}, strings.TrimSuffix(o.ID, "-in-environment")})
		}
	}
	return list
}

// tokenFor is the token of a client by which the operation is taken.
func (p *project) tokenFor(r contextRoute) string {
	if r.name == "record-bridge-receipt" {
		return p.bridgeToken
	}
	return p.token
}

// S-026 S-065, on every route of clients: only a client's own live token authenticates,
// before the body is looked at. It opens nothing else.
func TestContextAuthentication(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p, run := h.project("support"), h.agent("local")
	other := func(act string) string {
		c := p.create(act, "custom", "required")
		c.is(t, "client", 201, "")
		h.projects("POST", "/"+p.id+"/mcp/clients/"+c.members()["client"].(map[string]any)["id"].(string)+"/"+act, map[string]any{}).is(t, act, 200, "")
		return c.text("token")
	}
	former, revoked := other("rotate"), other("revoke")
	turn := p.open()
	if n := len(contextRoutes(turn)); n != 2*len(contextBodies) {
		t.Fatalf("%d operations of clients, want %d", n, 2*len(contextBodies))
	}
	for _, r := range contextRoutes(turn) {
		own := p.tokenFor(r)
		for what, c := range map[string]struct {
			edit   edit
			reason string
		}{
			"nothing":                {func(*http.Request) {}, "token_missing"},
			"the owner's cookie":     {h.asOwner(h.cookie), "token_missing"},
			"the token as cookie":    {cookie(own), "token_missing"},
			"another scheme":         {set("Authorization", "Basic "+own), "token_missing"},
			"no scheme":              {set("Authorization", own), "token_missing"},
			"two tokens":             {func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + own, "Bearer " + own} }, "token_missing"},
			"the cookie as token":    {set("Authorization", "Bearer "+h.cookie), "token_invalid"},
			"the secret as token":    {set("Authorization", "Bearer "+h.secret), "token_invalid"},
			"a run's token":          {set("Authorization", "Bearer "+run.token), "token_invalid"},
			"a well-formed unknown":  {set("Authorization", "Bearer seif_"+strings.Repeat("A", 43)), "token_invalid"},
			"the former token":       {set("Authorization", "Bearer "+former), "token_invalid"},
			"a revoked client's":     {set("Authorization", "Bearer "+revoked), "token_invalid"},
			"the token in the query": {func(r *http.Request) { r.URL.RawQuery = "access_token=" + own }, "token_missing"},
		} {
			a := h.do(r.Method, r.path, []byte("{"), c.edit)
			a.is(t, r.ID+": "+what, 401, c.reason)
			if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s: %s: WWW-Authenticate %q", r.ID, what, a.header.Get("WWW-Authenticate"))
			}
		}
	}
	// Cookies beside the token are not looked at.
	p.ask(p.token, "/doctor", map[string]any{}, inTurn(turn), cookie("x"), set("Origin", "http://evil.example")).is(t, "a cookie beside the token", 200, "")
	// A client's token is no run's; that it is no owner's either is another test's.
	for _, o := range routes(run.run, "agent") {
		h.do(o.Method, o.path, nil, set("Authorization", "Bearer "+p.token)).is(t, o.ID+": a client's token", 401, edge.AuthenticationRequired)
	}
}

// The first segment of every route that the server has is a handle that no project can
// have, so that no project hides a route, nor a route a project.
func TestReservedHandles(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	seen := map[string]bool{}
	for _, pattern := range append(h.api.Routes(), "GET /healthz", "GET /readyz", "GET /metrics") {
		_, path, _ := strings.Cut(pattern, " ")
		first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if first == "" || strings.HasPrefix(first, "{handle}") || first == "{$}" {
			continue
		}
		seen[first] = true
		if contexts.IsHandle(first) {
			t.Errorf("%s: a project can have the handle %q", pattern, first)
		}
	}
	if len(seen) < 5 || !seen["api"] {
		t.Errorf("the routes begin with %v", sortedKeys(seen))
	}
	for _, handle := range contexts.Reserved {
		h.projects("POST", "", map[string]any{"handle": handle, "slug": "support"}).is(t, handle, 400, "INVALID_REQUEST")
	}
	// Control: a handle that is not reserved is taken.
	h.projects("POST", "", map[string]any{"handle": "apis", "slug": "support"}).is(t, "another handle", 201, "")
}

// Bodies outside the grammar, on every route of clients: refused with the place and
// without a value, and nothing is stored.
func TestBadContextBodies(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	p := h.project("support")
	turn := p.open()
	before, tried := p.recorded(), 0
	for _, r := range contextRoutes(turn) {
		who := []edit{set("Authorization", "Bearer "+p.tokenFor(r)), key()}
		if r.tool() {
			who = append(who, inTurn(turn))
		}
		for _, bad := range badBodies(r.body()) {
			tried++
			a := h.do(r.Method, r.path, bad.raw, who...)
			// A member in another case is one that is missing, or that nobody knows.
			if a.status == 413 && a.reason() == "too_large" && len(bad.raw) > 4<<10 {
				continue
			}
			if a.status != 400 || a.reason() != "body_invalid" && a.reason() != "unknown_field" {
				t.Errorf("%s: %s: %d %s\n%s", r.ID, bad.name, a.status, a.reason(), a.body)
			}
			if len(a.named()) == 0 {
				t.Errorf("%s: %s: no place\n%s", r.ID, bad.name, a.body)
			}
		}
	}
	if tried < 300 {
		t.Errorf("%d bodies", tried)
	}
	if after := p.recorded(); after != before {
		t.Errorf("of the project:\n%s\nbefore:\n%s", after, before)
	}
}

// The rule of TestQueryOfEveryRoute, on the routes of clients, which know no parameter.
func TestQueryOfContextRoutes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p := h.project("support")
	turn := p.open()
	before := p.recorded()
	for _, r := range contextRoutes(turn) {
		who := []edit{set("Authorization", "Bearer "+p.tokenFor(r)), key()}
		if r.tool() {
			who = append(who, inTurn(turn))
		}
		for query, want := range map[string]string{
			"zzz=1": "unknown_field [query.zzz]", "zzz=": "unknown_field [query.zzz]", "zzz": "unknown_field [query.zzz]", "zzz=1&zzz=1": "unknown_field [query.zzz]",
			"zzz=1&aaa=": "unknown_field [query.aaa query.zzz]", "=1": "unknown_field [query.]", "a=%zz": "body_invalid [query]",
		} {
			a := h.do(r.Method, r.path+"?"+query, r.body(), who...)
			if got := fmt.Sprint(a.reason(), " ", a.named()); a.status != 400 || got != want {
				t.Errorf("%s ?%s: %d %s, want %s", r.ID, query, a.status, got, want)
			}
		}
	}
	if after := p.recorded(); after != before {
		t.Errorf("of the project:\n%s\nbefore:\n%s", after, before)
	}
	for _, r := range contextRoutes(turn) {
		if r.name == "context-doctor" {
			h.do(r.Method, r.path+"?", r.body(), set("Authorization", "Bearer "+p.token), inTurn(turn)).is(t, "an empty query", 200, "")
		}
	}
}
