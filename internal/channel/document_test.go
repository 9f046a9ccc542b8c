package channel_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"countersign/api"
	"countersign/internal/authority"
	"countersign/internal/channel"
	"countersign/internal/channel/edge"
)

// The published document is the one that the serving code makes.
func TestDocumentInStep(t *testing.T) {
	t.Parallel()
	document, err := channel.Document()
	must(t, err)
	if !bytes.Equal(document, api.OpenAPI) {
		t.Error("api/openapi.json is not what the routes say; write it again: go run ./cmd/countersign openapi > api/openapi.json")
	}
}

// What issue item 5 names, and nothing else.
var contracted = []string{
	"DELETE /api/v1/owner/session", "POST /api/v1/owner/session",
	"GET /api/v1/owner/status", "GET /api/v1/owner/limits", "GET /api/v1/owner/runs", "POST /api/v1/owner/runs", "GET /api/v1/owner/runs/{id}",
	"POST /api/v1/owner/runs/{id}/revoke", "POST /api/v1/owner/runs/{id}/session", "GET /api/v1/owner/runs/{id}/evidence",
	"GET /api/v1/owner/runs/{id}/events", "GET /api/v1/owner/public-key", "GET /api/v1/owner/specification",
	"POST /api/v1/owner/runs/{id}/step", "POST /api/v1/owner/runs/{id}/play",
	"POST /api/v1/owner/runs/{id}/approve", "POST /api/v1/owner/runs/{id}/clarify", "POST /api/v1/owner/runs/{id}/retry", "POST /api/v1/owner/runs/{id}/simulate",
	"POST /api/v1/owner/runs/{id}/probe", "POST /api/v1/owner/runs/{id}/reconcile",
	"GET /api/v1/owner/workspace", "POST /api/v1/owner/workspace/services", "POST /api/v1/owner/workspace/guardians", "GET /api/v1/owner/workspace/evidence",
	"GET /api/v1/owner/workspace/guardians/{id}", "PUT /api/v1/owner/workspace/guardians/{id}", "GET /api/v1/owner/workspace/guardians/{id}/evidence",
	"POST /api/v1/owner/workspace/guardians/{id}/verify", "POST /api/v1/owner/workspace/guardians/{id}/activate", "GET /api/v1/owner/hosting",
	"GET /api/v1/owner/attacks", "POST /api/v1/owner/attacks/run",
	"GET /api/v1/owner/freeze", "POST /api/v1/owner/freeze", "POST /api/v1/owner/unfreeze", "GET /api/v1/owner/freeze/evidence",
	"GET /api/projects", "POST /api/projects", "GET /api/projects/{id}", "GET /api/projects/{id}/evidence",
	"POST /api/projects/{id}/documents", "POST /api/projects/{id}/documents/missing", "GET /api/projects/{id}/builds", "POST /api/projects/{id}/builds",
	"POST /api/projects/{id}/token", "GET /api/projects/{id}/mcp/clients", "POST /api/projects/{id}/mcp/clients",
	"POST /api/projects/{id}/mcp/clients/{cid}/rotate", "POST /api/projects/{id}/mcp/clients/{cid}/revoke", "GET /api/projects/{id}/mcp/clients/{cid}/evidence",
	"GET /api/projects/{id}/turns", "GET /api/projects/{id}/turns/{tid}", "GET /api/projects/{id}/turns/{tid}/evidence",
	"GET /api/projects/{id}/interactions", "GET /api/projects/{id}/interactions/{iid}", "GET /api/projects/{id}/interactions/{iid}/evidence", "GET /api/projects/{id}/gaps", "GET /api/projects/{id}/gaps/{gid}/evidence",
	"POST /{handle}/{project}/context/turns/start", "POST /{handle}/{project}/context/turns/{id}/observations", "POST /{handle}/{project}/context/turns/{id}/complete",
	"POST /{handle}/{project}/context/compass", "POST /{handle}/{project}/context/resolve", "POST /{handle}/{project}/context/find", "POST /{handle}/{project}/context/why",
	"POST /{handle}/{project}/context/report-gap", "POST /{handle}/{project}/context/test", "POST /{handle}/{project}/context/doctor", "POST /{handle}/{project}/context/bridge/receipts",
	"POST /{handle}/{project}/{environment}/context/turns/start", "POST /{handle}/{project}/{environment}/context/turns/{id}/observations", "POST /{handle}/{project}/{environment}/context/turns/{id}/complete",
	"POST /{handle}/{project}/{environment}/context/compass", "POST /{handle}/{project}/{environment}/context/resolve", "POST /{handle}/{project}/{environment}/context/find",
	"POST /{handle}/{project}/{environment}/context/why", "POST /{handle}/{project}/{environment}/context/report-gap", "POST /{handle}/{project}/{environment}/context/test",
	"POST /{handle}/{project}/{environment}/context/doctor", "POST /{handle}/{project}/{environment}/context/bridge/receipts",
	"GET /api/v1/incident", "POST /api/v1/incident", "GET /api/v1/incident/evidence",
	"GET /api/v1/capabilities", "GET /api/v1/observation", "POST /api/v1/turns", "GET /api/v1/decision", "POST /api/v1/operation",
}

