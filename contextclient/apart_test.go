package contextclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"countersign/contextclient"
	"countersign/contextclient/outbox"
)

// transport is a function as one.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// S-083: whatever the library calls for its own sake, and however that fails, the model is called
// once, its answer or error is what Run returns, its panic goes on, and nothing waits without a bound.
func TestRunStandsApart(t *testing.T) {
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	defer slog.SetDefault(before)
	panics := func(*http.Request) (*http.Response, error) { panic("transport of " + token) }
	never := make(chan struct{}) // of a bubble, closed at its end
	hangs := func(*http.Request) (*http.Response, error) { <-never; return nil, errors.New("too late") }
	only := func(name string, f transport, other http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, name) {
				return f(r)
			}
			return other.RoundTrip(r)
		})
	}
	for name, c := range map[string]struct {
		broken func(c *contextclient.Config, works http.RoundTripper)
		within time.Duration
	}{
		"OnTrouble panics": {func(c *contextclient.Config, _ http.RoundTripper) {
			c.HTTP.Transport, c.OnTrouble = only("complete", func(*http.Request) (*http.Response, error) { return nil, errModel }, c.HTTP.Transport), func(error) { panic("told") }
		}, 0},
		"OnTrouble hangs": {func(c *contextclient.Config, _ http.RoundTripper) {
			c.HTTP.Transport, c.OnTrouble = only("complete", func(*http.Request) (*http.Response, error) { return nil, errModel }, c.HTTP.Transport), func(error) { <-never }
		}, time.Second},
		"the transport of a start panics":    {func(c *contextclient.Config, w http.RoundTripper) { c.HTTP.Transport = only("start", panics, w) }, 5 * time.Second},
		"the transport of a compass panics":  {func(c *contextclient.Config, w http.RoundTripper) { c.HTTP.Transport = only("compass", panics, w) }, 0},
		"the transport of a report panics":   {func(c *contextclient.Config, w http.RoundTripper) { c.HTTP.Transport = only("complete", panics, w) }, 0},
		"the transport of a start ignores":   {func(c *contextclient.Config, w http.RoundTripper) { c.HTTP.Transport = only("start", hangs, w) }, 7 * time.Second},
		"the transport of a compass ignores": {func(c *contextclient.Config, w http.RoundTripper) { c.HTTP.Transport = only("compass", hangs, w) }, 7 * time.Second},
		"the transport of a report ignores":  {func(c *contextclient.Config, w http.RoundTripper) { c.HTTP.Transport = only("complete", hangs, w) }, 7 * time.Second},
		"an outbox's Told panics": {func(c *contextclient.Config, _ http.RoundTripper) {
			c.HTTP.Transport = only("complete", func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 410, Body: io.NopCloser(strings.NewReader(""))}, nil
			}, c.HTTP.Transport)
			c.Outbox = outbox.New(outbox.Options{Told: func(outbox.Dropped) { panic("told") }})
		}, 0},
		"an outbox's Told hangs": {func(c *contextclient.Config, _ http.RoundTripper) {
			c.HTTP.Transport = only("complete", func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 410, Body: io.NopCloser(strings.NewReader(""))}, nil
			}, c.HTTP.Transport)
			c.Outbox = outbox.New(outbox.Options{Told: func(outbox.Dropped) { <-never }})
		}, 7 * time.Second},
	} {
		for _, end := range []any{nil, errModel, "panic"} {
			synctest.Test(t, func(t *testing.T) {
				never = make(chan struct{})
				defer time.Sleep(time.Minute) // for what net/http waits for when its transport panics
				defer close(never)
				p := &peer{t: t, instead: map[string]http.HandlerFunc{}}
				config := contextclient.Config{BaseURL: "https://h.example/acme/support", Token: token, OnTrouble: func(err error) {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.troubles = append(p.troubles, err)
				}}
				works := hung{p}
				config.HTTP = &http.Client{Transport: works}
				c.broken(&config, works)
				client, err := contextclient.New(config)
				must(t, err)
				called, began := 0, time.Now()
				var got, recovered any
				func() {
					defer func() { recovered = recover() }()
					err := client.Run(t.Context(), "task", func(context.Context, contextclient.Context) error {
						called++
						if end == "panic" {
							panic(end)
						}
						err, _ := end.(error)
						return err
					})
					if err != nil {
						got = err
					}
				}()
				want, wantPanic := end, any(nil)
				if end == "panic" {
					want, wantPanic = nil, end
				}
				if called != 1 || got != want || recovered != wantPanic {
					t.Errorf("%s: called %d times, Run returns %v, want %v, and panics with %v, want %v", name, called, got, want, recovered, wantPanic)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("%s: Run takes %v, want %v at most", name, took, c.within)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				if said := fmt.Sprint(p.troubles); strings.Contains(said, token) {
					t.Errorf("%s: told %s", name, said)
				}
				if !strings.HasPrefix(name, "OnTrouble") && len(p.troubles) == 0 {
					t.Errorf("%s: nobody is told", name)
				}
			})
		}
	}
}

// hung is a transport to a peer that hangs nowhere.
type hung struct{ p *peer }

