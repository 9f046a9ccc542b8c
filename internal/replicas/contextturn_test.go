package replicas_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"countersign/internal/contextturn/content"
	"countersign/internal/replica"
)

// marker stands in the document that is handed out.
const marker = "warehouse-marker-7f3a"

// application is a client of a project, with the turn that it has open.
type application struct {
	*house
	token, project, turn string
}

// application makes a project with one document and a client of it.
func (h *house) application() *application {
	h.t.Helper()
	post := func(path string, body any) answer {
		h.t.Helper()
		a, err := h.send("POST", "/api/projects"+path, body, h.asOwner()...)
		must(h.t, err)
		if a.status >= 300 {
			h.t.Fatalf("%s: %d\n%s", path, a.status, a.body)
		}
		return a
	}
	a := &application{house: h}
	a.project = post("", map[string]any{"handle": "acme", "slug": "support"}).text("id")
	const file = "---\nid: refunds\ntitle: Refunds\n---\nRefunds are paid within five days. " + marker + "\n"
	post("/"+a.project+"/documents", map[string]any{"documents": []any{map[string]any{"text": file}}})
	d, faults := content.ParseDocument([]byte(file))
	must(h.t, content.Error(faults))
	post("/"+a.project+"/builds", map[string]any{"environment": "production", "manifest": content.NewManifest([]*content.Document{d}, []content.Case{})})
	a.token = post("/"+a.project+"/mcp/clients", map[string]any{"name": "gateway", "kind": "custom", "profile": "support", "environment": "production", "turnProtocol": "required"}).text("token")
	return a
}

// post sends a client's request, once; path is what follows the base.
func (a *application) post(path, key string, body any) (answer, error) {
	return a.send("POST", "/acme/support/context"+path, body, "Authorization", "Bearer "+a.token, "Idempotency-Key", key, "X-SEIF-Turn-Id", a.turn)
}

// open opens the application's next turn.
func (a *application) open() {
	a.t.Helper()
	started, err := a.post("/turns/start", rand.Text(), map[string]any{})
	must(a.t, err)
	a.turn = started.is(a.t, "start", 201, "").text("turn", "id")
}

// evidence is the turn's chain, verified with keys from outside.
func (a *application) evidence() map[string]int {
	a.t.Helper()
	got, err := a.send("GET", "/api/projects/"+a.project+"/turns/"+a.turn+"/evidence", nil, a.asOwner()...)
	must(a.t, err)
	n := map[string]int{}
	for _, e := range a.verified(got.is(a.t, "export", 200, "").body) {
		n[e.Type]++
	}
	return n
}

// request is one request about the turn, as the history holds it.
type request struct{ what, key, status string }

// response is its answer.
type response struct {
	answer   string // status and reason code
	replayed bool
	receipt  string // of a completion: state, deliveries and observations
}

// contextTurn is where a turn stands between two requests.
type contextTurn struct {
	deliveries, observations int
	observed                 map[string]bool // keys
	by                       request         // the completion that ended it
	receipt                  string
}

// next is where the turn stands after the request, and whether it is answered so.
func (c contextTurn) next(q request, r response) (contextTurn, bool) {
	ended := c.receipt != ""
	switch {
	case r.answer == "409 idempotency_in_progress": // nothing was stored
		return c, true
	case q.what == "observe" && c.observed[q.key]:
		return c, r.answer == "200" && r.replayed
	case q.what == "complete" && ended && q.key == c.by.key && q.status == c.by.status:
		return c, r.answer == "200" && r.replayed && r.receipt == c.receipt
	case q.what == "complete" && ended && q.key == c.by.key:
		return c, r.answer == "409 idempotency_conflict"
	case ended:
		return c, r.answer == "409 turn_closed"
	case q.what == "observe":
		c.observations++
		c.observed = maps.Clone(c.observed)
		c.observed[q.key] = true
		return c, r.answer == "201" && !r.replayed
	case q.what == "complete":
		c.by, c.receipt = q, fmt.Sprint(stateOf(q.status, c.deliveries), " ", c.deliveries, " ", c.observations)
		return c, r.answer == "200" && !r.replayed && r.receipt == c.receipt
	}
	c.deliveries++
	return c, r.answer == "200"
}

// stateOf is the state that a report makes (G-33).
func stateOf(status string, deliveries int) string {
	switch {
	case status != "completed":
		return "REPORTED_" + strings.ToUpper(status)
	case deliveries > 0:
		return "COMPLETED_WITH_CONTEXT_DELIVERY"
	}
	return "COMPLETED_WITHOUT_CONTEXT_DELIVERY"
}

