package channel_test

import (
	"testing"

	"countersign/internal/supervision/managed"
	"countersign/internal/supervision/model/replay"
)

// steps are managed attempts with the authored executor.
func (h *house) steps() *managed.Steps {
	h.t.Helper()
	executor, err := replay.NewExecutor()
	must(h.t, err)
	return managed.New(h.gateway, map[string]managed.Executor{replay.Provider: executor})
}

// H-094 H-095: step answers with the run's view, play with that and how far it came.
func TestStepAndPlay(t *testing.T) {
	h := newHouse(t)
	c := h.in(nil)
	a := c.act("step", map[string]any{})
	a.is(t, "step", 200, "")
	if a.text("runId") != c.run || a.text("status") != "ready" || a.text("position") != "prepare" {
		t.Errorf("after a step: %s at %s", a.text("status"), a.text("position"))
	}
	a = c.act("play", nil)
	a.is(t, "play", 200, "")
	body := a.members()
	run := body["run"].(map[string]any)
	if body["steps"] != 3.0 || body["playLimitReached"] != false || run["status"] != "completed" || run["spentCents"] != "13700" {
		t.Errorf("play: %v steps, limit %v, run %v, spent %v", body["steps"], body["playLimitReached"], run["status"], run["spentCents"])
	}
	for _, route := range []string{"step", "play"} {
		c.act(route, nil).is(t, route+" of a completed run", 409, "RUN_NOT_READY")
	}

	// Under a live permit no attempt begins; the permit is the agent's to use.
	direct := h.in(nil)
	direct.allow(purchase[0])
	for _, route := range []string{"step", "play"} {
		direct.act(route, nil).is(t, route+" under a permit", 409, "PERMIT_OUTSTANDING")
	}
	for _, route := range []string{"step", "play"} {
		c.act(route, map[string]any{"actions": 2}).is(t, route+" with a body", 400, "INVALID_REQUEST")
		h.owner("POST", "/runs/01940e2e-7c00-7000-8000-0000000000ff/"+route, nil).is(t, route+" of no run", 404, "NOT_FOUND")
	}
}
