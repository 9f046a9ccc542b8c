package contextclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
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
	// followed. A request of a tool must not be repeated by its transport. Its Timeout bounds one
	// request, connecting and reading the answer included; 0 means five seconds.
	HTTP *http.Client
	// StartWithin bounds the start of a turn, with all its attempts and the time between them; 0
	// means five seconds. One attempt takes half of it at most.
	StartWithin time.Duration
	// Outbox keeps reports; nil means one in memory. It belongs to one named client, since
	// everything in it is sent with its token.
	Outbox *outbox.Outbox
	// OnTrouble hears that a call has no turn or no context, and of what could not be reported, in
	// Run and in the background; nil means a warning of slog's default logger. No token is in it. It
	// may be called by several goroutines at once. It is waited for a second at most, and its panic
	// is logged; while sixteen calls of it have not returned, it is not called.
	OnTrouble func(error)
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
	onTrouble func(error)
	dropsTold bool // by the outbox: whatever a server refuses for good
	wait      func(context.Context, time.Duration) error
	clean     func(string) string // takes the token out of what somebody else says

	startWithin  time.Duration
	withoutTurns *sync.Once // it was told that it is a client without the opt-in
}

// Bounds of a start and of every other request, unless the configuration has others.
const (
	startBound   = 5 * time.Second
	requestBound = 5 * time.Second
)

// New makes a client. It sends nothing and starts nothing.
func New(c Config) (*Client, error) { return newClient(c, "the base URL", "the token") }

// newClient calls base address and token by the names that their giver knows.
func newClient(c Config, baseName, tokenName string) (*Client, error) {
	base, err := baseOf(c.BaseURL, baseName)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Token == "":
		return nil, fmt.Errorf("contextclient: %s is not set", tokenName)
	case !tokenForm.MatchString(string(c.Token)):
		return nil, fmt.Errorf("contextclient: %s is not a token", tokenName)
	}
	client := &Client{
		base: base, outbox: c.Outbox, onTrouble: c.OnTrouble, wait: c.Wait,
		startWithin: cmp.Or(c.StartWithin, startBound), withoutTurns: &sync.Once{},
	}
	client.Tools = Tools{client: client}
	client.authorize = func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+string(c.Token))
		if c.Profile != "" {
			r.Header.Set("X-SEIF-Profile", c.Profile)
		}
	}
	client.clean = without(c.Token)
	var sender http.Client
	if c.HTTP != nil {
		sender = *c.HTTP
	}
	sender.Timeout = cmp.Or(sender.Timeout, requestBound)
	sender.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.http = &sender
	if client.onTrouble == nil {
		client.onTrouble = func(err error) { slog.Warn("trouble with a context turn", "error", err) }
	}
	client.onTrouble = apart(client.onTrouble)
	if client.outbox == nil {
		client.dropsTold = true
		client.outbox = outbox.New(outbox.Options{Told: func(d outbox.Dropped) { client.onTrouble(errors.New(d.String())) }})
	}
	if client.wait == nil {
		client.wait = wait
	}
	return client, nil
}

// FromEnvironment makes a client as [New] does; what c leaves out of base address and token
// comes from SEIF_BASE_URL and SEIF_CLIENT_TOKEN.
func FromEnvironment(c Config) (*Client, error) {
	baseName, tokenName := "the base URL", "the token"
	if c.BaseURL == "" {
		c.BaseURL, baseName = os.Getenv(BaseURLVariable), BaseURLVariable
	}
	if c.Token == "" {
		c.Token, tokenName = Token(os.Getenv(TokenVariable)), TokenVariable
	}
	return newClient(c, baseName, tokenName)
}

var tokenForm = regexp.MustCompile(`^[\x21-\x7e]{1,512}$`)

// baseOf checks a base address. Its errors repeat nothing of it.
func baseOf(s, name string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return "", fmt.Errorf("contextclient: %s is not set: https://HOST/HANDLE/PROJECT", name)
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return "", fmt.Errorf("contextclient: %s is not an address: https://HOST/HANDLE/PROJECT", name)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return "", fmt.Errorf("contextclient: %s must be https; http is for loopback", name)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("contextclient: %s has a host and a path, and nothing else", name)
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
func (c *Client) Deliver(ctx context.Context) error { return c.outbox.Run(ctx, c.Send, c.onTrouble) }

// Flush sends what waits in the outbox now, due or not, each report at most once.
func (c *Client) Flush(ctx context.Context) (outbox.Flushed, error) {
	return c.outbox.FlushAll(ctx, c.Send)
}

// closeBound bounds Close: a program that ends does not wait for a server that hangs.
const closeBound = 2 * time.Second

// Close is for the end of a program: it sends what waits in the outbox, for two seconds at most, and
// tells [Config].OnTrouble what is lost with the process, or waits in the outbox's file. The client
// may be used on.
func (c *Client) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	var last error
	f, err := c.outbox.FlushAll(ctx, func(ctx context.Context, e outbox.Entry) (outbox.Answer, error) {
		_, err := c.report(ctx, e)
		if err != nil && !errors.Is(err, errBehind) {
			last = err
		}
		return answerOf(err)
	})
	if err != nil && ctx.Err() == nil {
		c.onTrouble(fmt.Errorf("what waits in the outbox cannot be delivered: %w", err))
		return
	}
	if f.Waiting == 0 {
		return
	}
	what := "waiting in the outbox's file: "
	if c.outbox.InMemory() {
		what = "lost with this process: "
	}
	if last != nil {
		what += last.Error()
	} else {
		what += "unless what Deliver is sending just now arrives"
	}
	c.onTrouble(fmt.Errorf("reports that are not delivered at the end: %d, %s", f.Waiting, what))
}