// texts are the routes outside the document: the contract's own texts.
var texts = map[string][]byte{
	"/openapi.json": api.OpenAPI, "/protocol": api.Protocol, "/context-turns": api.ContextTurns, "/events": api.Events, "/reasons": api.Reasons,
}

// Who asks for what is not there is told of every text that says what there is; the events
// of evidence are no routes.
func TestNotFoundNamesTheContract(t *testing.T) {
	t.Parallel()
	list := edge.Reasons()
	next := list[slices.IndexFunc(list, func(r edge.Reason) bool { return r.Code == authority.NotFound })].Next
	for path := range texts {
		if path != "/events" && !strings.Contains(next, path) {
			t.Errorf("%q does not name %s", next, path)
		}
	}
}

// H-112 and the walk both ways: every route of the server is documented,
// and every documented operation is a route of the server.
func TestDocument(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	documented := []string{}
	for _, o := range document().operations {
		documented = append(documented, o.Method+" "+o.Path)
	}
	slices.Sort(documented)
	slices.Sort(contracted)
	if !slices.Equal(documented, contracted) {
		t.Errorf("the document has\n%s\nwant\n%s", strings.Join(documented, "\n"), strings.Join(contracted, "\n"))
	}
	routes := []string{}
	for _, route := range h.api.Routes() {
		if _, text := texts[strings.TrimPrefix(route, "GET ")]; !text {
			routes = append(routes, route)
		}
	}
	slices.Sort(routes)
	if !slices.Equal(routes, documented) {
		t.Errorf("the server has\n%s\nthe document\n%s", strings.Join(routes, "\n"), strings.Join(documented, "\n"))
	}

	c := h.agent("local")
	guardian := h.owner("POST", "/workspace/guardians", guardianBody()).text("guardianId")
	for _, change := range []string{"/freeze", "/unfreeze"} { // there is no evidence before
		h.owner("POST", change, map[string]any{"reason": "a test"})
	}
	project, v := h.project("support"), h.visitor()
	v.ask(reading()).is(t, "a session", 200, "")
	for _, o := range document().operations {
		id := c.run
		if strings.Contains(o.Path, "/guardians/") {
			id = guardian
		}
		p := strings.NewReplacer("{id}", id, "{handle}", "acme", "{project}", "support", "{environment}", "staging").Replace(o.Path)
		credential := set("Authorization", "Bearer "+c.token)
		switch family(o.Path) {
		case "owner":
			credential = h.asOwner(h.signIn())
		case "project":
			p, credential = project.in(o.Path), h.asProjectOwner(h.cookie)
		case "incident":
			credential = v.credential()
		}
		r := h.request(o.Method, p, nil, credential, set("Last-Event-ID", "x")) // a stream answers that at once
		response, err := h.client.Do(r)
		must(t, err)
		response.Body.Close()
		// Without a decision the newest one is not there; the route is.
		if response.StatusCode == 405 || response.StatusCode == 404 && o.ID != "get-decision" {
			t.Errorf("%s %s: %d", o.Method, p, response.StatusCode)
		}
	}
}

// withHeader reports whether a header has an example.
func withHeader(headers map[string]struct {
	Example string `json:"example"`
}) bool {
	for _, h := range headers {
		if h.Example != "" {
			return true
		}
	}
	return false
}

// Every operation has an example of its answer, of its headers when it has no body,
// and of the request's body when it takes one; each fits its schema.
func TestExamplesFitSchemas(t *testing.T) {
	t.Parallel()
	fits := func(o *operation, what string, place []string, examples map[string]struct {
		Value any `json:"value"`
	}) {
		if len(examples) == 0 {
			t.Errorf("%s: no example of the %s", o.ID, what)
		}
		for name, e := range examples {
			v := decodedSchema(t, e.Value)
			if err := document().validate(place, v); err != nil {
				t.Errorf("%s: the example %s of the %s: %v", o.ID, name, what, err)
			}
		}
	}
	for _, o := range document().operations {
		if o.RequestBody != nil {
			fits(o, "body", o.requestSchema(), o.RequestBody.Content["application/json"].Examples)
		}
		succeeds := false
		for status, r := range o.Responses {
			if status[0] != '2' {
				continue
			}
			succeeds = true
			for kind, c := range r.Content {
				fits(o, "answer", o.responseSchema(status, kind), c.Examples)
			}
			if len(r.Content) == 0 && !withHeader(r.Headers) {
				t.Errorf("%s: no example of the answer, which has no body, nor of its headers", o.ID)
			}
		}
		if !succeeds {
			t.Errorf("%s: no success is documented", o.ID)
		}
	}
}

// decodedSchema is a value as the validator wants it.
func decodedSchema(t *testing.T, v any) any {
	t.Helper()
	return decoded(t, mustJSON(v))
}

// The texts of the contract are served to whoever asks, as they are in the tree.
func TestTexts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for path, want := range texts {
		response, err := http.Get(h.origin + path)
		must(t, err)
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		must(t, err)
		if response.StatusCode != 200 || !bytes.Equal(got, want) {
			t.Errorf("%s: %d, %d bytes, want %d", path, response.StatusCode, len(got), len(want))
		}
	}
}

