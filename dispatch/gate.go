package dispatch

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// gate is passed by the first byte of one request, or by none. It stands at the
// last place before the kernel: however long a process was stopped before, the time
// counts that it is when the byte leaves.
type gate struct {
	notAfter time.Time // zero: never too late
	now      func() time.Time

	mu        sync.Mutex
	connected bool
	passed    bool
	closed    error // why nothing passes any more, an ErrNotSent
}

// check says why nothing may pass any more, or nil. mu is held.
func (g *gate) check() error {
	if !g.passed && g.closed == nil && late(g.now(), g.notAfter) {
		g.closed = ErrLate
	}
	return g.closed
}

// open reports whether it is worth connecting.
func (g *gate) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.check()
}

// pass lets bytes through when the first of them is in time.
func (g *gate) pass() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.check(); err != nil {
		return err
	}
	g.passed = true
	return nil
}

// late compares both clocks: the monotonic one stands while the machine sleeps, and
// the wall clock can be set back.
func late(now, notAfter time.Time) bool {
	return !notAfter.IsZero() && !(now.Before(notAfter) && now.Round(0).Before(notAfter.Round(0)))
}

// shut says why nothing has passed and, since net/http may still be about to write
// when it has given up, lets nothing pass from now on. It is nil when something has.
func (g *gate) shut() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.passed:
		return nil
	case g.closed == nil && g.connected:
		g.closed = ErrNotSent
	case g.closed == nil:
		g.closed = ErrNotConnected
	}
	return g.closed
}

func (g *gate) connect() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.connected = true
}

// gated is a connection that only a request is written to.
type gated struct {
	net.Conn
	gate *gate
}

func (c gated) Write(b []byte) (int, error) {
	if err := c.gate.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// transport is for one request. The gate stands behind the TLS handshake, which
// carries nothing of it. Neither waits longer than the request may.
func (c *Client) transport(ctx context.Context, g *gate) *http.Transport {
	connect := func(secure bool) func(context.Context, string, string) (net.Conn, error) {
		return func(_ context.Context, network, addr string) (net.Conn, error) {
			return c.connect(ctx, g, network, addr, secure)
		}
	}
	var http1 http.Protocols
	http1.SetHTTP1(true)
	return &http.Transport{
		// A kept connection that the shop has closed makes net/http send a request
		// again by itself when it thinks that is safe. A new connection for each
		// request leaves nothing to retry.
		DisableKeepAlives:      true,
		Protocols:              &http1,
		Proxy:                  nil,
		DisableCompression:     true, // rh is over the bytes the shop wrote
		MaxResponseHeaderBytes: 64 << 10,
		DialContext:            connect(false),
		DialTLSContext:         connect(true),
	}
}

func (c *Client) connect(ctx context.Context, g *gate, network, addr string, secure bool) (net.Conn, error) {
	if err := g.open(); err != nil {
		return nil, err
	}
	if !g.notAfter.IsZero() {
		inTime, cancel := context.WithDeadline(ctx, g.notAfter)
		defer cancel()
		ctx = inTime
	}
	conn, err := c.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if secure {
		if conn, err = c.handshake(ctx, conn, addr); err != nil {
			return nil, err
		}
	}
	g.connect()
	return gated{conn, g}, nil
}

func (c *Client) handshake(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	config := &tls.Config{}
	if c.roots != nil {
		config = c.roots.Clone()
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			conn.Close()
			return nil, err
		}
		config.ServerName = host
	}
	config.NextProtos = nil // HTTP/1.1 and nothing to choose
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}
