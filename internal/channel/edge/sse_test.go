package edge_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/stream"
)

// source is a growing list of frames.
type source struct {
	mu     sync.Mutex
	frames []stream.Frame
	wake   chan struct{}
	closed chan struct{}
	fail   error
	page   int
}

func newSource() *source {
	return &source{wake: make(chan struct{}, 1), closed: make(chan struct{}, 8), page: 2}
}

func (s *source) add(n int) {
	s.mu.Lock()
	for range n {
		id := int64(len(s.frames) + 1)
		s.frames = append(s.frames, stream.Frame{ID: id, Event: "test.happened", Data: fmt.Appendf(nil, `{"n":%d}`, id)})
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *source) head(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.frames)), nil
}

func (s *source) next(_ context.Context, after int64) ([]stream.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.frames[after:]
	return slices.Clone(list[:min(len(list), s.page)]), s.fail
}

// watched registers the owner's stream of src.
func watched(s *site, src *source, heartbeat time.Duration) {
	edge.RegisterStream(s.api, edge.Stream{
		Operation: edge.Operation{
			Operation: huma.Operation{OperationID: "events", Method: http.MethodGet, Path: "/api/v1/owner/runs/{id}/events"},
			Reasons:   []string{authority.NotFound},
		},
		Heartbeat: heartbeat,
	}, func(ctx context.Context, in *struct {
		ID string `path:"id"`
	}) (stream.Source, error) {
		if in.ID != "here" {
			return stream.Source{}, &authority.Denial{Reason: authority.NotFound}
		}
		session, ok := edge.SessionFrom(ctx)
		if !ok {
			return stream.Source{}, errors.New("a stream without a session")
		}
		return stream.Source{
			Head: src.head, Next: src.next, Wake: src.wake,
			Check: func(ctx context.Context) error { return s.owners.Recheck(ctx, session) },
			Close: func() { src.closed <- struct{}{} },
		}, nil
	})
}

// listening is an open stream.
type listening struct {
	resp  *http.Response
	lines *bufio.Scanner
}

func (s *site) listen(t *testing.T, lastEventID string) *listening {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.origin+"/api/v1/owner/runs/here/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", edge.OwnerCookie+"="+s.cookie)
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return &listening{resp, bufio.NewScanner(resp.Body)}
}

// frame returns the lines up to the next empty one, or nothing at the end.
func (l *listening) frame() (lines []string) {
	for l.lines.Scan() {
		if l.lines.Text() == "" {
			return lines
		}
		lines = append(lines, l.lines.Text())
	}
	return nil
}

func (l *listening) expect(t *testing.T, ids ...int) {
	t.Helper()
	for _, id := range ids {
		got := l.frame()
		want := []string{fmt.Sprintf("id: %d", id), "event: test.happened", fmt.Sprintf(`data: {"n":%d}`, id)}
		if !slices.Equal(got, want) {
			t.Fatalf("frame %q, want %q", got, want)
		}
	}
}

func TestStreamFollows(t *testing.T) {
	src := newSource()
	src.add(5)
	s := serve(t, func(s *site) { watched(s, src, 0) })
	l := s.listen(t, "")
	l.expect(t, 1, 2, 3, 4, 5)
	src.add(1)
	l.expect(t, 6)
	src.add(3)
	l.expect(t, 7, 8, 9)
	l.resp.Body.Close()
	<-src.closed
}

func TestStreamResumesStrictlyBehind(t *testing.T) {
	src := newSource()
	src.add(5)
	s := serve(t, func(s *site) { watched(s, src, 0) })
	for id, rest := range map[string][]int{"0": {1, 2, 3, 4, 5}, "3": {4, 5}} {
		l := s.listen(t, id)
		l.expect(t, rest...)
		l.resp.Body.Close()
		<-src.closed // one wake-up wakes one stream: the next one has to be alone
	}
	l := s.listen(t, "5") // the head itself: nothing yet
	src.add(1)
	l.expect(t, 6)
}

