package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// droppingShop answers the first request and, from the second on, reads a
// request, counts it and drops the connection without a byte. To a client that
// keeps connections that looks like a connection which was closed while idle.
func droppingShop(t *testing.T) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if requests.Add(1) == 1 {
			fmt.Fprint(w, `{}`)
			return
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, requests
}

// On a connection that has carried a request, net/http sends a POST with an
// Idempotency-Key a second time by itself. The control shows that the shop of
// this test provokes it.
func TestSendsOnceOnAWarmConnection(t *testing.T) {
	t.Run("control: net/http as it comes", func(t *testing.T) {
		url, requests := droppingShop(t)
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for range 2 {
			r, _ := http.NewRequest("POST", url, bytes.NewReader([]byte(`{}`)))
			r.Header.Set("Idempotency-Key", "exec-1")
			if resp, err := client.Do(r); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		if n := requests.Load(); n < 3 {
			t.Fatalf("the shop saw %d requests for two, so it does not provoke the second sending", n)
		}
	})
	t.Run("Client", func(t *testing.T) {
		url, requests := droppingShop(t)
		client := NewClient(nil)
		req := Request{Method: "POST", URL: url, Body: []byte(`{}`), Permit: "token"}
		if a, err := client.Send(t.Context(), req); err != nil || a.Status != 200 {
			t.Fatalf("first: %d, %v", a.Status, err)
		}
		_, err := client.Send(t.Context(), req)
		if err == nil || errors.Is(err, ErrNotConnected) {
			t.Errorf("dropped after sending: %v", err)
		}
		if n := requests.Load(); n != 2 {
			t.Errorf("the shop saw %d requests, want 2", n)
		}
	})
}

func TestSendFollowsNoRedirect(t *testing.T) {
	var other atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other.Add(1) }))
	defer target.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", target.URL)
			w.WriteHeader(status)
		}))
		a, err := NewClient(nil).Send(t.Context(), Request{Method: "POST", URL: srv.URL, Body: []byte(`{}`)})
		srv.Close()
		if err != nil || a.Status != status {
			t.Errorf("%d: %d, %v", status, a.Status, err)
		}
	}
	if other.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestSendTellsWhetherAByteLeft(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String()
	l.Close()
	_, err = NewClient(nil).Send(t.Context(), Request{Method: "POST", URL: dead, Body: []byte(`{}`)})
	if !errors.Is(err, ErrNotConnected) {
		t.Errorf("nobody listens: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = NewClient(nil).Send(cancelled, Request{Method: "POST", URL: dead}); !errors.Is(err, ErrNotConnected) {
		t.Errorf("cancelled before: %v", err)
	}
	if _, err = NewClient(nil).Send(t.Context(), Request{Method: "POST", URL: "ftp://127.0.0.1/"}); !errors.Is(err, ErrNotConnected) {
		t.Errorf("no such scheme: %v", err)
	}

	for name, answer := range map[string]string{
		"no answer":        "",
		"half a head":      "HTTP/1.1 200 OK\r\nContent-",
		"half a body":      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
		"not HTTP":         "hello\r\n\r\n",
		"a body too large": "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", MaxAnswer+1),
		"a head too large": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n",
	} {
		url := rawShop(t, answer)
		a, err := NewClient(nil).Send(t.Context(), Request{Method: "POST", URL: url, Body: []byte(`{}`)})
		if err == nil || errors.Is(err, ErrNotConnected) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// rawShop reads one request's head and answers with the bytes given.
func rawShop(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4096))
			io.WriteString(conn, answer)
			conn.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestSendEndsWithItsContext(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(arrived); <-release }))
	defer srv.Close()
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := NewClient(nil).Send(ctx, Request{Method: "POST", URL: srv.URL, Body: []byte(`{}`)})
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotConnected) {
		t.Errorf("cancelled while the shop works: %v", err)
	}
	if SendTimeout != 8*time.Second {
		t.Errorf("SendTimeout is %s", SendTimeout)
	}
}

func TestSendOnTheWire(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	type seen struct {
		proto, body string
		close       bool
		header      http.Header
	}
	got := make(chan seen, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Proto, string(body), r.Close, r.Header}
		w.Header().Set(ReceiptHeader, "receipt")
		w.Header().Add("Set-Cookie", "store_session=x; HttpOnly")
		w.WriteHeader(409)
		io.WriteString(w, `{"a":1}`)
	}))
	defer srv.Close()
	a, err := NewClient(nil).Send(t.Context(), Request{Method: "POST", URL: srv.URL + "/api/orders", Body: []byte(`{"b":2}`), Permit: "token", Cookie: "store_session=y"})
	if err != nil || a.Status != 409 || string(a.Body) != `{"a":1}` || a.Receipt != "receipt" || len(a.SetCookie) != 1 {
		t.Errorf("answer %+v, %v", a, err)
	}
	s := <-got
	if s.proto != "HTTP/1.1" || s.body != `{"b":2}` || !s.close {
		t.Errorf("request %+v", s)
	}
	want := map[string]string{"Countersign-Permit": "token", "Cookie": "store_session=y", "Content-Type": "application/json"}
	for name, value := range want {
		if s.header.Get(name) != value {
			t.Errorf("%s: %q", name, s.header.Get(name))
		}
	}
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "Accept-Encoding"} {
		if len(s.header.Values(name)) != 0 {
			t.Errorf("header %s was sent", name)
		}
	}
}

// Two receipts in one answer are none: no reader may pick another than we do.
func TestSendTakesOneReceipt(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add(ReceiptHeader, "one")
		w.Header().Add(ReceiptHeader, "two")
	}))
	defer srv.Close()
	if a, err := NewClient(nil).Send(t.Context(), Request{Method: "GET", URL: srv.URL}); err != nil || a.Receipt != "" {
		t.Errorf("%+v, %v", a, err)
	}
}
