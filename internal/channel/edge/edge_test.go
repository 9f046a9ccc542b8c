package edge_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
)

// site is an API with real sessions and tokens on a real port, and routes that
// are there to be asked.
type site struct {
	api     *edge.API
	origin  string
	addr    string
	clock   *ledger.Clock
	owners  *identity.Owners
	secret  string
	cookie  string // of a live session
	session identity.Session
	token   string // of a live run token
	owned   string // prefix of the owner's things
	off     string // a rule of the things that is switched off
	effects atomic.Int64
	log     *logged
	stop    context.CancelFunc
	served  chan error
}

// logged keeps what the server logs.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type thingInput struct {
	ID    string `path:"id" maxLength:"36"`
	Limit int    `query:"limit" minimum:"1" maximum:"100"`
	Key   string `header:"X-Idempotency-Key" maxLength:"160"`
	Body  struct {
		Name        string   `json:"name" minLength:"1" maxLength:"20"`
		Count       int      `json:"count" minimum:"0" maximum:"9"`
		AmountCents string   `json:"amountCents" pattern:"^(0|[1-9][0-9]{0,11})$"`
		Tags        []string `json:"tags,omitempty" maxItems:"3"`
		Note        *string  `json:"note,omitempty" nullable:"true"`
	}
}

type thingOutput struct {
	Body struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
}

// things are the routes of a site under a prefix: POST PREFIX/{id} answers 404 for
// an id that is not "here" and 409 for a count of 9, in this order.
func (s *site) things(prefix, name string) {
	edge.Register(s.api, edge.Operation{
		Operation: huma.Operation{OperationID: name, Method: http.MethodPost, Path: prefix + "/{id}"},
		Reasons:   []string{authority.NotFound, authority.RunNotReady},
	}, func(_ context.Context, in *thingInput) (*thingOutput, error) {
		switch {
		case in.ID != "here" && s.off != "unknown id":
			return nil, &authority.Denial{Reason: authority.NotFound}
		case in.Body.Count == 9 && s.off != "wrong state":
			return nil, &authority.Denial{Reason: authority.RunNotReady, Detail: "The run has ended."}
		}
		s.effects.Add(1)
		out := &thingOutput{}
		out.Body.Name, out.Body.Tags = in.Body.Name, in.Body.Tags
		return out, nil
	})
	edge.Register(s.api, edge.Operation{
		Operation: huma.Operation{OperationID: name + "-get", Method: http.MethodGet, Path: prefix + "/{id}"},
	}, func(ctx context.Context, in *struct {
		ID string `path:"id"`
	}) (*thingOutput, error) {
		out := &thingOutput{}
		out.Body.Name = in.ID
		return out, nil
	})
}

type rawInput struct {
	RawBody []byte `contentType:"application/json"`
}

// raw is a route that takes its body as it is.
func (s *site) raw(path, name string) {
	edge.Register(s.api, edge.Operation{
		Operation: huma.Operation{OperationID: name, Method: http.MethodPost, Path: path},
		Malformed: authority.MalformedProposal,
	}, func(_ context.Context, in *rawInput) (*thingOutput, error) {
		s.effects.Add(1)
		out := &thingOutput{}
		out.Body.Name = string(in.RawBody)
		return out, nil
	})
}

// projectThings is where the routes are that the guard of projects stands before.
const projectThings = "/api/projects/things"

