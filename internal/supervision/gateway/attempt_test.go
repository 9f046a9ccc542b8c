package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/authority"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

// hangingUp makes a hosted run and adds to its cart, with a caller that hangs up
// at one point of opening the session or of the execution.
func (h *house) hangingUp(at string, options ...option) (id string, err error) {
	h.t.Helper()
	ctx, hangUp := context.WithCancel(h.t.Context())
	defer hangUp()
	// Fault is called by the goroutine that runs the attempt, this one.
	hits := 0
	g := h.another(append(options, func(c *gateway.Config) {
		c.Fault = func(point string) {
			if point == at {
				hits++
				hangUp()
			}
		}
	})...)
	if strings.HasPrefix(at, "session-") {
		id, err = g.Create(ctx, createRequest(run.TargetHosted))
	} else {
		id = h.create(run.TargetHosted)
		h.do(id, "merchant.catalog")
		_, err = g.Operate(ctx, request(id, h.allow(id, "add:fieldwork-keyboard:1")))
	}
	if hits == 0 {
		h.t.Errorf("%s was not reached", at)
	}
	return id, err
}

// Design 1: whoever hangs up at any step leaves a completed attempt and no unknown
// outcome.
func TestCallerHangsUp(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, at := range gateway.Points {
			id, err := h.hangingUp(at)
			must(t, err)
			s := h.state(id)
			if s.Status != run.StatusReady || s.Unresolved() || s.Execution != nil && s.Execution.State != run.ExecutionVerified {
				t.Errorf("%s: status %s, outcome %s, execution %+v", at, s.Status, s.Outcome(), s.Execution)
			}
			h.verify(id)
		}
	})
}

// The control: an attempt that ends with its caller leaves an unknown effect, or a
// run that never begins.
func TestCallerHangsUpControl(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, at := range gateway.Points {
			if at == "after-receipt" {
				break // from here on the outcome is stored
			}
			before, err := h.List(t.Context(), "", 100)
			must(t, err)
			_, err = h.hangingUp(at, func(c *gateway.Config) { c.Doors.Caller = true })
			if err == nil {
				t.Errorf("%s: the caller's end did not reach the attempt", at)
			}
			h.clock.Move(11 * time.Second) // the lease of what was given up ends
			h.SettleDue(t.Context())
			h.clock.Move(-11 * time.Second)
			list, err := h.List(t.Context(), "", 100)
			must(t, err)
			if s := list[0].State; len(list) != len(before)+1 || !s.Unresolved() && s.Status != run.StatusFailed {
				t.Errorf("%s: %d runs after %d, status %s, outcome %s", at, len(list), len(before), s.Status, s.Outcome())
			}
		}
	})
}

// leaving hangs up as soon as a commit that claims is on its way.
type leaving struct {
	gateway.Ledger
	hangUp func()
}

func (l leaving) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if c.Record != nil {
		l.hangUp()
	}
	return l.Ledger.Commit(ctx, c)
}

// A caller that leaves while its claim is queued has either no claim or a complete
// attempt.
func TestCallerLeavesTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetHosted)
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		g := h.another(func(c *gateway.Config) { c.Ledger = leaving{c.Ledger, hangUp} })
		p := h.allow(id, "merchant.catalog")
		out, err := g.Operate(ctx, request(id, p))
		if err != nil || out.State != run.ExecutionVerified || ctx.Err() == nil {
			t.Errorf("%+v, %v, caller %v", out, err, ctx.Err())
		}
		// One that has left before anything began stores nothing.
		p = h.allow(id, "merchant.catalog")
		if _, err := g.Operate(ctx, request(id, p)); !errors.Is(err, gateway.ErrUnavailable) {
			t.Errorf("after hanging up: %v", err)
		}
		if n := h.count(id, "permit.claimed"); n != 1 {
			t.Errorf("%d claims", n)
		}
	})
}

// forgetful loses the answer of the commit that claims; stored says whether the
// commit itself happened.
type forgetful struct {
	gateway.Ledger
	stored bool
}

func (f *forgetful) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if c.Record == nil {
		return f.Ledger.Commit(ctx, c)
	}
	if f.stored {
		if r := f.Ledger.Commit(ctx, c); r.Outcome != ledger.Stored {
			return r
		}
	}
	return ledger.Result{Outcome: ledger.Unknown, Cause: errors.New("the answer is lost")}
}

