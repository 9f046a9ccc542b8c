package contextclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"countersign/contextclient"
	"countersign/contextclient/outbox"
)

const (
	token  = "seif_" + "s3cr3ts3cr3ts3cr3ts3cr3ts3cr3ts3cr3ts3cr3tx"
	turnID = "trn_0190c2f0a1b27c3d8e4f5a6b7c8d9e0f"
	tool   = "mcp__seif__context_compass"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// heard is one request as it arrived.
type heard struct {
	Name   string // last part of its path
	Path   string
	Body   string
	Header http.Header
}

func (h heard) key() string { return h.Header.Get("Idempotency-Key") }

// peer is the other end: it answers as the protocol says, unless a test has put something
// else in place of an answer.
type peer struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	heard    []heard
	instead  map[string]http.HandlerFunc // by name
	troubles []error
	waits    int
}

func newPeer(t *testing.T) *peer {
	p := &peer{t: t, instead: map[string]http.HandlerFunc{}}
	p.server = httptest.NewServer(p)
	t.Cleanup(p.server.Close)
	return p
}

func (p *peer) client(edits ...func(*contextclient.Config)) *contextclient.Client {
	p.t.Helper()
	c := contextclient.Config{BaseURL: p.server.URL + "/acme/support", Token: token, OnTrouble: func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.troubles = append(p.troubles, err)
	}, Wait: func(ctx context.Context, _ time.Duration) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waits++
		return ctx.Err()
	}}
	for _, edit := range edits {
		edit(&c)
	}
	client, err := contextclient.New(c)
	must(p.t, err)
	return client
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	p.mu.Lock()
	p.heard = append(p.heard, heard{name, r.Method + " " + r.URL.Path, string(body), r.Header})
	instead := p.instead[name]
	p.mu.Unlock()
	if instead != nil {
		instead(w, r)
		return
	}
	var said struct{ Status string }
	if err := json.Unmarshal(body, &said); err != nil {
		p.t.Error(err)
	}
	switch name {
	case "start":
		answer(201, `{"turn":{"id":"`+turnID+`","status":"OPEN","expiresAt":"2030-01-01T00:15:00.000Z"}}`)(w, r)
	case "observations":
		answer(201, `{"observation":{"id":"o1","turnId":"`+turnID+`","evidenceClass":"observed"}}`)(w, r)
	case "complete":
		answer(200, fmt.Sprintf(`{"receipt":{"turnId":%q,"reported":%q,"status":"S","event":{"sequence":3}}}`, turnID, said.Status))(w, r)
	default:
		turn, _ := json.Marshal(r.Header.Get("X-SEIF-Turn-Id"))
		answer(200, fmt.Sprintf(`{"interaction":{"id":"int_1","tool":%q},"turnId":%s,"verdict":"covered","text":"Returns within 30 days.","items":[{"ref":"returns"}]}`, name, turn))(w, r)
	}
}

// answer answers, as JSON.
func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func problem(status int, reason string, headers ...string) http.HandlerFunc {
	return answer(status, fmt.Sprintf(`{"status":%d,"reasonCode":%q,"detail":"no"}`, status, reason), headers...)
}

// cut ends the connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// answers puts something in place of an answer, or with nil the right one back.
func (p *peer) answers(name string, h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead[name] = h
}

func (p *peer) names() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.heard {
		names = append(names, h.Name)
	}
	return names
}

func (p *peer) of(name string) (found []heard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.heard {
		if h.Name == name {
			found = append(found, h)
		}
	}
	return found
}

func (p *peer) want(names ...string) {
	p.t.Helper()
	if got := p.names(); !slices.Equal(got, names) {
		p.t.Errorf("the server heard %v, want %v", got, names)
	}
}

// flushed flushes, and wants so many reports to wait still.
func flushed(t *testing.T, c *contextclient.Client, waiting int) {
	t.Helper()
	f, err := c.Flush(t.Context())
	must(t, err)
	if f.Waiting != waiting {
		t.Errorf("%d reports wait after a flush, want %d: %+v", f.Waiting, waiting, f)
	}
}

var errModel = errors.New("the model is away")

