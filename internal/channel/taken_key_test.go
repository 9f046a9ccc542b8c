package channel_test

import (
	"strings"
	"testing"

	"countersign/internal/channel/edge"
)

// H-134: a key is answered with what is stored under it for the same request of the same
// run alone. Another argument, permit or run, and whoever has no right to the run any
// more, is never shown it. The control is the same request, sent again.
func TestKeyOfAnotherRequest(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.agent("local")
	p := a.allow(purchase[0])
	first := a.operate(p)
	first.is(t, "the operation", 200, "")
	stored := first.text("executionId")
	key := set("X-Idempotency-Key", "key-of-"+p.id)
	former := *a
	other := h.agent("local")
	own, second := other.allow(purchase[0]), a.allow(purchase[0])
	altered := func() map[string]any {
		action := map[string]any{}
		for name, value := range p.action.(map[string]any) {
			action[name] = value
		}
		action["args"] = map[string]any{"productId": "fieldwork-mouse"}
		return map[string]any{"action": action}
	}
	a.token = h.issue(a.run)
	for _, c := range []struct {
		what   string
		answer answer
		status int
		reason string
	}{
		{"another argument", a.ask("POST", "/operation", altered(), p.headers()...), 409, "IDEMPOTENCY_CONFLICT"},
		{"another permit of the run", a.operate(second, key), 409, "IDEMPOTENCY_CONFLICT"},
		{"no permit", a.ask("POST", "/operation", p.body(), key), 409, "IDEMPOTENCY_CONFLICT"},
		{"another run with the permit", other.operate(p, key), 403, "PERMIT_MISMATCH"},
		{"another run without a permit", other.ask("POST", "/operation", p.body(), key), 403, "PERMIT_REQUIRED"},
		{"another run with a permit of its own", other.operate(own, key), 200, ""},
		{"the run's former token", former.operate(p), 401, edge.AuthenticationRequired},
		{"nobody", h.do("POST", "/api/v1/operation", p.body(), p.headers()...), 401, edge.AuthenticationRequired},
		{"the owner", h.do("POST", "/api/v1/operation", p.body(), append(p.headers(), h.asOwner(h.cookie))...), 401, edge.AuthenticationRequired},
	} {
		c.answer.is(t, c.what, c.status, c.reason)
		if strings.Contains(string(c.answer.body), stored) || c.answer.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s is shown the stored result: %s", c.what, c.answer.body)
		}
	}
	same := a.operate(p)
	same.is(t, "control: the same request under the run's new token", 200, "")
	if same.text("executionId") != stored || same.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("control: %s %s, want the stored result", same.header.Get("Idempotency-Replayed"), same.body)
	}
	if n := h.events(a.run)["execution.dispatched"]; n != 1 {
		t.Errorf("%d dispatches of the run", n)
	}
}
