package channel_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/channel/edge"
)

// logs keeps what is logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// stored is everything in the folder of the control plane.
func (h *house) stored() string {
	h.t.Helper()
	var all strings.Builder
	must(h.t, filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		all.Write(raw)
		return err
	}))
	return all.String()
}

// export is the signed evidence of the project or of something of it.
func (p *project) export(path string) *evidence.Export {
	p.t.Helper()
	a := p.projects("GET", "/"+p.id+path+"/evidence", nil)
	a.is(p.t, path, 200, "")
	e, err := evidence.ReadExport(bytes.NewReader(a.body))
	must(p.t, err)
	return e
}

var tokenForm = regexp.MustCompile(`^seif_[A-Za-z0-9_-]{43}$`)

// S-018 S-019 S-020 S-021 S-022: the owner's route creates a named client with what its
// body says of it, which its evidence says too; a name that only looks like one is refused.
func TestCreateClient(t *testing.T) {
	t.Parallel()
	p := newHouse(t).project("support")
	body := map[string]any{"name": "My application gateway", "kind": "custom", "profile": "support", "environment": "production", "turnProtocol": "required"}
	a := p.projects("POST", "/"+p.id+"/mcp/clients", body)
	a.is(t, "create", 201, "")
	client := a.members()["client"].(map[string]any)
	created := p.export("/mcp/clients/" + client["id"].(string)).Events[0]
	if created.Type != "client.created" {
		t.Fatalf("the chain begins with %s", created.Type)
	}
	said := decoded(t, created.Data).(map[string]any)
	for name, want := range body {
		if client[name] != want || said[name] != want {
			t.Errorf("%s: %v in the answer, %v in the evidence, want %v", name, client[name], said[name], want)
		}
	}
	for what, change := range map[string]map[string]any{
		"no name": {"name": "  "}, "a name that turns a line around": {"name": "a\u202eb"}, "a long name": {"name": strings.Repeat("x", 101)},
		"another kind": {"kind": "owner"}, "the shared kind": {"kind": "shared"}, "a profile": {"profile": "Support"}, "an environment": {"environment": "test"},
		"another protocol": {"turnProtocol": "optional"}, "a bridge with turns": {"kind": "bridge"}, "a member of nobody": {"owner": true},
	} {
		bad := maps.Clone(body)
		maps.Copy(bad, change)
		p.projects("POST", "/"+p.id+"/mcp/clients", bad).is(t, what, 400, "INVALID_REQUEST")
	}
	if n := len(p.projects("GET", "/"+p.id+"/mcp/clients", nil).members()["clients"].([]any)); n != 5 {
		t.Errorf("%d clients, want the 5 that were made", n)
	}
}

// S-016: only the owner's session creates a client, or does anything else with a project:
// no token of whatever kind does, no request from elsewhere, and not both together.
func TestOnlyTheOwner(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p, run := h.project("support"), h.agent("local")
	open := h.beside(config{without: "owner"})
	before := p.recorded()
	shared := p.projects("POST", "/"+p.id+"/token", map[string]any{"environment": "staging", "profile": "support"}).text("token")
	body := map[string]any{"name": "Mine", "kind": "custom", "profile": "support", "environment": "production"}
	path := "/api/projects/" + p.id + "/mcp/clients"
	bearer := func(token string) edit { return set("Authorization", "Bearer "+token) }
	for what, c := range map[string]struct {
		edit   edit
		status int
		reason string
	}{
		"a client":                       {both(h.asProjectOwner(""), bearer(p.token)), 403, edge.BearerOnOwnerRoute},
		"a client without turns":         {both(h.asProjectOwner(""), bearer(p.plainToken)), 403, edge.BearerOnOwnerRoute},
		"a bridge":                       {both(h.asProjectOwner(""), bearer(p.bridgeToken)), 403, edge.BearerOnOwnerRoute},
		"the shared token":               {both(h.asProjectOwner(""), bearer(shared)), 403, edge.BearerOnOwnerRoute},
		"a run":                          {both(h.asProjectOwner(""), bearer(run.token)), 403, edge.BearerOnOwnerRoute},
		"a client beside the owner":      {both(h.asProjectOwner(h.cookie), bearer(p.token)), 403, edge.BearerOnOwnerRoute},
		"nobody":                         {h.asProjectOwner(""), 401, edge.AuthenticationRequired},
		"a client's token as the cookie": {h.asProjectOwner(p.token), 401, edge.AuthenticationRequired},
		"the owner from another site":    {both(h.asProjectOwner(h.cookie), set("Origin", "http://evil.example")), 403, edge.OriginRejected},
		"the owner from nowhere":         {both(h.asProjectOwner(h.cookie), drop("Origin")), 403, edge.OriginRejected},
		"the owner from another frame":   {both(h.asProjectOwner(h.cookie), set("Sec-Fetch-Site", "same-site")), 403, edge.OriginRejected},
	} {
		h.do("POST", path, body, c.edit).is(t, what, c.status, c.reason)
		if what == "the owner from nowhere" {
			continue // it may read
		}
		h.do("GET", path, nil, c.edit).is(t, what+" reads", c.status, c.reason)
		// Control: without the guard the same request reads.
		open.do("GET", path, nil, c.edit).is(t, "control: "+what, 200, "")
	}
	clients := func(of string) int { return strings.Count(of, `"id":"cli_`) }
	if after := p.recorded(); clients(after) != clients(before) || clients(before) != 3 {
		t.Errorf("now\n%s\nbefore\n%s", after, before)
	}
	h.do("POST", path, body, h.asProjectOwner(h.cookie)).is(t, "control: the owner", 201, "")
}