// S-080, S-081, S-082, S-083: start and context come before the call, which is told what they
// brought and does nothing for the protocol; the report comes after it and says how it ended.
// What the call returns is what its caller gets.
func TestRun(t *testing.T) {
	for _, end := range []struct {
		status string
		call   func(leave func()) error
	}{
		{"completed", func(func()) error { return nil }},
		{"failed", func(func()) error { return errModel }},
		{"cancelled", func(leave func()) error { leave(); return errModel }},
		{"completed", func(leave func()) error { leave(); return nil }}, // it had ended before anybody left
	} {
		p := newPeer(t)
		ctx, leave := context.WithCancel(t.Context())
		var want error
		err := p.client().RunWith(ctx, contextclient.StartOptions{ClientRef: "ticket"}, "How do I return it?", func(_ context.Context, c contextclient.Context) error {
			p.want("start", "compass")
			if c.Turn == nil || c.Turn.ID != turnID || c.Turn.Status != "OPEN" || c.Text != "Returns within 30 days." || c.Verdict != contextclient.Covered || len(c.Problems) > 0 {
				t.Errorf("the call starts from %+v", c)
			}
			want = end.call(leave)
			return want
		})
		leave()
		if err != want {
			t.Errorf("Run returns %v, want %v", err, want)
		}
		p.want("start", "compass", "complete")
		for i, body := range []string{`{"clientRef":"ticket"}`, `{"task":"How do I return it?"}`, `{"status":"` + end.status + `"}`} {
			h := p.heard[i]
			if h.Body != body || h.Header.Get("Authorization") != "Bearer "+token || h.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: got %s %v, want %s", h.Name, h.Body, h.Header, body)
			}
		}
		if got := p.heard[1].Header.Get("X-SEIF-Turn-Id"); got != turnID {
			t.Errorf("compass in the turn %q", got)
		}
		if a, b := p.heard[0].key(), p.heard[2].key(); len(a) < 16 || len(b) < 16 || a == b {
			t.Errorf("keys %q and %q", a, b)
		}
		if len(p.troubles) > 0 {
			t.Error(p.troubles)
		}
	}
}

// S-080: a panic of the call is reported as failed, and goes on as it is.
func TestRunPanic(t *testing.T) {
	p := newPeer(t)
	defer func() {
		if got := recover(); got != any(errModel) {
			t.Errorf("recovered %v", got)
		}
		if h := p.of("complete"); len(h) != 1 || h[0].Body != `{"status":"failed"}` {
			t.Errorf("reported %+v", h)
		}
	}()
	_ = p.client().Run(t.Context(), "task", func(context.Context, contextclient.Context) error { panic(errModel) })
}

// S-083, S-086: a report that is not answered is neither a failed call nor lost. It is sent
// again, the same under the same key, until the server has answered.
func TestRunUnreported(t *testing.T) {
	for _, want := range []error{nil, errModel} {
		for name, failure := range map[string]http.HandlerFunc{
			"no answer": cut, "503": problem(503, "LEDGER_UNAVAILABLE"), "in progress": problem(409, "idempotency_in_progress"), "429": problem(429, "limit_reached"),
			"408": answer(408, ""), "425": answer(425, ""), "a redirect": answer(302, "", "Location", "/elsewhere"),
			"somebody else's page": answer(200, "<html>Please sign in."), "another turn's receipt": answer(200, `{"receipt":{"turnId":"trn_other"}}`), "nothing": answer(200, ""),
		} {
			t.Run(fmt.Sprintf("%s, %v", name, want), func(t *testing.T) {
				p := newPeer(t)
				c := p.client()
				p.answers("complete", failure)
				if err := c.Run(t.Context(), "task", func(context.Context, contextclient.Context) error { return want }); err != want {
					t.Errorf("Run returns %v, want %v", err, want)
				}
				if len(p.troubles) != 1 || !errors.Is(p.troubles[0], contextclient.ErrQueued) {
					t.Errorf("told %v, want ErrQueued", p.troubles)
				}
				flushed(t, c, 1)
				p.answers("complete", nil)
				flushed(t, c, 0)
				flushed(t, c, 0)
				sent := p.of("complete")
				status := map[bool]string{true: "completed", false: "failed"}[want == nil]
				for _, h := range sent {
					if h.key() != sent[0].key() || h.Body != `{"status":"`+status+`"}` {
						t.Errorf("sent %s under %s, after %s", h.Body, h.key(), sent[0].key())
					}
				}
				if len(sent) < 3 {
					t.Errorf("sent %d times, want three and what the transport repeats", len(sent))
				}
				if n := len(p.of("elsewhere")); n > 0 {
					t.Errorf("%d requests followed a redirect", n)
				}
			})
		}
	}
}

