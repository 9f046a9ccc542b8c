package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
	"countersign/internal/supervision/service/merchant"
)

// pair is a house with a second replica. What happens there the house's own
// gateway has not seen; what it remembers of the run is out of date then.
type pair struct {
	*house
	there *gateway.Gateway
}

func listed(o *records.Observation, entryID string) *propose.Entry {
	i := slices.IndexFunc(o.Catalog, func(e propose.Entry) bool { return e.EntryID == entryID || e.OperationID == entryID })
	return &o.Catalog[i]
}

// Design 1: nothing in process memory decides anything. One replica changes a run
// that another one remembers; what the other does then rests on the change.
func TestReplicaChangesTheRun(t *testing.T) {
	// act gets a run whose permit for the catalog was issued here, and returns what
	// came of its last try, which is here.
	cases := []struct {
		name, want string
		executed   int
		act        func(r pair, id string, try gateway.OperateRequest) error
	}{
		{"revoked", authority.PermitRevoked, 0, func(r pair, id string, try gateway.OperateRequest) error {
			must(r.t, r.there.Revoke(r.t.Context(), id))
			_, err := r.Operate(r.t.Context(), try)
			return err
		}},
		{"permit used under another key", authority.PermitConsumed, 1, func(r pair, _ string, try gateway.OperateRequest) error {
			_, err := r.there.Operate(r.t.Context(), try)
			must(r.t, err)
			try.Key = "another-key-of-sixteen"
			_, err = r.Operate(r.t.Context(), try)
			return err
		}},
		{"the same request", "<nil>", 1, func(r pair, _ string, try gateway.OperateRequest) error {
			first, err := r.there.Operate(r.t.Context(), try)
			must(r.t, err)
			again, err := r.Operate(r.t.Context(), try)
			if err == nil && (!again.Replayed || again.ExecutionID != first.ExecutionID) {
				err = fmt.Errorf("%+v after %+v", again, first)
			}
			return err
		}},
		{"token rotated", identity.ErrUnauthenticated.Error(), 0, func(r pair, id string, try gateway.OperateRequest) error {
			former, err := r.IssueSession(r.t.Context(), id)
			must(r.t, err)
			c, err := r.Authenticate(r.t.Context(), former.Token)
			must(r.t, err)
			_, err = r.there.IssueSession(r.t.Context(), id)
			must(r.t, err)
			if _, err := r.Authenticate(r.t.Context(), former.Token); !errors.Is(err, identity.ErrUnauthenticated) {
				r.t.Errorf("the former token still authenticates: %v", err)
			}
			try.Generation = c.Generation
			_, err = r.Operate(r.t.Context(), try)
			return err
		}},
		{"permit issued", authority.PermitOutstanding, 1, func(r pair, id string, try gateway.OperateRequest) error {
			_, err := r.Operate(r.t.Context(), try)
			must(r.t, err)
			o, entry := r.entry(id, "merchant.catalog")
			turn, err := r.there.Propose(r.t.Context(), id, "", report(o, entry))
			if err != nil || turn.Permit == nil {
				r.t.Errorf("%+v, %v", turn, err)
			}
			_, err = r.Propose(r.t.Context(), id, "", report(o, entry))
			return err
		}},
		{"observed anew", authority.MissingEvidence, 1, func(r pair, id string, try gateway.OperateRequest) error {
			_, err := r.Operate(r.t.Context(), try)
			must(r.t, err)
			old, entry := r.entry(id, "merchant.catalog")
			r.clock.Move(30 * time.Second)
			newer, err := r.there.Observe(r.t.Context(), id)
			must(r.t, err)
			turn, err := r.Propose(r.t.Context(), id, "", report(old, entry))
			must(r.t, err)
			if turn.Permit != nil {
				r.t.Error("a permit for an observation that is not the newest")
			}
			if o, err := r.Observe(r.t.Context(), id); err != nil || o.ObservationID != newer.ObservationID || o.ObservationID == old.ObservationID {
				r.t.Errorf("here the former observation is still shown: %v", err)
			}
			return &authority.Denial{Reason: turn.Decision.ReasonCode}
		}},
		{"paused", authority.RunNotReady, 1, func(r pair, id string, try gateway.OperateRequest) error {
			_, err := r.Operate(r.t.Context(), try)
			must(r.t, err)
			o, entry := r.entry(id, "merchant.catalog")
			_, err = r.there.Propose(r.t.Context(), id, "", report(o, listed(o, "add:fieldworks-keyboard:1")))
			must(r.t, err)
			_, err = r.Propose(r.t.Context(), id, "", report(o, entry))
			return err
		}},
	}
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		r := pair{h, h.replicas(2)[1]}
		for _, c := range cases {
			id := h.create(run.TargetLocal)
			if err := c.act(r, id, request(id, h.allow(id, "merchant.catalog"))); reason(err) != c.want {
				t.Errorf("%s: %v, want %s", c.name, err, c.want)
			}
			if n := h.count(id, "execution.dispatched"); n != c.executed {
				t.Errorf("%s: %d executions, want %d", c.name, n, c.executed)
			}
			h.verify(id)
		}
	})
}

