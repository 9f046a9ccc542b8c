package narrate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"countersign/internal/narrate"
)

var now = time.Date(2026, 11, 30, 12, 5, 0, 0, time.UTC)

func show(t *testing.T, view string) string {
	t.Helper()
	v, err := narrate.Parse([]byte(view))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := narrate.Show(&b, v, "http://localhost:8420", now); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const id = "01940e2e-7c00-7000-8000-000000000001"

// twoTurns is a run in which the permit of the first turn ends after the second began.
const twoTurns = `{"runId":"` + id + `","status":"paused","outcome":"paused:clarification","createdAt":"2026-11-30T12:00:00.000Z","updatedAt":"2026-11-30T12:01:00.000Z",
"service":"merchant","target":"hosted","channel":"http","mode":"bounded","executionMode":"replay","executor":"replay","interrogator":"replay",
"instruction":"Buy \u001b[31mone\u0007.","terms":{"quantity":1,"maxTotalCents":"13700"},"currency":"USD","budgetCents":"13700","spentCents":"0","reservedCents":"5",
"stopContext":{"category":"clarification","source":"hard_policy","reasonCode":"ARGUMENT_MISMATCH","message":"The action differs.","recovery":"clarify"},
"grants":[{"operations":["a.read","a.pay"],"maxUses":{"a.pay":1},"currency":"USD","maxTotalCents":"13700","expiresAt":"2026-11-30T13:00:00.000Z",
"constraints":[{"name":"totalCents","rule":"atMost","value":"13700"},{"name":"origin","rule":"equals","value":"local"}]}],
"head":"9:ab","timeline":[
{"sequence":1,"type":"run.initialized","timestamp":"2026-11-30T12:00:00.000Z","data":{}},
{"sequence":2,"type":"turn.proposed","timestamp":"2026-11-30T12:00:01.000Z","data":{"turnId":"t-1","report":{"selectedCandidateId":"2","candidates":[
{"id":"1","action":{"operationId":"a.read","args":{}}},{"id":"2","action":{"operationId":"a.pay","args":{"n":1}}}]}}},
{"sequence":3,"type":"guardian.decided","timestamp":"2026-11-30T12:00:01.000Z","data":{"turnId":"t-1","decision":"ALLOW","reasonCode":"RELEVANT","provenance":"replay (authored)"}},
{"sequence":4,"type":"permit.issued","timestamp":"2026-11-30T12:00:01.000Z","data":{"amountCents":"13700","permit":{"permitId":"p-1","bindings":{"turnId":"t-1","operationId":"a.pay"},"expiresAt":"2026-11-30T12:00:31.000Z"}}},
{"sequence":5,"type":"turn.proposed","timestamp":"2026-11-30T12:00:40.000Z","data":{"turnId":"t-2","report":{"selectedCandidateId":"1","candidates":[{"id":"1","action":{"operationId":"a.read","args":{}}}]}}},
{"sequence":6,"type":"permit.expired","timestamp":"2026-11-30T12:00:40.000Z","data":{"permitId":"p-1"}},
{"sequence":7,"type":"observation.recorded","timestamp":"2026-11-30T12:00:40.000Z","data":{"catalog":[{},{}],"documentEpoch":1,"stateRevision":3}},
{"sequence":8,"type":"policy.checked","timestamp":"2026-11-30T12:00:40.000Z","data":{"turnId":"t-2","verdict":"PAUSE","reasonCode":"ARGUMENT_MISMATCH","provenance":"hard policy",
"findings":[{"name":"target","result":"passed","code":""},{"name":"arguments","result":"failed","code":"ARGUMENT_MISMATCH"}]}},
{"sequence":9,"type":"run.danced","timestamp":"2026-12-01T00:00:00.000Z","data":{"cause":"joy","x":[1,{"y":null}]}}]}`

// A person reads who asked for what, what was decided by whom, what stopped the run
// and what to do; whatever a text holds cannot steer the terminal.
func TestShow(t *testing.T) {
	got := show(t, twoTurns)
	for _, want := range []string{
		"Run " + id + "\n",
		"  status       paused; outcome paused:clarification\n",
		"  stop         ARGUMENT_MISMATCH from hard_policy: The action differs.\n",
		"  next         say what is meant on the run's page, http://localhost:8420/runs/" + id + "; or end the run: `countersign run revoke " + id + "`\n",
		"  instruction  Buy [31mone.\n",
		"  service      merchant hosted over http; mode bounded, execution replay, executor replay (authored), guardian replay (authored)\n",
		"  terms        maxTotal $137.00, quantity 1\n",
		"  budget       $137.00; spent $0.00, reserved $0.05\n",
		"  grant        a.read, a.pay; at most a.pay 1x; where total at most $137.00, origin local; until 2026-11-30T13:00:00.000Z\n",
		"  created      2026-11-30T12:00:00.000Z, 5m ago; changed 2026-11-30T12:01:00.000Z\n",
		"  head         9:ab\n",
		"        2026-11-30\n     1  12:00:00.000  run ready\n        Turn 1: a.pay, t-1\n     2  12:00:01.000    reported: a.pay {\"n\":1}\n",
		"     3  12:00:01.000    guardian: ALLOW RELEVANT [replay (authored)]\n",
		"     4  12:00:01.000    permit issued: a.pay for $137.00, until 2026-11-30T12:00:31.000Z\n        Turn 2: a.read, t-2\n",
		"     6  12:00:40.000    permit expired unused (a.pay) (turn 1)\n",
		"     7  12:00:40.000  observed: 2 possible actions, document epoch 1, state revision 3\n",
		"     8  12:00:40.000    hard checks: PAUSE ARGUMENT_MISMATCH; failed: arguments (ARGUMENT_MISMATCH) [hard policy]\n",
		"        2026-12-01\n     9  00:00:00.000  run.danced, cause joy\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if strings.ContainsAny(got, "\x1b\x07") {
		t.Error("the text can steer a terminal")
	}
	if n := strings.Count(got, "\n"); strings.Count(got, "Turn 1") != 1 || n == 0 {
		t.Errorf("the first turn is announced again:\n%s", got)
	}
}

// Each recovery says what follows; only a run that has ended asks for a new one, and
// none says that a command approves.
func TestNext(t *testing.T) {
	for recovery, want := range map[string]string{
		"approve":   "approve it on the run's page, http://localhost:8420/runs/" + id,
		"clarify":   "what is meant",
		"retry":     "then retry on the run's page",
		"reconcile": "do not repeat it; ask the store what became of it, or failing that state what you know, on the run's page",
		"none":      "a new run is `countersign run create",
		"dance":     "dance; or end the run",
	} {
		got := show(t, strings.Replace(twoTurns, `"recovery":"clarify"`, `"recovery":"`+recovery+`"`, 1))
		_, next, _ := strings.Cut(got, "  next ")
		next, _, _ = strings.Cut(next, "\n")
		if !strings.Contains(next, want) || strings.Contains(next, "countersign run revoke") == (recovery == "none") {
			t.Errorf("%s: %s", recovery, next)
		}
	}
}

// What follows a stop by a freeze depends on whether one stands now.
func TestAfterFreeze(t *testing.T) {
	for _, c := range []struct{ frozen, eligible, want string }{
		{"true", `["revoke"]`, "the workspace is frozen; it can be retried once the freeze is lifted"},
		{"false", `["retry","revoke"]`, "the freeze was lifted: an owner can retry it on the run's page"},
	} {
		got := show(t, strings.NewReplacer(`"recovery":"clarify"`, `"recovery":"retry"`, `"reasonCode":"ARGUMENT_MISMATCH","message"`, `"reasonCode":"FROZEN","message"`,
			`"head":`, `"frozen":`+c.frozen+`,"eligible":`+c.eligible+`,"head":`).Replace(twoTurns))
		_, next, _ := strings.Cut(got, "  next ")
		next, _, _ = strings.Cut(next, "\n")
		if !strings.Contains(next, c.want) || !strings.Contains(next, "countersign run revoke") {
			t.Errorf("frozen %s: %s", c.frozen, next)
		}
	}
}

// A run for which the server takes nothing but its end is not sent to its page for
// something that is refused there.
func TestNothingLeft(t *testing.T) {
	for eligible, want := range map[string]string{
		`["simulate","revoke"]`:          "nothing that it waits for can come any more; end the run: `countersign run revoke " + id + "`\n",
		`["probe","reconcile","revoke"]`: "ask the store what became of it",
	} {
		got := show(t, strings.NewReplacer(`"recovery":"clarify"`, `"recovery":"reconcile"`, `"head":`, `"eligible":`+eligible+`,"head":`).Replace(twoTurns))
		if !strings.Contains(got, want) {
			t.Errorf("%s: want %q in\n%s", eligible, want, got)
		}
	}
}

// Whoever is asked reads the question, and it cannot steer the terminal.
func TestQuestion(t *testing.T) {
	asks := `"executorAnswer":{"kind":"clarification","source":"executor","text":"Which\u001b[2J one?"},"head":`
	if got := show(t, strings.Replace(twoTurns, `"head":`, asks, 1)); !strings.Contains(got, "  asked        executor: Which[2J one?\n") {
		t.Errorf("the question is not told:\n%s", got)
	}
	explains := `"executorAnswer":{"kind":"refusal","source":"provider","text":"No."},"head":`
	if got := show(t, strings.Replace(twoTurns, `"head":`, explains, 1)); !strings.Contains(got, "  explained    provider: No.\n") {
		t.Errorf("the explanation is not told:\n%s", got)
	}
}

// Each published type of a run's events has words. An event is shown whatever its data are: members that are missing or of another
// kind cannot keep the rest from being seen.
func TestAnyData(t *testing.T) {
	page, err := os.ReadFile("../../api/events.md")
	if err != nil {
		t.Fatal(err)
	}
	ofRuns, _, _ := strings.Cut(string(page), "\n# Events of the workspace\n")
	types := regexp.MustCompile("(?m)^\\| `([a-z]+(?:[._][a-z_]+)*)` \\|").FindAllStringSubmatch(ofRuns, -1)
	if len(types) < 30 {
		t.Fatalf("%d types in api/events.md", len(types))
	}
	for _, m := range types {
		if got := show(t, `{"runId":"r","status":"ready","timeline":[{"sequence":1,"type":"`+m[1]+`","data":{"turnId":"t"}}]}`); strings.Contains(got, "    "+m[1]) || strings.Contains(got, "  "+m[1]+"\n") {
			t.Errorf("there are no words for %s", m[1])
		}
		for _, data := range []string{`{}`, `null`, `{"permit":7,"grant":[],"report":{"candidates":{}},"findings":[null],"postconditions":"x","proposal":null,"stopContext":[]}`} {
			got := show(t, `{"runId":"r","status":"ready","timeline":[{"sequence":1,"type":"`+m[1]+`","timestamp":"x","data":`+data+`},{"sequence":2,"type":"run.completed","timestamp":"","data":{}}]}`)
			if !strings.HasSuffix(got, "run completed\n") {
				t.Errorf("%s with %s:\n%s", m[1], data, got)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for _, raw := range []string{``, `[]`, `{}`, `{"runId":"x"}`, `{"status":"ready"}`, `{"runId":1,"status":"ready"}`} {
		if _, err := narrate.Parse([]byte(raw)); err == nil {
			t.Errorf("%q is taken for a RunView", raw)
		}
	}
}

func TestList(t *testing.T) {
	v, err := narrate.Parse([]byte(twoTurns))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := narrate.List(&b, []*narrate.View{v}, now); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if got := strings.Fields(lines[1]); strings.Join(got, " ") != id+" paused paused:clarification merchant hosted bounded $0.00 $137.00 5m" {
		t.Errorf("%q", lines[1])
	}
}

func TestAge(t *testing.T) {
	for at, want := range map[string]string{
		"2026-11-30T12:05:00.000Z": "0s", "2026-11-30T12:04:01.000Z": "59s", "2026-11-30T12:04:00.000Z": "1m", "2026-11-30T11:05:00.000Z": "1h",
		"2026-11-28T12:05:01.000Z": "47h", "2026-11-28T12:05:00.000Z": "2d", "2026-11-30T13:00:00.000Z": "0s", "soon": "-",
	} {
		if got := narrate.Age(at, now); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}
