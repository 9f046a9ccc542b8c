package gateway_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service/merchant"
	"countersign/internal/supervision/stopcontext"
)

// fill lengthens the chain with measurements until it has n events.
func (h *house) fill(id string, n int64) {
	h.t.Helper()
	c, err := h.Load(h.t.Context(), id)
	must(h.t, err)
	d := decide.Begin(c.State, c.Now, [32]byte{1}, true, decide.Doors{})
	for d.State().Events < n {
		d.Measure(run.Metrics{})
	}
	next, err := d.Done()
	must(h.t, err)
	h.put(c.Subject, next)
}

// put stores a transition as the gateway does.
func (h *house) put(s ledger.Subject, next *decide.Transition) {
	h.t.Helper()
	events, err := evidence.Seal(h.keys.Evidence(), s.ID, s.Link(), next.State.UpdatedAt.Time(), next.Drafts)
	must(h.t, err)
	state, err := next.State.Encode()
	must(h.t, err)
	must(h.t, h.ledger.Commit(h.t.Context(), ledger.Change{Writes: []ledger.Write{{
		Key: s.Key, Revision: s.Revision, Head: s.Head, State: state, Due: next.State.Due(), Events: events,
		Attributes: []ledger.Attribute{{Name: "status", Value: next.State.Status}, {Name: "service", Value: next.State.Config.Service}},
	}}}).Err())
}

// limited checks that a run has met its bound: no report is taken, and the run
// waits for nobody.
func (h *house) limited(id string, body []byte) {
	h.t.Helper()
	if _, err := h.Propose(h.t.Context(), id, "", body); reason(err) != authority.TurnLimit {
		h.t.Errorf("%v, want TURN_LIMIT", err)
	}
	s := h.state(id)
	if s.Status != run.StatusPaused || s.Stop.ReasonCode != authority.TurnLimit || s.Stop.Category != stopcontext.CategoryLimit || s.Stop.Recovery != "none" {
		h.t.Errorf("status %s, stop %+v", s.Status, s.Stop)
	}
	must(h.t, h.Revoke(h.t.Context(), id))
	if s := h.state(id); s.Status != run.StatusRevoked {
		h.t.Errorf("after a revoke: %s", s.Status)
	}
}

// Design 6: a run takes 500 reports. The 500th still gets its permit and its effect.
func TestTurnLimit(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		h.do(id, "merchant.catalog")
		s, _, err := h.ledger.Load(t.Context(), h.Key(id))
		must(t, err)
		state, err := run.DecodeState(s.State)
		must(t, err)
		state.Turns = 499 // 498 cycles more would be as good and take a minute
		h.put(s, &decide.Transition{State: state})
		h.do(id, "merchant.catalog")
		o, entry := h.entry(id, "merchant.catalog")
		h.limited(id, report(o, entry))
	})
}

// Design 6: a chain holds 5,000 events, and the last hundred are kept for what must
// not be lost: in a run that takes no more reports the permit that is out can still
// be used, its receipt and its verification fit, and so does a revoke; requests that
// are turned down take up no more than half of what is kept.
func TestEventLimit(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetHosted)
		for _, entry := range []string{"merchant.catalog", "add:fieldwork-keyboard:1", "checkout:addr_home"} {
			h.do(id, entry)
		}
		h.fill(id, 4800) // 200 are left: the last report
		p := h.allow(id, "merchant.checkout.submit")
		unpermitted := request(id, p)
		unpermitted.Token, unpermitted.Key = "", "key-without-any-permit"
		refused := func(n int) {
			t.Helper()
			for range n {
				if _, err := h.Operate(t.Context(), unpermitted); reason(err) != authority.PermitRequired {
					t.Fatal(err)
				}
			}
		}
		refused(20)
		out, err := h.Operate(t.Context(), request(id, p))
		if err != nil || out.State != run.ExecutionVerified {
			t.Errorf("%+v, %v", out, err)
		}
		if s := h.state(id); s.Status != run.StatusCompleted || s.Budget.Spent != 13700 || s.Events > 5000 {
			t.Errorf("status %s, budget %+v, %d events", s.Status, s.Budget, s.Events)
		}
		refused(60)
		if n := h.state(id).Events; n > 4901 {
			t.Errorf("%d events; refusals took what is kept for receipts", n)
		}
		h.verify(id)

		id = h.create(run.TargetLocal)
		o, entry := h.entry(id, "merchant.catalog")
		h.fill(id, 4801)
		h.clock.Move(30 * time.Second)
		if _, err := h.Observe(t.Context(), id); reason(err) != authority.TurnLimit {
			t.Errorf("a new observation: %v", err)
		}
		h.limited(id, report(o, entry))
	})
}

