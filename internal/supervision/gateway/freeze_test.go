package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/freeze"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/managed"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// turn stores a decision about the freeze of the workspace.
func (h *house) turn(f func(*freeze.Deciding) *authority.Denial) {
	h.t.Helper()
	key := ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindWorkspace, ID: ledger.DefaultWorkspace}
	subject, now, err := h.ledger.Load(h.t.Context(), key)
	s := &freeze.State{}
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		subject = ledger.Subject{Key: key, Head: evidence.Genesis}
		now, err = h.ledger.Now(h.t.Context())
	case err == nil:
		s, err = freeze.DecodeState(subject.State)
	}
	must(h.t, err)
	d := freeze.Begin(s, evidence.Subject{Workspace: ledger.DefaultWorkspace, Issuer: origin}, evidence.TimeOf(now), ledger.Seed())
	if denial := f(d); denial != nil {
		h.t.Fatal(denial)
	}
	out, err := d.Done()
	must(h.t, err)
	events, err := evidence.Seal(h.keys.Evidence(), subject.ID, subject.Link(), d.Now().Time(), out.Drafts)
	must(h.t, err)
	w := ledger.Write{
		Key: key, Revision: subject.Revision, Head: subject.Head, State: canon.MustMarshal(s), Events: events, Texts: out.Texts,
		Attributes: []ledger.Attribute{{Name: ledger.AttributeFreezes, Value: strconv.FormatInt(s.Epoch, 10)}},
	}
	if s.Frozen != nil {
		w.Attributes = append(w.Attributes, ledger.Attribute{Name: ledger.AttributeFrozen, Value: "1"})
	}
	must(h.t, h.ledger.Commit(h.t.Context(), ledger.Change{Writes: []ledger.Write{w}}).Err())
}

// freeze freezes the workspace, and lift lifts that.
func (h *house) freeze() (lift func()) {
	h.t.Helper()
	h.turn(func(d *freeze.Deciding) *authority.Denial { return d.Freeze("a test", session) })
	return func() {
		h.turn(func(d *freeze.Deciding) *authority.Denial { return d.Unfreeze("a test", 0, session) })
	}
}

// list records what is in flight in the freeze that stands.
func (h *house) list() {
	h.t.Helper()
	_, s, err := h.Standing(h.t.Context())
	must(h.t, err)
	open, err := h.Open(h.t.Context())
	must(h.t, err)
	var intents []freeze.Intent
	for _, x := range open {
		intents = append(intents, freeze.Intent{ExecutionID: x.ExecutionID, RunID: x.RunID, State: x.State})
	}
	h.turn(func(d *freeze.Deciding) *authority.Denial { d.List(s.Epoch, intents); return nil })
}