// S-014 S-023: turnProtocol required opts in: every request for context carries a turn, and
// the client may open one. Without it context is handed out and recorded as of no turn.
func TestOptIn(t *testing.T) {
	t.Parallel()
	p := newHouse(t).project("support")
	for protocol, want := range map[string]string{"required": "turn_required 201", "absent": "200 turn_protocol_not_enabled"} {
		made := p.create(protocol, "custom", protocol)
		made.is(t, protocol, 201, "")
		token := made.text("token")
		said := func(a answer) string {
			if a.reason() != "" {
				return a.reason()
			}
			return fmt.Sprint(a.status)
		}
		read := p.ask(token, "/resolve", map[string]any{"ref": "refunds"})
		if got := said(read) + " " + said(p.ask(token, "/turns/start", map[string]any{}, key())); got != want {
			t.Errorf("%s: %s, want %s", protocol, got, want)
		}
		if protocol == "absent" {
			a := p.projects("GET", "/"+p.id+"/interactions/"+interaction(read.members()), nil)
			a.is(t, "its record", 200, "")
			if m := a.members(); m["turnId"] != nil || m["delivered"] != true || m["client"] != made.members()["client"].(map[string]any)["id"] {
				t.Errorf("recorded %s", a.body)
			}
		}
	}
}

// S-017 S-024 S-025: a token is in the answer that issues it and nowhere else: not in the
// folder of the control plane, which has its SHA-256, not in what the owner reads, not in
// the log, not in the evidence.
func TestTokenShownOnce(t *testing.T) {
	t.Parallel()
	log := &logs{}
	p := newHouse(t, func(c *config) { c.log = log }).project("support")
	a := p.create("Second", "custom", "absent")
	id := a.members()["client"].(map[string]any)["id"].(string)
	tokens := map[string]string{"created": a.text("token")}
	answers := []answer{a}
	for what, path := range map[string]string{"rotated": "/mcp/clients/" + id + "/rotate", "shared": "/token"} {
		var body any
		if what == "shared" {
			body = map[string]any{"environment": "production", "profile": "support"}
		}
		a := p.projects("POST", "/"+p.id+path, body)
		a.is(t, what, 200, "")
		tokens[what], answers = a.text("token"), append(answers, a)
	}
	p.ask(tokens["created"], "/doctor", map[string]any{}).is(t, "the former token", 401, "token_invalid")
	p.ask(tokens["rotated"], "/doctor", map[string]any{}).is(t, "the next token", 200, "")
	p.projects("POST", "/"+p.id+"/mcp/clients/"+id+"/revoke", nil).is(t, "revoke", 200, "")
	p.ask(tokens["rotated"], "/doctor", map[string]any{}).is(t, "revoked", 401, "token_invalid")

	places := map[string]string{"the folder": p.stored(), "the log": log.String(), "what the owner reads": p.recorded()}
	for _, chain := range []string{"", "/mcp/clients/" + id, "/mcp/clients/" + p.client, "/turns/" + p.named["context turn"]} {
		places["the evidence of "+chain] = string(p.projects("GET", "/"+p.id+chain+"/evidence", nil).body)
	}
	tokens["of the house"] = p.token
	for what, token := range tokens {
		if !tokenForm.MatchString(token) {
			t.Errorf("%s: not a token", what)
		}
		for place, text := range places {
			if strings.Contains(text, token) || strings.Contains(text, strings.TrimPrefix(token, "seif_")) {
				t.Errorf("the %s token is in %s", what, place)
			}
		}
		if !strings.Contains(places["the folder"], canon.Hash([]byte(token))) {
			t.Errorf("the hash of the %s token is not in the folder", what)
		}
	}
	for _, a := range answers {
		if n := len(regexp.MustCompile(`seif_`).FindAll(a.body, -1)); n != 1 {
			t.Errorf("a token stands %d times in\n%s", n, a.body)
		}
	}
	// Control: what is in the folder is found there.
	if !strings.Contains(places["the folder"], "Second") {
		t.Error("control: the client's name is not found in the folder")
	}
}

