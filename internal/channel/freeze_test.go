package channel_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/canon"
)

// frozen is what GET /freeze answers.
func (h *house) frozen() map[string]any {
	h.t.Helper()
	a := h.owner("GET", "/freeze", nil)
	a.is(h.t, "how it stands", 200, "")
	return a.members()
}

// L-8: the owner freezes over HTTP; an agent meets FROZEN, its run stops and says so, and
// goes on once the freeze is lifted and the owner retries it. The evidence verifies.
func TestFreeze(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.agent("local")
	c.cycle(purchase[0])
	if f := h.frozen(); f["frozen"] != false || f["epoch"] != 0.0 || f["since"] != nil || f["reason"] != "" || f["head"] != "" {
		t.Errorf("before any freeze: %v", f)
	}
	h.owner("GET", "/freeze/evidence", nil).is(t, "evidence of nothing", 404, "NOT_FOUND")
	never := h.owner("POST", "/unfreeze", map[string]any{"reason": "Which?", "epoch": 1})
	never.is(t, "lifting what never was", 409, "REVISION_CONFLICT")
	if !strings.Contains(never.text("detail"), "never frozen") {
		t.Errorf("lifting what never was: %s", never.text("detail"))
	}
	why := map[string]any{"reason": "An agent orders what nobody asked for."}
	a := h.owner("POST", "/freeze", why)
	a.is(t, "freeze", 200, "")
	f := a.members()
	if f["changed"] != true || f["frozen"] != true || f["epoch"] != 1.0 || f["reason"] != why["reason"] || f["since"] == nil || len(f["inFlight"].([]any)) != 0 {
		t.Errorf("the freeze answers %v", f)
	}
	again := h.owner("POST", "/freeze", map[string]any{"reason": "Me too."}).members()
	if again["changed"] != false || again["reason"] != why["reason"] || again["epoch"] != 1.0 || again["since"] != f["since"] {
		t.Errorf("a second freeze answers %v", again)
	}

	c.ask("POST", "/turns", c.report(purchase[1])).is(t, "a report", 409, "FROZEN")
	if reason, recovery := c.stopped(); reason != "FROZEN" || recovery != "retry" {
		t.Errorf("the run stopped for %q, recovery %q", reason, recovery)
	}
	c.act("retry", map[string]any{}).is(t, "retry", 409, "FROZEN")
	if v := h.view(c.run); v["frozen"] != true || slices.Contains(v["eligible"].([]any), any("retry")) {
		t.Errorf("the view while frozen: %v, eligible %v", v["frozen"], v["eligible"])
	}
	a = c.ask("POST", "/turns", c.report(purchase[1]))
	a.is(t, "another report", 409, "RUN_NOT_READY")
	if !strings.Contains(a.text("detail"), "once the freeze is lifted") {
		t.Errorf("told while frozen: %s", a.text("detail"))
	}
	h.owner("POST", "/runs", createBody("hosted")).is(t, "a hosted run", 409, "FROZEN")
	c.ask("GET", "/capabilities", nil).is(t, "capabilities", 200, "")

	h.owner("POST", "/unfreeze", map[string]any{"reason": "The wrong one.", "epoch": 2}).is(t, "another freeze", 409, "REVISION_CONFLICT")
	a = h.owner("POST", "/unfreeze", map[string]any{"reason": "The agent is revoked.", "epoch": 1})
	a.is(t, "unfreeze", 200, "")
	if f := a.members(); f["changed"] != true || f["frozen"] != false || f["epoch"] != 1.0 || f["since"] != nil {
		t.Errorf("the end of the freeze answers %v", f)
	}
	if last := h.frozen()["last"].(map[string]any); last["epoch"] != 1.0 || last["reason"] != why["reason"] || last["unfreezeReason"] != "The agent is revoked." ||
		last["since"] != f["since"] || last["until"] == nil || !canon.IsHash(last["session"].(string)) || last["unfreezeSession"] != last["session"] {
		t.Errorf("the last freeze: %v", last)
	}
	if v := h.view(c.run); v["frozen"] != false || !slices.Contains(v["eligible"].([]any), any("retry")) {
		t.Errorf("the view afterwards: %v, eligible %v", v["frozen"], v["eligible"])
	}
	a = c.ask("POST", "/turns", c.report(purchase[1]))
	a.is(t, "a report before the retry", 409, "RUN_NOT_READY")
	if !strings.Contains(a.text("detail"), "The freeze was lifted") || strings.Contains(a.text("detail"), "is frozen") {
		t.Errorf("told afterwards: %s", a.text("detail"))
	}
	c.act("retry", map[string]any{}).is(t, "retry", 200, "")
	for _, id := range purchase[1:] {
		c.cycle(id)
	}

	export := h.owner("GET", "/freeze/evidence", nil)
	export.is(t, "evidence", 200, "")
	keys, err := evidence.ParseKeys([]byte(h.owner("GET", "/public-key", nil).text("file")))
	must(t, err)
	report, err := audit.Verify(bytes.NewReader(export.body), audit.Options{Keys: keys})
	must(t, err)
	if !report.Verified || report.Count != 4 || report.Lawfulness.Status != "open" {
		t.Errorf("the evidence: %+v", report)
	}
}