// patching writes over whatever is there when a guard fails, instead of deciding
// again: a commit without the guard of its revisions.
type patching struct {
	gateway.Ledger
	key evidence.SigningKey
}

func (p patching) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	r := p.Ledger.Commit(ctx, c)
	if r.Outcome != ledger.Conflict || r.Which != ledger.OnSubject && r.Which != ledger.OnGuard {
		return r
	}
	c.Guards = nil
	for i := range c.Writes {
		w := &c.Writes[i]
		s, now, err := p.Ledger.Load(ctx, w.Key)
		if err != nil {
			return ledger.Result{Outcome: ledger.NotStored, Cause: err}
		}
		w.Revision, w.Head = s.Revision, s.Head
		var drafts []evidence.Draft
		for _, e := range w.Events {
			drafts = append(drafts, evidence.Draft{ID: e.ID, Type: e.Type, Data: e.Data})
		}
		if w.Events, err = evidence.Seal(p.key, w.ID, s.Link(), now, drafts); err != nil {
			return ledger.Result{Outcome: ledger.NotStored, Cause: err}
		}
	}
	return p.Ledger.Commit(ctx, c)
}

// unguarded takes the guard of the revisions away.
func (h *house) unguarded(c *gateway.Config) { c.Ledger = patching{c.Ledger, h.keys.Evidence()} }

// serviceRevision counts the changes of the run's local service.
func (h *house) serviceRevision(id string) int64 {
	h.t.Helper()
	s, _, err := h.ledger.Load(h.t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindService, ID: id})
	must(h.t, err)
	return s.Revision
}

// Design 1: between claim and effect the run is not read again. What another
// replica did to it meanwhile is found by the guard of the commit, and without
// that guard the effect happens.
func TestReplicaBetweenClaimAndEffect(t *testing.T) {
	cases := []struct {
		name, want, execution string
		applied               bool
		there                 func(h *house, g *gateway.Gateway, id string) error
	}{
		{"nothing", "<nil>", run.ExecutionVerified, true, func(*house, *gateway.Gateway, string) error { return nil }},
		{"revoke", authority.PermitRevoked, run.ExecutionVoided, false, func(h *house, g *gateway.Gateway, id string) error {
			return g.Revoke(h.t.Context(), id)
		}},
		{"taken for dead", "<nil>", run.ExecutionNotApplied, false, func(h *house, _ *gateway.Gateway, id string) error {
			_, err := h.another(func(c *gateway.Config) { c.Ledger = burying{c.Ledger} }).Observe(h.t.Context(), id)
			return wants(err, authority.RunNotReady) // it is paused for a retry
		}},
		// The claim came first, so that the former token's effect stands.
		{"rotation", "<nil>", run.ExecutionVerified, true, func(h *house, g *gateway.Gateway, id string) error {
			_, err := g.IssueSession(h.t.Context(), id)
			return err
		}},
		{"observation", "<nil>", run.ExecutionVerified, true, func(h *house, g *gateway.Gateway, id string) error {
			_, err := g.Observe(h.t.Context(), id)
			return wants(err, authority.InProgress)
		}},
		{"another claim", "<nil>", run.ExecutionVerified, true, func(h *house, g *gateway.Gateway, id string) error {
			_, err := g.Operate(h.t.Context(), gateway.OperateRequest{
				RunID: id, Token: h.keys.StepPermitToken(id, h.state(id).Execution.PermitID), Key: "key-of-the-other-claim",
				Body: body(propose.Action{Kind: "service", OperationID: "merchant.cart.add", TargetRef: "t", Args: []byte("{}")}),
			})
			return wants(err, authority.UnresolvedEffect)
		}},
	}
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		there := h.replicas(2)[1]
		attempt := func(during func(*house, *gateway.Gateway, string) error, options ...option) (id string, applied bool, err error) {
			id = h.create(run.TargetLocal)
			h.do(id, "merchant.catalog")
			p := h.allow(id, "add:fieldwork-keyboard:1")
			before := h.serviceRevision(id)
			here := h.another(append(options, func(c *gateway.Config) {
				c.Fault = func(point string) {
					if point == "after-intent" {
						if err := during(h, there, id); err != nil {
							t.Error(err)
						}
					}
				}
			})...)
			_, err = here.Operate(t.Context(), request(id, p))
			return id, h.serviceRevision(id) > before, err
		}
		for _, c := range cases {
			id, applied, err := attempt(c.there)
			if x := h.state(id).Execution; reason(err) != c.want || x.State != c.execution || applied != c.applied {
				t.Errorf("%s: %v, execution %s, effect %t; want %s, %s, %t", c.name, err, x.State, applied, c.want, c.execution, c.applied)
			}
			h.verify(id)
			if c.applied {
				continue
			}
			if _, applied, err := attempt(c.there, h.unguarded); err != nil || !applied {
				t.Errorf("%s: without the guard the effect should happen: %v", c.name, err)
			}
		}
	})
}

