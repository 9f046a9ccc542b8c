package edge_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/identity"
)

func opOf(id, path string) huma.Operation {
	return huma.Operation{OperationID: id, Method: http.MethodPost, Path: path}
}

func formats(context.Context, *struct {
	Body struct {
		ID   string `json:"id" format:"uuid"`
		Link string `json:"link" format:"uri"`
		At   string `json:"at" format:"date-time"`
		For  string `json:"for" format:"duration"`
		Mail string `json:"mail" format:"email"`
		Expr string `json:"expr" format:"regex"`
	}
}) (*struct{}, error) {
	return nil, nil
}

// statuses are those that requirements.md (G-09, G-24, H-161 to H-164, L-1 to L-4) and
// design.md section 8 give; the table may hold more.
var statuses = map[string]int{
	"MALFORMED_PROPOSAL": 400, "INVALID_REQUEST": 400, "AUTHENTICATION_REQUIRED": 401,
	"PERMIT_REQUIRED": 403, "PERMIT_MISMATCH": 403, "PERMIT_REVOKED": 403, "PERMIT_EXPIRED": 403,
	"BEARER_ON_OWNER_ROUTE": 403, "ORIGIN_REJECTED": 403, "OWNER_HEADER_REQUIRED": 403, "CREDENTIAL_MISUSE": 403,
	"NOT_FOUND": 404, "METHOD_NOT_ALLOWED": 405,
	"PERMIT_CONSUMED": 409, "STALE_STATE": 409, "IDEMPOTENCY_CONFLICT": 409, "UNRESOLVED_EFFECT": 409,
	"PERMIT_OUTSTANDING": 409, "IN_PROGRESS": 409, "RUN_NOT_READY": 409, "FROZEN": 409,
	"BODY_TOO_LARGE": 413, "CONTENT_TYPE_REJECTED": 415, "RATE_LIMITED": 429,
	"INTERNAL": 500, "NOT_IMPLEMENTED": 501, "DISPATCH_UNCONFIRMED": 502, "HOSTED_UNREACHABLE": 503, "LEDGER_UNAVAILABLE": 503,
	"nothing_staged": 422, "invalid_mitigation": 422, "stale_state": 409, "stale_approval": 412, "stale_execution": 412, "stale_reset": 412,
	"approval_required": 403, "identity_mismatch": 403, "approval_expired": 403, "approval_consumed": 409, "idempotency_conflict": 409, "receipt_conflict": 409, "execution_conflict": 409,
	"origin_rejected": 403, "content_type_rejected": 415, "invalid_json": 400, "invalid_request": 422, "control_plane_unavailable": 503, "recovery_required": 409,
}

// G-24, H-161 to H-164: every reason has one status, which is that of the specification.
func TestReasonsTable(t *testing.T) {
	seen := map[string]int{}
	for _, r := range edge.Reasons() {
		if _, twice := seen[r.Code]; twice {
			t.Errorf("%s stands twice", r.Code)
		}
		seen[r.Code] = r.Status
		if r.Title == "" || !strings.HasSuffix(r.Next, ".") || http.StatusText(r.Status) == "" {
			t.Errorf("%+v is incomplete", r)
		}
	}
	for code, status := range statuses {
		if seen[code] != status {
			t.Errorf("%s is %d, want %d", code, seen[code], status)
		}
	}
	for _, name := range []string{"authority", "contextturn/turn", "runbook/incident"} {
		for _, code := range constants(t, "../../"+name+"/reason.go") {
			if seen[code] == 0 {
				t.Errorf("%s of package %s is not in the table", code, name)
			}
		}
	}
	for _, code := range constants(t, "reason.go") {
		if seen[code] == 0 {
			t.Errorf("%s of this package is not in the table", code)
		}
	}
}

// constants returns the string constants of a file.
func constants(t *testing.T, name string) (values []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			for _, v := range spec.(*ast.ValueSpec).Values {
				if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					s, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, s)
				}
			}
		}
	}
	if len(values) == 0 {
		t.Fatalf("%s has no constants", name)
	}
	return values
}

