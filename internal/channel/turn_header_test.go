package channel_test

import (
	"fmt"
	"reflect"
	"testing"
)

// L-10: a report may name its context turn in X-SEIF-Turn-Id. What is no id of a turn is
// refused and stores nothing; one that is not in this ledger is reported, in evidence and in
// the run's view, and the report is decided on like any other.
func TestTurnHeader(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.agent("local")
	const id = "trn_0190a3c5e7b27f4a8d1c5b9e3f6a2d48"
	report := c.report("merchant.catalog")
	before := h.total(c.run)
	for _, malformed := range []string{"x", id[:35], id + "0", "TRN_" + id[4:], "int_" + id[4:], id[:35] + "G", id[:35] + "F", id + "," + id, id + "; q=1"} {
		c.ask("POST", "/turns", report, set("X-SEIF-Turn-Id", malformed)).is(t, fmt.Sprintf("a turn %q", malformed), 400, "INVALID_REQUEST")
	}
	if n := h.total(c.run); n != before {
		t.Errorf("malformed headers left %d events", n-before)
	}
	a := c.ask("POST", "/turns", report, set("X-SEIF-Turn-Id", id))
	a.is(t, "a report in a turn", 200, "")
	if permitOf(a) == nil {
		t.Errorf("no permit: %s", a.body)
	}
	want := map[string]any{"id": id, "class": "reported"}
	view := h.view(c.run)
	if got := view["contextTurn"]; !reflect.DeepEqual(got, want) {
		t.Errorf("the view shows %v, want %v", got, want)
	}
	told := false
	for _, line := range view["timeline"].([]any) {
		if line := line.(map[string]any); line["type"] == "turn.proposed" {
			told = true
			if got := line["data"].(map[string]any)["contextTurn"]; !reflect.DeepEqual(got, want) {
				t.Errorf("evidence has %v, want %v", got, want)
			}
		}
	}
	if !told {
		t.Error("the report is not in evidence")
	}
	c.operate(permitOf(a)).is(t, "execute", 200, "")
	c.cycle("add:fieldwork-keyboard:1")
	if got := h.view(c.run)["contextTurn"]; got != nil {
		t.Errorf("a report without the header, and the view shows %v", got)
	}
}
