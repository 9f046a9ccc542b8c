package contexthttp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
	"countersign/internal/identity"
)

// server is an API whose perimeter is that of the request under way.
type server struct {
	*edge.API
	recorder
}

func newServer(t *testing.T) *server {
	t.Helper()
	api, err := edge.New(edge.Config{Origin: "http://localhost:8420", Title: "test", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{API: api}
	Register(api, &s.recorder)
	return s
}

// recorder is a perimeter that knows one token and notes what it is asked.
type recorder struct {
	caller perimeter.Caller
	asked  []string
	refuse error
}

const (
	goodToken = "seif_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	goodTurn  = "trn_01940e2e7c0070008000000000000001"
	planted   = "5ecret-marker"
)

func (r *recorder) Authenticate(_ context.Context, token string) (*perimeter.Caller, error) {
	if token != goodToken {
		return nil, identity.ErrUnauthenticated
	}
	c := r.caller
	return &c, nil
}

func (r *recorder) ask(what ...any) error {
	r.asked = append(r.asked, fmt.Sprint(what...))
	return r.refuse
}

func (r *recorder) Start(_ context.Context, _ *perimeter.Caller, key string, ref *string) (*perimeter.Started, error) {
	return &perimeter.Started{}, r.ask("start ", key)
}

func (r *recorder) Call(_ context.Context, _ *perimeter.Caller, turnID string, q tools.Request) (*perimeter.Answer, error) {
	return &perimeter.Answer{Result: &perimeter.DoctorResult{}}, r.ask(q.Tool, " ", turnID)
}

func (r *recorder) Observe(_ context.Context, _ *perimeter.Caller, turnID, key string, o turn.Observation) (*perimeter.Observed, error) {
	return &perimeter.Observed{}, r.ask("observe ", turnID, " ", key, " ", o.Event, " ", o.Tool, " ", o.ToolUseID)
}

func (r *recorder) Complete(_ context.Context, _ *perimeter.Caller, turnID, key, status string, _ *string) (*perimeter.Completed, error) {
	return &perimeter.Completed{}, r.ask("complete ", turnID, " ", key, " ", status)
}

func (r *recorder) RecordBridge(_ context.Context, _ *perimeter.Caller, key, kind, digest string) (*perimeter.BridgeReceipt, error) {
	return &perimeter.BridgeReceipt{}, r.ask("bridge ", key, " ", kind, " ", digest)
}

// try is one request under way, with what stands behind it.
type try struct {
	peer        string
	handle      string
	environment string // segment of the path
	id          string // of the turn in the path
	header      http.Header
	body        map[string]any
	raw         string // instead of body
	pad         int    // blanks behind the body
	chunked     bool
	query       string
	recorder    recorder // asked: what the request came to
}

// good is a request of the route that is taken.
func good(r route) *try {
	t := &try{peer: "127.0.0.1:4711", handle: "acme", id: goodTurn, body: maps.Clone(goodBodies[r.id]), header: http.Header{
		"Authorization": {"Bearer " + goodToken}, "Content-Type": {"application/json"}, "Idempotency-Key": {"key-of-sixteen-c"},
	}}
	c := &t.recorder.caller.Client
	c.ID, c.Project, c.Kind, c.Profile, c.Environment, c.TurnProtocol = "cli_1", project.ProjectID("acme", "support"), project.Custom, "support", project.Production, project.Required
	switch r.who {
	case anyClient:
		t.header.Set(turnHeader, goodTurn)
	case bridgeClient:
		c.Kind, c.TurnProtocol = project.Bridge, project.Absent
	}
	return t
}

var goodBodies = map[string]map[string]any{
	startID:                 {"clientRef": "job-7"},
	"context-compass":       {"task": "How do I refund an order?"},
	"context-resolve":       {"ref": "refunds"},
	"context-find":          {"query": "refund", "limit": 5},
	"context-why":           {"ref": "refunds"},
	"context-report-gap":    {"task": "Refunds abroad", "detail": "Nothing on customs."},
	"context-test":          {"task": "refund", "expectRefs": []any{"refunds"}},
	"context-doctor":        {},
	"observe-context-turn":  {"event": "pre_tool_use", "tool": "mcp__seif__context_compass", "toolUseId": "toolu_01"},
	"complete-context-turn": {"status": "completed", "note": "It answered."},
	"record-bridge-receipt": {"kind": "file.read", "digest": strings.Repeat("0a", 32)},
}

func routeOf(t *testing.T, id string) route {
	t.Helper()
	i := slices.IndexFunc(routes(), func(r route) bool { return r.id == id })
	if i < 0 {
		t.Fatalf("there is no route %s", id)
	}
	return routes()[i]
}

// path is where the request goes.
func (t *try) path(r route) string {
	p := "/" + t.handle + "/support"
	if t.environment != "" {
		p += "/" + t.environment
	}
	p += "/context" + strings.ReplaceAll(r.path, "{id}", t.id)
	if t.query != "" {
		p += "?" + t.query
	}
	return p
}

// send returns status and reason code of the answer, and its body.
func (t *try) send(test *testing.T, s *server, r route) (string, string) {
	test.Helper()
	s.recorder = t.recorder
	raw := t.raw
	if raw == "" {
		b, err := json.Marshal(t.body)
		if err != nil {
			test.Fatal(err)
		}
		raw = string(b)
	}
	raw += strings.Repeat(" ", t.pad)
	request := httptest.NewRequest(http.MethodPost, "http://localhost:8420"+t.path(r), strings.NewReader(raw))
	if t.chunked {
		request.Body, request.ContentLength = io.NopCloser(strings.NewReader(raw)), -1
	}
	request.Header, request.RemoteAddr = t.header, t.peer
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request)
	t.recorder = s.recorder
	if w.Header().Get("Cache-Control") != "no-store" {
		test.Errorf("%s: Cache-Control %q", r.id, w.Header().Get("Cache-Control"))
	}
	var p struct {
		ReasonCode string `json:"reasonCode"`
	}
	json.Unmarshal(w.Body.Bytes(), &p) // an answer that is no refusal has none
	return strings.TrimSpace(fmt.Sprint(w.Code, " ", p.ReasonCode)), w.Body.String()
}

// fault is one row of the rejection list, violated in one way.
type fault struct {
	want  string
	spoil func(*try)
}

// member is a name of the body's that some value is wrong for, and one that is too long.
type member struct {
	name string
	long any
}

// members of each route that show its rows of bodies.
var members = map[string]member{
	startID: {"clientRef", strings.Repeat("ü", 513)}, "context-compass": {"task", strings.Repeat("ü", 4001)}, "context-resolve": {"ref", strings.Repeat("ü", 201)},
	"context-find": {"query", strings.Repeat("ü", 501)}, "context-why": {"ref", strings.Repeat("ü", 201)}, "context-report-gap": {"detail", strings.Repeat("ü", 2001)},
	"context-test": {"task", strings.Repeat("ü", 4001)}, "observe-context-turn": {"toolUseId", strings.Repeat("u", 129)},
	"complete-context-turn": {"note", strings.Repeat("ü", 2001)}, "record-bridge-receipt": {"kind", nil},
}

// faults are the rows of G-30 that are decided before anything is asked of the ledger, in
// their order, for one route.
func faults(r route) []fault {
	header := func(name string, values ...string) func(*try) {
		return func(t *try) { t.header[name] = values }
	}
	client := func(f func(*project.Client)) func(*try) { return func(t *try) { f(&t.recorder.caller.Client) } }
	list := []fault{
		{"403 https_required", func(t *try) { t.peer = "203.0.113.7:4711" }},
		{"415 content_type", header("Content-Type", "text/plain")},
		{"413 too_large", func(t *try) { t.pad = int(r.limit) }},
		{"401 token_missing", header("Authorization")},
		{"401 token_invalid", header("Authorization", "Bearer "+goodToken[:47]+"B")},
		{"404 project_not_found", func(t *try) { t.handle = "other" }},
	}
	shared := client(func(c *project.Client) { c.Kind, c.TurnProtocol = project.Shared, project.Absent })
	if r.who == bridgeClient {
		list = append(list, fault{"403 bridge_client_required", client(func(c *project.Client) { c.Kind = project.Custom })})
	} else {
		list = append(list,
			fault{"403 named_client_required", shared},
			fault{"403 turn_protocol_not_enabled", client(func(c *project.Client) { c.TurnProtocol = project.Absent })})
	}
	m := members[r.id]
	list = append(list,
		fault{"403 environment_mismatch", client(func(c *project.Client) { c.Environment = project.Staging })},
		fault{"403 profile_mismatch", header(profileHeader, "sales")},
		fault{"400 body_invalid", func(t *try) {
			if m.name == "" {
				t.raw = `{"` + planted + `":1,"` + planted + `":2}`
				return
			}
			t.body[m.name] = 7
		}},
		fault{"400 unknown_field", func(t *try) { t.body["toolInput"] = planted }})
	switch r.id {
	case "observe-context-turn":
		list = append(list,
			fault{"400 event_not_allowed", func(t *try) { t.body["event"] = planted }},
			fault{"400 tool_not_allowed", func(t *try) { t.body["tool"] = planted }})
	case "complete-context-turn":
		list = append(list, fault{"400 status_not_allowed", func(t *try) { t.body["status"] = planted }})
	}
	if m.long != nil {
		list = append(list, fault{"400 value_too_long", func(t *try) { t.body[m.name] = m.long }})
	}
	if r.keyed {
		list = append(list, fault{"400 idempotency_key_invalid", header("Idempotency-Key", "short")})
	}
	if r.who == anyClient {
		list = append(list, fault{"400 turn_required", func(t *try) { delete(t.header, turnHeader) }}, fault{"400 turn_id_invalid", header(turnHeader, "trn_7")})
	}
	return list
}

// S-027 S-065 S-066: on every route, a request that is wrong in two ways gets the refusal that
// stands first in the list, whichever two; one that is wrong in no way is taken. What was
// refused asked nothing of the perimeter, and its values are not repeated.
func TestOrder(t *testing.T) {
	t.Parallel()
	for _, r := range routes() {
		t.Run(r.id, func(t *testing.T) {
			t.Parallel()
			s, request := newServer(t), good(r)
			if got, body := request.send(t, s, r); got[0] != '2' || len(request.recorder.asked) != 1 {
				t.Fatalf("a good request: %s, asked %q\n%s", got, request.recorder.asked, body)
			}
			list, pairs := faults(r), 0
			for i, first := range list {
				for j := i; j < len(list); j++ {
					request := good(r)
					list[j].spoil(request)
					first.spoil(request)
					if j > i && alternative(first.want, list[j].want) {
						continue
					}
					pairs++
					got, body := request.send(t, s, r)
					if got != first.want {
						t.Errorf("%s and %s: %s", first.want, list[j].want, got)
					}
					if len(request.recorder.asked) != 0 {
						t.Errorf("%s and %s: the perimeter was asked %q", first.want, list[j].want, request.recorder.asked)
					}
					if got[0] == '4' && strings.Contains(body, planted) && !strings.Contains(body, "body."+planted) {
						t.Errorf("%s and %s: a value is repeated: %s", first.want, list[j].want, body)
					}
				}
			}
			if pairs < 60 {
				t.Errorf("%d pairs", pairs)
			}
		})
	}
}

// alternative reports whether two rows cannot be violated at once: the same header is
// missing and malformed, or a client that is not asked for a turn has none.
func alternative(first, second string) bool {
	return first == "400 turn_required" && second == "400 turn_id_invalid" ||
		first == "403 turn_protocol_not_enabled" && second == "400 turn_required" || first == "403 named_client_required" && second == "400 turn_required"
}

// TestDenialsOfThePerimeter: what is decided where it is committed is answered with its
// own line of the table, which says what to do next behind what happened.
func TestDenialsOfThePerimeter(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for reason, want := range map[string]string{
		turn.IdempotencyConflict: "409", turn.IdempotencyInProgress: "409", turn.TurnNotFound: "404", turn.TurnClosed: "409", turn.TurnExpired: "410",
		turn.LimitReached: "429", turn.TokenInvalid: "401",
	} {
		for _, r := range routes() {
			request := good(r)
			request.recorder.refuse = &authority.Denial{Reason: reason, Detail: "A detail."}
			got, body := request.send(t, s, r)
			if got != want+" "+reason {
				t.Errorf("%s: %s, want %s %s", r.id, got, want, reason)
			}
			if reason != turn.TokenInvalid && !strings.Contains(body, `"detail":"A detail. `+nextOf(reason)+`"`) {
				t.Errorf("%s, %s: %s says not both what happened and what to do", r.id, reason, body)
			}
		}
	}
}

func nextOf(reason string) string {
	list := edge.Reasons()
	return list[slices.IndexFunc(list, func(r edge.Reason) bool { return r.Code == reason })].Next
}

// S-014 S-015 S-042: who may ask for context without a turn, and who with one.
func TestWhoNeedsATurn(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := routeOf(t, "context-doctor")
	for _, c := range []struct {
		what, kind, protocol, turn, want, asked string
	}{
		{"a required client in a turn", project.Custom, project.Required, goodTurn, "200", "doctor " + goodTurn},
		{"a required client without", project.Custom, project.Required, "", "400 turn_required", ""},
		{"a client without the opt-in", project.Custom, project.Absent, "", "200", "doctor "},
		{"a client without the opt-in in a turn", project.Custom, project.Absent, goodTurn, "403 turn_protocol_not_enabled", ""},
		{"the shared token", project.Shared, project.Absent, "", "200", "doctor "},
		{"the shared token in a turn", project.Shared, project.Absent, goodTurn, "403 named_client_required", ""},
		{"the shared token in a malformed turn", project.Shared, project.Absent, "x", "403 named_client_required", ""},
		{"a bridge", project.Bridge, project.Absent, "", "200", "doctor "},
	} {
		request := good(r)
		request.recorder.caller.Client.Kind, request.recorder.caller.Client.TurnProtocol = c.kind, c.protocol
		delete(request.header, turnHeader)
		if c.turn != "" {
			request.header.Set(turnHeader, c.turn)
		}
		got, _ := request.send(t, s, r)
		if asked := strings.Join(request.recorder.asked, ", "); got != c.want || asked != c.asked {
			t.Errorf("%s: %s, asked %q, want %s, %q", c.what, got, asked, c.want, c.asked)
		}
	}
}
