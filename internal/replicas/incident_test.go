package replicas_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/replica"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// serving is a process that serves the incident workflow.
var serving = replica.Options{Incident: true}

// visitor is a browser with a session of the incident workflow.
type visitor struct {
	*house
	cookie string
}

// ask sends one request of the incident workflow, once.
func (v *visitor) ask(body map[string]any) (answer, error) {
	headers := []string{"Origin", v.Origin, "Sec-Fetch-Site", "same-origin"}
	if v.cookie != "" {
		headers = append(headers, "Cookie", v.cookie)
	}
	return v.send("POST", "/api/v1/incident", body, headers...)
}

func (v *visitor) get(path string) answer {
	v.t.Helper()
	a, err := v.send("GET", path, nil, "Cookie", v.cookie)
	must(v.t, err)
	return a.is(v.t, path, 200, "")
}

func (v *visitor) now() answer { v.t.Helper(); return v.get("/api/v1/incident") }

var nonceField = regexp.MustCompile(`name="formNonce" value="([0-9a-f]{64})"`)

// approved stages a mitigation and approves it by the page's form; what it returns executes
// it.
func (v *visitor) approved(mitigation string) map[string]any {
	v.t.Helper()
	at := v.now()
	a, err := v.ask(map[string]any{"operation": "stage", "channel": "api", "mitigationId": mitigation, "expectedVersion": at.at("resourceVersion")})
	must(v.t, err)
	a.is(v.t, "stage", 200, "")
	if set := a.header.Get("Set-Cookie"); set != "" {
		v.cookie, _, _ = strings.Cut(set, ";")
	}
	form := nonceField.FindSubmatch(v.get("/incident").body)
	if form == nil {
		v.t.Fatal("the page has no approval form")
	}
	bound := map[string]any{"actionDigest": a.at("snapshot", "staged", "actionDigest"), "resourceVersion": a.at("snapshot", "staged", "resourceVersion")}
	approval := map[string]any{"operation": "approve", "channel": "human", "formNonce": string(form[1])}
	execution := map[string]any{"operation": "execute", "channel": "webmcp", "idempotencyKey": a.at("snapshot", "staged", "idempotencyKey")}
	for member, value := range bound {
		approval[member], execution[member] = value, value
	}
	a, err = v.ask(approval)
	must(v.t, err)
	a.is(v.t, "approve", 200, "")
	return execution
}

// receipts are the session's, verified with keys from outside.
func (v *visitor) receipts() []evidence.Event {
	v.t.Helper()
	return v.verified(v.get("/api/v1/incident/evidence").body)
}

// executions counts those that receipts tell of.
func executions(t testing.TB, chain []evidence.Event) (n int) {
	t.Helper()
	for _, e := range chain {
		var r incident.Receipt
		must(t, json.Unmarshal(e.Data, &r))
		if r.Event == incident.EventExecuted {
			n++
		}
	}
	return n
}

// 64 requests to execute one approved action on three replicas, under the same key, other
// keys, and the key from other sessions: one executes, every retry is told its record, and
// nobody who lost has left a receipt..
func TestIncidentExecutedOnce(t *testing.T) {
	h := onEngine(t, replica.PostgreSQL, serving, serving, serving)
	var others []*visitor
	for range 4 {
		o := &visitor{house: h}
		o.approved("restore-pool") // the same digest and version as the first of everybody
		others = append(others, o)
	}
	for what, from := range map[string]func(i int, v *visitor, body map[string]any) *visitor{
		"the same key": func(_ int, v *visitor, _ map[string]any) *visitor { return v },
		"other keys": func(i int, v *visitor, body map[string]any) *visitor {
			if i%8 != 0 {
				body["idempotencyKey"] = fmt.Sprintf("rr_%032x", i)
			}
			return v
		},
		"other sessions": func(i int, v *visitor, _ map[string]any) *visitor {
			if i%2 != 0 {
				return others[i/2%len(others)]
			}
			return v
		},
	} {
		v := &visitor{house: h}
		execution := v.approved("restore-pool")
		before := len(v.receipts())
		answers, by := make([]answer, 64), make([]*visitor, 64)
		var places []int
		for i := range answers {
			places = append(places, i)
		}
		each(places, func(i int) {
			body := map[string]any{}
			for member, value := range execution {
				body[member] = value
			}
			by[i] = from(i, v, body)
			var err error
			if answers[i], err = by[i].ask(body); err != nil {
				t.Errorf("%s, %d: %v", what, i, err)
			}
		})
		n, left := map[string]int{}, map[string]bool{}
		chain := v.receipts()[before:]
		for _, e := range chain {
			left[e.Hash] = true
		}
		record := ""
		for i, a := range answers {
			told := a.text("reasonCode")
			if a.status == 200 {
				told = fmt.Sprint("replayed ", a.at("replayed"))
				if got := fmt.Sprint(a.at("result", "execution")); record == "" {
					record = got
				} else if got != record {
					t.Errorf("%s: told %s and %s", what, record, got)
				}
			}
			n[told]++
			if by[i] != v {
				if told != incident.IdentityMismatch && told != incident.ExecutionConflict {
					t.Errorf("%s: another session is answered %s", what, a.body)
				}
				continue
			}
			receipt := a.text("receipt", "hash")
			switch {
			case receipt == "" && (told == incident.ExecutionConflict || told == incident.StaleExecution): // a lost race
			case receipt == "" || !left[receipt]:
				t.Errorf("%s: %s has the receipt %q, which is not in the chain", what, told, receipt)
			default:
				delete(left, receipt)
			}
		}
		t.Logf("%s: %v", what, n)
		if n["replayed false"] != 1 || executions(t, chain) != 1 || len(left) != 0 {
			t.Errorf("%s: %v, %d executions in the chain, and %d receipts that nobody was told", what, n, executions(t, chain), len(left))
		}
		if at := v.now(); fmt.Sprint(at.at("resourceVersion")) != "3" || at.text("status") != incident.Mitigated || at.at("receipts", "verification", "verified") != true {
			t.Errorf("%s: %s", what, at.body)
		}
	}
	h.shares()
}

// A server that is killed with -9 between the commit of an execution and its answer has
// executed; one that is killed before the commit has not. Whoever sends it again with the
// same key is told the one record..
func TestIncidentKilled(t *testing.T) {
	for _, engine := range []string{replica.SQLite, replica.PostgreSQL} {
		t.Run(engine, func(t *testing.T) {
			h := onEngine(t, engine, serving)
			for _, c := range []struct {
				point  string
				stored bool
			}{{control.FaultDecided, false}, {"before BEGIN", false}, {control.FaultStored, true}} {
				v := &visitor{house: h}
				execution := v.approved("restore-pool")
				h.replicas[0].Arm(replica.Fault{Point: c.point})
				if a, err := v.ask(execution); err == nil {
					t.Fatalf("killed at %s, and answered %s", c.point, a.body)
				}
				h.replicas[0].Wait()
				h.replicas[0].Restart(serving)
				if got := executions(t, v.receipts()); got != map[bool]int{true: 1}[c.stored] {
					t.Errorf("killed at %s: %d executions", c.point, got)
				}
				a, err := v.ask(execution)
				must(t, err)
				a.is(t, "again after "+c.point, 200, "")
				if a.at("replayed") != c.stored || executions(t, v.receipts()) != 1 || a.text("snapshot", "status") != incident.Mitigated {
					t.Errorf("again after %s: replayed %v, %d executions", c.point, a.at("replayed"), executions(t, v.receipts()))
				}
			}
		})
	}
}
