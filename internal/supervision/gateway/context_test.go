package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

const someProject = "prj_0190a3c5e7b27f4a8d1c5b9e3f6a2d48"

// client stores a context client as it would stand after its creation.
func (h *house) client(edit ...func(*project.Client)) string {
	h.t.Helper()
	c := project.Client{Project: someProject, Name: "desk", Kind: project.Custom, Profile: "support", Environment: "production", TurnProtocol: project.Required, Generation: 1}
	for _, f := range edit {
		f(&c)
	}
	id := turn.NewID("cli_", authority.NewFresh(ledger.Seed(), evidence.TimeOf(time.Now())))
	raw, err := canon.Marshal(c)
	must(h.t, err)
	var state map[string]any
	must(h.t, json.Unmarshal(raw, &state))
	state["id"], state["machine"] = id, project.Machine
	must(h.t, h.ledger.Commit(h.t.Context(), ledger.Change{Writes: []ledger.Write{{
		Key: ledger.Key{Workspace: h.config.Workspace, Kind: project.KindClient, ID: id}, Head: evidence.Genesis, State: canon.MustMarshal(state),
	}}}).Err())
	return id
}

func turnKey(workspace, id string) ledger.Key {
	return ledger.Key{Workspace: workspace, Kind: turn.Kind, ID: id}
}

// openTurn opens a context turn at the ledger's time.
func (h *house) openTurn(workspace string) string {
	h.t.Helper()
	now, err := h.ledger.Now(h.t.Context())
	must(h.t, err)
	s, _, err := turn.Start(turn.Binding{Project: someProject, Client: "cli_" + someProject[4:], Profile: "support", Environment: "production"},
		turn.Label{}, nil, evidence.Subject{Workspace: workspace, Issuer: origin}, evidence.TimeOf(now), ledger.Seed())
	must(h.t, err)
	must(h.t, h.ledger.Commit(h.t.Context(), ledger.Change{Writes: []ledger.Write{{
		Key: turnKey(workspace, s.ID), Head: evidence.Genesis, State: canon.MustMarshal(s),
	}}}).Err())
	return s.ID
}

// changeTurn stores what becomes of a context turn.
func changeTurn(ctx context.Context, l gateway.Ledger, id string, f func(*turn.Deciding)) error {
	subject, now, err := l.Load(ctx, turnKey(ledger.DefaultWorkspace, id))
	if err != nil {
		return err
	}
	s, err := turn.DecodeState(subject.State)
	if err != nil {
		return err
	}
	d := turn.Begin(s, evidence.TimeOf(now), ledger.Seed())
	f(d)
	if _, err := d.Done(); err != nil {
		return err
	}
	return l.Commit(ctx, ledger.Change{Writes: []ledger.Write{{
		Key: subject.Key, Revision: subject.Revision, Head: subject.Head, State: canon.MustMarshal(d.State()),
	}}}).Err()
}

func completes(d *turn.Deciding) { d.Complete(turn.Completed, turn.Label{}) }

func observes(d *turn.Deciding) {
	d.Observe(turn.Observation{Event: turn.PreToolUse, Tool: "mcp__seif__find", ToolUseID: "t"})
}

// reported proposes the first step of a new run, in a context turn, and returns what
// evidence says of the turn.
func (h *house) reported(g *gateway.Gateway, contextTurn string) *run.ContextTurn {
	h.t.Helper()
	id := h.create(run.TargetLocal)
	o, e := h.entry(id, "merchant.catalog")
	answer, err := g.Propose(h.t.Context(), id, contextTurn, report(o, e))
	must(h.t, err)
	if answer.Decision.Decision != run.Allow || answer.Permit == nil {
		h.t.Errorf("in %q: %+v", contextTurn, answer.Decision)
	}
	h.verify(id)
	for _, event := range h.events(id) {
		if event.Type == "turn.proposed" {
			var data run.Proposed
			must(h.t, json.Unmarshal(event.Data, &data))
			if shown := h.state(id).Turn.ContextTurn; fmt.Sprint(deref(shown)) != fmt.Sprint(deref(data.ContextTurn)) {
				h.t.Errorf("the run shows %v, its evidence %v", deref(shown), deref(data.ContextTurn))
			}
			return data.ContextTurn
		}
	}
	h.t.Fatal("no report is in evidence")
	return nil
}

func deref(t *run.ContextTurn) run.ContextTurn {
	if t == nil {
		return run.ContextTurn{}
	}
	return *t
}