// failing serves GET /fail/N, which returns the N-th error.
func failing(list []error) func(*site) {
	return func(s *site) {
		edge.Register(s.api, edge.Operation{Operation: huma.Operation{OperationID: "fail", Method: http.MethodGet, Path: "/fail/{n}"}},
			func(_ context.Context, in *struct {
				N int `path:"n"`
			}) (*thingOutput, error) {
				return nil, list[in.N]
			})
	}
}

// H-165 H-166: a cause stays in the log; what may have happened after a dispatch is said to be unknown.
func TestErrorsOfHandlers(t *testing.T) {
	cause := errors.New("pq: password of user control is hunter2")
	tests := []struct {
		err    error
		want   string
		detail string
	}{
		{&authority.Denial{Reason: authority.PermitExpired, Detail: "The permit ended."}, "403 PERMIT_EXPIRED", `"detail":"The permit ended."`},
		{edge.Refuse(authority.NotImplemented, "Mode exact is not built."), "501 NOT_IMPLEMENTED", `"detail":"Mode exact is not built."`},
		{edge.Refuse(authority.InProgress, ""), "409 IN_PROGRESS", ""},
		{edge.Refuse(authority.DispatchUnconfirmed, ""), "502 DISPATCH_UNCONFIRMED", ""},
		{errors.Join(errors.New("wrapped"), edge.Refuse(authority.Frozen, "")), "409 FROZEN", ""},
		{cause, "500 INTERNAL", ""},
		{context.DeadlineExceeded, "500 INTERNAL", ""},
		{&authority.Denial{Reason: "UNHEARD_OF", Detail: "hunter2"}, "500 INTERNAL", ""},
		{&authority.Denial{Reason: authority.Relevant, Detail: "hunter2"}, "500 INTERNAL", ""},
		{identity.ErrUnauthenticated, "401 AUTHENTICATION_REQUIRED", ""},
		{&identity.RateLimitError{RetryAfter: 1500 * time.Millisecond}, "429 RATE_LIMITED", ""},
	}
	list := make([]error, len(tests))
	for i := range tests {
		list[i] = tests[i].err
	}
	s := serve(t, failing(list))
	for i, test := range tests {
		got := s.expect(t, test.want, ask{method: http.MethodGet, path: "/fail/" + strconv.Itoa(i)}, test.want)
		if strings.Contains(got.body, "hunter2") || !strings.Contains(got.body, test.detail) {
			t.Errorf("%s: %s", test.want, got.body)
		}
		if after := map[string]string{"IN_PROGRESS": "1", "RATE_LIMITED": "2"}[got.reason]; got.header.Get("Retry-After") != after {
			t.Errorf("%s: Retry-After %q, want %q", got.reason, got.header.Get("Retry-After"), after)
		}
		if unknown := strings.Contains(got.body, `"effect":"unknown"`); unknown != (got.reason == "DISPATCH_UNCONFIRMED") {
			t.Errorf("%s: %s", got.reason, got.body)
		}
	}
	for _, must := range []string{cause.Error(), "UNHEARD_OF is not a reason", `"route":"fail"`} {
		if !strings.Contains(s.log.String(), must) {
			t.Errorf("the log lacks %q", must)
		}
	}
	if strings.Contains(s.log.String(), "PERMIT_EXPIRED") {
		t.Error("a plain refusal is logged as a failure")
	}
}

// H-165: a panic tells nothing.
func TestPanics(t *testing.T) {
	s := serve(t, func(s *site) {
		s.api.Handle("GET /panic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("hunter2") }))
		s.api.Handle("GET /late", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte("half an "))
			panic("hunter2")
		}))
		edge.Register(s.api, edge.Operation{Operation: huma.Operation{OperationID: "unencodable", Method: http.MethodGet, Path: "/unencodable"}},
			func(context.Context, *struct{}) (*struct{ Body map[string]any }, error) {
				return &struct{ Body map[string]any }{map[string]any{"x": make(chan int)}}, nil
			})
	})
	for _, path := range []string{"/panic", "/unencodable"} {
		got := s.expect(t, path, ask{method: http.MethodGet, path: path}, "500 INTERNAL")
		if strings.Contains(got.body, "hunter2") {
			t.Error(got.body)
		}
	}
	if got, err := s.send(ask{method: http.MethodGet, path: "/late"}); err == nil {
		t.Errorf("half an answer ended well: %d %q", got.status, got.body)
	}
	log := s.log.String()
	if strings.Contains(log, "hunter2") || !strings.Contains(log, "handler panicked") || !strings.Contains(log, "cannot be encoded") || !strings.Contains(log, "GET /late") {
		t.Errorf("log %s", log)
	}
	s.expect(t, "the next request", s.open(good), "200")
}

