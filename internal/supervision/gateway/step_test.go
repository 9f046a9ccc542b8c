package gateway_test

import (
	"testing"

	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/managed"
	"countersign/internal/supervision/model/replay"
	"countersign/internal/supervision/run"
)

// steps are managed attempts on a gateway, with the authored executor.
func steps(t *testing.T, g *gateway.Gateway) *managed.Steps {
	t.Helper()
	executor, err := replay.NewExecutor()
	must(t, err)
	return managed.New(g, map[string]managed.Executor{replay.Provider: executor})
}

// H-031 H-094 H-095: step and play buy what the terms say, on either target, in the
// authored order, without one model call.
func TestPlayBuys(t *testing.T) {
	for _, target := range []string{run.TargetLocal, run.TargetHosted} {
		t.Run(target, func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine) {
				h := newHouse(t, e)
				id := h.create(target)
				must(t, steps(t, h.Gateway).Step(t.Context(), id))
				if s := h.state(id); s.Status != run.StatusReady || s.Position() != "prepare" || s.Turns != 1 {
					t.Fatalf("after one step: status %s at %s with %d turns", s.Status, s.Position(), s.Turns)
				}
				played, err := steps(t, h.Gateway).Play(t.Context(), id)
				must(t, err)
				if want := (managed.Played{Steps: 3}); played != want {
					t.Errorf("played %+v, want %+v", played, want)
				}
				s := h.state(id)
				if s.Status != run.StatusCompleted || s.Budget.Spent != 13700 || s.ModelCalls != 0 || h.count(id, "model.called") != 0 {
					t.Errorf("status %s, spent %s, %d model calls; want completed, 13700, none", s.Status, s.Budget.Spent, s.ModelCalls)
				}
				h.verify(id)
			})
		})
	}
}