// S-086: a report that the server refuses for good is not sent again, its caller is told why,
// and Run's answer stays.
func TestRefusedReport(t *testing.T) {
	for status, reason := range map[int]string{400: "body_invalid", 403: "turn_protocol_not_enabled", 404: "turn_not_found", 409: "turn_closed", 410: "turn_expired"} {
		p := newPeer(t)
		c := p.client()
		p.answers("complete", problem(status, reason))
		must(t, c.Run(t.Context(), "task", func(context.Context, contextclient.Context) error { return nil }))
		if len(p.troubles) != 1 || !strings.Contains(p.troubles[0].Error(), reason) {
			t.Errorf("%s: told %v", reason, p.troubles)
		}
		turn, err := c.Turn(turnID)
		must(t, err)
		_, err = turn.Complete(t.Context(), contextclient.Completed, "")
		if e, ok := errors.AsType[*contextclient.Error](err); !ok || e.Status != status || e.ReasonCode != reason || e.Temporary() || errors.Is(err, contextclient.ErrQueued) {
			t.Errorf("%s: %v", reason, err)
		}
		flushed(t, c, 0)
		p.want("start", "compass", "complete", "complete")
	}
}

// S-084: a start that is not answered is repeated with its key before anything is handed out,
// three times in all.
func TestStartAgain(t *testing.T) {
	for _, failure := range []http.HandlerFunc{cut, problem(503, ""), problem(429, "limit_reached", "Retry-After", "2"), answer(200, `{"turn":{"id":"../../x"}}`)} {
		p := newPeer(t)
		p.answers("start", func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			early := p.waits < 2
			p.mu.Unlock()
			if early {
				failure(w, r)
				return
			}
			answer(200, `{"turn":{"id":"`+turnID+`","status":"OPEN"}}`, "Idempotency-Replayed", "true")(w, r)
		})
		must(t, p.client().Run(t.Context(), "task", func(_ context.Context, c contextclient.Context) error {
			if c.Turn == nil || len(c.Problems) > 0 {
				t.Errorf("the call starts from %+v", c)
			}
			return nil
		}))
		p.want("start", "start", "start", "compass", "complete")
		for _, h := range p.of("start") {
			if h.key() != p.heard[0].key() {
				t.Errorf("keys %q and %q", h.key(), p.heard[0].key())
			}
		}
	}
}

// S-085: when no turn can be started, the call is told so and goes on, and nothing is started,
// asked or reported behind it.
func TestRunWithoutTurn(t *testing.T) {
	for _, c := range []struct {
		failure http.HandlerFunc
		starts  int
	}{
		{cut, 3},
		{problem(401, "token_invalid"), 1},
		{problem(429, "limit_reached", "Retry-After", "600"), 1}, // nobody waits ten minutes for an answer
	} {
		p := newPeer(t)
		p.answers("start", c.failure)
		err := p.client().Run(t.Context(), "task", func(_ context.Context, at contextclient.Context) error {
			p.answers("start", nil) // the server is back
			if at.Turn != nil || at.Text != "" || len(at.Problems) != 1 || !isError(at.Problems[0]) {
				t.Errorf("the call starts from %+v", at)
			}
			return errModel
		})
		if err != errModel {
			t.Errorf("Run returns %v", err)
		}
		p.want(slices.Repeat([]string{"start"}, c.starts)...)
		if len(p.troubles) != 1 || !strings.Contains(p.troubles[0].Error(), "without a turn and without context") {
			t.Errorf("told %v", p.troubles)
		}
	}
}

// A client without the opt-in gets its context outside a turn.
func TestRunWithoutOptIn(t *testing.T) {
	for _, reason := range []string{"turn_protocol_not_enabled", "named_client_required"} {
		p := newPeer(t)
		p.answers("start", problem(403, reason))
		client := p.client()
		run := func(_ context.Context, c contextclient.Context) error {
			if c.Turn != nil || c.Text == "" || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Error(), reason) {
				t.Errorf("the call starts from %+v", c)
			}
			return nil
		}
		must(t, client.Run(t.Context(), "task", run))
		must(t, client.Run(t.Context(), "task", run))
		p.want("start", "compass", "start", "compass")
		if len(p.troubles) != 1 || !strings.Contains(p.troubles[0].Error(), reason) { // it is so for every call
			t.Errorf("told %v", p.troubles)
		}
		if got, ok := p.heard[1].Header["X-Seif-Turn-Id"]; ok {
			t.Errorf("compass in the turn %q", got)
		}
	}
}