// counting counts what leaves.
type counting struct {
	gateway.Sender
	mu    sync.Mutex
	posts int
}

func (s *counting) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	if r.Method == http.MethodPost {
		s.mu.Lock()
		s.posts++
		s.mu.Unlock()
	}
	return s.Sender.Send(ctx, r)
}

// Design 1: after an unknown commit of an intent nothing is sent, and since that is
// certain the intent is voided.
func TestUnknownIntentIsNotSent(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		for _, stored := range []bool{false, true} {
			h := newHouse(t, e)
			id := h.create(run.TargetHosted)
			h.do(id, "merchant.catalog")
			sent := &counting{Sender: h.config.Sender}
			g := h.another(func(c *gateway.Config) { c.Ledger, c.Sender = &forgetful{c.Ledger, stored}, sent })
			p := h.allow(id, "add:fieldwork-keyboard:1")
			if _, err := g.Operate(t.Context(), request(id, p)); !errors.Is(err, gateway.ErrUnknown) {
				t.Errorf("stored %t: %v", stored, err)
			}
			if sent.posts != 0 {
				t.Errorf("stored %t: %d requests left", stored, sent.posts)
			}
			s := h.state(id)
			if s.Unresolved() || s.Budget.Reserved != 0 {
				t.Errorf("stored %t: outcome %s", stored, s.Outcome())
			}
			// The same request again: a definite no-effect, or the first execution.
			out, err := h.Operate(t.Context(), request(id, p))
			want := map[bool]string{false: run.ExecutionVerified, true: run.ExecutionNotApplied}[stored]
			if err != nil || out.State != want {
				t.Errorf("stored %t: again %+v, %v, want %s", stored, out, err, want)
			}
			h.verify(id)
			must(t, h.ledger.Close())
		}
	})
}

// blind cannot read the run once a claim is stored, until it is let go.
type blind struct {
	gateway.Ledger
	mu      sync.Mutex
	refuses int // how many reads or commits to refuse
	armed   bool
}

var errBlind = errors.New("the ledger does not answer")

func (b *blind) refuse() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.armed && b.refuses > 0 {
		b.refuses--
		return true
	}
	return false
}

func (b *blind) Load(ctx context.Context, k ledger.Key) (ledger.Subject, time.Time, error) {
	if b.refuse() {
		return ledger.Subject{}, time.Time{}, errBlind
	}
	return b.Ledger.Load(ctx, k)
}

func (b *blind) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if b.refuse() {
		return ledger.Result{Outcome: ledger.NotStored, Cause: errBlind}
	}
	return b.Ledger.Commit(ctx, c)
}

// H-044: what cannot be rechecked is not sent; and an outcome is stored as soon as
// the ledger answers again.
func TestLedgerFailsDuringAnAttempt(t *testing.T) {
	cases := []struct{ point, want string }{
		{"after-intent", run.ExecutionNotApplied}, // recheck and voiding meet the failure
		{"before-send", run.ExecutionVerified},    // sending needs a read of the cookie only
		{"before-receipt", run.ExecutionVerified},
	}
	onEach(t, func(t *testing.T, e engine) {
		for _, c := range cases {
			h := newHouse(t, e)
			id := h.create(run.TargetHosted)
			h.do(id, "merchant.catalog")
			failing := &blind{Ledger: h.ledger, refuses: 3}
			g := h.another(func(config *gateway.Config) {
				config.Ledger = failing
				config.Fault = func(point string) {
					if point == c.point {
						failing.mu.Lock()
						failing.armed = true
						failing.mu.Unlock()
					}
				}
			})
			p := h.allow(id, "add:fieldwork-keyboard:1")
			out, err := g.Operate(t.Context(), request(id, p))
			if err != nil || out.State != c.want {
				t.Errorf("%s: %+v, %v, want %s", c.point, out, err, c.want)
			}
			if failing.refuses != 0 {
				t.Errorf("%s: %d failures were not met", c.point, failing.refuses)
			}
			h.verify(id)
			must(t, h.ledger.Close())
		}
	})
}