// serve starts a site on a free port of 127.0.0.1. The edits are made before it
// serves.
func serve(t testing.TB, edits ...func(*site)) *site {
	t.Helper()
	path := filepath.Join(t.TempDir(), "countersign.db")
	if err := sqlite.Create(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s := &site{clock: new(ledger.Clock), owned: "/api/v1/owner/things", log: &logged{}, served: make(chan error, 1)}
	l, err := sqlite.Open(t.Context(), path, sqlite.Options{Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = listener.Addr().String()
	s.origin = "http://" + s.addr
	s.api, err = edge.New(edge.Config{
		Origin: s.origin, Title: "test", Version: "0.1", Ready: l.Ping,
		Log: slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	token, c := identity.NewRunToken(ledger.DefaultWorkspace, "run-1", 1, s.origin, s.clock.Now().Add(time.Hour))
	if err := l.Commit(t.Context(), ledger.Change{Credentials: []ledger.Credential{c}}).Err(); err != nil {
		t.Fatal(err)
	}
	s.token = token
	s.secret = strings.TrimPrefix(token, identity.TokenPrefix)[5:] + "secret"
	s.owners = identity.NewOwners(l, ledger.DefaultWorkspace, s.secret)
	if s.cookie, s.session, err = s.owners.SignIn(t.Context(), s.secret, "test"); err != nil {
		t.Fatal(err)
	}
	s.api.Guard(edge.OwnerPrefix, edge.OwnerGuard(s.origin, s.owners.Verify))
	s.api.Guard(edge.ProjectsPrefix, edge.ProjectsGuard(s.origin, s.owners.Verify))
	s.api.Guard("/api/v1/", edge.BearerGuard(identity.NewTokens(l, ledger.DefaultWorkspace).Lookup))
	edge.RegisterSessions(s.api, s.owners)
	s.things(s.owned, "owner-thing")
	s.things(projectThings, "project-thing")
	s.things("/api/v1/things", "thing")
	s.things("/open", "open-thing")
	s.raw("/raw", "raw")
	for _, edit := range edits {
		edit(s)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	server := &edge.Server{API: s.api}
	go func() { s.served <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-s.served; err != nil {
			t.Error("serve:", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask is a request to be sent. Headers are sent as they are written here.
type ask struct {
	method, path string
	header       http.Header
	body         string
	host         string
}

// with returns a copy with a header set; an empty value removes it.
func (a ask) with(name, value string) ask {
	a.header = a.header.Clone()
	if a.header == nil {
		a.header = http.Header{}
	}
	if a.header.Set(name, value); value == "" {
		a.header.Del(name)
	}
	return a
}

func (a ask) and(name, value string) ask {
	a.header = a.header.Clone()
	a.header.Add(name, value)
	return a
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
	reason string
	errors []edge.MemberError
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.reason) }

var client = &http.Client{
	Timeout:       30 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// send asks over a real connection. A refusal that is not of the one form is an
// error.
func (s *site) send(a ask) (answer, error) {
	req, err := http.NewRequest(a.method, s.origin+a.path, strings.NewReader(a.body))
	if err != nil {
		return answer{}, err
	}
	req.Header = a.header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Host = a.host
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{status: resp.StatusCode, header: resp.Header, body: string(raw)}
	if resp.StatusCode < 400 || a.method == http.MethodHead || a.path == "/healthz" || a.path == "/readyz" {
		return got, nil
	}
	var p struct {
		Type, Title, Detail, ReasonCode, Effect string
		Status                                  int
		Errors                                  []edge.MemberError
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return got, fmt.Errorf("%d without a problem: %q", got.status, got.body)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" {
		return got, fmt.Errorf("a problem as %s", ct)
	}
	if p.Status != got.status || p.Title == "" || p.Detail == "" || p.Type != "/reasons#"+p.ReasonCode {
		return got, fmt.Errorf("an incomplete problem: %s", got.body)
	}
	got.reason, got.errors = p.ReasonCode, p.Errors
	return got, nil
}

func (s *site) mustSend(t *testing.T, a ask) answer {
	t.Helper()
	got, err := s.send(a)
	if err != nil {
		t.Fatalf("%s %s: %v", a.method, a.path, err)
	}
	return got
}

func (s *site) expect(t *testing.T, name string, a ask, want string) answer {
	t.Helper()
	got, err := s.send(a)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	} else if got.String() != want && fmt.Sprint(got.status) != want {
		t.Errorf("%s: %s, want %s (%s)", name, got, want, got.body)
	}
	return got
}

const good = `{"name":"a","count":1,"amountCents":"100"}`

// open is a request to a route without a guard.
func (s *site) open(body string) ask {
	return ask{method: http.MethodPost, path: "/open/here", body: body, header: http.Header{"Content-Type": {"application/json"}}}
}

// owner is a request of the owner that is good.
func (s *site) owner(method, path, body string) ask {
	a := ask{method: method, path: path, body: body, header: http.Header{
		"Cookie": {edge.OwnerCookie + "=" + s.cookie}, "Origin": {s.origin},
	}}
	if strings.HasPrefix(path, edge.OwnerPrefix) {
		a.header.Set("X-Halfspan-Owner", "1")
	}
	if body != "" {
		a.header.Set("Content-Type", "application/json")
	}
	return a
}

// agent is a request of an agent that is good.
func (s *site) agent(method, path, body string) ask {
	a := ask{method: method, path: path, body: body, header: http.Header{"Authorization": {"Bearer " + s.token}}}
	if body != "" {
		a.header.Set("Content-Type", "application/json")
	}
	return a
}

// wire sends bytes as they are and returns the answer's status line.
func (s *site) wire(t *testing.T, raw string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