// S-080: without context the call goes on, in its turn; a delivery is not asked for twice.
// Somebody who leaves before the model is asked has a cancelled turn and no call.
func TestRunWithoutContext(t *testing.T) {
	p := newPeer(t)
	p.answers("compass", cut)
	must(t, p.client().Run(t.Context(), "task", func(_ context.Context, c contextclient.Context) error {
		if c.Turn == nil || c.Text != "" || len(c.Problems) != 1 {
			t.Errorf("the call starts from %+v", c)
		}
		return nil
	}))
	p.want("start", "compass", "complete")
	if len(p.troubles) != 1 || !strings.Contains(p.troubles[0].Error(), "without context") {
		t.Errorf("told %v", p.troubles)
	}

	p = newPeer(t)
	ctx, leave := context.WithCancelCause(t.Context())
	p.answers("compass", func(http.ResponseWriter, *http.Request) { leave(errModel); cut(nil, nil) })
	if err := p.client().Run(ctx, "task", func(context.Context, contextclient.Context) error { t.Error("the model is asked"); return nil }); err != errModel {
		t.Errorf("Run returns %v", err)
	}
	if h := p.of("complete"); len(h) != 1 || h[0].Body != `{"status":"cancelled"}` {
		t.Errorf("reported %+v", h)
	}
}

