package gateway_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"countersign/internal/authority"
	"countersign/internal/identity"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
)

// replicas are gateways that share nothing but the ledger: on PostgreSQL each has
// an opening of its own, on SQLite, which one process has to itself, they share
// that. The first is the house's own.
func (h *house) replicas(n int) []*gateway.Gateway {
	h.t.Helper()
	all := []*gateway.Gateway{h.Gateway}
	for len(all) < n {
		all = append(all, h.another(func(c *gateway.Config) {
			if h.engine.name == "postgres" {
				opened, err := h.engine.open(h.t.Context(), h.location, h.clock)
				must(h.t, err)
				h.t.Cleanup(func() { opened.Close() })
				c.Ledger = opened
			}
		}))
	}
	return all
}

// together runs n calls at once and returns what each came to.
func together[T any](n int, call func(i int) T) []T {
	out := make([]T, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			out[i] = call(i)
		})
	}
	close(gate)
	wg.Wait()
	return out
}

type operated struct {
	*records.Operation
	err error
}

const crowd = 64

// G-12: one permit, 64 callers at three gateways, with one key and with 64: one
// execution, one order in the store's database, and everybody else a replay or 409.
func TestCrowdAtOnePermit(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		for _, keys := range []int{1, crowd} {
			h := newHouse(t, e)
			gateways := h.replicas(3)
			id, p := h.toSubmit()
			got := together(crowd, func(i int) operated {
				r := request(id, p)
				r.Key = fmt.Sprintf("key-of-the-caller-%d", i%keys)
				out, err := gateways[i%len(gateways)].Operate(t.Context(), r)
				return operated{out, err}
			})
			first := 0
			refused := 0
			allowed := []string{authority.InProgress}
			if keys > 1 {
				allowed = []string{authority.PermitConsumed, authority.UnresolvedEffect}
			}
			for i, o := range got {
				switch {
				case o.err == nil && !o.Replayed:
					first++
				case o.err == nil && keys == 1:
				case errors.Is(o.err, gateway.ErrUnavailable): // 503 on a machine that is too busy
				case o.err != nil && slices.Contains(allowed, reason(o.err)):
					refused++
				default:
					t.Errorf("%d keys, caller %d: %+v, %v", keys, i, o.Operation, o.err)
				}
			}
			if h.state(id).Status == run.StatusRunning { // the verification was late
				_, err := h.Observe(t.Context(), id)
				must(t, err)
			}
			s := h.state(id)
			if first != 1 || h.count(id, "permit.claimed") != 4 || s.Status != run.StatusCompleted || s.Budget.Spent != 13700 {
				t.Errorf("%d keys: %d first answers, %d claims, status %s, budget %+v", keys, first, h.count(id, "permit.claimed"), s.Status, s.Budget)
			}
			if n := countOrders(t, filepath.Join(h.dir, "store"), s.Hosted.ID); n != 1 {
				t.Errorf("%d keys: %d orders", keys, n)
			}
			if n := len(h.refusals(id)); keys > 1 && (n != refused || n == 0) {
				t.Errorf("%d refusals are recorded, %d were answered", n, refused)
			}
			h.verify(id)
			must(t, h.ledger.Close())
		}
	})
}

// The control: two control planes that do not share a ledger both execute.
func TestCrowdControl(t *testing.T) {
	h := newHouse(t, engines[0])
	id := h.create(run.TargetLocal)
	p := h.allow(id, "merchant.catalog")
	must(t, h.ledger.Close())
	forked := filepath.Join(t.TempDir(), "countersign.db")
	for _, suffix := range []string{"", "-wal"} {
		copied, err := os.ReadFile(h.location + suffix)
		if !errors.Is(err, fs.ErrNotExist) {
			must(t, err)
			must(t, os.WriteFile(forked+suffix, copied, 0o600))
		}
	}
	gateways := []*gateway.Gateway{}
	for _, location := range []string{h.location, forked} {
		opened, err := h.engine.open(t.Context(), location, h.clock)
		must(t, err)
		t.Cleanup(func() { opened.Close() })
		gateways = append(gateways, h.another(func(c *gateway.Config) { c.Ledger = opened }))
	}
	got := together(2, func(i int) operated {
		out, err := gateways[i].Operate(t.Context(), request(id, p))
		return operated{out, err}
	})
	if got[0].err != nil || got[1].err != nil || got[0].ExecutionID == got[1].ExecutionID {
		t.Errorf("%v, %v; want two executions of one permit", got[0].err, got[1].err)
	}
}

// H-003 H-081: many reports at once get one permit.
func TestCrowdOfReports(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		gateways := h.replicas(3)
		id := h.create(run.TargetLocal)
		o, entry := h.entry(id, "merchant.catalog")
		got := together(crowd, func(i int) error {
			_, err := gateways[i%len(gateways)].Propose(t.Context(), id, "", report(o, entry))
			return err
		})
		allowed := 0
		for _, err := range got {
			if err == nil {
				allowed++
			} else if reason(err) != authority.PermitOutstanding {
				t.Error(err)
			}
		}
		if allowed != 1 || h.count(id, "permit.issued") != 1 || h.count(id, "turn.proposed") != 1 {
			t.Errorf("%d answers with a permit, %d permits", allowed, h.count(id, "permit.issued"))
		}
		h.verify(id)
	})
}