// H-044: a revoke between claim and effect ends the attempt, at the store and
// locally.
func TestRecheckBeforeTheEffect(t *testing.T) {
	attempt := func(t *testing.T, e engine, target string, doors decide.Doors) (*house, string, error) {
		var h *house
		var id string
		armed := false
		h = newHouse(t, e, func(c *gateway.Config) {
			c.Doors = doors
			c.Fault = func(point string) {
				if armed && point == "after-intent" {
					must(t, h.Revoke(t.Context(), id))
				}
			}
		})
		id = h.create(target)
		h.do(id, "merchant.catalog")
		p := h.allow(id, "add:fieldwork-keyboard:1")
		armed = true
		_, err := h.Operate(t.Context(), request(id, p))
		return h, id, err
	}
	onEach(t, func(t *testing.T, e engine) {
		for _, target := range []string{run.TargetLocal, run.TargetHosted} {
			h, id, err := attempt(t, e, target, decide.Doors{Window: true})
			if reason(err) != authority.PermitRevoked {
				t.Errorf("%s: %v", target, err)
			}
			s := h.state(id)
			if s.Execution.State != run.ExecutionVoided || s.Unresolved() || s.Status != run.StatusRevoked {
				t.Errorf("%s: execution %s, status %s", target, s.Execution.State, s.Status)
			}
			h.verify(id)
			must(t, h.ledger.Close())

			h, id, _ = attempt(t, e, target, decide.Doors{Window: true, Recheck: true})
			if x := h.state(id).Execution; x.State != run.ExecutionReceipted {
				t.Errorf("%s, behind the open door: %s, want an effect", target, x.State)
			}
			must(t, h.ledger.Close())
		}
	})
}

// G-13: in the last, incomplete second of its grant a dispatch permit would be
// expired on arrival, and the effect unknown; so it is not sent.
func TestLastSecondOfAuthority(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetHosted)
		for h.state(id).Grants[0].ExpiresAt%1000 == 0 { // it has to end within a second
			id = h.create(run.TargetHosted)
		}
		h.do(id, "merchant.catalog")
		end := h.state(id).Grants[0].ExpiresAt.Time()
		now, err := h.ledger.Now(t.Context())
		must(t, err)
		h.clock.Move(end.Sub(now) - 20*time.Second)
		p := h.allow(id, "add:fieldwork-keyboard:1")
		if !p.ExpiresAt.Time().Equal(end) {
			t.Fatalf("the permit ends at %s, the grant at %s", p.ExpiresAt.Time(), end)
		}
		second := end.Truncate(time.Second)
		sent := &counting{Sender: h.config.Sender}
		g := h.another(func(c *gateway.Config) {
			c.Sender = sent
			c.Fault = func(point string) {
				if point == "after-intent" {
					now, err := h.ledger.Now(context.Background())
					must(t, err)
					h.clock.Move(second.Sub(now))
				}
			}
		})
		now, err = h.ledger.Now(t.Context())
		must(t, err)
		h.clock.Move(second.Sub(now) - 3*time.Second)
		_, err = g.Operate(t.Context(), request(id, p))
		if reason(err) != authority.PermitExpired || sent.posts != 0 {
			t.Errorf("%v, %d requests left", err, sent.posts)
		}
		if x := h.state(id).Execution; x.State != run.ExecutionVoided {
			t.Errorf("execution %s", x.State)
		}
		h.verify(id)
	})
}

// L-3: bytes begin to leave within one second of the intent, or it is voided.
func TestSendWindow(t *testing.T) {
	for _, open := range []bool{false, true} {
		h := newHouse(t, engines[0])
		still := time.Now()
		h.clock.Source = func() time.Time { return still }
		id := h.create(run.TargetHosted)
		h.do(id, "merchant.catalog")
		sent := &counting{Sender: h.config.Sender}
		g := h.another(func(c *gateway.Config) {
			c.Doors.Window, c.Sender = open, sent
			c.Fault = func(point string) {
				if point == "after-intent" {
					h.clock.Move(time.Second)
				}
			}
		})
		out, err := g.Operate(t.Context(), request(id, h.allow(id, "add:fieldwork-keyboard:1")))
		want, posts := run.ExecutionNotApplied, 0
		if open {
			want, posts = run.ExecutionVerified, 1
		}
		if err != nil || out.State != want || sent.posts != posts {
			t.Errorf("door %t: %+v, %v, %d requests left", open, out, err, sent.posts)
		}
		h.verify(id)
		must(t, h.ledger.Close())
	}
}

