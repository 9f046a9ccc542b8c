package channel_test

import (
	"strings"
	"testing"
)

// latest is the data of the newest event of a type in the run's timeline.
func (c *consumer) latest(eventType string) map[string]any {
	c.t.Helper()
	var found map[string]any
	for _, l := range c.view(c.run)["timeline"].([]any) {
		if e := l.(map[string]any); e["type"] == eventType {
			found = e["data"].(map[string]any)
		}
	}
	if found == nil {
		c.t.Fatalf("the timeline has no %s", eventType)
	}
	return found
}

// G-14, L-4: both routes over HTTP, at a local service that has nothing to close: a
// probe finds nothing, and the owner's statement is shown as one.
func TestReconcile(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, c := range []struct{ finding, outcome, state string }{
		{"applied", "paused:reconciliation", "reconciled"},
		{"not_applied", "paused:retry", "reconciled"},
		{"unknown", "unconfirmed_effect", "unconfirmed"},
	} {
		lost := h.lost()
		doubt := lost.doubt()
		view := h.view(lost.run)
		if got := view["eligible"].([]any); view["outcome"] != "unconfirmed_effect" || len(got) != 3 || got[0] != "probe" || got[1] != "reconcile" || got[2] != "revoke" {
			t.Errorf("outcome %v, eligible %v", view["outcome"], got)
		}
		for _, route := range []string{"retry", "simulate"} {
			body := map[string]any{}
			if route == "simulate" {
				body["event"] = "navigate"
			}
			lost.act(route, body).is(t, route, 409, "UNRESOLVED_EFFECT")
		}
		lost.act("probe", doubt).is(t, "probe", 200, "")
		if got := lost.latest("execution.probed"); got["answer"] != "not_seen" || got["receipt"] != nil {
			t.Errorf("probed %v", got)
		}
		statement := map[string]any{"executionId": doubt["executionId"], "finding": c.finding, "note": "The list of orders."}
		for range 2 { // saying it again changes nothing
			lost.act("reconcile", statement).is(t, c.finding, 200, "")
		}
		view = h.view(lost.run)
		list := view["executions"].([]any)
		x := list[len(list)-1].(map[string]any)
		if view["outcome"] != c.outcome || x["state"] != c.state || x["finding"] != c.finding || x["receipt"] != nil || view["overspentCents"] != "0" {
			t.Errorf("%s: outcome %v, execution %v", c.finding, view["outcome"], x)
		}
		note, ok := lost.latest("execution.reconciled")["note"].(map[string]any)
		if !ok || note["length"] != float64(len("The list of orders.")) || strings.Contains(string(mustJSON(view)), "The list of orders.") {
			t.Errorf("%s: the note is %v", c.finding, note)
		}
		if c.finding != "unknown" {
			other := map[string]any{"executionId": doubt["executionId"], "finding": "unknown"}
			lost.act("reconcile", other).is(t, "another statement", 409, "RECOVERY_NOT_ELIGIBLE")
		}
	}
	lost := h.lost()
	doubt := lost.doubt()
	for name, body := range map[string]map[string]any{
		"no finding":       doubt,
		"unknown finding":  {"executionId": doubt["executionId"], "finding": "lost"},
		"a long note":      {"executionId": doubt["executionId"], "finding": "unknown", "note": strings.Repeat("x", 501)},
		"an unknown extra": {"executionId": doubt["executionId"], "finding": "unknown", "by": "owner"},
		"no execution":     {"finding": "unknown"},
	} {
		lost.act("reconcile", body).is(t, name, 400, "INVALID_REQUEST")
	}
	lost.act("probe", map[string]any{}).is(t, "probe of nothing", 400, "INVALID_REQUEST")
	nobody := map[string]any{"executionId": lost.run}
	lost.act("probe", nobody).is(t, "probe of no execution", 404, "NOT_FOUND")
	nobody["finding"] = "unknown"
	lost.act("reconcile", nobody).is(t, "statement about no execution", 404, "NOT_FOUND")
	// What has its receipt is not in doubt.
	c := h.in(nil)
	c.cycle(purchase[0])
	c.act("probe", c.doubt()).is(t, "probe of a receipted execution", 409, "RECOVERY_NOT_ELIGIBLE")
}