func (h hung) RoundTrip(r *http.Request) (*http.Response, error) { return hangs{p: h.p}.RoundTrip(r) }

// OnTrouble that never returns costs no goroutine for each call: it is left alone in the end.
func TestOnTroubleHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never, called := make(chan struct{}), make(chan struct{}, 100)
		defer time.Sleep(time.Minute) // for what net/http waits for when its transport panics
		defer close(never)
		client, err := contextclient.New(contextclient.Config{
			BaseURL: "https://h.example/a/b", Token: token, OnTrouble: func(error) { called <- struct{}{}; <-never },
			HTTP: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) { panic("always") })},
			Wait: func(context.Context, time.Duration) error { return nil },
		})
		must(t, err)
		for range 40 {
			must(t, client.Run(t.Context(), "task", func(context.Context, contextclient.Context) error { return nil }))
		}
		if len(called) != 16 {
			t.Errorf("it is called %d times, want 16", len(called))
		}
	})
}

// S-025: a token that something parts is not put together again, by nobody: not by what an error leaves
// out, and not by who reads over a mark or a space. A transport that says what it was to send is not shown either.
func TestPartedToken(t *testing.T) {
	for _, between := range []string{"", "\u200b", "\u00ad", "\u2060", "\ufeff", "\u202e", "\x00", "\x1b", "\n", "\u2028", "\u00a0", " ", "\u034f", "\ufe0f", "\u0301", "\U000e0041", "\u200b \u200b", "\xff"} {
		for _, at := range []int{1, 5, 9, len(token) - 1} {
			parted := token[:at] + between + token[at:]
			p := newPeer(t)
			said := strings.NewReplacer("\x00", `\u0000`, "\x1b", `\u001b`, "\n", `\n`).Replace(parted)
			p.answers("doctor", answer(403, `{"reasonCode":"r`+said+`","detail":"d`+said+`","errors":[{"location":"`+said[:3]+`","message":"`+said+`"}]}`))
			_, err := p.client().Doctor(t.Context())
			if want := "contextclient: doctor: 403 r[token] d[token] " + token[:3] + ": [token]"; err == nil || err.Error() != want && at > 3 {
				t.Errorf("parted by %q: got %q, want %q", between, err, want)
			}
			_, err = p.client(func(c *contextclient.Config) {
				c.HTTP = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
					return nil, fmt.Errorf("dump of %s: %w", parted, io.ErrUnexpectedEOF)
				})}
			}).Doctor(t.Context())
			for e := err; e != nil; e = errors.Unwrap(e) {
				if shown := fmt.Sprintf("%v %+v %#v", e, e, e); strings.Contains(shown, parted) || strings.Contains(shown, token) || !strings.Contains(shown, "doctor") && !strings.Contains(shown, "[token]") {
					t.Errorf("parted by %q: %s", between, shown)
				}
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v is not what it was", err)
			}
		}
	}
}

// S-086: an observation that the server refuses is told, is dropped, and keeps nothing behind it from going.
func TestRefusedObservation(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	turn, err := c.Turn(turnID)
	must(t, err)
	p.answers("observations", answer(400, `{"reasonCode":"body_invalid","detail":"No id of a tool's use looks like a secret."}`))
	_, err = turn.Observe(t.Context(), tool, "sk-live-0123456789abcdef0123456789abcdef")
	if e, ok := errors.AsType[*contextclient.Error](err); !ok || e.ReasonCode != "body_invalid" || errors.Is(err, contextclient.ErrQueued) {
		t.Error(err)
	}
	if len(p.troubles) != 1 || !strings.Contains(p.troubles[0].Error(), "body_invalid") {
		t.Errorf("told %v", p.troubles)
	}
	flushed(t, c, 0)
	_, err = turn.Complete(t.Context(), contextclient.Completed, "")
	must(t, err)
	p.want("observations", "complete")
}

// A call that finds the Build being opened is made once more, when the server's wish is within its
// bound; else the model is called without context, and that is told.
func TestBuildOpening(t *testing.T) {
	for _, c := range []struct {
		refusals int
		after    string
		asked    int
		context  bool
	}{
		{1, "2", 2, true}, {2, "2", 2, false}, {1, "5", 1, false}, {1, "0", 1, false},
	} {
		p := newPeer(t)
		left := c.refusals
		p.answers("compass", func(w http.ResponseWriter, r *http.Request) {
			if left--; left >= 0 {
				problem(503, "build_opening", "Retry-After", c.after)(w, r)
				return
			}
			answer(200, `{"interaction":{"id":"int_1"},"turnId":"`+turnID+`","verdict":"covered","text":"Returns within 30 days."}`)(w, r)
		})
		must(t, p.client().Run(t.Context(), "task", func(_ context.Context, at contextclient.Context) error {
			if (at.Text != "") != c.context || at.Turn == nil {
				t.Errorf("%+v: the call starts from %+v", c, at)
			}
			return nil
		}))
		if n := len(p.of("compass")); n != c.asked || len(p.troubles) != map[bool]int{false: 1}[c.context] {
			t.Errorf("%+v: asked %d times, told %v", c, n, p.troubles)
		}
	}
}