// onceOnly lets the catalog be read once.
type onceOnly struct{ merchant.Adapter }

func (onceOnly) MaxUses() map[string]int64 { return map[string]int64{"merchant.catalog": 1} }

func onlyOnce(c *gateway.Config) { c.Services = []gateway.Service{onceOnly{}} }

// G-02 G-07: a grant that allows no further use of an operation stops the run for
// good, and the operation is not executed again.
func TestGrantExhausted(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e, onlyOnce)
		for _, target := range []string{run.TargetLocal, run.TargetHosted} {
			id := h.create(target)
			h.do(id, "merchant.catalog")
			h.do(id, "merchant.cart")
			o, entry := h.entry(id, "merchant.catalog")
			turn, err := h.Propose(t.Context(), id, "", report(o, entry))
			must(t, err)
			if turn.Decision.Decision != run.Pause || turn.Decision.ReasonCode != authority.GrantExhausted || turn.Permit != nil {
				t.Errorf("%s: %+v", target, turn.Decision)
			}
			s := h.state(id)
			if s.Status != run.StatusPaused || s.Stop.Category != stopcontext.CategoryAuthority || s.Stop.Recovery != "none" {
				t.Errorf("%s: status %s, stop %+v", target, s.Status, s.Stop)
			}
			if n := h.count(id, "execution.dispatched"); n != 2 {
				t.Errorf("%s: %d executions", target, n)
			}
			h.verify(id)
		}
	})
}

// stopped reads at one time, however late it is.
type stopped struct {
	gateway.Ledger
	at    time.Time
	reads atomic.Int64 // how many more reads come with that time
}

func (s *stopped) now(now time.Time) time.Time {
	if s.reads.Add(-1) >= 0 {
		return s.at
	}
	return now
}

func (s *stopped) Load(ctx context.Context, k ledger.Key) (ledger.Subject, time.Time, error) {
	subject, now, err := s.Ledger.Load(ctx, k)
	return subject, s.now(now), err
}

// issuedAt is when the run's newest permit was issued.
func (h *house) issuedAt(id string) time.Time {
	h.t.Helper()
	for _, e := range slices.Backward(h.events(id)) {
		if e.Type == "permit.issued" {
			at, err := time.Parse(time.RFC3339, e.Timestamp)
			must(h.t, err)
			return at
		}
	}
	h.t.Fatal("no permit was issued")
	return time.Time{}
}

// H-080 G-12: a permit is good until 30 s after its issue and not at that instant.
// The time of a decision is that of its read, here set to the millisecond on both
// engines; the database's own clock stays behind.
func TestPermitExpiryToTheMillisecond(t *testing.T) {
	cases := []struct {
		after time.Duration
		want  string
	}{
		{29*time.Second + 999*time.Millisecond, "<nil>"},
		{30 * time.Second, authority.PermitExpired},
		{30*time.Second + time.Millisecond, authority.PermitExpired},
	}
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, c := range cases {
			id := h.create(run.TargetLocal)
			p := h.allow(id, "merchant.catalog")
			issued := h.issuedAt(id)
			if life := p.ExpiresAt.Time().Sub(issued); life != 30*time.Second {
				t.Errorf("the permit lives %s, want 30 s", life)
			}
			still := &stopped{Ledger: h.ledger, at: issued.Add(c.after)}
			still.reads.Store(1 << 40)
			g := h.another(func(config *gateway.Config) { config.Ledger = still })
			turn, err := g.Decision(t.Context(), id)
			if err != nil || (turn.Permit != nil) != (c.want == "<nil>") {
				t.Errorf("%s after its issue the decision shows %+v, %v", c.after, turn.Permit, err)
			}
			if _, err := g.Operate(t.Context(), request(id, p)); reason(err) != c.want {
				t.Errorf("%s after its issue: %v, want %s", c.after, err, c.want)
			}
			executed := map[bool]int{true: 1}[c.want == "<nil>"]
			if n := h.count(id, "execution.dispatched"); n != executed {
				t.Errorf("%s after its issue: %d executions", c.after, n)
			}
			h.clock.Move(time.Minute)
			h.verify(id)
		}
	})
}