// L-8: a report that would get a permit, and the use of one that was issued before, are
// refused while the workspace is frozen and stop the run with FROZEN: nothing is issued,
// claimed or dispatched, and the unused permit is gone. Once the freeze is lifted an
// owner's retry lets the run go on.
func TestFrozen(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, brought := range []bool{false, true} { // a permit
			id := h.create(run.TargetLocal)
			o, entry := h.entry(id, "merchant.catalog")
			var p *gateway.Permit
			if brought {
				p = h.allow(id, "merchant.catalog")
			}
			head := len(h.events(id))
			lift := h.freeze()
			var want []string
			if brought {
				_, err := h.Operate(t.Context(), request(id, p))
				h.refuses(authority.Frozen, err)
				want = []string{"operation.refused", "permit.revoked", "run.paused"}
			} else {
				_, err := h.Propose(t.Context(), id, "", report(o, entry))
				h.refuses(authority.Frozen, err)
				want = []string{"run.paused"}
			}
			if got := h.since(id, head); !slices.Equal(got, want) {
				t.Errorf("permit brought %t: it left %v, want %v", brought, got, want)
			}
			h.stopped(id, authority.Frozen, "retry")
			if s := h.state(id); s.Stop.Category != stopcontext.CategoryConfiguration || s.Permit != nil || s.Stop.Source != stopcontext.SourceRuntime {
				t.Errorf("permit brought %t: stop %+v, permit %+v", brought, s.Stop, s.Permit)
			}
			// What the agent does next, and is told.
			again, told := func() error { _, err := h.Propose(t.Context(), id, "", report(o, entry)); return err }, authority.RunNotReady
			if brought {
				again, told = func() error { _, err := h.Operate(t.Context(), request(id, p)); return err }, authority.PermitRevoked
			}
			approve := func() error { return h.Approve(t.Context(), id, id, "", session) }
			h.says(told, "the run can be retried once the freeze is lifted", again())
			h.says(authority.RecoveryNotEligible, "the run can be retried once the freeze is lifted", approve())
			h.refuses(authority.Frozen, h.Retry(t.Context(), id))
			if got := h.eligible(id); slices.Contains(got, decide.RouteRetry) || !slices.Contains(got, decide.RouteRevoke) {
				t.Errorf("permit brought %t: eligible while frozen: %v", brought, got)
			}
			lift()
			h.says(told, "The freeze was lifted: an owner can retry the run.", again())
			h.says(authority.RecoveryNotEligible, "The freeze was lifted: an owner can retry the run.", approve())
			if got := h.eligible(id); !slices.Contains(got, decide.RouteRetry) {
				t.Errorf("permit brought %t: eligible once it is lifted: %v", brought, got)
			}
			if strings.Contains(h.state(id).Stop.Message, "is frozen") {
				t.Errorf("stored for good: %s", h.state(id).Stop.Message)
			}
			must(t, h.Retry(t.Context(), id))
			if brought {
				h.says(authority.PermitRevoked, "because the workspace was frozen.", again()) // and nothing of a stop that is over
			}
			h.buy(id)
			h.verify(id)
		}
	})
}

// says requires a refusal with a reason whose detail ends so.
func (h *house) says(reason, end string, err error) {
	h.t.Helper()
	h.refuses(reason, err)
	d, _ := errors.AsType[*authority.Denial](err)
	if !strings.HasSuffix(strings.TrimSuffix(d.Detail, "."), strings.TrimSuffix(end, ".")) {
		h.t.Errorf("%s: %s\nwant at its end: %s", reason, d.Detail, end)
	}
	if reason == authority.PermitRevoked && !strings.HasPrefix(d.Detail, "The permit was revoked because the workspace was frozen.") {
		h.t.Errorf("%s: %s", reason, d.Detail)
	}
}

// eligible is what the view of a run offers; the list of runs offers the same.
func (h *house) eligible(id string) []string {
	h.t.Helper()
	v, err := h.View(h.t.Context(), id)
	must(h.t, err)
	list, err := h.List(h.t.Context(), "", 100)
	must(h.t, err)
	i := slices.IndexFunc(list, func(l *records.View) bool { return l.State.ID == id })
	if i < 0 || !slices.Equal(list[i].Eligible, v.Eligible) || list[i].Frozen != v.Frozen {
		h.t.Errorf("the list offers other things than the view: %v", v.Eligible)
	}
	return v.Eligible
}

// What the evidence of a freeze lists as in flight stays readable while it stands, with what
// has become of it: an execution, and the opening of a session at a store.
func TestInFlightSettles(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		var h *house
		var lift func()
		var during []records.Open
		h = newHouse(t, e, func(c *gateway.Config) {
			c.Fault = func(point string) {
				if point != "after-send" || lift != nil {
					return
				}
				lift = h.freeze()
				h.list()
				var err error
				during, err = h.Intents(t.Context())
				must(t, err)
			}
		})
		is := func(what string, list []records.Open, id, state string) {
			t.Helper()
			if len(list) != 1 || list[0].RunID != id || list[0].State != state {
				t.Errorf("%s: %+v, want %s of run %s", what, list, state, id)
			}
		}
		frozen := func() []records.Open {
			t.Helper()
			list, err := h.Intents(t.Context())
			must(t, err)
			return list
		}
		lift = func() {} // not yet
		id, p := h.toSubmit()
		lift = nil
		_, err := h.Operate(t.Context(), request(id, p))
		must(t, err)
		is("in flight", during, id, run.ExecutionDispatched)
		is("verified meanwhile", frozen(), id, run.ExecutionVerified)
		if open, err := h.Open(t.Context()); err != nil || len(open) != 0 {
			t.Errorf("open: %v, %v", open, err)
		}
		lift()
		if list := frozen(); len(list) != 0 {
			t.Errorf("once the freeze is lifted: %v", list)
		}
		lift = nil
		id, err = h.Create(t.Context(), createRequest(run.TargetHosted))
		must(t, err)
		is("opening", during, id, run.SessionDispatched)
		is("opened meanwhile", frozen(), id, run.SessionOpened)
		lift()
	})
}

