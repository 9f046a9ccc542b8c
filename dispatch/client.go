package dispatch

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// SendTimeout ends an attempt, connecting and reading the answer included.
const SendTimeout = 8 * time.Second

// MaxAnswer is the largest answer body that [Client.Send] accepts, in bytes.
const MaxAnswer = 1 << 20

// ErrNotSent is the cause of an attempt of which no byte of the request left: it
// had no effect and will have none.
var ErrNotSent = errors.New("dispatch: not sent")

var (
	// ErrNotConnected is the [ErrNotSent] of a shop that was not reached.
	ErrNotConnected = fmt.Errorf("%w: never connected", ErrNotSent)
	// ErrLate is the [ErrNotSent] of a request whose time to begin had passed.
	ErrLate = fmt.Errorf("%w: its time to begin had passed", ErrNotSent)
)

// Client sends requests to a shop, each exactly once. It never retries, follows
// no redirect, uses no proxy, keeps no connection and no cookie. It is safe for
// concurrent use.
type Client struct {
	roots *tls.Config
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	now   func() time.Time
}

// NewClient returns a client. roots, when not nil, is the TLS configuration for
// shops with a private authority.
func NewClient(roots *tls.Config) *Client {
	return &Client{roots: roots, dial: (&net.Dialer{}).DialContext, now: time.Now}
}

// Request is what [Client.Send] sends. Body is the exact bytes that the permit is
// over; it is not changed while Send runs.
type Request struct {
	Method string
	URL    string // absolute, http or https
	Body   []byte // JSON; nil for a read
	Permit string // compact JWS; empty for a read
	Cookie string // Cookie header value; empty for none
	// NotAfter, unless zero, is when it is too late to begin: the first byte of the
	// request leaves before it, or none does. A value of [time.Now] carries the
	// monotonic clock and holds however the wall clock is set.
	NotAfter time.Time
}

// Send sends req once and returns the shop's answer, whatever its status. It ends
// after [SendTimeout] or with ctx. An error that is [ErrNotSent] says that nothing
// left and nothing will; after any other error the request may have had its effect.
func (c *Client) Send(ctx context.Context, req Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, SendTimeout)
	defer cancel()
	g := &gate{notAfter: req.NotAfter, now: c.now}
	httpReq, err := c.request(ctx, req)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrNotConnected, err)
	}
	// RoundTrip, not http.Client: redirects are answers here.
	resp, err := c.transport(ctx, g).RoundTrip(httpReq)
	if err != nil {
		switch unsent := g.shut(); {
		case unsent == nil:
		case errors.Is(err, unsent):
			return Answer{}, err
		default:
			return Answer{}, fmt.Errorf("%w: %w", unsent, err)
		}
		return Answer{}, fmt.Errorf("dispatch: sent, no answer: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return Answer{}, fmt.Errorf("dispatch: sent, answer cut: %w", err)
	}
	if len(body) > MaxAnswer {
		return Answer{}, fmt.Errorf("dispatch: sent, answer over %d bytes", MaxAnswer)
	}
	a := Answer{Status: resp.StatusCode, Body: body, SetCookie: resp.Header.Values("Set-Cookie")}
	if receipts := resp.Header.Values(ReceiptHeader); len(receipts) == 1 {
		a.Receipt = receipts[0]
	}
	return a, nil
}

func (c *Client) request(ctx context.Context, req Request) (*http.Request, error) {
	var body io.Reader
	if req.Body != nil {
		body = bytes.NewReader(req.Body)
	}
	r, err := http.NewRequestWithContext(ctx, req.Method, req.URL, body)
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // net/http cannot send a body again that it cannot get again
	if req.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if req.Permit != "" {
		r.Header.Set(PermitHeader, req.Permit)
	}
	if req.Cookie != "" {
		r.Header.Set("Cookie", req.Cookie)
	}
	return r, nil
}