// L-10: a context turn that is in this ledger and open is observed; any other is what the
// consumer says. None changes the decision.
func TestContextTurnClass(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		if got := h.reported(h.Gateway, ""); got != nil {
			t.Errorf("without a header: %v", *got)
		}
		completed, elsewhere := h.openTurn(h.config.Workspace), h.openTurn("elsewhere")
		must(t, changeTurn(t.Context(), h.ledger, completed, completes))
		strange := "trn_0190a3c5e7b27f4a8d1c5b9e3f6a2d48"
		must(t, h.ledger.Commit(t.Context(), ledger.Change{Writes: []ledger.Write{{
			Key: turnKey(h.config.Workspace, strange), Head: evidence.Genesis, State: []byte(`{"machine":2}`),
		}}}).Err())
		expired := h.openTurn(h.config.Workspace)
		h.clock.Move(turn.Life)
		for name, c := range map[string]struct{ id, class string }{
			"open":                     {h.openTurn(h.config.Workspace), run.ClassObserved},
			"unknown":                  {"trn_ffffffffffffffffffffffffffffffff", run.ClassReported},
			"completed":                {completed, run.ClassReported},
			"expired, and not settled": {expired, run.ClassReported},
			"another workspace's":      {elsewhere, run.ClassReported},
			"another machine's":        {strange, run.ClassReported},
		} {
			if got := h.reported(h.Gateway, c.id); got == nil || *got != (run.ContextTurn{ID: c.id, Class: c.class}) {
				t.Errorf("%s: %v, want %s", name, got, c.class)
			}
		}
	})
}

// meddled does something before the commits that take a report in, each time.
type meddled struct {
	gateway.Ledger
	before func(*ledger.Change)
}

func (m meddled) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	for _, e := range c.Writes[0].Events {
		if e.Type == "turn.proposed" {
			m.before(&c)
		}
	}
	return m.Ledger.Commit(ctx, c)
}

func meddling(l gateway.Ledger, before func(*ledger.Change)) option {
	return func(c *gateway.Config) { c.Ledger = meddled{l, before} }
}

// L-10: observed is true at the commit: a turn that is completed, or expires, between the
// decision and its commit is reported. One that changes all the time holds up nothing.
// Without the guard, or without the limit of time, which are the controls, evidence says
// observed of a turn that is over.
func TestContextTurnEndsMeanwhile(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, unguarded := range []bool{false, true} {
			want := map[bool]string{false: run.ClassReported, true: run.ClassObserved}[unguarded]
			id, ended := h.openTurn(h.config.Workspace), false
			g := h.another(meddling(h.ledger, func(c *ledger.Change) {
				if !ended {
					must(t, changeTurn(t.Context(), h.ledger, id, completes))
				}
				if ended = true; unguarded {
					c.Guards = nil
				}
			}))
			if got := h.reported(g, id); got == nil || got.Class != want {
				t.Errorf("completed meanwhile, without a guard %t: %v, want %s", unguarded, got, want)
			}
			id, ended = h.openTurn(h.config.Workspace), false
			h.clock.Move(turn.Life - 2*time.Second)
			g = h.another(meddling(h.ledger, func(c *ledger.Change) {
				if !ended {
					h.clock.Move(3 * time.Second)
				}
				if ended = true; unguarded {
					c.NotAfter = time.Time{}
				}
			}))
			if got := h.reported(g, id); got == nil || got.Class != want {
				t.Errorf("expired meanwhile, without a limit %t: %v, want %s", unguarded, got, want)
			}
		}
		id, changes := h.openTurn(h.config.Workspace), 0
		g := h.another(meddling(h.ledger, func(*ledger.Change) {
			changes++
			must(t, changeTurn(t.Context(), h.ledger, id, observes))
		}))
		if got := h.reported(g, id); got == nil || got.Class != run.ClassReported || changes < 2 {
			t.Errorf("changed %d times meanwhile: %v", changes, got)
		}
	})
}

// unreadable is a ledger that does not answer, or panics, when it is asked for a context turn.
type unreadable struct {
	gateway.Ledger
	panics bool
}

func (u unreadable) Load(ctx context.Context, key ledger.Key) (ledger.Subject, time.Time, error) {
	if key.Kind == turn.Kind {
		if u.panics {
			panic("unreadable")
		}
		return ledger.Subject{}, time.Time{}, errors.New("unreadable")
	}
	return u.Ledger.Load(ctx, key)
}

// L-10: a context turn that cannot be read blocks nothing.
func TestContextTurnUnreadable(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.openTurn(h.config.Workspace)
		for _, panics := range []bool{false, true} {
			g := h.another(func(c *gateway.Config) { c.Ledger = unreadable{h.ledger, panics} })
			if got := h.reported(g, id); got == nil || got.Class != run.ClassReported {
				t.Errorf("panics %t: %v", panics, got)
			}
		}
	})
}

// G-39: a run is created for a named client that is there, not revoked and opted in, and
// for no other.
func TestContextClientOfARun(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		now := evidence.TimeOf(time.Now())
		for _, c := range []struct{ id, want string }{
			{h.client(), ""},
			{h.client(func(c *project.Client) { c.RevokedAt = &now }), authority.InvalidRequest},
			{h.client(func(c *project.Client) { c.TurnProtocol = project.Absent }), authority.InvalidRequest},
			{"cli_ffffffffffffffffffffffffffffffff", authority.NotFound},
		} {
			r := createRequest(run.TargetLocal)
			r.Config.ContextClient = &c.id
			id, err := h.Create(t.Context(), r)
			if reasonOf(t, err) != c.want {
				t.Errorf("%s: %v, want %s", c.id, err, c.want)
			}
			if err == nil && (h.state(id).Config.ContextClient == nil || *h.state(id).Config.ContextClient != c.id) {
				t.Errorf("%s is not in the run's configuration", c.id)
			}
		}
	})
}