// S-086: a completion does not overtake an observation of its turn, since a closed turn takes
// none; and it does not stand in the way of another turn's reports.
func TestOrder(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	turn, err := c.Turn(turnID)
	must(t, err)
	p.answers("observations", problem(503, ""))
	if _, err := turn.Observe(t.Context(), tool, "use-1"); !errors.Is(err, contextclient.ErrQueued) {
		t.Fatal(err)
	}
	if _, err := turn.Complete(t.Context(), contextclient.Completed, "done"); !errors.Is(err, contextclient.ErrQueued) {
		t.Fatal(err)
	}
	if n := len(p.of("complete")); n != 0 {
		t.Errorf("%d completions went first", n)
	}
	other, err := c.Turn("trn_other")
	must(t, err)
	p.answers("complete", answer(200, `{"receipt":{"turnId":"trn_other","reported":"failed"}}`))
	if r, err := other.Complete(t.Context(), contextclient.Failed, ""); err != nil || r.Reported != contextclient.Failed {
		t.Errorf("the other turn: %+v, %v", r, err)
	}
	p.answers("complete", nil)
	p.answers("observations", nil)
	flushed(t, c, 0)
	names := p.names()
	if got := names[len(names)-2:]; !slices.Equal(got, []string{"observations", "complete"}) {
		t.Errorf("at last %v", got)
	}
	for _, h := range p.of("observations") {
		if h.Body != `{"event":"pre_tool_use","tool":"`+tool+`","toolUseId":"use-1"}` || h.key() != p.of("observations")[0].key() {
			t.Errorf("observed %s under %s", h.Body, h.key())
		}
	}

	// With the server back, a completion takes what waits before it along.
	p = newPeer(t)
	turn, err = p.client().Turn(turnID)
	must(t, err)
	p.answers("observations", cut)
	_, err = turn.Observe(t.Context(), tool, "use-1")
	if !errors.Is(err, contextclient.ErrQueued) {
		t.Fatal(err)
	}
	p.answers("observations", nil)
	if r, err := turn.Complete(t.Context(), contextclient.Completed, ""); err != nil || r.TurnID != turnID || r.Event.Sequence != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// S-086: an outbox that is full, or cannot be written, costs the report, which is told, and not the answer.
func TestFullOutbox(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	turn, err := c.Turn(turnID)
	must(t, err)
	p.answers("observations", problem(503, ""))
	for i := range 100 {
		if _, err := turn.Observe(t.Context(), tool, fmt.Sprint("use-", i)); !errors.Is(err, contextclient.ErrQueued) {
			t.Fatal(i, err)
		}
	}
	if _, err := turn.Observe(t.Context(), tool, "one-more"); !errors.Is(err, outbox.ErrFull) || errors.Is(err, contextclient.ErrQueued) {
		t.Errorf("one more: %v, want ErrFull", err)
	}
	must(t, c.Run(t.Context(), "task", func(context.Context, contextclient.Context) error { return nil }))
	if len(p.troubles) != 1 || !errors.Is(p.troubles[0], outbox.ErrFull) {
		t.Errorf("told %v, want ErrFull", p.troubles)
	}
}

// A caller who leaves while a report is under way does not take it along: it waits, and its key with it.
func TestLeftReport(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	turn, err := c.Turn(turnID)
	must(t, err)
	ctx, leave := context.WithCancel(t.Context())
	p.answers("complete", func(_ http.ResponseWriter, r *http.Request) { leave(); <-r.Context().Done() })
	if _, err := turn.Complete(ctx, contextclient.Cancelled, ""); !errors.Is(err, contextclient.ErrQueued) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	p.answers("complete", nil)
	flushed(t, c, 0)
	if sent := p.of("complete"); len(sent) != 2 || sent[0].key() != sent[1].key() {
		t.Errorf("sent %+v", sent)
	}
	if r, err := turn.Complete(ctx, contextclient.Cancelled, ""); err != nil || r.Reported != contextclient.Cancelled {
		t.Errorf("with a ctx that has ended: %+v, %v", r, err)
	}
}

// Deliver sends what waits in an outbox that an earlier process has left.
func TestDeliver(t *testing.T) {
	p := newPeer(t)
	box, err := outbox.Open(t.TempDir()+"/private/outbox", outbox.Options{NoSync: true})
	must(t, err)
	kept := func(c *contextclient.Config) { c.Outbox = box }
	turn, err := p.client(kept).Turn(turnID)
	must(t, err)
	must(t, box.Add(t.Context(), outbox.Entry{Key: outbox.NewKey(), Path: "/context/turns/" + turn.ID + "/complete", Body: []byte(`{"status":"completed"}`)}))
	ctx, stop := context.WithCancel(t.Context())
	p.answers("complete", func(w http.ResponseWriter, r *http.Request) {
		answer(200, `{"receipt":{"turnId":"`+turnID+`"}}`)(w, r)
		stop()
	})
	if err := p.client(kept).Deliver(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.want("complete")

	// An outbox of the caller's own that tells nobody: Run does.
	box = outbox.New(outbox.Options{})
	p.answers("complete", problem(410, "turn_expired"))
	must(t, p.client(func(c *contextclient.Config) { c.Outbox = box }).Run(t.Context(), "task", func(context.Context, contextclient.Context) error { return nil }))
	if len(p.troubles) != 1 {
		t.Errorf("told %v", p.troubles)
	}
}

// What is not the protocol's is not sent: other tools, other statuses.
func TestNotSent(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	turn, err := c.Turn(turnID)
	must(t, err)
	for what, f := range map[string]func() error{
		"a tool of others":  func() error { _, err := turn.Observe(t.Context(), "Bash", "use-1"); return err },
		"an id with spaces": func() error { _, err := turn.Observe(t.Context(), tool, "use 1"); return err },
		"another status":    func() error { _, err := turn.Complete(t.Context(), "done", ""); return err },
		"a long note":       func() error { _, err := turn.Complete(t.Context(), "failed", strings.Repeat("ä", 2001)); return err },
		"another id":        func() error { _, err := c.Turn("../x"); return err },
		"nobody's turn":     func() error { _, err := new(contextclient.Turn).Complete(t.Context(), "failed", ""); return err },
		"nobody's tools":    func() error { _, err := new(contextclient.Turn).Doctor(t.Context()); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", what)
		}
	}
	p.want()
	flushed(t, c, 0)
}

func isError(err error) bool {
	_, ok := errors.AsType[*contextclient.Error](err)
	return ok
}

// What nobody listens to is said all the same: a call without a turn or without context is a
// warning of the default logger, without the token.
func TestToldByDefault(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	for _, wrong := range []string{"start", "compass"} {
		log.Reset()
		p := newPeer(t)
		p.answers(wrong, answer(401, `{"reasonCode":"token_invalid","detail":"`+token+` opens nothing"}`))
		silent := func(c *contextclient.Config) { c.OnTrouble = nil }
		must(t, p.client(silent).Run(t.Context(), "task", func(context.Context, contextclient.Context) error { return nil }))
		if said := log.String(); strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "without context") || !strings.Contains(said, "token_invalid") || strings.Contains(said, token) {
			t.Errorf("%s is refused: the log has %q", wrong, said)
		}
	}
}

// hangs never answers the requests of these names, and answers the others as peer does.
type hangs struct {
	p     *peer
	names []string
	hung  map[string]int // how many requests of a name were not answered
}

func (h hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	if name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]; slices.Contains(h.names, name) {
		h.hung[name]++
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	w := httptest.NewRecorder()
	h.p.ServeHTTP(w, r)
	return w.Result(), nil
}

// A server that hangs costs a call no more than its start has, or one request, and the end of a
// program no more than two seconds.
func TestServerHangs(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		hung   []string
		config contextclient.Config
		before time.Duration // the model is called
		after  time.Duration // Run returns
		close  time.Duration
	}{
		{"the start", []string{"start"}, contextclient.Config{}, 5 * s, 5 * s, 0},
		{"a start that has two seconds", []string{"start"}, contextclient.Config{StartWithin: 2 * s}, 2 * s, 2 * s, 0},
		{"the context", []string{"compass"}, contextclient.Config{}, 5 * s, 5 * s, 0},
		{"the report", []string{"complete"}, contextclient.Config{}, 0, 5 * s, 2 * s},
		{"everything but the start", []string{"compass", "complete"}, contextclient.Config{HTTP: &http.Client{Timeout: 3 * s}}, 3 * s, 6 * s, 2 * s},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &peer{t: t, instead: map[string]http.HandlerFunc{}}
			c.config.BaseURL, c.config.Token = "https://h.example/acme/support", token
			c.config.OnTrouble = func(err error) { p.troubles = append(p.troubles, err) }
			sender := http.Client{}
			if c.config.HTTP != nil {
				sender = *c.config.HTTP
			}
			hung := map[string]int{}
			sender.Transport = hangs{p, c.hung, hung}
			c.config.HTTP = &sender
			client, err := contextclient.New(c.config)
			must(t, err)
			began := time.Now()
			var before time.Duration
			must(t, client.Run(t.Context(), "task", func(context.Context, contextclient.Context) error {
				before = time.Since(began)
				return nil
			}))
			if after := time.Since(began); before != c.before || after != c.after {
				t.Errorf("%s hangs: the model is called after %v, want %v, and Run returns after %v, want %v", c.name, before, c.before, after, c.after)
			}
			if n := hung["start"]; n != map[bool]int{true: 2}[c.hung[0] == "start"] { // one attempt leaves time for another
				t.Errorf("%s hangs: %d attempts to start", c.name, n)
			}
			told, began := len(p.troubles), time.Now()
			client.Close()
			if took := time.Since(began); took != c.close || (len(p.troubles) > told) != (c.close > 0) {
				t.Errorf("%s hangs: Close takes %v, want %v, and tells %v", c.name, took, c.close, p.troubles[told:])
			}
		})
	}
}