func TestStreamRefusals(t *testing.T) {
	src := newSource()
	src.add(5)
	s := serve(t, func(s *site) { watched(s, src, 0) })
	a := s.owner(http.MethodGet, "/api/v1/owner/runs/here/events", "")
	away := s.owner(http.MethodGet, "/api/v1/owner/runs/away/events", "")
	for _, id := range []string{"6", "x", "-1", "+1", "01", "1.0", "0x1", " ", "9223372036854775808", "9223372036854775807", "1,2"} {
		s.expect(t, "Last-Event-ID "+id, a.with("Last-Event-ID", id), "400 INVALID_REQUEST")
	}
	s.expect(t, "two ids", a.with("Last-Event-ID", "1").and("Last-Event-ID", "1"), "400 INVALID_REQUEST")
	s.expect(t, "an empty id", ask{a.method, a.path, http.Header{"Cookie": a.header["Cookie"], "Last-Event-Id": {""}}, "", ""}, "400 INVALID_REQUEST")
	s.expect(t, "unknown", away, "404 NOT_FOUND")
	s.expect(t, "unknown and a bad id", away.with("Last-Event-ID", "x"), "400 INVALID_REQUEST")
	s.expect(t, "a query", func() ask { b := a; b.path += "?after=1"; return b }(), "400 INVALID_REQUEST")
	s.expect(t, "no session", a.with("Cookie", ""), "401 AUTHENTICATION_REQUIRED")
	s.expect(t, "no session and a bad id", a.with("Cookie", "").with("Last-Event-ID", "x"), "401 AUTHENTICATION_REQUIRED")
	s.expect(t, "a foreign Origin", a.with("Origin", "http://evil.example"), "403 ORIGIN_REJECTED")
	s.expect(t, "a bearer", a.with("Authorization", "Bearer "+s.token), "403 BEARER_ON_OWNER_ROUTE")
	head := a
	head.method = http.MethodHead
	if got := s.expect(t, "HEAD", head, "200"); got.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %v", got.header)
	}
}

func TestStreamHeartbeat(t *testing.T) {
	src := newSource()
	s := serve(t, func(s *site) { watched(s, src, time.Millisecond) })
	l := s.listen(t, "")
	for range 3 {
		if got := l.frame(); len(got) != 1 || !strings.HasPrefix(got[0], ":") {
			t.Fatalf("frame %q, want a comment", got)
		}
	}
}

// endsWithSession reports whether a stream ends after its session has.
func endsWithSession(t *testing.T, end func(*site)) {
	src := newSource()
	src.add(1)
	s := serve(t, func(s *site) { watched(s, src, time.Millisecond) })
	l := s.listen(t, "")
	l.expect(t, 1)
	end(s)
	for l.lines.Scan() {
		if strings.HasPrefix(l.lines.Text(), "id: 2") {
			t.Error("an event after the session")
		}
	}
	if err := l.lines.Err(); err != nil {
		t.Error(err)
	}
	<-src.closed
}