// A freeze that was lifted before the refused run could be stopped stops nothing.
func TestFrozenForAMoment(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		o, entry := h.entry(id, "merchant.catalog")
		lift := h.freeze()
		g := h.another(func(c *gateway.Config) { c.Ledger = refused{c.Ledger, lift} })
		_, err := g.Propose(t.Context(), id, "", report(o, entry))
		h.refuses(authority.Frozen, err)
		if s := h.state(id); s.Status != run.StatusReady {
			t.Errorf("the run is %s, stop %+v", s.Status, s.Stop)
		}
		h.do(id, "merchant.catalog")
		h.verify(id)
	})
}

// refused calls back when the ledger has refused a Change for a freeze.
type refused struct {
	gateway.Ledger
	then func()
}

func (l refused) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	r := l.Ledger.Commit(ctx, c)
	if r.Which == ledger.OnFreeze {
		l.then()
	}
	return r
}

// L-8: a freeze cannot call back what was dispatched before it: that gets its receipt and
// is verified as ever.
func TestFrozenInFlight(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		var h *house
		var lift func()
		freezeAt := ""
		h = newHouse(t, e, func(c *gateway.Config) {
			c.Fault = func(point string) {
				if point == freezeAt {
					lift = h.freeze()
				}
			}
		})
		for _, at := range []string{"after-intent", "after-send", "before-receipt"} {
			id, p := h.toSubmit()
			freezeAt = at
			out, err := h.Operate(t.Context(), request(id, p))
			freezeAt = ""
			if err != nil || out.State != run.ExecutionVerified || out.Receipt.JWS == nil {
				t.Errorf("frozen %s: %+v, %v", at, out, err)
			}
			if s := h.state(id); s.Status != run.StatusCompleted || s.Budget.Spent != 13700 {
				t.Errorf("frozen %s: status %s, budget %+v", at, s.Status, s.Budget)
			}
			lift()
			h.verify(id)
		}
	})
}

// during is one thing that somebody does: made ready before the freeze, done during it.
type during struct {
	name   string
	want   string // the reason that a freeze refuses it with; "" when it does not
	before func(h *house) (do func() error)
}

