package edge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
)

// sentProblem is a refusal as a client reads it.
type sentProblem struct {
	Detail string
	Errors []struct{ Location, Message string }
}

func problemIn(t *testing.T, body string) (p sentProblem) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// A refusal says what is special about it, or gives the table's advice; the two
// glued together contradict each other. When the text points to errors, they are
// there.
func TestDetail(t *testing.T) {
	next := map[string]string{}
	for _, r := range edge.Reasons() {
		next[r.Code] = r.Next
	}
	for _, test := range []struct {
		err    error
		detail string
		place  string
	}{
		{&authority.Denial{Reason: authority.RunNotReady, Detail: "The run is paused."}, "The run is paused.", ""},
		{&authority.Denial{Reason: authority.RunNotReady}, next[authority.RunNotReady], ""},
		{&authority.Denial{Reason: authority.InvalidRequest, Detail: "header.x-idempotency-key: want a key"}, next[authority.InvalidRequest], "header.x-idempotency-key"},
		{&authority.Denial{Reason: authority.InvalidRequest, Detail: "body.candidates[0].args: want an object"}, next[authority.InvalidRequest], "body.candidates[0].args"},
		{&authority.Denial{Reason: authority.InvalidRequest, Detail: "Everything: is wrong."}, "Everything: is wrong.", ""},
		{&authority.Denial{Reason: authority.Frozen, Detail: "body.x: is no place in other refusals"}, "body.x: is no place in other refusals", ""},
	} {
		s := serve(t, failing([]error{test.err}))
		r, err := s.send(ask{method: http.MethodGet, path: "/fail/0"})
		if err != nil {
			t.Fatal(err)
		}
		p := problemIn(t, r.body)
		if p.Detail != test.detail {
			t.Errorf("%v: detail %q, want %q", test.err, p.Detail, test.detail)
		}
		if (test.place != "") != (len(p.Errors) == 1) || len(p.Errors) == 1 && (p.Errors[0].Location != test.place || !strings.HasPrefix(p.Errors[0].Message, "want")) {
			t.Errorf("%v: errors %v, want one at %q", test.err, p.Errors, test.place)
		}
	}
	// Malformed in whatever way: errors names a place.
	s := serve(t)
	for name, a := range map[string]ask{
		"empty": {s.open(good).method, s.open(good).path, s.open(good).header, "", ""},
		"query": {method: http.MethodGet, path: "/open/here?x=1"},
		"body":  {s.open(good).method, s.open(good).path, s.open(good).header, "{", ""},
	} {
		r, err := s.send(a)
		if err != nil {
			t.Fatal(err)
		}
		if p := problemIn(t, r.body); r.status != 400 || len(p.Errors) == 0 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

// No reason tells anybody to wait for what this build does not have.
func TestReasonsPromiseNothing(t *testing.T) {
	for _, r := range edge.Reasons() {
		for _, unbuilt := range []string{"unfreeze", "Wait for the owner"} {
			if strings.Contains(r.Next, unbuilt) {
				t.Errorf("%s: %q promises %q", r.Code, r.Next, unbuilt)
			}
		}
	}
}

// A request that its guard refuses has the route in the log that it asked for; one
// without a route has not.
func TestRouteOfRefused(t *testing.T) {
	log := &logged{}
	api, err := edge.New(edge.Config{Origin: "http://localhost:1", Title: "test", Version: "0.1", Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	api.Guard("/closed/", edge.Guard{Check: func(*http.Request) (*http.Request, error) { return nil, errors.New("the ledger is away") }})
	api.Handle("GET /closed/{id}", http.NotFoundHandler())
	for path, want := range map[string]string{"/closed/seven": `route="GET /closed/{id}"`, "/closed/a/b": `route="GET (no route)"`, "/closed//seven": `route="GET (no route)"`} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost:1"+path, nil)
		w := httptest.NewRecorder()
		before := log.String()
		api.ServeHTTP(w, r)
		if line := strings.TrimPrefix(log.String(), before); w.Code != 500 || !strings.Contains(line, want) || strings.Contains(line, "seven") {
			t.Errorf("%s: %d, log %s, want %s", path, w.Code, line, want)
		}
	}
}

// Who tries owner secrets is seen in the log, with an address and without what was
// tried, and cannot fill it.
func TestWrongSecretIsLogged(t *testing.T) {
	s := serve(t)
	in := ask{method: http.MethodPost, path: edge.SessionPath, header: http.Header{"Origin": {s.origin}, "X-Halfspan-Owner": {"1"}, "Content-Type": {"application/json"}}}
	const tries = 300
	for i := range tries {
		in.body = `{"secret":"hunter` + strconv.Itoa(i) + `"}`
		want := "429 RATE_LIMITED"
		if i < 5 {
			want = "401 AUTHENTICATION_REQUIRED"
		}
		if got := s.expect(t, fmt.Sprint("secret ", i), in, want); i == 0 {
			if p := problemIn(t, got.body); p.Detail != "The secret is not the owner's." {
				t.Errorf("detail %q", p.Detail)
			}
		}
	}
	log := s.log.String()
	refused, limited := strings.Count(log, "an owner secret was refused"), strings.Count(log, "sign-in is limited")
	if refused != 5 || limited < 1 || limited > tries/2 || strings.Count(log, `"level":"WARN"`) != refused+limited {
		t.Errorf("%d refused, %d limited in the log", refused, limited)
	}
	if strings.Contains(log, "hunter") || !strings.Contains(log, `"remote":"127.0.0.1"`) {
		t.Error(log)
	}
}
