package edge_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/channel/bounds"
	"countersign/internal/channel/edge"
)

// Design section 8: SIGTERM exits 0 within 10 s. Whatever a client holds up ends
// inside the grace, and so does a request whose body arrives at the last moment and
// whose dispatch takes all its time.
func TestBoundsFitTheGrace(t *testing.T) {
	read := edge.ShutdownGrace - bounds.PollPause // when answers have to be read
	for name, bound := range map[string]time.Duration{
		"a head":                         edge.HeaderTimeout,
		"what a handler leaves":          bounds.RestTimeout,
		"a body and the longest attempt": bounds.EndingBody + dispatch.SendTimeout,
	} {
		if bound >= read {
			t.Errorf("%s may take %v, and answers have to be read after %v", name, bound, read)
		}
	}
	if edge.ShutdownGrace >= 10*time.Second {
		t.Errorf("the grace is %v", edge.ShutdownGrace)
	}
	// net/http looks at least every 500 ms and a tenth.
	if bounds.PollPause < 550*time.Millisecond {
		t.Errorf("Shutdown notices the end of a connection after up to 550 ms, and has %v", bounds.PollPause)
	}
}

// ending serves h and returns what ends it, with what Serve says. handled gets a
// value whenever the API is done with a request.
func ending(t *testing.T, grace time.Duration, edit func(*edge.API)) (addr string, handled chan struct{}, end func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, handled = listener.Addr().String(), make(chan struct{}, 8)
	api, err := edge.New(edge.Config{Origin: "http://" + addr, Title: "test", Version: "0.1", Ready: func(context.Context) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	edit(api)
	server := &edge.Server{API: api, Grace: grace, Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			handled <- struct{}{}
		})
	}}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	return addr, handled, func() error { stop(); return <-served }
}

// begin opens a connection and sends bytes. It stays open until the test ends.
func begin(t *testing.T, addr, raw string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	return conn
}

func halfSent(method, path, addr string, more ...string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\n" + strings.Join(more, "") + "\r\n{\"name\":"
}

const length, chunked = "Content-Length: 50\r\n", "Transfer-Encoding: chunked\r\n"

// reading is a handler that says when it is reading a body, and reads it.
func reading(at chan<- struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at <- struct{}{}
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
}

// An anonymous client that has sent half a body holds nothing up: neither while a
// handler reads it, nor when it was answered unread.
func TestEndWithHalfSentBodies(t *testing.T) {
	at := make(chan struct{}, 8)
	addr, handled, end := ending(t, 0, func(api *edge.API) { api.Handle("POST /read", reading(at)) })
	for _, raw := range []string{
		halfSent("POST", "/nothing", addr, length), halfSent("POST", "/nothing", addr, chunked),
		halfSent("GET", "/healthz", addr, length), halfSent("POST", "/read", "evil.example", length),
	} {
		begin(t, addr, raw)
		<-handled
	}
	begin(t, addr, halfSent("POST", "/read", addr, length))
	<-at
	begin(t, addr, strings.Replace(halfSent("POST", "/read", addr, chunked), "\r\n\r\n", "\r\n\r\n9\r\n", 1))
	<-at
	began := time.Now()
	if err := end(); err != nil {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if took := time.Since(began); took > bounds.RestTimeout+bounds.PollPause+2*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Control: net/http as it comes waits for such a body as long as it may.
func TestHalfSentBodyHoldsUpNetHTTP(t *testing.T) {
	at := make(chan struct{}, 1)
	srv := httptest.NewUnstartedServer(reading(at))
	srv.Start()
	conn := begin(t, srv.Listener.Addr().String(), halfSent("POST", "/read", "x", length))
	<-at
	limit, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := srv.Config.Shutdown(limit); err == nil {
		t.Error("the server did not wait, so the test provokes nothing")
	}
	conn.Close()
	srv.Close()
}

// A client that does not read its answer holds nothing up either, a stream's
// included, which sets deadlines of its own.
func TestEndWithUnreadAnswers(t *testing.T) {
	at := make(chan struct{}, 2)
	flood := func(bound time.Duration) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for said := false; ; said = true {
				if bound > 0 {
					if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bound)); err != nil {
						return
					}
				}
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
				if !said {
					at <- struct{}{}
				}
			}
		})
	}
	addr, _, end := ending(t, 2*time.Second, func(api *edge.API) {
		api.Handle("GET /flood", flood(0))
		api.Handle("GET /stream", flood(time.Hour))
	})
	for _, path := range []string{"/flood", "/stream"} {
		begin(t, addr, "GET "+path+" HTTP/1.1\r\nHost: "+addr+"\r\n\r\n")
		<-at
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// What a handler has in hand when the server ends is done, and its answer is read.
func TestEndFinishesWhatRuns(t *testing.T) {
	at, free := make(chan struct{}, 1), make(chan struct{})
	addr, _, end := ending(t, 0, func(api *edge.API) {
		api.Handle("POST /work", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			at <- struct{}{}
			<-free
			w.Write(body)
		}))
	})
	working := begin(t, addr, "POST /work HTTP/1.1\r\nHost: "+addr+"\r\nContent-Length: 4\r\n\r\ndone")
	<-at
	served := make(chan error, 1)
	go func() { served <- end() }()
	for { // until the server has begun to end
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		conn.Close()
	}
	close(free)
	resp, err := http.ReadResponse(bufio.NewReader(working), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || string(body) != "done" {
		t.Errorf("what was running: %d %q, %v", resp.StatusCode, body, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