// Design 1: revoke against claim. Either the claim came first and its execution is
// complete or given up, or the permit was revoked; never a dispatch after the
// revocation, which the replay in verify would name.
func TestRevokeAgainstClaim(t *testing.T) {
	const rounds = 6
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		gateways := h.replicas(2)
		for range rounds {
			id := h.create(run.TargetLocal)
			h.do(id, "merchant.catalog")
			p := h.allow(id, "add:fieldwork-keyboard:1")
			got := together(2, func(i int) operated {
				if i == 0 {
					return operated{nil, gateways[0].Revoke(t.Context(), id)}
				}
				out, err := gateways[1].Operate(t.Context(), request(id, p))
				return operated{out, err}
			})
			must(t, got[0].err)
			if err := got[1].err; err != nil && reason(err) != authority.PermitRevoked {
				t.Errorf("operate: %v", err)
			}
			s := h.state(id)
			if s.Status != run.StatusRevoked || s.Unresolved() {
				t.Errorf("status %s, outcome %s", s.Status, s.Outcome())
			}
			h.verify(id)
		}
	})
}

// Design 1: rotation against claim. The former token either claimed before the
// rotation or is 401.
func TestRotationAgainstClaim(t *testing.T) {
	const rounds = 6
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		gateways := h.replicas(2)
		id := h.create(run.TargetLocal)
		_, err := h.IssueSession(t.Context(), id)
		must(t, err)
		for range rounds {
			p := h.allow(id, "merchant.catalog")
			r := request(id, p)
			r.Generation = h.state(id).Session.Generation
			got := together(2, func(i int) error {
				if i == 0 {
					_, err := gateways[0].IssueSession(t.Context(), id)
					return err
				}
				_, err := gateways[1].Operate(t.Context(), r)
				return err
			})
			must(t, got[0])
			claimed, issued := int64(0), int64(0)
			for _, ev := range h.events(id) {
				switch ev.Type {
				case "permit.claimed":
					claimed = ev.Sequence
				case "session.issued":
					issued = ev.Sequence
				}
			}
			switch {
			case got[1] == nil && claimed > issued:
				t.Error("the former token claimed after the rotation")
			case got[1] != nil && !errors.Is(got[1], identity.ErrUnauthenticated):
				t.Errorf("operate: %v", got[1])
			case got[1] != nil: // the permit is still live; the new token uses it
				r.Generation++
				_, err := h.Operate(t.Context(), r)
				must(t, err)
			}
		}
		h.verify(id)
	})
}

// The model of one permit: who claimed it, and under which key.
type (
	permitState struct{ key, execution string }
	permitInput struct {
		round int
		key   string
	}
	permitOutput struct {
		reason    string // of a refusal
		execution string
		replayed  bool
	}
)

var permitModel = porcupine.Model{
	Init: func() any { return permitState{} },
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		rounds := map[int][]porcupine.Operation{}
		for _, op := range history {
			round := op.Input.(permitInput).round
			rounds[round] = append(rounds[round], op)
		}
		parts := make([][]porcupine.Operation, 0, len(rounds))
		for _, part := range rounds {
			parts = append(parts, part)
		}
		return parts
	},
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(permitState), input.(permitInput), output.(permitOutput)
		switch {
		case out.execution != "" && !out.replayed:
			return s == permitState{}, permitState{in.key, out.execution}
		case out.replayed:
			return s == permitState{in.key, out.execution}, s
		case out.reason == authority.InProgress:
			return s.key == in.key, s
		}
		refused := out.reason == authority.PermitConsumed || out.reason == authority.UnresolvedEffect
		return refused && s.key != "" && s.key != in.key, s
	},
}

// Eight clients contend for one permit under two keys, each twice, in 12 rounds:
// 192 operations have one order in which each answer is right. Call and return are
// taken at the client.
func TestOperateIsLinearizable(t *testing.T) {
	const rounds, clients = 12, 8
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		gateways := h.replicas(3)
		id := h.create(run.TargetLocal)
		begin := time.Now()
		var history []porcupine.Operation
		for round := range rounds {
			if round > 0 && round%9 == 0 { // a run records a hundred refusals
				h.verify(id)
				id = h.create(run.TargetLocal)
			}
			p := h.allow(id, "merchant.catalog")
			for _, ops := range together(clients, func(client int) []porcupine.Operation {
				var ops []porcupine.Operation
				for range 2 {
					r := request(id, p)
					r.Key = fmt.Sprintf("key-%d-of-round-%06d", client%2, round)
					call := time.Since(begin).Nanoseconds()
					out, err := gateways[client%len(gateways)].Operate(t.Context(), r)
					o := permitOutput{}
					if err != nil {
						o.reason = reason(err)
					} else {
						o.execution, o.replayed = out.ExecutionID, out.Replayed
					}
					ops = append(ops, porcupine.Operation{ClientId: client, Input: permitInput{round, r.Key}, Call: call, Output: o, Return: time.Since(begin).Nanoseconds()})
				}
				return ops
			}) {
				history = append(history, ops...)
			}
		}
		if n := len(history); n != rounds*clients*2 {
			t.Errorf("%d operations", n)
		}
		if got := porcupine.CheckOperationsTimeout(permitModel, history, time.Minute); got != porcupine.Ok {
			t.Errorf("the history is %v", got)
		}
		// The control: the same history with one more execution has no such order.
		twice := slices.Clone(history)
		last := twice[len(twice)-1]
		last.Output = permitOutput{execution: "a second execution"}
		last.Call, last.Return = last.Return+1, last.Return+2
		if got := porcupine.CheckOperationsTimeout(permitModel, append(twice, last), time.Minute); got != porcupine.Illegal {
			t.Errorf("with a second execution the history is %v", got)
		}
		h.verify(id)
	})
}