func TestSecurityHeaders(t *testing.T) {
	s := serve(t)
	for _, a := range []ask{s.open(good), {method: http.MethodGet, path: "/nothing"}, {method: http.MethodGet, path: "/api/v1/owner/x"}} {
		h := s.mustSend(t, a).header
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
			"Strict-Transport-Security": "", "Access-Control-Allow-Origin": "",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", a.path, name, h.Get(name), want)
			}
		}
	}
}

func TestReadyz(t *testing.T) {
	s := serve(t)
	api, err := edge.New(edge.Config{Origin: s.origin, Title: "test", Version: "0.1", Ready: func(context.Context) error { return errors.New("hunter2") }})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		w := recordAll(api, ask{method: http.MethodGet, path: path})
		if w.Code != want || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if got := record(api, ask{method: http.MethodPost, path: path}); got != 405 {
			t.Errorf("POST %s: %d", path, got)
		}
	}
}

// Anybody may ask /readyz, which commits: however often they do, the ledger hears of
// it once, and the operator's log too.
func TestReadyzIsAskedOnce(t *testing.T) {
	asked, log := 0, &logged{}
	api, err := edge.New(edge.Config{
		Origin: "http://localhost:1", Title: "test", Version: "0.1", Log: slog.New(slog.NewTextHandler(log, nil)),
		Ready: func(context.Context) error { asked++; return errors.New("down") },
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 1000 {
		if got := record(api, ask{method: http.MethodGet, path: "/readyz"}); got != 503 {
			t.Fatalf("%d", got)
		}
	}
	most := 1 + int(time.Since(began)/time.Second)
	if lines := strings.Count(log.String(), "not ready"); asked > most || lines != asked {
		t.Errorf("%d questions and %d lines, want at most %d", asked, lines, most)
	}
}

// TestDocument walks from the document to the routes and reads what it promises.
func TestDocument(t *testing.T) {
	s := serve(t, func(s *site) { watched(s, newSource(), 0) })
	raw, err := s.api.Document()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := s.api.Document(); string(again) != string(raw) {
		t.Error("two documents of one API differ")
	}
	for _, must := range []string{`"openapi": "3.1.0"`, `"additionalProperties": false`, "application/problem+json", "text/event-stream", "Last-Event-ID", "BEARER_ON_OWNER_ROUTE, ORIGIN_REJECTED, OWNER_HEADER_REQUIRED"} {
		if !strings.Contains(string(raw), must) {
			t.Errorf("the document lacks %s", must)
		}
	}
	for _, not := range []string{`"422"`, "$schema", "binary"} {
		if strings.Contains(string(raw), not) {
			t.Errorf("the document has %s", not)
		}
	}
	found := 0
	for path, item := range s.api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "DELETE": item.Delete, "PUT": item.Put, "PATCH": item.Patch} {
			if op == nil {
				continue
			}
			found++
			var listed []string
			for _, r := range op.Responses {
				listed = append(listed, strings.Split(r.Description, ", ")...)
			}
			owners := strings.HasPrefix(path, edge.OwnerPrefix) || strings.HasPrefix(path, edge.ProjectsPrefix)
			if owners != slices.Contains(listed, edge.BearerOnOwnerRoute) {
				t.Errorf("%s %s lists %v", method, path, listed)
			}
			if takes := op.RequestBody != nil; takes != slices.Contains(listed, edge.BodyTooLarge) {
				t.Errorf("%s %s lists %v", method, path, listed)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d operations", found)
	}
	for _, path := range []string{"/docs", "/openapi.json", "/openapi.yaml", "/schemas/Problem.json"} {
		s.expect(t, path, ask{method: http.MethodGet, path: path}, "404 NOT_FOUND")
	}
}
