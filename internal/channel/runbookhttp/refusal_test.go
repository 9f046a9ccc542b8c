package runbookhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/runbookhttp"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

const origin = "http://localhost:8420"

// plane answers everything with one error; a denial comes with a snapshot, as the control
// plane's do.
type plane struct {
	err   error
	shows *control.Snapshot
}

func (p plane) Snapshot(context.Context, string) (*control.Snapshot, error) { return p.shows, p.err }

func (p plane) Export(context.Context, string, io.Writer) (bool, error) { return false, p.err }

func (p plane) Do(context.Context, string, string, incident.Request, string) (*control.Answer, error) {
	if _, denied := errors.AsType[*authority.Denial](p.err); denied {
		return &control.Answer{Snapshot: &control.Snapshot{}}, p.err
	}
	return nil, p.err
}

// ask sends a good request to a plane that fails.
func ask(t *testing.T, err error, log io.Writer, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	api, made := edge.New(edge.Config{Origin: origin, Title: "t", Version: "1", Log: slog.New(slog.NewTextHandler(log, nil))})
	if made != nil {
		t.Fatal(made)
	}
	runbookhttp.Register(api, plane{err: err})
	r := httptest.NewRequest(method, origin+path, nil)
	if method == "POST" {
		r = httptest.NewRequest(method, origin+path, strings.NewReader(`{"operation":"snapshot","channel":"api"}`))
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

// G-24 L-14: what the control plane cannot do has a status, says when to come back, and
// tells the operator the cause and nobody else.
func TestRefusals(t *testing.T) {
	inside := errors.New("inside: host=10.0.0.7")
	denied := func(reason string) error {
		return &authority.Denial{Reason: reason, Detail: "Too many requests of this session at once; nothing was done."}
	}
	for _, c := range []struct {
		err         error
		status      int
		reason      string
		retry, says string
	}{
		{&control.LimitError{RetryAfter: 1500 * time.Millisecond}, 429, "RATE_LIMITED", "2", "begun 100 sessions within an hour"},
		{fmt.Errorf("%w: %w", control.ErrFull, inside), 503, "control_plane_unavailable", "60", "1000"},
		{fmt.Errorf("%w: %w", control.ErrUnavailable, inside), 503, "control_plane_unavailable", "1", "Nothing was stored"},
		{fmt.Errorf("%w: %w", control.ErrUnknown, inside), 503, "control_plane_unavailable", "1", "not known whether"},
		{fmt.Errorf("%w: %w", control.ErrUnknown, fmt.Errorf("%w: %w", control.ErrUnavailable, inside)), 503, "control_plane_unavailable", "1", "not known whether"},
		{inside, 500, "INTERNAL", "", "log"},
		{denied(incident.ReceiptConflict), 409, "receipt_conflict", "", "Send it again, unless"},
		{denied(incident.ExecutionConflict), 409, "execution_conflict", "", "exactly the same again"},
		{denied(incident.RecoveryFirst), 409, "recovery_required", "", "Reset the simulation"},
		{denied(authority.Frozen), 409, "FROZEN", "", "lifted the freeze"},
	} {
		for _, route := range []string{"POST /api/v1/incident", "GET /api/v1/incident", "GET /api/v1/incident/evidence"} {
			method, path, _ := strings.Cut(route, " ")
			if _, is := errors.AsType[*authority.Denial](c.err); is && method == "GET" {
				continue // reading is not refused
			}
			var log bytes.Buffer
			w := ask(t, c.err, &log, method, path)
			var p struct{ Detail, ReasonCode string }
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != c.status || p.ReasonCode != c.reason || !strings.Contains(p.Detail, c.says) || w.Header().Get("Retry-After") != c.retry {
				t.Errorf("%s: %v: %d, Retry-After %q, %s", route, c.err, w.Code, w.Header().Get("Retry-After"), w.Body)
			}
			if strings.Contains(w.Body.String(), "10.0.0.7") || errors.Is(c.err, inside) != strings.Contains(log.String(), "10.0.0.7") {
				t.Errorf("%s: %v: answered %s, logged %q", route, c.err, w.Body, &log)
			}
		}
	}
}

// lost is a plane that stored a request and cannot tell it.
type lost struct{ plane }

func (lost) Do(context.Context, string, string, incident.Request, string) (*control.Answer, error) {
	return &control.Answer{Cookie: "the-cookie"}, control.ErrUnknown
}

// R-061 L-14: the session that began with a request which was stored and not told is its
// browser's: the refusal has the cookie, and tells no snapshot.
func TestCookieOfWhatIsNotTold(t *testing.T) {
	api, err := edge.New(edge.Config{Origin: origin, Title: "t", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	runbookhttp.Register(api, lost{})
	r := httptest.NewRequest("POST", origin+"/api/v1/incident", strings.NewReader(`{"operation":"snapshot","channel":"api"}`))
	r.Header.Set("Origin", origin)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	var p map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 503 || p["reasonCode"] != "control_plane_unavailable" || p["snapshot"] != nil {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := w.Header().Get("Set-Cookie"); got != "countersign_incident=the-cookie; Path=/; Max-Age=86400; HttpOnly; SameSite=Strict" {
		t.Errorf("the cookie is %q", got)
	}
}

// R-054 R-055: what did not verify is said so, each part by itself.
func TestVerificationIsTold(t *testing.T) {
	for want, v := range map[string]control.Verification{
		`{"verified":true,"hashes":true,"links":true,"signatures":true}`:     {OK: true, Hashes: true, Links: true, Signatures: true},
		`{"verified":false,"hashes":false,"links":true,"signatures":true}`:   {Links: true, Signatures: true},
		`{"verified":false,"hashes":true,"links":false,"signatures":true}`:   {Hashes: true, Signatures: true},
		`{"verified":false,"hashes":true,"links":true,"signatures":false}`:   {Hashes: true, Links: true},
		`{"verified":false,"hashes":false,"links":false,"signatures":false}`: {},
	} {
		api, err := edge.New(edge.Config{Origin: origin, Title: "t", Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		runbookhttp.Register(api, plane{shows: &control.Snapshot{Receipts: control.Receipts{Verified: v}}})
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest("GET", origin+"/api/v1/incident", nil))
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"verification":`+want) {
			t.Errorf("%+v: %d %s", v, w.Code, w.Body)
		}
	}
}

// L-14: a host has one address by which its sessions are counted, however it is written,
// and of IPv6 the network that it can take any address of.
func TestAddress(t *testing.T) {
	for peer, want := range map[string]string{
		"192.0.2.1:4711": "192.0.2.1", "192.0.2.2:4711": "192.0.2.2", "[::ffff:192.0.2.1]:1": "192.0.2.1",
		"[2001:db8:1:2::1]:4711": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff:ffff:ffff:ffff]:1": "2001:db8:1:2::/64", "[2001:db8:1:3::1]:1": "2001:db8:1:3::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "[::1]:1": "::/64", "192.0.2.1": "192.0.2.1", "a pipe": "a pipe",
	} {
		if got := runbookhttp.AddressOf(peer); got != want {
			t.Errorf("%s is counted as %s, want %s", peer, got, want)
		}
	}
}

// Without a plane there is nothing at the paths, and nobody is asked for a token.
func TestOff(t *testing.T) {
	api, err := edge.New(edge.Config{Origin: origin, Title: "t", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	api.Guard("/api/v1/", edge.BearerGuard(nil))
	runbookhttp.Register(api, nil)
	for route, want := range map[string]int{"GET /api/v1/incident": 404, "POST /api/v1/incident": 404, "GET /api/v1/incident/evidence": 404, "GET /api/v1/incidents": 401, "GET /api/v1/x": 401} {
		method, path, _ := strings.Cut(route, " ")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(method, origin+path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", route, w.Code, want)
		}
	}
}
