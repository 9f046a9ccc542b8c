package edge_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
)

// byItself serves POST /by-itself, whose handler reads the request by itself and does what the body
// says.
func byItself(s *site) {
	edge.RegisterRaw(s.api, edge.Operation{
		Operation: huma.Operation{OperationID: "read-by-itself", Method: http.MethodPost, Path: "/by-itself", Responses: map[string]*huma.Response{"201": {Description: "Done."}}},
		Reasons:   []string{"body_invalid", "content_type", "too_large", authority.Frozen},
	}, func(w http.ResponseWriter, r *http.Request) error {
		body, err := edge.ReadBody(w, r, 16, edge.BodyReasons{Type: "content_type", Size: "too_large", Malformed: "body_invalid"})
		if err != nil {
			return err
		}
		switch string(body) {
		case "denied":
			return &authority.Denial{Reason: authority.Frozen, Detail: "A detail."}
		case "failed":
			return errors.New("the cause, which is the operator's")
		case "panic":
			panic("secret")
		case "unwritable":
			edge.SendJSON(w, http.StatusOK, func() {})
		}
		edge.SendJSON(w, http.StatusCreated, map[string]any{"b": 1, "a": []int(nil)})
		return nil
	})
}

// An operation that reads its request by itself is bounded, refused, logged and documented
// like every other; only what its handler decides has another order.
func TestRaw(t *testing.T) {
	s := serve(t, byItself)
	json := http.Header{"Content-Type": {"application/json"}}
	for _, c := range []struct {
		name string
		in   ask
		want string
	}{
		{"good", ask{method: http.MethodPost, path: "/by-itself", header: json, body: "good"}, "201"},
		{"at the bound", ask{method: http.MethodPost, path: "/by-itself", header: json, body: strings.Repeat("x", 16)}, "201"},
		{"over the bound", ask{method: http.MethodPost, path: "/by-itself", header: json, body: strings.Repeat("x", 17)}, "413 too_large"},
		{"another type", ask{method: http.MethodPost, path: "/by-itself", body: "good", header: http.Header{"Content-Type": {"text/plain"}}}, "415 content_type"},
		{"a denial", ask{method: http.MethodPost, path: "/by-itself", header: json, body: "denied"}, "409 FROZEN"},
		{"an error", ask{method: http.MethodPost, path: "/by-itself", header: json, body: "failed"}, "500 INTERNAL"},
		{"a panic", ask{method: http.MethodPost, path: "/by-itself", header: json, body: "panic"}, "500 INTERNAL"},
		{"an answer that cannot be encoded", ask{method: http.MethodPost, path: "/by-itself", header: json, body: "unwritable"}, "500 INTERNAL"},
		{"another method", ask{method: http.MethodGet, path: "/by-itself"}, "405 METHOD_NOT_ALLOWED"},
		{"another host", ask{method: http.MethodPost, path: "/by-itself", header: json, body: "good", host: "evil.example"}, "403 ORIGIN_REJECTED"},
	} {
		got := s.expect(t, c.name, c.in, c.want)
		if c.want == "201" && got.body != `{"a":[],"b":1}` {
			t.Errorf("%s: %s", c.name, got.body)
		}
	}
	if log := s.log.String(); strings.Contains(log, "secret") || !strings.Contains(log, "the cause") {
		t.Errorf("log %s", log)
	}
	item := s.api.OpenAPI().Paths["/by-itself"]
	if item == nil || item.Post == nil {
		t.Fatal("it is not documented")
	}
	for status, reasons := range map[string]string{"201": "Done.", "400": "body_invalid", "403": "ORIGIN_REJECTED", "409": "FROZEN", "413": "too_large", "415": "content_type", "500": "INTERNAL", "503": "LEDGER_UNAVAILABLE"} {
		if r := item.Post.Responses[status]; r == nil || r.Description != reasons {
			t.Errorf("status %s is documented as %+v", status, r)
		}
	}
	if len(item.Post.Responses) != 8 {
		t.Errorf("%d statuses are documented", len(item.Post.Responses))
	}
}