var turnModel = porcupine.Model{
	Init: func() any { return contextTurn{observed: map[string]bool{}} },
	Step: func(state, input, output any) (bool, any) {
		next, right := state.(contextTurn).next(input.(request), output.(response))
		return right, next
	},
	Equal: func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) },
}

// journal is what concurrent clients asked and heard.
type journal struct {
	mu    sync.Mutex
	begin time.Time
	ops   []porcupine.Operation
}

// ask sends a request until it is decided, and notes every time it was sent.
func (j *journal) ask(a *application, client int, q request) response {
	path, body := "/compass", any(map[string]any{"task": "When are refunds paid?"})
	switch q.what {
	case "observe":
		path, body = "/turns/"+a.turn+"/observations", map[string]any{"event": "pre_tool_use", "tool": "mcp__seif__find", "toolUseId": q.key}
	case "complete":
		path, body = "/turns/"+a.turn+"/complete", map[string]any{"status": q.status}
	}
	for {
		start := time.Now()
		got, err := a.post(path, a.turn+"-"+q.key, body)
		if err != nil {
			a.t.Errorf("%+v: %v", q, err)
			return response{}
		}
		r := response{answer: strings.TrimSpace(fmt.Sprint(got.status, " ", got.text("reasonCode"))), replayed: got.header.Get("Idempotency-Replayed") == "true"}
		if q.what == "complete" && got.status == 200 {
			r.receipt = fmt.Sprint(got.text("receipt", "status"), " ", got.at("receipt", "deliveries"), " ", got.at("receipt", "observations"))
		}
		j.mu.Lock()
		j.ops = append(j.ops, porcupine.Operation{ClientId: client, Input: q, Call: start.Sub(j.begin).Nanoseconds(), Output: r, Return: time.Since(j.begin).Nanoseconds()})
		j.mu.Unlock()
		if r.answer != "409 idempotency_in_progress" {
			return r
		}
	}
}

// contend lets 200 clients ask at once about one turn: for context, observations under
// keys of which each is sent several times, and, once some of these are answered,
// completions of every status under few keys.
func (a *application) contend() *journal {
	a.open()
	j, gate, enough := &journal{begin: time.Now()}, make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	var answered atomic.Int32
	for client := range 200 {
		q := request{what: "compass", key: fmt.Sprint("compass-", client)}
		switch client % 5 {
		case 1:
			q = request{what: "observe", key: fmt.Sprint("observe-", client/15)}
		case 2, 3:
			q = request{what: "complete", key: fmt.Sprint("complete-", client%4), status: []string{"completed", "failed", "cancelled"}[client/5%3]}
		}
		wg.Go(func() {
			<-gate
			if q.what == "complete" {
				<-enough
			}
			for range 2 {
				j.ask(a, client, q)
				if q.what == "compass" && answered.Add(1) == 20 {
					close(enough)
				}
			}
		})
	}
	close(gate)
	wg.Wait()
	j.ask(a, 200, request{what: "compass", key: "last"})
	return j
}

// alone is the history of one client that sends one request after the other.
func (a *application) alone() *journal {
	a.open()
	j := &journal{begin: time.Now()}
	for _, q := range []request{
		{"compass", "first", ""}, {"observe", "second", ""}, {"observe", "second", ""}, {"complete", "third", "completed"}, {"complete", "third", "completed"},
		{"complete", "third", "failed"}, {"complete", "fourth", "completed"}, {"observe", "second", ""}, {"observe", "fifth", ""}, {"compass", "last", ""},
	} {
		j.ask(a, 0, q)
	}
	return j
}

// tally counts answers by request and answer.
func (j *journal) tally() map[string]int {
	n := map[string]int{}
	for _, op := range j.ops {
		n[op.Input.(request).what+" "+op.Output.(response).answer]++
	}
	return n
}

// G-31 G-33: 200 clients that ask for context, observe and complete at once on one turn
// are answered as if one came after the other, on SQLite and on three replicas: no context
// is handed out after the one completion that ends the turn, its receipt counts exactly
// what was handed out before, and the signed chain has the same counts.
func TestOneTurnManyClients(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) *house{
		"sqlite": func(t *testing.T) *house { return onEngine(t, replica.SQLite, replica.Options{}) },
		"three replicas": func(t *testing.T) *house {
			return onEngine(t, replica.PostgreSQL, replica.Options{}, replica.Options{}, replica.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t).application()
			for range 2 {
				j := a.contend()
				n := j.tally()
				t.Logf("%d requests: %v", len(j.ops), n)
				if r := porcupine.CheckOperationsTimeout(turnModel, j.ops, 20*time.Second); r != porcupine.Ok {
					t.Fatalf("the history is no turn's: %s", r)
				}
				if n["compass 200"] == 0 || n["compass 409 turn_closed"] == 0 || n["observe 201"] == 0 || n["complete 409 turn_closed"] == 0 {
					t.Errorf("the clients did not contend: %v", n)
				}
				e := a.evidence()
				if e["context.delivered"] != n["compass 200"] || e["contextturn.observed"] != n["observe 201"] || e["contextturn.completed"] != 1 {
					t.Errorf("the chain has %v, the clients heard %v", e, n)
				}
			}
			a.alone().control(t)
			if len(a.replicas) > 1 {
				a.shares()
			}
		})
	}
}