// complaints is a test that keeps what it is told.
type complaints struct {
	testing.TB
	list []string
}

func (c *complaints) Errorf(format string, args ...any) {
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

// canned answers whatever is asked with one response.
type canned struct {
	status int
	kind   string
	body   string
}

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(strings.NewReader(c.body))}, nil
}

// The check that all other tests here lean on sees what it should see.
func TestContractControl(t *testing.T) {
	t.Parallel()
	example := func(id string) map[string]any {
		o := document().operations[slices.IndexFunc(document().operations, func(o *operation) bool { return o.ID == id })]
		for _, e := range o.Responses["200"].Content["application/json"].Examples {
			return decodedSchema(t, e.Value).(map[string]any)
		}
		t.Fatalf("%s has no example", id)
		return nil
	}
	edited := func(id string, f func(map[string]any)) string {
		m := example(id)
		f(m)
		return string(mustJSON(m))
	}
	problem := func(reason string, status int) string {
		return fmt.Sprintf(`{"type":"/reasons#%s","title":"Run not ready","status":%d,"detail":"x","reasonCode":"%[1]s"}`, reason, status)
	}
	const json, refusal = "application/json", "application/problem+json"
	cases := []struct {
		name, method, path string
		answer             canned
		want               string // part of the complaint; "": none
	}{
		{"good", "GET", "/api/v1/observation", canned{200, json, edited("get-observation", func(map[string]any) {})}, ""},
		{"good refusal", "GET", "/api/v1/observation", canned{409, refusal, problem("RUN_NOT_READY", 409)}, ""},
		{"unknown path", "GET", "/api/v1/observations", canned{200, json, "{}"}, "not in the document"},
		{"unknown method", "PUT", "/api/v1/observation", canned{200, json, "{}"}, "not in the document"},
		{"undocumented status", "GET", "/api/v1/observation", canned{418, json, "{}"}, "status 418"},
		{"other type", "GET", "/api/v1/observation", canned{200, "text/html", "{}"}, "content type"},
		{"missing member", "GET", "/api/v1/observation", canned{200, json, edited("get-observation", func(m map[string]any) { delete(m, "view") })}, "view"},
		{"extra member", "GET", "/api/v1/observation", canned{200, json, edited("get-observation", func(m map[string]any) { m["x"] = 1 })}, "'x' not allowed"},
		{"null", "GET", "/api/v1/observation", canned{200, json, edited("get-observation", func(m map[string]any) { m["runId"] = nil })}, "got null"},
		{"amount as number", "GET", "/api/v1/capabilities", canned{200, json, edited("get-capabilities", func(m map[string]any) { m["budget"].(map[string]any)["limitCents"] = 13700 })}, "limitCents"},
		{"amount with a point", "GET", "/api/v1/capabilities", canned{200, json, edited("get-capabilities", func(m map[string]any) { m["budget"].(map[string]any)["limitCents"] = "137.00" })}, "pattern"},
		{"time", "GET", "/api/v1/observation", canned{200, json, edited("get-observation", func(m map[string]any) { m["capturedAt"] = "yesterday" })}, "date-time"},
		{"reason of another operation", "GET", "/api/v1/observation", canned{409, refusal, problem("PERMIT_CONSUMED", 409)}, "not documented"},
		{"reason without a line", "GET", "/api/v1/observation", canned{409, refusal, problem("BECAUSE", 409)}, "not documented"},
		{"status that disagrees", "GET", "/api/v1/observation", canned{409, refusal, problem("RUN_NOT_READY", 400)}, "not its line"},
		{"body where none is", "DELETE", "/api/v1/owner/session", canned{204, "", "x"}, "no body"},
	}
	for _, c := range cases {
		heard := &complaints{}
		r, err := http.NewRequest(c.method, "http://localhost:8420"+c.path, nil)
		must(t, err)
		_, err = (&contract{heard, c.answer}).RoundTrip(r)
		must(t, err)
		all := strings.Join(heard.list, "\n")
		if c.want == "" && all != "" || c.want != "" && !strings.Contains(all, c.want) {
			t.Errorf("%s: %q, want %q", c.name, all, c.want)
		}
	}
}

// A report that package run takes fits the document's schema, and one that breaks
// a documented bound does not.
func TestReportSchema(t *testing.T) {
	t.Parallel()
	place := document().find("POST", "/api/v1/turns").requestSchema()
	good := func() map[string]any {
		for _, e := range document().find("POST", "/api/v1/turns").RequestBody.Content["application/json"].Examples {
			return decodedSchema(t, e.Value).(map[string]any)
		}
		return nil
	}
	if err := document().validate(place, good()); err != nil {
		t.Fatal(err)
	}
	for _, c := range badReports {
		r := good()
		c.edit(r)
		if err := document().validate(place, decodedSchema(t, r)); err == nil && !c.beyondSchema {
			t.Errorf("%s: the schema takes it", c.name)
		}
	}
}
