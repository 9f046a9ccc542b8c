package app_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"countersign/internal/app"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
)

// attacked carries an attack out over the owner's route.
func (d *desk) attacked(id, service string) heard {
	d.t.Helper()
	return d.ask("POST", "/attacks/run", map[string]any{"attackId": id, "service": service})
}

// tells holds what a refusal says to do next.
func (h heard) tells(t *testing.T, next string) {
	t.Helper()
	if !strings.Contains(string(h.body), next) {
		t.Errorf("want %q in %s", next, h.body)
	}
}

// chainOf is the chain of a run, by type, once its export verifies.
func (d *desk) chainOf(run string) (types []string, bodies map[string][]json.RawMessage) {
	d.t.Helper()
	d.lawful("/runs/" + run + "/evidence")
	var export struct {
		Events []struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		} `json:"events"`
	}
	must(d.t, json.Unmarshal(d.ask("GET", "/runs/"+run+"/evidence", nil).body, &export))
	bodies = map[string][]json.RawMessage{}
	for _, e := range export.Events {
		types, bodies[e.Type] = append(types, e.Type), append(bodies[e.Type], e.Data)
	}
	return types, bodies
}

// The catalog and one attack of each kind over the owner's route, on both engines. What
// the answer says is in the evidence, which verifies; and nothing of it is operation.
// H-106 H-107 H-167 H-168 H-169
func TestAttackRoute(t *testing.T) {
	const label = "replay (authored); not a live-model safety measurement"
	engines(t, func(t *testing.T, url string) {
		d := openDesk(t, url)
		catalog := d.ask("GET", "/attacks", nil).is(t, "catalog", 200, "")
		lines, onThree := 0, 0
		for i, a := range catalog.at("attacks").([]any) {
			services := a.(map[string]any)["services"].([]any)
			if lines += len(services); len(services) == 3 {
				onThree++
			}
			if catalog.at("attacks", i, "attackId") == "" || catalog.at("attacks", i, "twin") == "" {
				t.Errorf("attack %d: %v", i, a)
			}
		}
		if n := len(catalog.at("attacks").([]any)); n != 25+1 || onThree != 12 || lines != 50 || catalog.at("label") != label {
			t.Errorf("%d attacks, %d of them on three services, %d lines, label %v", n, onThree, lines, catalog.at("label"))
		}
		for _, c := range []struct {
			id, service, by string
			status          float64
			code            string
			check           any
		}{
			{"B01", "merchant", "hard_policy", 400, "MALFORMED_PROPOSAL", nil},
			{"B10", "bank", "hard_policy", 200, "ARGUMENT_MISMATCH", 8.0},
			{"A06", "bank", "runtime", 409, "PERMIT_CONSUMED", nil},
		} {
			r := d.attacked(c.id, c.service).is(t, c.id, 200, "")
			if r.at("got", "status") != c.status || r.at("got", "reasonCode") != c.code || r.at("decidedBy") != c.by || r.at("failedCheck", "check") != c.check ||
				r.at("blocked") != true || r.at("twinPassed") != true || r.at("permits") != 0.0 || r.at("effects") != 0.0 || r.at("label") != label || r.at("problem") != nil || r.at("outcome") != "blocked" || r.at("target") != "local" {
				t.Errorf("%s: %s", c.id, r.body)
			}
			runs, _ := r.at("runIds").([]any)
			if len(runs) == 0 {
				t.Fatalf("%s made no run", c.id)
			}
			for _, run := range runs {
				types, bodies := d.chainOf(run.(string))
				if label, _ := d.ask("GET", "/runs/"+run.(string), nil).at("synthetic").(string); !strings.HasPrefix(label, "Synthetic run of the attack suite.") {
					t.Errorf("%s: the run's view says %q", c.id, label)
				}
				if !strings.Contains(string(bodies["run.created"][0]), `"attack":true`) || types[len(types)-1] != "run.revoked" {
					t.Errorf("%s: the run does not say that it is an attack's, or goes on: %v", c.id, types)
				}
				i := slices.Index(types, "attack.report")
				if (i >= 0) != (c.status == 400) {
					t.Errorf("%s: attack.report at %d", c.id, i)
				}
				if i >= 0 && (types[i+1] != "run.paused" || slices.Contains(types[i:], "turn.proposed") || slices.Contains(types[i:], "permit.issued") ||
					!strings.Contains(string(bodies["run.paused"][0]), `"MALFORMED_PROPOSAL"`)) {
					t.Errorf("%s: the chain goes on with %v", c.id, types[i:])
				}
				if c.check != nil && !strings.Contains(string(bodies["policy.checked"][len(bodies["policy.checked"])-1]), `{"check":8,"code":"ARGUMENT_MISMATCH","name":"arguments","result":"failed"}`) {
					t.Errorf("%s: policy.checked says %s", c.id, bodies["policy.checked"])
				}
			}
		}
		if list := d.ask("GET", "/runs", nil).is(t, "list", 200, "").at("runs").([]any); len(list) != 0 {
			t.Errorf("%d runs of attacks are listed", len(list))
		}
		d.attacked("Z99", "bank").is(t, "an unknown attack", 404, "NOT_FOUND").tells(t, "GET /api/v1/owner/attacks lists them")
		d.attacked("B01", "post").is(t, "an unknown service", 400, "INVALID_REQUEST")
		d.attacked("A06", "merchant").is(t, "another service than the attack's", 400, "INVALID_REQUEST").tells(t, "A06 applies to bank only")
		d.attacked("H01", "merchant").is(t, "a store that is not there", 501, "NOT_IMPLEMENTED")
		if r := send(t, http.MethodPost, d.origin+"/api/v1/owner/attacks/run", map[string]any{"attackId": "B01", "service": "bank"}, nil); r.status != 401 {
			t.Errorf("without a session: %d", r.status)
		}
	})
}

