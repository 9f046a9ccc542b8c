package dispatch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// heard is a shop that counts the requests that arrive.
func heard(t *testing.T, server func(http.Handler) *httptest.Server) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	requests := new(atomic.Int64)
	srv := server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		io.WriteString(w, "{}")
	}))
	t.Cleanup(srv.Close)
	return srv, requests
}

// later is a client whose clock moves by d once it is connected, as that of a
// process does that is stopped there.
func later(roots *tls.Config, d time.Duration) *Client {
	c := NewClient(roots)
	var moved atomic.Int64
	c.now = func() time.Time { return time.Now().Add(time.Duration(moved.Load())) }
	dial := c.dial
	c.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		moved.Store(int64(d))
		return conn, err
	}
	return c
}

// Requirements L-3: a request whose time to begin has passed is not begun, however
// far it had got. The controls send the same request without a bound, and within it.
func TestFirstByteInTime(t *testing.T) {
	for name, server := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "https": httptest.NewTLSServer} {
		shop, requests := heard(t, server)
		var roots *tls.Config
		if shop.Certificate() != nil {
			roots = &tls.Config{RootCAs: x509.NewCertPool()}
			roots.RootCAs.AddCert(shop.Certificate())
		}
		post := func(d time.Duration, bound time.Duration) error {
			req := Request{Method: "POST", URL: shop.URL + "/api/orders", Body: bytes.Repeat([]byte(" "), 8<<10), Permit: "token"}
			if bound != 0 {
				req.NotAfter = time.Now().Add(bound)
			}
			_, err := later(roots, d).Send(t.Context(), req)
			return err
		}
		if err := post(time.Hour, time.Minute); !errors.Is(err, ErrLate) || !errors.Is(err, ErrNotSent) || errors.Is(err, ErrNotConnected) || requests.Load() != 0 {
			t.Errorf("%s, late: %v, %d requests", name, err, requests.Load())
		}
		if err := post(0, -time.Second); !errors.Is(err, ErrLate) || requests.Load() != 0 {
			t.Errorf("%s, late before it connects: %v, %d requests", name, err, requests.Load())
		}
		if err := post(time.Hour, 0); err != nil || requests.Load() != 1 {
			t.Errorf("%s, without a bound: %v, %d requests", name, err, requests.Load())
		}
		if err := post(time.Second, time.Minute); err != nil || requests.Load() != 2 {
			t.Errorf("%s, in time: %v, %d requests", name, err, requests.Load())
		}
	}
}

func TestLate(t *testing.T) {
	for _, c := range []struct {
		name     string
		now, end time.Time
		want     bool
	}{
		{"before", issued.Add(-1), issued, false},
		{"at", issued, issued, true},
		{"after", issued.Add(1), issued, true},
		{"no end", issued, time.Time{}, false},
	} {
		if got := late(c.now, c.end); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// Not one byte arrives of a late request: the shop sees a connection that ends.
func TestLateRequestLeavesNoByte(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, bound := range []time.Duration{time.Minute, 0} {
		arrived := make(chan int, 1)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				arrived <- -1
				return
			}
			defer conn.Close()
			n, _ := conn.Read(make([]byte, 4096))
			arrived <- n
		}()
		req := Request{Method: "POST", URL: "http://" + l.Addr().String(), Body: []byte("{}")}
		if bound > 0 {
			req.NotAfter = time.Now().Add(bound)
		}
		_, err := later(nil, time.Hour).Send(t.Context(), req)
		if n := <-arrived; errors.Is(err, ErrNotSent) != (n == 0) || (n == 0) != (bound > 0) {
			t.Errorf("bound %v: %d bytes arrived, %v", bound, n, err)
		}
	}
}

// A shop that does not shake hands is not waited for longer than the request may.
func TestHandshakeInTime(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, err = NewClient(nil).Send(t.Context(), Request{
		Method: "POST", URL: "https://" + silent.Addr().String(), Body: []byte("{}"), NotAfter: time.Now().Add(50 * time.Millisecond),
	})
	if !errors.Is(err, ErrNotConnected) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// net/http may be about to write when its request has ended. What was said to be
// unsent stays so.
func TestUnsentStaysUnsent(t *testing.T) {
	for _, first := range []string{"shut", "pass"} {
		near, far := net.Pipe()
		defer far.Close()
		conn := gated{near, &gate{now: time.Now, connected: true}}
		arrived := make(chan int, 1)
		go func() { n, _ := far.Read(make([]byte, 8)); arrived <- n }()
		if first == "shut" {
			if err := conn.gate.shut(); !errors.Is(err, ErrNotSent) {
				t.Errorf("shut first: %v", err)
			}
		}
		_, err := conn.Write([]byte("P"))
		near.Close()
		if n := <-arrived; (n == 0) != (first == "shut") || errors.Is(err, ErrNotSent) != (first == "shut") {
			t.Errorf("%s first: %d bytes arrived, %v", first, n, err)
		}
		if err := conn.gate.shut(); (err == nil) != (first == "pass") {
			t.Errorf("%s first, then: %v", first, err)
		}
	}
}