// Design 1: rotation, revoke and claim meet in one guard. A token that was rotated
// after it authenticated claims nothing.
func TestRotatedTokenClaimsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		first, err := h.IssueSession(t.Context(), id)
		must(t, err)
		c, err := h.Authenticate(t.Context(), first.Token)
		must(t, err)
		p := h.allow(id, "merchant.catalog")
		second, err := h.IssueSession(t.Context(), id)
		must(t, err)
		r := request(id, p)
		r.Generation = c.Generation
		if _, err := h.Operate(t.Context(), r); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("the former token: %v", err)
		}
		if n := len(h.refusals(id)); n != 0 {
			t.Errorf("%d refusals; a 401 leaves none", n)
		}
		if _, err := h.Authenticate(t.Context(), first.Token); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("the former token still authenticates: %v", err)
		}
		c, err = h.Authenticate(t.Context(), second.Token)
		must(t, err)
		r.Generation = c.Generation
		if _, err := h.Operate(t.Context(), r); err != nil {
			t.Errorf("the new token: %v", err)
		}
		h.verify(id)
	})
}

// H-129 L-6: a token at another origin than it was issued for ends the run.
func TestTokenAtAnotherOrigin(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		s, err := h.IssueSession(t.Context(), id)
		must(t, err)
		p := h.allow(id, "merchant.catalog")
		elsewhere := h.another(func(c *gateway.Config) { c.Issuer = "http://elsewhere.example" })
		if _, err := elsewhere.Authenticate(t.Context(), s.Token); reason(err) != authority.CredentialMisuse {
			t.Errorf("%v", err)
		}
		if s := h.state(id); s.Status != run.StatusTerminated {
			t.Errorf("status %s", s.Status)
		}
		r := request(id, p)
		r.Generation = 1
		if _, err := h.Operate(t.Context(), r); reason(err) != authority.PermitRevoked {
			t.Errorf("%v", err)
		}
		h.verify(id)
	})
}

// spilling puts words of its own into everything that a store may say.
type spilling struct {
	gateway.Sender
	mu      sync.Mutex
	secrets []string
}

func (s *spilling) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	a, err := s.Sender.Send(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Cookie != "" {
		s.secrets = append(s.secrets, r.Cookie[strings.IndexByte(r.Cookie, '=')+1:])
	}
	if r.Permit != "" {
		s.secrets = append(s.secrets, r.Permit)
	}
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL, "/api/orders") {
		a.Receipt = "" // an answer that is logged as one that does not verify
		a.SetCookie = append(a.SetCookie, "planted=planted-cookie-value")
		a.Body = []byte(`{"planted":"planted-body-value"}`)
	}
	return a, err
}

// H-127 design 7: no token, cookie or secret in evidence, views or logs.
func TestSecretsStayInside(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		var logged bytes.Buffer
		spy := &spilling{}
		h := newHouse(t, e, func(c *gateway.Config) {
			c.Log = slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
			spy.Sender = c.Sender
			c.Sender = spy
		})
		id := h.create(run.TargetHosted)
		session, err := h.IssueSession(t.Context(), id)
		must(t, err)
		secrets := []string{session.Token, "planted-cookie-value", "planted-body-value"}
		for _, entry := range []string{"merchant.catalog", "add:fieldwork-keyboard:1", "checkout:addr_home", "merchant.checkout.submit"} {
			p := h.allow(id, entry)
			r := request(id, p)
			r.Generation, r.Key = 1, fmt.Sprintf("planted-key-%s", p.PermitID)
			secrets = append(secrets, p.Token, r.Key)
			_, err := h.Operate(t.Context(), r)
			if entry == "merchant.checkout.submit" {
				if reason(err) != authority.DispatchUnconfirmed {
					t.Fatal(err)
				}
			} else {
				must(t, err)
			}
		}
		secrets = append(secrets, spy.secrets...)
		var exported bytes.Buffer
		must(t, h.Export(t.Context(), id, &exported))
		view, err := h.View(t.Context(), id)
		must(t, err)
		shown, err := json.Marshal(view)
		must(t, err)
		if logged.Len() == 0 || len(spy.secrets) < 6 {
			t.Fatalf("the test saw %d bytes of logs and %d secrets", logged.Len(), len(spy.secrets))
		}
		for _, secret := range secrets {
			for where, text := range map[string]string{"evidence": exported.String(), "view": string(shown), "log": logged.String()} {
				if strings.Contains(text, secret) {
					t.Errorf("%s holds %.40q", where, secret)
				}
			}
		}
	})
}
