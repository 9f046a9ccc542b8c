package channel_test

import (
	"context"
	"testing"

	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/managed"
	"countersign/internal/supervision/model/replay"
)

// steps are managed attempts with the executor, or the authored one.
func (h *house) steps(executor managed.Executor) *managed.Steps {
	h.t.Helper()
	if executor == nil {
		var err error
		executor, err = replay.NewExecutor()
		must(h.t, err)
	}
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

// held is an executor at a provider that answers when it is let.
type held struct {
	asked, answer chan struct{}
	*replay.Executor
}

func (held) Outside() bool { return true }

func (h held) Propose(ctx context.Context, b decide.Briefing) ([]byte, error) {
	h.asked <- struct{}{}
	<-h.answer
	return h.Executor.Propose(ctx, b)
}

// G-04: while an attempt is under way there is no other, and no report of an agent. The
// attempt comes to its end, and its call is counted in the view.
func TestAttemptInProgress(t *testing.T) {
	executor, err := replay.NewExecutor()
	must(t, err)
	e := held{make(chan struct{}), make(chan struct{}), executor}
	h := newHouse(t, func(c *config) { c.executor = e })
	c := h.in(nil)
	report := c.report(purchase[0])
	first := make(chan answer)
	go func() { first <- c.act("step", nil) }()
	<-e.asked
	for _, route := range []string{"step", "play"} {
		a := c.act(route, nil)
		a.is(t, route+" beside a step", 409, "ATTEMPT_IN_PROGRESS")
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("%s: Retry-After %q", route, a.header.Get("Retry-After"))
		}
	}
	c.ask("POST", "/turns", report).is(t, "a report beside a step", 409, "RUN_NOT_READY")
	if view := h.view(c.run); view["status"] != "running" || view["modelCalls"] != 1.0 {
		t.Errorf("meanwhile %v with %v calls", view["status"], view["modelCalls"])
	}
	close(e.answer)
	a := <-first
	a.is(t, "step", 200, "")
	if a.text("status") != "ready" || a.text("position") != "prepare" || a.members()["modelCalls"] != 1.0 {
		t.Errorf("%s at %s with %v calls", a.text("status"), a.text("position"), a.members()["modelCalls"])
	}
}

// asking is an executor that asks its owner first and proposes once it has words.
type asking struct{ *replay.Executor }

func (a asking) Propose(ctx context.Context, b decide.Briefing) ([]byte, error) {
	if len(b.Clarifications) == 0 {
		return []byte(`{"version":1,"outcome":{"kind":"clarification","question":"Is the black one meant?"}}`), nil
	}
	return a.Executor.Propose(ctx, b)
}

// Whoever is asked is shown the question, as long as the run waits for the answer; a
// later stop for another cause does not bring it back.
func TestQuestionIsShown(t *testing.T) {
	executor, err := replay.NewExecutor()
	must(t, err)
	h := newHouse(t, func(c *config) { c.executor = asking{executor} })
	c := h.in(nil)
	c.act("step", nil).is(t, "step", 200, "")
	view := h.view(c.run)
	answer, _ := view["executorAnswer"].(map[string]any)
	if answer["text"] != "Is the black one meant?" || answer["kind"] != "clarification" || answer["source"] != "executor" {
		t.Errorf("the owner is shown %v", view["executorAnswer"])
	}
	c.act("clarify", map[string]any{"clarification": "Yes."}).is(t, "clarify", 200, "")
	if view := h.view(c.run); view["executorAnswer"] != nil {
		t.Errorf("a question that was answered is shown: %v", view["executorAnswer"])
	}
	c.act("simulate", map[string]any{"event": "provider_timeout"}).is(t, "simulate", 200, "")
	if view := h.view(c.run); view["status"] != "paused" || view["executorAnswer"] != nil {
		t.Errorf("%v, and shown is %v", view["status"], view["executorAnswer"])
	}
}
