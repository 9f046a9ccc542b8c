package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/money"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/workspace"
)

// racers is how many do the same thing at once.
const racers = 8

// atOnce runs f from several goroutines and returns what each came to.
func atOnce(f func(n int) error) []error {
	errs, start := make([]error, racers), make(chan struct{})
	var group sync.WaitGroup
	for n := range racers {
		group.Go(func() {
			<-start
			errs[n] = f(n)
		})
	}
	close(start)
	group.Wait()
	return errs
}

// won counts those without an error; every other one is a denial with the reason.
func won(t *testing.T, errs []error, reason string) (n int) {
	t.Helper()
	for _, err := range errs {
		if err == nil {
			n++
			continue
		}
		is(t, "a loser", err, reason)
	}
	return n
}

// Of concurrent edits from one revision exactly one counts, and none is overwritten
// (H-201).
func TestConcurrentEdits(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		id := h.drafted()
		for revision := int64(1); revision <= 5; revision++ {
			errs := atOnce(func(n int) error {
				return h.Edit(t.Context(), id, revision, policy(func(p *guardian.Policy) { p.BudgetCents = money.Cents(n) }))
			})
			if n := won(t, errs, "REVISION_CONFLICT"); n != 1 {
				t.Fatalf("%d edits of revision %d count, want 1", n, revision)
			}
			s := h.shown(id).State
			if s.Revision != revision+1 || errs[s.Draft.BudgetCents] != nil {
				t.Errorf("revision %d holds the edit of a loser: %+v", s.Revision, s.Draft)
			}
		}
	})
}

// Services and policies that are made at once are all there, in one chain.
func TestConcurrentDrafts(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		errs := atOnce(func(n int) error {
			if n%2 == 0 {
				_, err := h.Register(t.Context(), workspace.ServiceRequest{Name: fmt.Sprint("Shop ", n), Kind: "merchant", Environment: "local"})
				return err
			}
			_, err := h.Draft(t.Context(), policy())
			return err
		})
		for _, err := range errs {
			must(t, err)
		}
		v, err := h.View(t.Context())
		must(t, err)
		if len(v.Services) != racers/2 || len(v.Guardians) != racers/2 {
			t.Errorf("%d services and %d policies, want %d each", len(v.Services), len(v.Guardians), racers/2)
		}
	})
}

// One verification at a time; of concurrent activations each makes a version of its own.
func TestConcurrentVerifications(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		id := h.drafted()
		errs := atOnce(func(int) error { return h.Verify(t.Context(), id, 1) })
		if n := won(t, errs, "IN_PROGRESS"); n < 1 {
			t.Fatal("no verification was done")
		}
		for _, err := range atOnce(func(int) error { return h.Activate(t.Context(), id, 1) }) {
			must(t, err)
		}
		if p := h.shown(id).State.Published; p.Version != racers {
			t.Errorf("version %d after %d activations", p.Version, racers)
		}
	})
}

// Against an edit an activation either comes first and publishes the former revision, or
// it is refused. No version holds anything but the revision that it names.
func TestActivateAgainstEdit(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		id := h.drafted()
		must(t, h.Verify(t.Context(), id, 1))
		errs := atOnce(func(n int) error {
			if n == 0 {
				return h.Edit(t.Context(), id, 1, policy(func(p *guardian.Policy) { p.BudgetCents = 1 }))
			}
			return h.Activate(t.Context(), id, 1)
		})
		must(t, errs[0])
		won(t, errs, "REVISION_CONFLICT")
		if p := h.shown(id).State.Published; p != nil && (p.Revision != 1 || p.Policy.BudgetCents != 13700) {
			t.Errorf("published: %+v", p)
		}
	})
}

// between is a ledger that lets something happen after the gateway has read a policy and
// before it commits.
type between struct {
	gateway.Ledger
	once sync.Once
	do   func()
}

func (b *between) Load(ctx context.Context, key ledger.Key) (ledger.Subject, time.Time, error) {
	subject, now, err := b.Ledger.Load(ctx, key)
	if key.Kind == guardian.Kind {
		b.once.Do(b.do)
	}
	return subject, now, err
}

// A policy that is published between a run's decision and its commit makes the creation
// decide again: the run is bound to the version that stands when it is stored.
func TestCreateAgainstPublish(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		id := h.drafted()
		must(t, h.Verify(t.Context(), id, 1))
		must(t, h.Activate(t.Context(), id, 1))
		c := h.gateway.Config
		c.Ledger = &between{Ledger: h.ledger, do: func() { must(t, h.Activate(t.Context(), id, 1)) }}
		runID, err := gateway.New(c).Create(t.Context(), bound(id))
		must(t, err)
		v, err := h.gateway.View(t.Context(), runID)
		must(t, err)
		if v.State.Binding.PolicyVersion != 2 {
			t.Errorf("bound to version %d, want 2", v.State.Binding.PolicyVersion)
		}
	})
}

