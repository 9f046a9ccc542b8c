package app_test

import (
	"testing"
)

// H-090: the status tells providers and browser, and it tells the truth: a run that asks for what is
// available is made, and one that asks for anything else is refused.
func TestStatus(t *testing.T) {
	d := openDesk(t, "")
	status := d.ask("GET", "/status", nil).is(t, "status", 200, "")
	if status.at("browser", "name") != "browser" || status.at("browser", "available") != false || status.at("browser", "reason") != "not built" {
		t.Errorf("browser: %v", status.at("browser"))
	}
	for list, member := range map[string]string{"providers": "executor", "channels": "channel", "targets": "target"} {
		named, available := status.at(list).([]any), 0
		for _, each := range named {
			c := each.(map[string]any)
			body := map[string]any{"service": "merchant", "channel": "http", "budgetCents": "13700", "instruction": "Buy one keyboard."}
			body[member] = c["name"]
			made := d.ask("POST", "/runs", body)
			if c["available"] == true {
				available++
				made.is(t, list+": "+c["name"].(string), 201, "")
				continue
			}
			if made.status != 501 && made.status != 503 || c["reason"] == "" {
				t.Errorf("%s: %v, and a run with it is answered with %d %s", list, c, made.status, made.body)
			}
		}
		if available == 0 || len(named) < 2 {
			t.Errorf("%s: %v", list, named)
		}
	}
}