// What had no outcome when the workspace was frozen is in the evidence, and shown with its
// outcome as long as the freeze stands.
func TestFreezeSettled(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	lost := h.lost()
	doubt := lost.doubt()
	one := func(v map[string]any, member, state string) {
		t.Helper()
		other := map[string]string{"executions": "settled", "settled": "executions"}[member]
		list := v[member].([]any)
		if len(list) != 1 || list[0].(map[string]any)["state"] != state || list[0].(map[string]any)["executionId"] != doubt["executionId"] || len(v[other].([]any)) != 0 {
			t.Errorf("%s: %v, %s: %v", member, list, other, v[other])
		}
	}
	one(h.frozen(), "executions", "unconfirmed")
	one(h.owner("POST", "/freeze", map[string]any{"reason": "Stop."}).members(), "executions", "unconfirmed")
	lost.act("reconcile", map[string]any{"executionId": doubt["executionId"], "finding": "applied"}).is(t, "reconcile", 200, "")
	one(h.frozen(), "settled", "reconciled")
	listed := h.owner("GET", "/freeze/evidence", nil)
	if !strings.Contains(string(listed.body), `"executionId":"`+doubt["executionId"].(string)+`"`) {
		t.Errorf("the evidence does not list it: %s", listed.body)
	}
	after := h.owner("POST", "/unfreeze", map[string]any{"reason": "Go."}).members()
	if len(after["settled"].([]any))+len(after["executions"].([]any)) != 0 {
		t.Errorf("afterwards: %v", after)
	}
}

// A freeze and its end say why, in 1 to 500 characters; nothing changes otherwise.
func TestFreezeBodies(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, body := range map[string]any{
		"no reason": map[string]any{}, "an empty one": map[string]any{"reason": ""}, "a blank one": map[string]any{"reason": " \t "},
		"a number": map[string]any{"reason": 1}, "501 characters": map[string]any{"reason": strings.Repeat("ü", 501)},
		"a member too many": map[string]any{"reason": "x", "force": true}, "no object": []any{},
	} {
		for _, route := range []string{"/freeze", "/unfreeze"} {
			h.owner("POST", route, body).is(t, name+" at "+route, 400, "INVALID_REQUEST")
		}
	}
	h.owner("POST", "/unfreeze", map[string]any{"reason": "x", "epoch": 0}).is(t, "epoch 0", 400, "INVALID_REQUEST")
	if f := h.frozen(); f["epoch"] != 0.0 {
		t.Errorf("it stands as %v", f)
	}
	h.owner("POST", "/freeze", map[string]any{"reason": strings.Repeat("ü", 500)}).is(t, "control: 500 characters", 200, "")
}