// S-015: the shared token reads context and opens no turn, because it names no single
// invoker. The next one ends it, and its profile never changes.
func TestSharedToken(t *testing.T) {
	t.Parallel()
	p := newHouse(t).project("support")
	issue := func(profile string) answer {
		return p.projects("POST", "/"+p.id+"/token", map[string]any{"environment": "production", "profile": profile})
	}
	first := issue("support")
	first.is(t, "issue", 200, "")
	find := func(token string) answer { return p.ask(token, "/find", map[string]any{"query": "money"}) }
	find(first.text("token")).is(t, "read", 200, "")
	p.ask(first.text("token"), "/turns/start", map[string]any{}, key()).is(t, "start", 403, "named_client_required")
	p.ask(first.text("token"), "/find", map[string]any{"query": "money"}, set("X-SEIF-Turn-Id", p.named["context turn"])).is(t, "within a turn", 403, "named_client_required")
	second := issue("support")
	second.is(t, "issue again", 200, "")
	if second.text("clientId") != first.text("clientId") || second.text("token") == first.text("token") {
		t.Error("the second is not the next token of the same client")
	}
	find(first.text("token")).is(t, "the former", 401, "token_invalid")
	find(second.text("token")).is(t, "the next", 200, "")
	issue("sales").is(t, "another profile", 409, "ALREADY_EXISTS")
	find(second.text("token")).is(t, "after a refusal", 200, "")
	p.ask(p.token, "/turns/start", map[string]any{}, key()).is(t, "control: a named client", 201, "")
}

// S-029 S-030: context is at /HANDLE/SLUG for production, and at /HANDLE/SLUG/staging for
// staging: each hands out what was published for it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	p := newHouse(t).project("support")
	p.publish("staging", true, documents[1]).is(t, "a manifest without what its case expects", 400, "INVALID_REQUEST")
	p.publish("staging", true, documents[0]).is(t, "draft", 201, "")
	made := p.projects("POST", "/"+p.id+"/mcp/clients", map[string]any{"name": "Staging", "kind": "mcp", "profile": "support", "environment": "staging"})
	made.is(t, "client", 201, "")
	for _, c := range []struct {
		path, token string
		documents   int
		number      float64
		status      int
		reason      string
	}{
		{"/acme/support/context/find", p.plainToken, 1, 1, 200, ""},
		{"/acme/support/staging/context/find", made.text("token"), 0, 0, 200, ""},
		{"/acme/support/staging/context/find", p.plainToken, 0, 0, 403, "environment_mismatch"},
		{"/acme/support/context/find", made.text("token"), 0, 0, 403, "environment_mismatch"},
		{"/acme/sales/context/find", p.plainToken, 0, 0, 404, "project_not_found"},
		{"/support/acme/context/find", p.plainToken, 0, 0, 404, "project_not_found"},
	} {
		a := p.do("POST", c.path, map[string]any{"query": "parcels"}, set("Authorization", "Bearer "+c.token))
		a.is(t, c.path, c.status, c.reason)
		if a.status != 200 {
			continue
		}
		build := a.members()["interaction"].(map[string]any)["build"].(map[string]any)
		if items := a.members()["items"].([]any); len(items) != c.documents || build["number"] != c.number {
			t.Errorf("%s: %d items of Build %v, want %d of %v", c.path, len(items), build["number"], c.documents, c.number)
		}
	}
}