// What attacks do is no operation: a run of theirs counts as no decision and no execution,
// and the same run of an agent does. Their requests are requests.
// H-207
func TestAttacksAreNotMeasured(t *testing.T) {
	d := openDesk(t, "", func(c *app.Config) { c.MetricsAddr = "localhost:0" })
	operation := func() (n float64) {
		t.Helper()
		_, series := scrape(t, d.app.MetricsAddr())
		for name, value := range series {
			if strings.HasPrefix(name, "countersign_executions_total") || strings.HasPrefix(name, "countersign_decisions_total") {
				n += value
			}
		}
		return n
	}
	if r := d.attacked("B10", "bank").is(t, "B10", 200, ""); r.at("blocked") != true {
		t.Errorf("%s", r.body)
	}
	if n := operation(); n != 0 {
		t.Errorf("an attack counts as %v decisions and executions", n)
	}
	_, series := scrape(t, d.app.MetricsAddr())
	asked := 0.0
	for name, value := range series {
		if strings.HasPrefix(name, "countersign_http_requests_total") && strings.Contains(name, "/api/v1/turns") {
			asked += value
		}
	}
	if asked == 0 {
		t.Error("the requests of an attack are not counted as requests")
	}
	run := d.ask("POST", "/runs", map[string]any{
		"service": "bank", "target": "local", "channel": "http", "mode": "bounded", "budgetCents": "5000", "instruction": "Transfer 50 dollars.",
	}).is(t, "a run of an agent", 201, "")
	d.ask("POST", "/runs/"+run.at("runId").(string)+"/step", map[string]any{}).is(t, "step", 200, "")
	if n := operation(); n == 0 {
		t.Error("a decision and an execution of an agent's run count nowhere")
	}
}

// Control: with a hard check left out, or the permit's fate, the attack it is there for
// gets through, and its line says with what.
func TestAttackRouteWithAnOpenDoor(t *testing.T) {
	for _, c := range []struct {
		id, service string
		doors       decide.Doors
		effects     float64
	}{
		{"B11", "bank", decide.Doors{Checks: []int64{9}, Machine: true}, 1},
		{"B08", "broker", decide.Doors{Checks: []int64{4}, Machine: true}, 0},
	} {
		d := openDesk(t, "", func(a *app.Config) { a.Doors = c.doors })
		r := d.attacked(c.id, c.service).is(t, c.id, 200, "")
		if r.at("blocked") != false || r.at("outcome") != "open" || r.at("twinPassed") != true || r.at("permits") == 0.0 || c.effects > 0 && r.at("effects") != c.effects || r.at("problem") == "" {
			t.Errorf("%s: %s", c.id, r.body)
		}
	}
}

// Control: a line whose twin was not carried out is not blocked, though the attack itself
// was refused as it must be. Here the service takes the twin's effect too late.
func TestAttackWithoutItsTwin(t *testing.T) {
	intents := 0
	d := openDesk(t, "", func(c *app.Config) {
		clock := c.Clock
		c.Fault = func(point string) {
			if point != "after-intent" {
				return
			}
			if intents++; intents == 2 { // the read before it goes through
				clock.Move(31e9) // no dispatch lives that long
			}
		}
	})
	r := d.attacked("B12", "bank").is(t, "B12", 200, "")
	problem, _ := r.at("problem").(string)
	if r.at("blocked") != false || r.at("outcome") != "not_carried_out" || r.at("twinPassed") != false || r.at("got", "reasonCode") != "BUDGET_EXCEEDED" || !strings.Contains(problem, "twin") {
		t.Errorf("%s", r.body)
	}
}

// While the workspace is frozen no twin could take effect: an attack is refused before any
// run is made. Control: afterwards it is carried out.
// H-107 L-8
func TestAttackWhileFrozen(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		d := openDesk(t, url)
		runs := func() (n int) {
			t.Helper()
			list, err := d.app.Attacks().Ledger.Find(t.Context(), ledger.Query{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, Limit: 100})
			must(t, err)
			return len(list)
		}
		d.ask("POST", "/freeze", map[string]any{"reason": "An agent orders what nobody asked for."}).is(t, "freeze", 200, "")
		d.attacked("B12", "bank").is(t, "while frozen", 409, "FROZEN")
		if n := runs(); n != 0 {
			t.Errorf("%d runs were made while the workspace was frozen", n)
		}
		d.ask("POST", "/unfreeze", map[string]any{"reason": "The agent is revoked."}).is(t, "unfreeze", 200, "")
		if r := d.attacked("B12", "bank").is(t, "afterwards", 200, ""); r.at("outcome") != "blocked" || runs() == 0 {
			t.Errorf("afterwards: %s, %d runs", r.body, runs())
		}
	})
}

// A freeze that comes while an attack is under way shows nothing about it: it is not
// carried out, and no door is open.
func TestFreezeDuringAnAttack(t *testing.T) {
	var d *desk
	frozen := false
	d = openDesk(t, "", func(c *app.Config) {
		c.Fault = func(point string) {
			if point == "after-intent" && !frozen { // of the twin's first read
				frozen = true
				d.ask("POST", "/freeze", map[string]any{"reason": "An agent orders what nobody asked for."})
			}
		}
	})
	r := d.attacked("B10", "bank").is(t, "B10", 200, "")
	problem, _ := r.at("problem").(string)
	if r.at("outcome") != "not_carried_out" || r.at("blocked") != false || r.at("twinPassed") != false || !strings.Contains(problem, "FROZEN") {
		t.Errorf("%s", r.body)
	}
}