// S-086: at the end of a program what waits is sent once more, and what is lost with its
// memory is told; what is in a file waits there.
func TestClose(t *testing.T) {
	kept, err := outbox.Open(t.TempDir()+"/private/outbox", outbox.Options{NoSync: true})
	must(t, err)
	for want, box := range map[string]*outbox.Outbox{"lost with this process": nil, "waiting in the outbox's file": kept} {
		p := newPeer(t)
		c := p.client(func(c *contextclient.Config) { c.Outbox = box })
		p.answers("complete", problem(503, "LEDGER_UNAVAILABLE"))
		must(t, c.Run(t.Context(), "task", func(context.Context, contextclient.Context) error { return nil }))
		if len(p.troubles) != 1 || strings.Contains(p.troubles[0].Error(), "unless Deliver, Flush or Close") != (box == nil) {
			t.Errorf("told %v", p.troubles)
		}
		c.Close()
		if len(p.troubles) != 2 || !strings.Contains(p.troubles[1].Error(), want) || !strings.Contains(p.troubles[1].Error(), "LEDGER_UNAVAILABLE") {
			t.Errorf("told %v, want %s", p.troubles, want)
		}
		p.answers("complete", nil)
		c.Close()
		if sent := p.of("complete"); len(p.troubles) != 2 || len(sent) != 3 || sent[2].key() != sent[0].key() {
			t.Errorf("told %v, sent %d times", p.troubles, len(sent))
		}
		flushed(t, c, 0)
	}
}