func bound(id string) gateway.CreateRequest {
	return gateway.CreateRequest{
		Config:      run.Config{Service: "merchant", Target: "local", Channel: "http", TrafficActor: "agent", ExecutionMode: "replay", Executor: "replay"},
		Instruction: "Look.", GuardianID: id, BudgetUnset: true,
	}
}

// An hour after the verification and 24 hours after the publication, on the ledger's
// clock (H-208, H-211, G-22).
func TestTimes(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		id := h.drafted()
		must(t, h.Verify(t.Context(), id, 1))
		h.clock.Move(time.Hour)
		is(t, "an hour later", h.Activate(t.Context(), id, 1), "GUARDIAN_NOT_VERIFIED")
		must(t, h.Verify(t.Context(), id, 1))
		h.clock.Move(time.Hour - time.Minute)
		must(t, h.Activate(t.Context(), id, 1))
		h.clock.Move(24*time.Hour - time.Minute)
		first, err := h.gateway.Create(t.Context(), bound(id))
		must(t, err)
		h.clock.Move(time.Minute)
		_, err = h.gateway.Create(t.Context(), bound(id))
		is(t, "24 hours later", err, "GUARDIAN_DEGRADED")
		label := func(want string) {
			t.Helper()
			v, err := h.gateway.View(t.Context(), first)
			must(t, err)
			if v.Binding != want || v.State.Binding.PolicyVersion != 1 {
				t.Errorf("%s version %d, want %s version 1", v.Binding, v.State.Binding.PolicyVersion, want)
			}
		}
		label("degraded")
		if _, err := h.gateway.Observe(t.Context(), first); err != nil {
			t.Errorf("the active run: %v", err)
		}
		must(t, h.Verify(t.Context(), id, 1))
		if g := h.shown(id); g.Status != "degraded" || g.NewRuns == nil || g.NewRuns.Reason != "GUARDIAN_DEGRADED" || g.Activation != nil {
			t.Errorf("verified and not published: %s, %v, %v", g.Status, g.NewRuns, g.Activation)
		}
		must(t, h.Activate(t.Context(), id, 1))
		if _, err := h.gateway.Create(t.Context(), bound(id)); err != nil {
			t.Errorf("after the second publication: %v", err)
		}
		label("superseded")
	})
}

// What the inventory and the policies are asked for and do not have.
func TestRefusals(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		const nobody = "01980000-0000-7000-8000-000000000009"
		other := nobody
		_, err := h.Guardian(t.Context(), nobody)
		is(t, "show", err, "NOT_FOUND")
		is(t, "edit", h.Edit(t.Context(), nobody, 1, policy()), "NOT_FOUND")
		is(t, "verify", h.Verify(t.Context(), nobody, 1), "NOT_FOUND")
		is(t, "activate", h.Activate(t.Context(), nobody, 1), "NOT_FOUND")
		_, err = h.gateway.Create(t.Context(), bound(nobody))
		is(t, "create", err, "NOT_FOUND")
		_, err = h.Draft(t.Context(), policy(func(p *guardian.Policy) { p.ServiceID = &other }))
		is(t, "a service that is not registered", err, "INVALID_REQUEST")
		for _, origin := range []string{"shop", "ftp://shop.invalid", "http://", "http://shop.invalid/path", "http://user@shop.invalid", "http://SHOP.invalid", `http://shop".invalid`, "http://shop.invalid:x"} {
			_, err = h.Register(t.Context(), workspace.ServiceRequest{Name: "Shop", Kind: "merchant", Environment: "local", Origin: &origin})
			is(t, "origin "+origin, err, "INVALID_REQUEST")
		}
		s, err := h.Register(t.Context(), workspace.ServiceRequest{Name: "Shop", Kind: "merchant", Environment: "local", Description: "Here."})
		must(t, err)
		_, err = h.Draft(t.Context(), policy(func(p *guardian.Policy) { p.ServiceID, p.Service = &s.ID, "bank" }))
		is(t, "another kind than the service's", err, "INVALID_REQUEST")
		id, err := h.Draft(t.Context(), policy(func(p *guardian.Policy) { p.ServiceID, p.Service = &s.ID, "" }))
		must(t, err)
		if g := h.shown(id); g.State.Draft.Service != "merchant" {
			t.Errorf("the service of the policy: %s", g.State.Draft.Service)
		}
		if v, err := h.View(t.Context()); err != nil || v.Services[0].Text != "Here." {
			t.Errorf("the inventory: %+v, %v", v, err)
		}
		if _, err := h.gateway.Create(t.Context(), bound(id)); err == nil {
			t.Error("a run was bound to a draft")
		}
		unset := bound("")
		_, err = h.gateway.Create(t.Context(), unset)
		if denial, ok := errors.AsType[*authority.Denial](err); !ok || denial.Reason != "INVALID_REQUEST" {
			t.Errorf("no budget and no policy: %v", err)
		}
	})
}