// Publishing makes the next Build and says what it changes; the same again changes nothing.
func TestPublishBuild(t *testing.T) {
	t.Parallel()
	p := newHouse(t).project("support")
	changed := strings.Replace(documents[0], "five days", "seven days", 1)
	third := "---\nid: returns\ntitle: Returns\n---\nSend it back within thirty days.\n"
	p.publish("production", false, changed, third).is(t, "a document that is not stored", 400, "INVALID_REQUEST")
	p.projects("POST", "/"+p.id+"/documents", map[string]any{"documents": []any{map[string]any{"text": changed}, map[string]any{"text": third}}}).is(t, "documents", 200, "")
	counts := func(a answer) string {
		m := a.members()
		return fmt.Sprintf("%v %v %v %v", m["number"], m["draft"], m["unchanged"], m["changes"])
	}
	const none = "map[added:0 changed:0 removed:0]"
	for i, c := range []struct {
		environment string
		draft       bool
		documents   []string
		want        string
	}{
		{"production", false, documents, "1 false true " + none},
		{"production", false, []string{changed, third}, "2 false false map[added:1 changed:1 removed:1]"},
		{"production", false, []string{third, changed}, "2 false true " + none}, // the order is nothing
		{"production", false, documents, "3 false false map[added:1 changed:1 removed:1]"},
		{"staging", true, []string{changed}, "0 true false map[added:0 changed:1 removed:1]"},
		{"staging", true, []string{changed}, "0 true true " + none},
		{"staging", false, []string{changed}, "2 false false " + none}, // of what was a draft
	} {
		a := p.publish(c.environment, c.draft, c.documents...)
		a.is(t, fmt.Sprint(i), 201, "")
		if got := counts(a); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
	p.publish("production", true, documents...).is(t, "a draft of production", 400, "INVALID_REQUEST")
	var types []string
	for _, e := range p.export("").Events {
		types = append(types, e.Type)
	}
	want := []string{"project.opened", "build.published", "build.published", "build.published", "build.published", "draft.saved", "build.published"}
	if !slices.Equal(types, want) {
		t.Errorf("recorded %v, want %v", types, want)
	}
	// What is stored is not missing, in any order; a hash that is none is refused.
	absent, present := strings.Repeat("0", 64), canon.Hash([]byte(third))
	a := p.projects("POST", "/"+p.id+"/documents/missing", map[string]any{"sha256": []string{absent, present}})
	a.is(t, "missing", 200, "")
	if got := fmt.Sprint(a.members()["missing"]); got != "["+absent+"]" {
		t.Errorf("missing %s", got)
	}
	p.projects("POST", "/"+p.id+"/documents/missing", map[string]any{"sha256": []string{"00"}}).is(t, "no hash", 400, "INVALID_REQUEST")
	p.projects("POST", "/"+p.id+"/documents", map[string]any{"documents": []any{map[string]any{"text": third, "sha256": absent}}}).is(t, "another hash", 400, "INVALID_REQUEST")
}

// Lists go on where they end, and have each thing once.
func TestProjectPages(t *testing.T) {
	t.Parallel()
	p := newHouse(t).project("support")
	for i := range 3 {
		p.create(fmt.Sprint("client ", i), "custom", "absent").is(t, "client", 201, "")
		p.ask(p.token, "/turns/start", map[string]any{}, key()).is(t, "start", 201, "")
		p.ask(p.plainToken, "/find", map[string]any{"query": "money"}).is(t, "find", 200, "")
		p.ask(p.plainToken, "/report-gap", map[string]any{"task": fmt.Sprint("gap ", i)}).is(t, "gap", 201, "")
	}
	for list, want := range map[string]int{"mcp/clients": 7, "turns": 4, "interactions": 10, "gaps": 4} {
		member := strings.TrimPrefix(list, "mcp/")
		seen := map[string]bool{}
		for before, pages := "", 0; ; pages++ {
			a := p.projects("GET", "/"+p.id+"/"+list+"?limit=2"+before, nil)
			a.is(t, list, 200, "")
			page := a.members()[member].([]any)
			for _, row := range page {
				id := row.(map[string]any)["id"].(string)
				if seen[id] {
					t.Errorf("%s: %s stands twice", list, id)
				}
				seen[id] = true
			}
			if len(page) > 2 || pages > want {
				t.Fatalf("%s: %d rows on page %d", list, len(page), pages)
			}
			next := a.text("nextCursor")
			if next == "" {
				break
			}
			before = "&before=" + next
		}
		if len(seen) != want {
			t.Errorf("%s: %d rows, want %d", list, len(seen), want)
		}
	}
	for _, query := range []string{"limit=0", "limit=101", "before=x", "before=trn_" + strings.Repeat("g", 32)} {
		p.projects("GET", "/"+p.id+"/turns?"+query, nil).is(t, query, 400, "INVALID_REQUEST")
	}
	for status, want := range map[string]int{"OPEN": 4, "REPORTED_FAILED": 0} {
		a := p.projects("GET", "/"+p.id+"/turns?client="+p.client+"&status="+status, nil)
		if n := len(a.members()["turns"].([]any)); n != want {
			t.Errorf("%s: %d turns, want %d", status, n, want)
		}
	}
	if a := p.projects("GET", "/"+p.id+"/interactions?turn="+p.named["context turn"], nil); len(a.members()["interactions"].([]any)) != 2 {
		t.Errorf("interactions of the turn: %s", a.body)
	}
}

// Bodies that are bad in every way of the grammar, on every route of projects that takes
// one: refused, with the place, and nothing is stored.
func TestBadProjectBodies(t *testing.T) {
	t.Parallel()
	h := newHouse(t, standing)
	p := h.project("support")
	// The marks stand in a text and a number that a good body may have.
	entry := map[string]any{"ref": "refunds", "title": textMark, "sha256": canon.Hash([]byte(documents[0])), "bytes": numberMark}
	bodies := map[string]map[string]any{
		"create-project":     {"handle": "acme", "slug": textMark},
		"store-documents":    {"documents": []any{map[string]any{"text": textMark}}},
		"missing-documents":  {"sha256": []any{strings.Repeat("0", 64)}},
		"publish-build":      {"environment": "staging", "draft": true, "manifest": map[string]any{"format": "countersign-build/1", "documents": []any{entry}, "cases": []any{}}},
		"issue-shared-token": {"environment": "production", "profile": textMark},
		"create-client":      {"name": textMark, "kind": "custom", "profile": "support", "environment": "production", "turnProtocol": "required"},
		"rotate-client":      {},
		"revoke-client":      {},
	}
	before, tried := p.recorded(), 0
	for _, r := range p.routes() {
		if r.RequestBody == nil {
			continue
		}
		good, known := bodies[r.ID]
		if !known {
			t.Errorf("%s takes a body and has no row", r.ID)
			continue
		}
		list := badBodies(good)
		if len(good) > 0 {
			list = append(list, badBody{"empty", []byte{}})
		}
		for _, bad := range list {
			tried++
			a := h.do(r.Method, r.path, bad.raw, h.asProjectOwner(h.cookie))
			a.is(t, r.ID+": "+bad.name, 400, "INVALID_REQUEST")
			if a.text("detail") == "" || len(a.named()) == 0 {
				t.Errorf("%s: %s: no detail or no place\n%s", r.ID, bad.name, a.body)
			}
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=iso-8859-1"} {
			h.do(r.Method, r.path, mustJSON(good), h.asProjectOwner(h.cookie), set("Content-Type", kind)).is(t, r.ID+": "+kind, 415, edge.ContentTypeRejected)
		}
		bound := edge.MaxBody
		if r.ID == "store-documents" || r.ID == "publish-build" {
			bound = edge.LargestBody
		}
		h.do(r.Method, r.path, padded(mustJSON(good), bound+1), h.asProjectOwner(h.cookie)).is(t, r.ID+": over the bound", 413, edge.BodyTooLarge)
		if r.ID != "rotate-client" && r.ID != "revoke-client" { // at the bound it is read, and refused for what it says
			a := h.do(r.Method, r.path, padded(join(`{"zzz":1,`, mustJSON(good)[1:]), bound), h.asProjectOwner(h.cookie))
			a.is(t, r.ID+": at the bound", 400, "INVALID_REQUEST")
		}
	}
	if tried < 200 {
		t.Errorf("%d bodies", tried)
	}
	if after := p.recorded(); after != before {
		t.Errorf("now\n%s\nbefore\n%s", after, before)
	}
}

// Texts of a project's documents that nobody could read are refused, and none of them is
// stored.
func TestBadDocuments(t *testing.T) {
	t.Parallel()
	p := newHouse(t).project("support")
	good := "---\nid: gift-cards\ntitle: Gift cards\n---\nThey are good for three years.\n"
	for what, bad := range map[string]string{
		"no front matter": "Gift cards.\n", "no title": "---\nid: a\n---\ntext\n", "an unknown key": "---\nid: a\ntitle: b\nowner: c\n---\ntext\n",
		"no text": "---\nid: a\ntitle: b\n---\n", "too long": "---\nid: a\ntitle: b\n---\n" + strings.Repeat("x", 256<<10),
	} {
		a := p.projects("POST", "/"+p.id+"/documents", map[string]any{"documents": []any{map[string]any{"text": good}, map[string]any{"text": bad}}})
		a.is(t, what, 400, "INVALID_REQUEST")
		if len(a.named()) == 0 || !strings.HasPrefix(a.named()[0], "body.documents[1]") {
			t.Errorf("%s: errors name %v", what, a.named())
		}
	}
	hash := canon.Hash([]byte(good))
	a := p.projects("POST", "/"+p.id+"/documents/missing", map[string]any{"sha256": []string{hash}})
	if got := fmt.Sprint(a.members()["missing"]); got != "["+hash+"]" {
		t.Errorf("missing %s, want the good document of a refused batch", got)
	}
}
