package contextclient

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"countersign/contextclient/outbox"
)

// The environment of a component that delivers context.
const (
	// BaseURLVariable names https://HOST/HANDLE/PROJECT, with /staging behind it for staging.
	BaseURLVariable = "SEIF_BASE_URL"
	// TokenVariable names the client's bearer token.
	TokenVariable = "SEIF_CLIENT_TOKEN"
	// TurnVariable names the turn that a program runs in, when somebody else has opened it.
	TurnVariable = "SEIF_TURN_ID"
)

// Token is a bearer token. What prints it prints a placeholder.
type Token string

const placeholder = "[token]"

// String returns a placeholder.
func (Token) String() string { return placeholder }

// GoString returns a placeholder.
func (Token) GoString() string { return placeholder }

// MarshalText returns a placeholder.
func (Token) MarshalText() ([]byte, error) { return []byte(placeholder), nil }

// Config is what a client is made of. Only BaseURL and Token are needed.
type Config struct {
	BaseURL string
	Token   Token
	Profile string // sent with every request, which the server refuses when the client is bound to another; empty: not sent
	// HTTP sends; nil means a client with the default transport. Its redirects are never
	// followed. A request of a tool must not be repeated by its transport.
	HTTP *http.Client
	// Outbox keeps reports; nil means one in memory. It belongs to one named client, since
	// everything in it is sent with its token.
	Outbox *outbox.Outbox
	// Told hears of what could not be reported, in Run and in the background; nil means a warning
	// of slog's default logger. It may be called by several goroutines at once.
	Told func(error)
	// Wait passes the time between two attempts to start, or returns an error when ctx ends first;
	// nil means a timer. Tests replace it.
	Wait func(ctx context.Context, d time.Duration) error
}

// Client speaks for one named client of one project. It is safe for concurrent use.
type Client struct {
	Tools // outside a turn, for a client without the opt-in

	base      string
	authorize func(*http.Request) // a function, which no way of printing looks into
	http      *http.Client
	outbox    *outbox.Outbox
	told      func(error)
	dropsTold bool // by the outbox: whatever a server refuses for good
	wait      func(context.Context, time.Duration) error
	clean     func(string) string // takes the token out of what somebody else says
}

// requestBound ends one request, connecting and reading the answer included, unless the
// configured client has a bound of its own.
const requestBound = 10 * time.Second

// New makes a client. It sends nothing and starts nothing.
func New(c Config) (*Client, error) {
	base, err := baseOf(c.BaseURL)
	if err != nil {
		return nil, err
	}
	if !tokenForm.MatchString(string(c.Token)) {
		return nil, errors.New("contextclient: the token is missing or is not one")
	}
	client := &Client{base: base, outbox: c.Outbox, told: c.Told, wait: c.Wait}
	client.Tools = Tools{client: client}
	client.authorize = func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+string(c.Token))
		if c.Profile != "" {
			r.Header.Set("X-SEIF-Profile", c.Profile)
		}
	}
	client.clean = func(s string) string { return strings.ReplaceAll(s, string(c.Token), placeholder) }
	var sender http.Client
	if c.HTTP != nil {
		sender = *c.HTTP
	}
	sender.Timeout = cmp.Or(sender.Timeout, requestBound)
	sender.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.http = &sender
	if client.told == nil {
		client.told = func(err error) { slog.Warn("a turn could not be reported", "error", err) }
	}
	if client.outbox == nil {
		client.dropsTold = true
		client.outbox = outbox.New(outbox.Options{Told: func(d outbox.Dropped) { client.told(errors.New(d.String())) }})
	}
	if client.wait == nil {
		client.wait = wait
	}
	return client, nil
}

// FromEnvironment makes a client as [New] does; what c leaves out of base address and token
// comes from SEIF_BASE_URL and SEIF_CLIENT_TOKEN.
func FromEnvironment(c Config) (*Client, error) {
	c.BaseURL = cmp.Or(c.BaseURL, os.Getenv(BaseURLVariable))
	c.Token = cmp.Or(c.Token, Token(os.Getenv(TokenVariable)))
	return New(c)
}

var tokenForm = regexp.MustCompile(`^[\x21-\x7e]{1,512}$`)

// baseOf checks a base address. Its errors repeat nothing of it.
func baseOf(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return "", errors.New("contextclient: the base URL is missing or is not one")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return "", errors.New("contextclient: the base URL must be https; http is for loopback")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("contextclient: the base URL has a host and a path, and nothing else")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// Deliver sends what waits in the outbox, whenever it is due, until ctx ends, and returns
// its error. Trouble with the outbox itself is told.
func (c *Client) Deliver(ctx context.Context) error { return c.outbox.Run(ctx, c.Send, c.told) }

// Flush sends what waits in the outbox now, due or not, each report at most once. A short
// program calls it before it ends.
func (c *Client) Flush(ctx context.Context) (outbox.Flushed, error) {
	return c.outbox.FlushAll(ctx, c.Send)
}