// wants turns the expected refusal into nil.
func wants(err error, code string) error {
	if reason(err) != code {
		return fmt.Errorf("%w, want %s", err, code)
	}
	return nil
}

// Two replicas take the steps of a purchase in turn, so that each always remembers
// an older run and an older service.
func TestReplicasTakeTurns(t *testing.T) {
	for _, target := range []string{run.TargetLocal, run.TargetHosted} {
		t.Run(target, func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine) {
				h := newHouse(t, e)
				both := h.replicas(2)
				step := 0
				next := func() *gateway.Gateway { step++; return both[step%2] }
				id := h.create(target)
				for _, entry := range []string{"merchant.catalog", "product:fieldwork-keyboard", "add:fieldwork-keyboard:1", "checkout:addr_home", "merchant.checkout.submit"} {
					o, err := next().Observe(t.Context(), id)
					must(t, err)
					turn, err := next().Propose(t.Context(), id, "", report(o, listed(o, entry)))
					must(t, err)
					out, err := next().Operate(t.Context(), request(id, turn.Permit))
					if err != nil || out.State != run.ExecutionVerified {
						t.Fatalf("%s: %+v, %v", entry, out, err)
					}
				}
				if s := h.state(id); s.Status != run.StatusCompleted || s.Budget.Spent != 13700 {
					t.Errorf("status %s, budget %+v", s.Status, s.Budget)
				}
				h.verify(id)
			})
		})
	}
}

// failing cannot do what the merchant would refuse.
type failing struct{ merchant.Adapter }

func (f failing) Execute(state []byte, p service.Promise, newID func() string) (service.Effect, error) {
	effect, err := f.Adapter.Execute(state, p, newID)
	if err == nil && effect.Refused != "" {
		err = fmt.Errorf("refused: %s", effect.Refused)
	}
	return effect, err
}

// A replica that remembers an empty cart, after another one has filled it, prepares
// the checkout of the full one. Without the guard of the service's revision it
// decides on the empty one. A failure on what is remembered does not count either.
func TestStaleService(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		checkout := func(options ...option) *records.Operation {
			here, there := h.another(options...), h.another()
			id := h.create(run.TargetLocal)
			by := func(g *gateway.Gateway, entry string) *records.Operation {
				o, err := g.Observe(t.Context(), id)
				must(t, err)
				turn, err := g.Propose(t.Context(), id, "", report(o, listed(o, entry)))
				must(t, err)
				out, err := g.Operate(t.Context(), request(id, turn.Permit))
				must(t, err)
				return out
			}
			by(here, "merchant.catalog")
			by(there, "add:fieldwork-keyboard:1")
			return by(here, "checkout:addr_home")
		}
		for _, services := range [][]gateway.Service{{merchant.Adapter{}}, {failing{}}} {
			if out := checkout(func(c *gateway.Config) { c.Services = services }); out.State != run.ExecutionVerified {
				t.Errorf("%T: %+v", services[0], out)
			}
		}
		if out := checkout(h.unguarded); out.State == run.ExecutionVerified {
			t.Errorf("without the guard: %+v", out)
		}
	})
}

// A gateway remembers 1,024 subjects. However many others come by between any two
// steps, and push this run out of memory, the cycle goes on.
func TestMoreRunsThanAreRemembered(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		forgotten := 0
		var g *gateway.Gateway
		var id string
		g = h.another(func(c *gateway.Config) {
			c.Fault = func(string) {
				for i := range 8 * 1024 { // which one goes is left to chance
					g.Saw(ledger.Subject{Key: g.Key(fmt.Sprintf("other-%d", i)), Revision: 1})
				}
				if _, s := g.Recall(id); s == nil {
					forgotten++
				}
			}
		})
		h.Gateway = g
		id = h.create(run.TargetLocal)
		h.do(id, "merchant.catalog")
		h.do(id, "add:fieldwork-keyboard:1")
		if forgotten == 0 {
			t.Error("the run was remembered throughout")
		}
		h.verify(id)
	})
}