func TestStreamEndsWithTheSession(t *testing.T) {
	t.Run("signed out", func(t *testing.T) {
		endsWithSession(t, func(s *site) {
			if err := s.owners.SignOut(t.Context(), s.session); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("expired", func(t *testing.T) {
		endsWithSession(t, func(s *site) { s.clock.Move(12 * time.Hour) })
	})
}

// TestBusyStreamIsChecked keeps a stream busy without a pause: the check must
// come between its frames.
func TestBusyStreamIsChecked(t *testing.T) {
	ended := errors.New("ended")
	checks := make(chan struct{}, 1)
	s := serve(t, func(s *site) {
		edge.RegisterStream(s.api, edge.Stream{
			Operation: edge.Operation{Operation: huma.Operation{OperationID: "busy", Method: http.MethodGet, Path: "/busy"}},
			Heartbeat: time.Millisecond,
		}, func(context.Context, *struct{}) (stream.Source, error) {
			return stream.Source{
				Head: func(context.Context) (int64, error) { return 1 << 40, nil },
				Next: func(_ context.Context, after int64) ([]stream.Frame, error) {
					return []stream.Frame{{ID: after + 1, Event: "e", Data: []byte("{}")}}, nil
				},
				Check: func(context.Context) error { checks <- struct{}{}; return ended },
			}, nil
		})
	})
	resp, err := client.Get(s.origin + "/busy")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	<-checks
}

// TestStuckClient opens a stream and never reads: the stream must end by itself.
func TestStuckClient(t *testing.T) {
	closed := make(chan struct{})
	s := serve(t, func(s *site) {
		edge.RegisterStream(s.api, edge.Stream{
			Operation:    edge.Operation{Operation: huma.Operation{OperationID: "flood", Method: http.MethodGet, Path: "/flood"}},
			WriteTimeout: 50 * time.Millisecond,
		}, func(context.Context, *struct{}) (stream.Source, error) {
			return stream.Source{
				Head: func(context.Context) (int64, error) { return 0, nil },
				Next: func(_ context.Context, after int64) ([]stream.Frame, error) {
					return []stream.Frame{{ID: after + 1, Event: "e", Data: make([]byte, 1<<20)}}, nil
				},
				Close: func() { close(closed) },
			}, nil
		})
	})
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /flood HTTP/1.1\r\nHost: "+s.addr+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-closed
}

func TestStreamWithAFailingSource(t *testing.T) {
	src := newSource()
	src.add(1)
	s := serve(t, func(s *site) { watched(s, src, 0) })
	l := s.listen(t, "")
	l.expect(t, 1)
	src.mu.Lock()
	src.fail = errors.New("the disk is gone")
	src.mu.Unlock()
	src.add(1)
	if got := l.frame(); got != nil {
		t.Errorf("frame %q after the failure", got)
	}
	<-src.closed
	if !strings.Contains(s.log.String(), "the disk is gone") {
		t.Error("the operator was not told")
	}
}

// TestDisorderedFrames: a source that breaks its promise ends the stream instead
// of misleading the client about what it has seen.
func TestDisorderedFrames(t *testing.T) {
	for name, list := range map[string][]stream.Frame{
		"an id again":        {{ID: 1, Event: "a"}, {ID: 1, Event: "a"}},
		"a line in an event": {{ID: 1, Event: "a\ndata: forged"}},
		"a carriage return":  {{ID: 1, Event: "a", Data: []byte("x\rdata: forged")}},
	} {
		t.Run(name, func(t *testing.T) {
			src := newSource()
			src.frames = list
			s := serve(t, func(s *site) { watched(s, src, 0) })
			if got := s.listen(t, "").frame(); got != nil {
				t.Errorf("frame %q", got)
			}
		})
	}
}

func TestDataOfSeveralLines(t *testing.T) {
	src := newSource()
	src.frames = []stream.Frame{{ID: 1, Event: "a", Data: []byte("x\ny")}}
	s := serve(t, func(s *site) { watched(s, src, 0) })
	if got := s.listen(t, "").frame(); !slices.Equal(got, []string{"id: 1", "event: a", "data: x", "data: y"}) {
		t.Errorf("frame %q", got)
	}
}

func TestShutdownEndsStreamsAndFinishesRequests(t *testing.T) {
	src := newSource()
	src.add(1)
	entered, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(s *site) {
		watched(s, src, 0)
		s.api.Handle("GET /slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-release
			if r.Context().Err() != nil {
				t.Error("the request ended with the server's context")
			}
			w.Write([]byte("done"))
		}))
	})
	l := s.listen(t, "")
	l.expect(t, 1)
	slow := make(chan string, 1)
	go func() {
		got, err := s.send(ask{method: http.MethodGet, path: "/slow"})
		slow <- fmt.Sprint(got.body, err)
	}()
	<-entered
	s.stop()
	if got := l.frame(); got != nil {
		t.Errorf("frame %q after the end", got)
	}
	<-src.closed
	close(release)
	if got := <-slow; got != "done<nil>" {
		t.Errorf("the running request got %s", got)
	}
	err := <-s.served
	s.served <- err
	if err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.addr); err == nil {
		t.Error("it still listens")
	}
}

// TestShutdownEndsABusyStream: one that always has something to send ends too.
func TestShutdownEndsABusyStream(t *testing.T) {
	s := serve(t, func(s *site) {
		edge.RegisterStream(s.api, edge.Stream{
			Operation: edge.Operation{Operation: huma.Operation{OperationID: "busy", Method: http.MethodGet, Path: "/busy"}},
		}, func(context.Context, *struct{}) (stream.Source, error) {
			return stream.Source{
				Head: func(context.Context) (int64, error) { return 0, nil },
				Next: func(_ context.Context, after int64) ([]stream.Frame, error) {
					return []stream.Frame{{ID: after + 1, Event: "e", Data: []byte("{}")}}, nil
				},
			}, nil
		})
	})
	resp, err := http.Get(s.origin + "/busy")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	s.stop() // serve's cleanup demands that nothing had to be cut
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
}

func TestShutdownCutsWhatDoesNotEnd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	origin := "http://" + listener.Addr().String()
	api, err := edge.New(edge.Config{Origin: origin, Title: "test", Version: "0.1"})
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan struct{})
	api.Handle("GET /stuck", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- (&edge.Server{API: api, Grace: time.Millisecond}).Serve(ctx, listener) }()
	go func() {
		if resp, err := client.Get(origin + "/stuck"); err == nil {
			resp.Body.Close()
		}
	}()
	<-entered
	stop()
	if err := <-served; err == nil || !strings.Contains(err.Error(), "cut") {
		t.Errorf("got %v, want to be told that a request was cut", err)
	}
}