// S-086: a token that is refused says nothing about the report, which the right token delivers
// under its first key.
func TestRefusedToken(t *testing.T) {
	for _, reason := range []string{"token_invalid", "token_missing"} {
		p := newPeer(t)
		box := outbox.New(outbox.Options{})
		shared := func(c *contextclient.Config) { c.Outbox = box }
		p.answers("complete", problem(401, reason))
		c := p.client(shared)
		must(t, c.Run(t.Context(), "task", func(context.Context, contextclient.Context) error { return nil }))
		if len(p.troubles) != 1 || !errors.Is(p.troubles[0], contextclient.ErrQueued) || !strings.Contains(p.troubles[0].Error(), reason) {
			t.Errorf("%s: told %v", reason, p.troubles)
		}
		flushed(t, c, 1)
		p.answers("complete", nil)
		flushed(t, p.client(shared, func(c *contextclient.Config) { c.Token = "seif_the-next-one" }), 0)
		sent := p.of("complete")
		if last := sent[len(sent)-1]; last.key() != sent[0].key() || last.Header.Get("Authorization") != "Bearer seif_the-next-one" {
			t.Errorf("%s: sent %+v", reason, sent)
		}
	}
}

// What is wrong with a request is in its error, by place.
func TestErrors(t *testing.T) {
	p := newPeer(t)
	p.answers("compass", answer(400, `{"reasonCode":"body_invalid","detail":"Correct what errors names.","errors":[{"location":"body.task","message":"expected length >= 1"},{"location":"body","message":"`+token+`"}]}`))
	_, err := p.client().Compass(t.Context(), "")
	if want := "contextclient: compass: 400 body_invalid Correct what errors names. body.task: expected length >= 1; body: [token]"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The tools say what they are given, in a turn and outside one, and take no answer of another turn.
func TestTools(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	turn, err := c.Turn(turnID)
	must(t, err)
	ctx := t.Context()
	for _, tools := range []contextclient.Tools{c.Tools, turn.Tools} {
		for _, f := range []func() error{
			func() error { _, err := tools.Resolve(ctx, "returns"); return err },
			func() error { _, err := tools.Find(ctx, "refund", 3); return err },
			func() error { _, err := tools.Find(ctx, "refund", 0); return err },
			func() error { _, err := tools.Why(ctx, "returns"); return err },
			func() error { _, err := tools.WhySelected(ctx, "int_1"); return err },
			func() error {
				_, err := tools.ReportGap(ctx, contextclient.GapReport{Task: "exchange", Detail: "nothing on it"})
				return err
			},
			func() error { _, err := tools.Test(ctx, contextclient.Expectation{CaseID: "c1"}); return err },
			func() error { _, err := tools.Doctor(ctx); return err },
		} {
			must(t, f())
		}
	}
	bodies := []string{`{"ref":"returns"}`, `{"limit":3,"query":"refund"}`, `{"query":"refund"}`, `{"ref":"returns"}`, `{"interactionId":"int_1"}`, `{"task":"exchange","detail":"nothing on it"}`, `{"caseId":"c1"}`, `{}`}
	for i, h := range p.heard {
		in := map[bool]string{true: turnID}[i >= len(bodies)]
		if h.Body != bodies[i%len(bodies)] || h.Header.Get("X-SEIF-Turn-Id") != in || h.key() != "" {
			t.Errorf("%s: %s in %q", h.Name, h.Body, h.Header.Get("X-SEIF-Turn-Id"))
		}
	}
	p.answers("doctor", answer(200, `{"interaction":{"id":"int_1"},"turnId":"trn_other"}`))
	if _, err := turn.Doctor(ctx); err == nil {
		t.Error("the answer of another turn is taken")
	}
	p.answers("doctor", answer(200, `{"filler":"`+strings.Repeat("x", 16<<20)+`"}`))
	if _, err := turn.Doctor(ctx); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("an answer without end: %v", err)
	}
}