// waitedGuard: a claim was in time when it was decided and was not any more when it
// came to be stored.
var waitedGuard = guard{"a claim that waited until its permit had expired", []layer{notAfter}, authority.PermitExpired, "", func(h *house, off []layer) (string, bool, error) {
	id := h.create(run.TargetLocal)
	p := h.allow(id, "merchant.catalog")
	h.clock.Move(31 * time.Second)
	still := &stopped{Ledger: h.ledger, at: h.issuedAt(id).Add(29 * time.Second)}
	g := h.opening(append([]layer{{"", func(c *gateway.Config) { c.Ledger = still }}}, off...))
	must(h.t, g.LearnEpoch(h.t.Context())) // else it decides twice
	still.reads.Store(1)
	_, err := g.Operate(h.t.Context(), request(id, p))
	return id, h.count(id, "execution.dispatched") == 1, err
}}

// endedGuard: a grant ends between claim and effect.
var endedGuard = guard{"an effect after the grant's end", []layer{recheck}, authority.PermitExpired, "", func(h *house, off []layer) (string, bool, error) {
	id := h.create(run.TargetLocal)
	h.do(id, "merchant.catalog")
	h.until(id, 20*time.Second)
	p := h.allow(id, "add:fieldwork-keyboard:1")
	h.until(id, 5*time.Second)
	before := h.serviceRevision(id)
	g := h.opening(append([]layer{{"", func(c *gateway.Config) {
		c.Fault = func(point string) {
			if point == "after-intent" {
				h.until(id, -time.Second) // the lease of the attempt holds on
			}
		}
	}}}, off...))
	_, err := g.Operate(h.t.Context(), request(id, p))
	return id, h.serviceRevision(id) > before, err
}}

// until moves the clock until so much is left of the run's grant.
func (h *house) until(id string, left time.Duration) {
	h.t.Helper()
	now, err := h.ledger.Now(h.t.Context())
	must(h.t, err)
	h.clock.Move(h.state(id).Grants[0].ExpiresAt.Time().Add(-left).Sub(now))
}

// What a grant that is used up would buy: a permit, were it not for the hard check
// of the report, and then an effect, were it not for the claim.
var usedUpGuards = []guard{
	{"a grant that is used up issues a permit", []layer{hardCheck}, authority.GrantExhausted, "findings", func(h *house, off []layer) (string, bool, error) {
		id, _, err := h.useAgain(h.opening(append([]layer{{"", onlyOnce}}, off...)))
		return id, h.count(id, "permit.issued") == 2, err
	}},
	{"a grant that is used up has an effect", []layer{hardCheck, door("claim", func(d *decide.Doors) { d.Authority = true }), machine}, authority.GrantExhausted, "grant-uses",
		func(h *house, off []layer) (string, bool, error) {
			g := h.opening(append([]layer{{"", onlyOnce}}, off...))
			id, p, err := h.useAgain(g)
			if err == nil {
				_, err = g.Operate(h.t.Context(), request(id, p))
			}
			return id, h.count(id, "execution.dispatched") == 2, err
		}},
}

var hardCheck = door("hard check", func(d *decide.Doors) { d.Checks = []int64{7} })

// useAgain asks g for an operation whose one use is spent.
func (h *house) useAgain(g *gateway.Gateway) (string, *gateway.Permit, error) {
	h.t.Helper()
	former := h.Gateway
	defer func() { h.Gateway = former }()
	h.Gateway = h.another(onlyOnce)
	id := h.create(run.TargetLocal)
	h.do(id, "merchant.catalog")
	o, entry := h.entry(id, "merchant.catalog")
	turn, err := g.Propose(h.t.Context(), id, "", report(o, entry))
	if err == nil && turn.Permit == nil {
		err = &authority.Denial{Reason: turn.Decision.ReasonCode}
	}
	if err != nil {
		return id, nil, err
	}
	return id, turn.Permit, nil
}