// onEngine starts these processes on an engine, without a store.
func onEngine(t *testing.T, engine string, options ...replica.Options) *house {
	t.Helper()
	h := &house{t: t, Installation: replica.Prepare(t, engine)}
	h.replicas = h.Start(t, options...)
	h.front = h.Front(h.replicas...)
	h.http = h.front.Client()
	h.cookie = h.signIn()
	return h
}

// control: the history is a turn's, and with one answer changed it is not.
func (j *journal) control(t *testing.T) {
	t.Helper()
	if !porcupine.CheckOperations(turnModel, j.ops) {
		t.Errorf("control: the history of one client is no turn's: %v", j.tally())
	}
	changes := map[string]func(q request, r *response) bool{
		"the receipt counts one delivery less": func(q request, r *response) bool {
			var state string
			var deliveries, observations int
			if n, err := fmt.Sscan(r.receipt, &state, &deliveries, &observations); n != 3 || err != nil || r.replayed {
				return false
			}
			r.receipt = fmt.Sprint(state, " ", deliveries-1, " ", observations)
			return true
		},
		"context after the end": func(q request, r *response) bool {
			if q.key != "last" {
				return false
			}
			r.answer = "200"
			return true
		},
		"an observation taken twice": func(q request, r *response) bool {
			if q.what != "observe" || !r.replayed {
				return false
			}
			r.answer, r.replayed = "201", false
			return true
		},
		"a second completion": func(q request, r *response) bool {
			if q.what != "complete" || r.answer != "409 turn_closed" {
				return false
			}
			r.answer, r.receipt = "200", "COMPLETED_WITHOUT_CONTEXT_DELIVERY 0 0"
			return true
		},
	}
	for name, change := range changes {
		changed := append([]porcupine.Operation{}, j.ops...)
		found := false
		for i := range changed {
			r := changed[i].Output.(response)
			if found = change(changed[i].Input.(request), &r); found {
				changed[i].Output = r
				break
			}
		}
		if !found {
			t.Errorf("control: there is no answer to change so that %s", name)
			continue
		}
		if porcupine.CheckOperations(turnModel, changed) {
			t.Errorf("control: a history in which there is %s is taken for a turn's", name)
		}
	}
}

// A server that is killed with -9 between the commit of a delivery and its answer leaves a
// record and no byte; one that is killed before the commit leaves neither. The client that
// completes afterwards is told what was recorded.
func TestKilledBeforeTheFirstByte(t *testing.T) {
	for _, engine := range []string{replica.SQLite, replica.PostgreSQL} {
		t.Run(engine, func(t *testing.T) {
			h := onEngine(t, engine, replica.Options{})
			a := h.application()
			a.open()
			kill := func(point string) {
				t.Helper()
				h.replicas[0].Arm(replica.Fault{Point: point, Hit: 1})
				got, err := a.post("/compass", rand.Text(), map[string]any{"task": "When are refunds paid?"})
				if err == nil || strings.Contains(string(got.body), marker) {
					t.Errorf("killed at %s, and answered %d %s", point, got.status, got.body)
				}
				h.replicas[0].Wait()
				h.replicas[0].Restart(replica.Options{})
			}
			recorded := 0
			for range 3 {
				kill("context.stored")
				recorded++
			}
			kill("before BEGIN")
			got, err := a.post("/compass", rand.Text(), map[string]any{"task": "When are refunds paid?"})
			must(t, err)
			got.is(t, "afterwards", 200, "")
			recorded++
			if e := a.evidence(); e["context.delivered"] != recorded {
				t.Errorf("%v, want %d deliveries", e, recorded)
			}
			end, err := a.post("/turns/"+a.turn+"/complete", rand.Text(), map[string]any{"status": "completed"})
			must(t, err)
			if n := end.is(t, "complete", 200, "").at("receipt", "deliveries"); fmt.Sprint(n) != fmt.Sprint(recorded) {
				t.Errorf("the receipt counts %v deliveries, want %d", n, recorded)
			}
		})
	}
}