// L-8 H-148 G-14: what a freeze forbids, and what it does not. Whatever issues a permit,
// claims one or dispatches is forbidden; looking, taking authority away, recording what
// became of an effect, and preparing for later are not.
var whileFrozen = []during{
	{"a report that would get a permit", authority.Frozen, func(h *house) func() error {
		id := h.create(run.TargetLocal)
		o, entry := h.entry(id, "merchant.catalog")
		return func() error { _, err := h.Propose(h.t.Context(), id, "", report(o, entry)); return err }
	}},
	{"an operation with a live permit", authority.Frozen, func(h *house) func() error {
		id := h.create(run.TargetLocal)
		p := h.allow(id, "merchant.catalog")
		return func() error { _, err := h.Operate(h.t.Context(), request(id, p)); return err }
	}},
	{"a hosted operation with a live permit", authority.Frozen, func(h *house) func() error {
		id, p := h.toSubmit()
		return func() error { _, err := h.Operate(h.t.Context(), request(id, p)); return err }
	}},
	{"opening a session at a store", authority.Frozen, func(h *house) func() error {
		return func() error { _, err := h.Create(h.t.Context(), createRequest(run.TargetHosted)); return err }
	}},
	{"a managed step", authority.Frozen, func(h *house) func() error {
		id := h.create(run.TargetLocal)
		return func() error {
			if err := steps(h.t, h.Gateway).Step(h.t.Context(), id); err != nil || h.state(id).Status == run.StatusReady {
				return err
			}
			return &authority.Denial{Reason: h.state(id).Stop.ReasonCode}
		}
	}},
	{"creating a local run", "", func(h *house) func() error {
		return func() error { _, err := h.Create(h.t.Context(), createRequest(run.TargetLocal)); return err }
	}},
	{"a report that is not allowed", "", func(h *house) func() error {
		id := h.create(run.TargetLocal)
		o, entry := h.entry(id, "merchant.catalog")
		return func() error {
			turn, err := h.Propose(h.t.Context(), id, "", report(o, entry, func(r *propose.Report) { r.Justification.EvidenceRefs = []string{id} }))
			if err == nil && turn.Decision.ReasonCode != authority.MissingEvidence {
				err = errors.New(turn.Decision.ReasonCode)
			}
			return err
		}
	}},
	{"an observation", "", func(h *house) func() error {
		id := h.create(run.TargetHosted)
		return func() error { _, err := h.Observe(h.t.Context(), id); return err }
	}},
	{"a new token", "", func(h *house) func() error {
		id := h.create(run.TargetLocal)
		return func() error { _, err := h.IssueSession(h.t.Context(), id); return err }
	}},
	{"an approval", "", func(h *house) func() error {
		id, p := h.exact(run.TargetLocal)
		return func() error { return h.Approve(h.t.Context(), id, p.ID, "", session) }
	}},
	{"a retry of another stop", "", func(h *house) func() error {
		id := h.create(run.TargetLocal)
		must(h.t, managed.New(h.Gateway, nil).Step(h.t.Context(), id))
		h.stopped(id, authority.ProviderUnconfigured, "retry")
		return func() error { return h.Retry(h.t.Context(), id) }
	}},
	{"a synthetic event", "", func(h *house) func() error {
		id := h.create(run.TargetLocal)
		return func() error { return h.Simulate(h.t.Context(), id, run.SimulatePriceChange) }
	}},
	{"a revocation", "", func(h *house) func() error {
		id, _ := h.toSubmit()
		return func() error { return h.Revoke(h.t.Context(), id) }
	}},
	{"an export", "", func(h *house) func() error {
		id := h.create(run.TargetLocal)
		return func() error { return h.Export(h.t.Context(), id, io.Discard) }
	}},
}

// acts are the events of every run that a freeze forbids.
func (h *house) acts() (n int) {
	h.t.Helper()
	for before := ""; ; {
		page, err := h.ledger.Find(h.t.Context(), ledger.Query{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, Before: before, Limit: 100})
		must(h.t, err)
		if len(page) == 0 {
			return n
		}
		for _, s := range page {
			for _, e := range h.events(s.ID) {
				if e.Type == "permit.issued" || e.Type == "permit.claimed" || e.Type == "execution.dispatched" || e.Type == "hosted.session" && strings.Contains(string(e.Data), `"phase":"dispatched"`) {
					n++
				}
			}
		}
		before = page[len(page)-1].ID
	}
}

func TestWhileFrozen(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, row := range whileFrozen {
			do := row.before(h)
			acts := h.acts()
			lift := h.freeze()
			err := do()
			if got := reasonOf(t, err); got != row.want {
				t.Errorf("%s while frozen: %v, want %q", row.name, err, row.want)
			}
			if n := h.acts(); n != acts {
				t.Errorf("%s while frozen: %d permits or dispatches", row.name, n-acts)
			}
			lift()
			if row.want == "" {
				continue
			}
			// Control: the same, not frozen, is done and does issue, claim or dispatch.
			do = row.before(h)
			acts = h.acts()
			if err := do(); err != nil || h.acts() == acts {
				t.Errorf("control: %s: %v, %d permits or dispatches", row.name, err, h.acts()-acts)
			}
		}
	})
}