// S-028: the base address is https; http is for loopback. What else stands in an address is
// refused and not repeated.
func TestBaseURL(t *testing.T) {
	for _, base := range []string{"https://h.example/a/b", "https://h.example/a/b/staging/", "http://localhost:8420/a/b", "http://127.0.0.1:1/a/b", "http://[::1]:1/a/b"} {
		if _, err := contextclient.New(contextclient.Config{BaseURL: base, Token: token}); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
	for _, base := range []string{"http://h.example/a/b", "http://127.0.0.1.example/a/b", "http://localhost.example/a", "ftp://localhost/a", "https://u:p4ss@h.example/a", "https://h.example/a?p4ss", "https://h.example/a#p4ss", "https:///a", "", "h.example", "https:h.example"} {
		if _, err := contextclient.New(contextclient.Config{BaseURL: base, Token: token}); err == nil || strings.Contains(err.Error(), "p4ss") {
			t.Errorf("%s: %v", base, err)
		}
	}
	for _, bad := range []string{"", "two words", "line\nfeed"} {
		if _, err := contextclient.New(contextclient.Config{BaseURL: "https://h.example/a", Token: contextclient.Token(bad)}); err == nil {
			t.Errorf("the token %q is taken", bad)
		}
	}
}

// The environment names base address, token and turn.
func TestEnvironment(t *testing.T) {
	p := newPeer(t)
	for _, name := range []string{"SEIF_BASE_URL", "SEIF_CLIENT_TOKEN"} {
		t.Setenv(name, "")
		if _, err := contextclient.FromEnvironment(contextclient.Config{}); err == nil || !strings.Contains(err.Error(), name+" is not set") {
			t.Errorf("without %s: %v", name, err)
		}
		t.Setenv(name, map[string]string{"SEIF_BASE_URL": "http://h.example/a", "SEIF_CLIENT_TOKEN": "two words"}[name])
		if _, err := contextclient.FromEnvironment(contextclient.Config{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("with a wrong %s: %v", name, err)
		}
		t.Setenv("SEIF_BASE_URL", p.server.URL+"/acme/support/")
	}
	t.Setenv("SEIF_CLIENT_TOKEN", token)
	c, err := contextclient.FromEnvironment(contextclient.Config{})
	must(t, err)
	if _, err := c.TurnOfEnvironment(); err == nil || !strings.Contains(err.Error(), "SEIF_TURN_ID") {
		t.Errorf("without a turn: %v", err)
	}
	t.Setenv("SEIF_TURN_ID", turnID)
	turn, err := c.TurnOfEnvironment()
	must(t, err)
	_, err = turn.Observe(t.Context(), tool, "use-1")
	must(t, err)
	if h := p.heard[0]; h.Path != "POST /acme/support/context/turns/"+turnID+"/observations" || h.Header.Get("Authorization") != "Bearer "+token {
		t.Errorf("%+v", h)
	}
}

// S-025: no way of printing shows the token, and what a server says of it does not come into an
// error. Nothing follows a redirect, where the token would go along.
func TestTokenStaysHidden(t *testing.T) {
	p := newPeer(t)
	p.answers("complete", answer(403, `{"reasonCode":"x`+token+`","detail":"\u001b[2J`+token+` is not known"}`))
	var config contextclient.Config
	c := p.client(func(c *contextclient.Config) { config = *c })
	turn, err := c.Turn(turnID)
	must(t, err)
	_, refused := turn.Complete(t.Context(), contextclient.Completed, "")
	if want := "contextclient: turns/" + turnID + "/complete: 403 x[token] [2J[token] is not known"; refused == nil || refused.Error() != want {
		t.Errorf("got %v, want %s", refused, want)
	}
	p.server.Close()
	_, unanswered := turn.Doctor(t.Context())
	var log bytes.Buffer
	for _, v := range []any{config, &config, c, *c, turn, *turn, refused, unanswered, config.Token} {
		logger := slog.New(slog.NewTextHandler(&log, nil))
		logger.Info("shown", "value", v)
		fmt.Fprintf(&log, "%v %+v %#v %s", v, v, v, v)
		if kind := reflect.Indirect(reflect.ValueOf(v)).Type(); kind != reflect.TypeOf(config) && kind != reflect.TypeOf(*c) { // those hold functions
			raw, err := json.Marshal(v)
			must(t, err)
			log.Write(raw)
		}
	}
	if strings.Contains(log.String(), token) {
		t.Errorf("shown: %s", log.String())
	}

	away := newPeer(t)
	p = newPeer(t)
	for _, code := range []int{301, 302, 303, 307, 308} {
		p.answers("doctor", answer(code, "", "Location", away.server.URL))
		if _, err := p.client(func(c *contextclient.Config) { c.HTTP = &http.Client{} }).Doctor(t.Context()); err == nil {
			t.Errorf("%d: no error", code)
		}
	}
	away.want()
}