// L-8: the intent says how many freezes its commit has seen, also that of a process which
// knew of none, and when freezes come and go between the decision and its commit.
func TestFreezeEpoch(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		epochs := func(id string) (list []int64) {
			for _, e := range h.events(id) {
				var d struct {
					Epoch *int64 `json:"freezeEpoch"`
				}
				must(t, json.Unmarshal(e.Data, &d))
				if d.Epoch != nil {
					list = append(list, *d.Epoch)
				}
			}
			return list
		}
		id := h.create(run.TargetHosted)
		h.do(id, "merchant.catalog")
		h.freeze()()
		h.do(id, "merchant.catalog")
		h.freeze()()
		h.freeze()()
		other := h.another()
		p := h.allow(id, "merchant.catalog")
		between := h.another(func(c *gateway.Config) {
			once := sync.OnceFunc(func() { h.freeze()() })
			c.Ledger = beforeCommit{c.Ledger, "execution.dispatched", once}
		})
		if _, err := between.Operate(t.Context(), request(id, p)); err != nil {
			t.Fatal(err)
		}
		second, err := other.Create(t.Context(), createRequest(run.TargetHosted))
		must(t, err)
		if got := epochs(id); !slices.Equal(got, []int64{0, 0, 1, 4}) {
			t.Errorf("the intents say %v, want 0 of the session, then 0, 1 and 4", got)
		}
		if got := epochs(second); !slices.Equal(got, []int64{4}) {
			t.Errorf("the intent of the session says %v, want 4", got)
		}
		h.verify(id)
		h.verify(second)
	})
}

// beforeCommit calls back before a Change with an event of the type.
type beforeCommit struct {
	gateway.Ledger
	eventType string
	do        func()
}

func (l beforeCommit) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	for _, w := range c.Writes {
		if slices.ContainsFunc(w.Events, func(e evidence.Event) bool { return e.Type == l.eventType }) {
			l.do()
		}
	}
	return l.Ledger.Commit(ctx, c)
}

// L-8: an intent is open from its commit until its outcome is recorded, whatever becomes
// of the run meanwhile, and each is listed once; then it is not.
func TestOpen(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		at := map[string]func(){}
		h, shop := farHouse(t, e, func(c *gateway.Config) {
			c.Fault = func(point string) {
				if do := at[point]; do != nil {
					do()
				}
			}
		})
		open := func() (list []string) {
			found, err := h.Open(t.Context())
			must(t, err)
			for _, x := range found {
				list = append(list, x.RunID+" "+x.ExecutionID+" "+x.OperationID+" "+x.State)
			}
			slices.Sort(list)
			return list
		}
		is := func(when string, want ...string) {
			t.Helper()
			slices.Sort(want)
			if got := open(); !slices.Equal(got, want) {
				t.Errorf("%s: open are %v, want %v", when, got, want)
			}
		}
		is("before anything was dispatched")
		seen := 0
		at["session-intent"] = func() {
			seen++
			if got := open(); len(got) != 1 || !strings.HasSuffix(got[0], " merchant.session.open dispatched") {
				t.Errorf("while a session is opened: %v", got)
			}
		}
		hosted := h.create(run.TargetHosted)
		delete(at, "session-intent")
		is("with an open session")

		local := h.create(run.TargetLocal)
		for _, id := range []string{local, hosted} {
			at["after-intent"] = func() {
				seen++
				is("after the intent", id+" "+h.state(id).Execution.ID+" merchant.catalog dispatched")
			}
			h.do(id, "merchant.catalog")
			is("with a receipt")
		}
		delete(at, "after-intent")
		revoked, p := h.toSubmit()
		at["after-intent"] = func() {
			seen++
			must(t, h.Revoke(t.Context(), revoked))
			is("after the owner has revoked the run", revoked+" "+h.state(revoked).Execution.ID+" merchant.checkout.submit dispatched")
		}
		if _, err := h.Operate(t.Context(), request(revoked, p)); err != nil {
			t.Logf("the revoked run's operation: %v", err)
		}
		is("with the outcome of the revoked run")
		if seen != 4 {
			t.Fatalf("%d of 4 points were passed", seen)
		}
		delete(at, "after-intent")

		found, x := h.lost(shop, commitAndDrop)
		never, y := h.lost(shop, dropBefore)
		is("with two unconfirmed effects", found+" "+x.ID+" merchant.checkout.submit unconfirmed", never+" "+y.ID+" merchant.checkout.submit unconfirmed")
		must(t, h.Revoke(t.Context(), never))
		must(t, h.Probe(t.Context(), found, x.ID))
		is("with one of them found", never+" "+y.ID+" merchant.checkout.submit unconfirmed")
		must(t, h.Probe(t.Context(), never, y.ID))
		is("with both settled")
	})
}
