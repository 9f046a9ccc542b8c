package invariant_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"countersign/internal/app"
	"countersign/internal/supervision/decide"
)

// A call is one request of a concurrent client, as the history holds it.
type call struct {
	run   int
	what  string
	name  string // of a permit, a token or an execution, whatever the request names
	key   string
	same  bool // what is approved, or done, is what stands
	token string
}

// A reply is what it was answered, and what the answer names.
type reply struct{ answer, name string }

// A history is what concurrent clients asked and heard. It has an order in which every
// answer is the model's, or something is wrong.
type history struct {
	mu     sync.Mutex
	begin  time.Time
	ops    []porcupine.Operation
	bodies map[string][]string // of the answers to one key
}

// note takes one request with its answer in.
func (h *history) note(client int, c call, start time.Time, r reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	op := porcupine.Operation{ClientId: client, Input: c, Call: start.Sub(h.begin).Nanoseconds(), Output: r, Return: time.Since(h.begin).Nanoseconds()}
	h.ops = append(h.ops, op)
	if c.what == "operate" && r.answer == ok && r.name == "" {
		// An execution has two commits: between them it is under way, for all to see.
		end := op
		end.Input = call{run: c.run, what: "executed", name: c.name}
		h.ops = append(h.ops, end)
	}
}

// A moment is where a run stands between two requests.
type moment struct {
	model   model
	permits map[string]int    // by name
	tokens  map[string]int    // generations, by name
	keys    map[string]string // what took each: permit and body
	under   string            // the permit whose execution is under way
	events  int
}

func (m moment) clone() moment {
	m.model.fates, m.permits, m.tokens, m.keys = maps.Clone(m.model.fates), maps.Clone(m.permits), maps.Clone(m.tokens), maps.Clone(m.keys)
	return m
}

// next is where the run stands after the request, and whether it is answered so.
func (m moment) next(c call, r reply) (moment, bool) {
	m = m.clone()
	answer := m.answer(c, r)
	m.events += len(m.model.events)
	m.model.events = nil
	if c.what == "view" {
		answer = m.shows()
	}
	return m, answer == r.answer
}

func (m *moment) shows() string {
	status, stop, reserved, events := m.model.status, m.model.stop, m.model.reserved, m.events
	if m.under != "" {
		status, events, reserved = "running", events+2, reserved+m.model.permit.amount
	}
	return fmt.Sprintf("%s %s %d+%d %d", status, stop, m.model.spent, reserved, events)
}

func (m *moment) answer(c call, r reply) string {
	if c.token != "" && !m.model.bearer(m.tokens[c.token]) {
		return "401 AUTHENTICATION_REQUIRED"
	}
	if c.what == "executed" {
		if m.under != c.name {
			return "it is not under way"
		}
		m.under = ""
		return m.model.execute()
	}
	if m.under != "" && c.what != "operate" && c.what != "token" && c.what != "view" {
		return "409 UNRESOLVED_EFFECT"
	}
	switch c.what {
	case "approve":
		return m.model.approve(c.same)
	case "clarify":
		return m.model.clarify()
	case "retry":
		return m.model.retry()
	case "revoke":
		return m.model.revoke()
	case "change":
		return m.model.simulate("revise_state")
	case "expire":
		m.model.move(600_000)
		return ok
	case "token":
		answer := m.model.issueToken()
		m.tokens[r.name] = m.model.generation
		return answer
	case "operate":
		return m.operate(c, r)
	case "view":
		return ""
	}
	answer := m.model.report(c.what, "")
	if m.model.permit.op != "" && r.name != "" {
		m.permits[r.name] = m.model.permit.number
	}
	return answer
}

func (m *moment) operate(c call, r reply) string {
	print, number := fmt.Sprint(c.name, c.same), m.permits[c.name]
	switch taken := m.keys[c.key]; {
	case taken != "" && taken != print:
		return m.model.refuse("409 IDEMPOTENCY_CONFLICT")
	case taken != "" && m.under == c.name:
		return "409 IN_PROGRESS"
	case taken != "":
		return first(rule{r.name == "replayed", ok}, rule{true, "a second execution"})
	case m.under == c.name:
		return m.model.refuse("409 UNRESOLVED_EFFECT")
	case c.same && m.model.permit.op != "" && m.model.permit.number == number && !(m.model.permit.op == "commit" && m.model.proposal == 0):
		m.under, m.keys[c.key] = c.name, print
		return first(rule{r.name == "", ok}, rule{true, "nothing to replay"})
	}
	return m.model.operate(number, c.same)
}

// linear checks the histories of several runs, each of which begins at its moment.
func linear(starts []moment, ops []porcupine.Operation) porcupine.CheckResult {
	result := porcupine.Ok
	for n, start := range starts {
		part := slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool { return op.Input.(call).run != n })
		model := porcupine.Model{
			Init: func() any { return start },
			Step: func(state, input, output any) (bool, any) {
				next, right := state.(moment).next(input.(call), output.(reply))
				return right, next
			},
			Equal: func(a, b any) bool { return reflect.DeepEqual(a, b) },
		}
		if r := porcupine.CheckOperationsTimeout(model, part, time.Minute); r != porcupine.Ok {
			result = r
		}
	}
	return result
}

// A contest is one run with the clients that contend for it.
type contest struct {
	*house
	*history
	number int
	agent  *agent
	moment moment
	wg     sync.WaitGroup
	gate   chan struct{}
	client int
}

// contest makes a run, has the operations done one after the other, and puts the model to
// the same.
func (h *house) contest(all *history, number int, service, mode string, done ...string) *contest {
	h.t.Helper()
	m := newModel(service, mode, 50000)
	c := &contest{house: h, history: all, number: number, agent: h.employ(service, mode, 50000, nil), gate: make(chan struct{})}
	m.issueToken()
	for _, op := range done {
		m.observe()
		m.report(op, "")
		m.execute()
		c.agent.do(entries[service][op])
	}
	c.moment = moment{model: *m, permits: map[string]int{}, tokens: map[string]int{c.agent.token: 1}, keys: map[string]string{}, events: len(m.events)}
	c.moment.model.events = nil
	return c
}

// allow has a permit issued before the contest.
func (c *contest) allow(op string) slip {
	s := c.agent.allowed(entries[c.moment.model.service][op])
	c.moment.model.observe()
	c.moment.model.report(op, "")
	c.moment.permits[s.PermitID] = c.moment.model.permit.number
	c.moment.events += len(c.moment.model.events)
	c.moment.model.events = nil
	return s
}

// goes starts a client that does that once all are there.
func (c *contest) goes(f func(client int)) {
	c.client++
	client := c.client
	c.wg.Go(func() {
		<-c.gate
		f(client)
	})
}

// run lets all clients go, and when they are done one more.
func (c *contest) run(last func(client int)) moment {
	close(c.gate)
	c.wg.Wait()
	last(c.client + 1)
	return c.moment
}

// ask sends a request and notes it.
func (c *contest) ask(client int, what call, send func() (heard, error), name func(heard) reply) reply {
	what.run = c.number
	start := time.Now()
	a, err := send()
	if err != nil {
		c.t.Errorf("%s: %v", what.what, err)
		return reply{}
	}
	r := reply{answer: a.String()}
	if name != nil {
		r = name(a)
	}
	c.note(client, what, start, r)
	return r
}

// act sends an owner's request under a session of its own.
func (c *contest) act(client int, cookie, what, route string, body any, same bool) {
	headers := []string{"Cookie", cookie, "Origin", c.config.Origin, "X-Halfspan-Owner", "1"}
	c.ask(client, call{what: what, same: same}, func() (heard, error) {
		return c.try("POST", "/api/v1/owner/runs/"+c.agent.run+"/"+route, body, headers...)
	}, nil)
}

// look reads the run as an owner.
func (c *contest) look(client int) {
	c.ask(client, call{what: "view"}, func() (heard, error) {
		return c.try("GET", "/api/v1/owner/runs/"+c.agent.run, nil, c.ownerHeaders()...)
	}, func(a heard) reply {
		var v view
		a.into(c.t, &v)
		reason := ""
		if v.StopContext != nil {
			reason = v.StopContext.ReasonCode
		}
		return reply{answer: fmt.Sprintf("%s %s %d+%d %d", v.Status, reason, v.SpentCents, v.ReservedCents, len(v.Timeline))}
	})
}

// report reports on an operation of the catalog and returns the permit, if there is one.
func (c *contest) report(client int, o observation, op string) (s slip) {
	e, _ := o.find(entries[c.moment.model.service][op])
	c.ask(client, call{what: op, token: c.agent.token}, func() (heard, error) {
		return c.try("POST", "/api/v1/turns", reportOn(o.ObservationID, e), "Authorization", "Bearer "+c.agent.token)
	}, func(a heard) reply {
		if a.status != 200 {
			return reply{answer: a.String()}
		}
		var turn struct {
			Decision struct{ ReasonCode string }
			Permit   *slip
		}
		a.into(c.t, &turn)
		if turn.Permit != nil {
			s = *turn.Permit
		}
		return reply{ok + turn.Decision.ReasonCode, s.PermitID}
	})
	return s
}

// use uses a permit under a key, for its action or another, with a token.
func (c *contest) use(client int, s slip, key string, same bool, token string) {
	body := s.body()
	if !same {
		body["action"] = map[string]any{"kind": "service", "operationId": "bank.payees", "targetRef": "tgt_x", "args": map[string]any{}}
	}
	c.ask(client, call{what: "operate", name: s.PermitID, key: key, same: same, token: token}, func() (heard, error) {
		return c.try("POST", "/api/v1/operation", body, "Authorization", "Bearer "+token, "X-Step-Permit", s.Token, "X-Idempotency-Key", key)
	}, func(a heard) reply {
		r := reply{answer: a.String()}
		if a.header.Get("Idempotency-Replayed") == "true" {
			r.name = "replayed"
		}
		if a.status == 200 {
			c.mu.Lock()
			c.bodies[key] = append(c.bodies[key], string(a.body))
			c.mu.Unlock()
		}
		return r
	})
}

// rotate issues the next token.
func (c *contest) rotate(client int) (token string) {
	c.ask(client, call{what: "token"}, func() (heard, error) {
		return c.try("POST", "/api/v1/owner/runs/"+c.agent.run+"/session", nil, c.ownerHeaders()...)
	}, func(a heard) reply {
		var s struct{ Token string }
		if a.status == 200 {
			a.into(c.t, &s)
		}
		token = s.Token
		return reply{a.String(), s.Token}
	})
	return token
}

// rounds is how many runs each kind of contest has, per engine.
const rounds = 4

// contests are the kinds of histories, each with the door that makes it no history of the
// model's. The last request of each is refused.
var contests = []struct {
	name string
	play func(h *house, all *history, n int) moment
	door decide.Doors
}{
	{"approval", approvals, decide.Doors{Approval: true}},
	{"execution", executions, decide.Doors{PermitBinding: true}},
	{"rotation", rotations, decide.Doors{Generation: true}},
	{"recovery", recoveries, decide.Doors{Ready: true}},
}

// approvals: four owners approve, first something that is not prepared; in all rounds but
// every fourth one changes what was prepared, revokes the run, or its time is over. Agents
// commit what is approved.
func approvals(h *house, all *history, n int) moment {
	c := h.contest(all, n, "bank", "exact", "read", "prepare")
	proposal, seen := h.view(c.agent.run).Proposal, c.agent.observe()
	cookies := []string{}
	for range 4 {
		h.signIn()
		cookies = append(cookies, h.cookie)
	}
	for i := range 3 {
		c.goes(func(client int) {
			c.act(client, cookies[i], "approve", "approve", map[string]any{"proposalId": newID()}, false)
			for range 2 {
				c.act(client, cookies[i], "approve", "approve", map[string]any{"proposalId": proposal.ProposalID, "digest": proposal.EffectDigest}, true)
			}
		})
	}
	c.goes(func(client int) {
		c.act(client, cookies[3], "approve", "approve", map[string]any{"proposalId": newID()}, false)
		switch n % 4 {
		case 1:
			c.act(client, cookies[3], "change", "simulate", map[string]any{"event": "revise_state"}, true)
		case 2:
			c.act(client, cookies[3], "revoke", "revoke", nil, true)
		case 3:
			c.ask(client, call{what: "expire"}, func() (heard, error) {
				h.config.Clock.Move(10 * time.Minute)
				return heard{status: 200}, nil
			}, nil)
		}
		c.act(client, cookies[3], "approve", "approve", map[string]any{"proposalId": proposal.ProposalID}, true)
	})
	for range 2 {
		c.goes(func(client int) {
			for range 3 {
				// An execution that is under way when a run is revoked, or its time is over,
				// has ends of its own; those are for other tests.
				if s := c.report(client, seen, "commit"); s.Token != "" && n%4 < 2 {
					c.use(client, s, "key-of-"+s.PermitID, true, c.agent.token)
				}
			}
		})
	}
	if n%4 != 3 { // what has expired is seen before it is written down
		c.goes(func(client int) { c.look(client); c.look(client) })
	}
	return c.run(func(client int) {
		c.act(client, cookies[0], "approve", "approve", map[string]any{"proposalId": proposal.ProposalID}, true)
	})
}

// executions: one permit, used at once by eight clients, first for another action: then
// under one key by four, under that key for another action by two, and under other keys by
// two.
func executions(h *house, all *history, n int) moment {
	c := h.contest(all, n, "bank", "bounded", "read", "prepare")
	s, key := c.allow("commit"), "op-"+rand.Text()
	for i := range 8 {
		c.goes(func(client int) {
			c.use(client, s, "op-"+rand.Text(), false, c.agent.token)
			for range 2 {
				switch {
				case i < 4:
					c.use(client, s, key, true, c.agent.token)
				case i < 6:
					c.use(client, s, key, false, c.agent.token)
				default:
					c.use(client, s, "op-"+rand.Text(), true, c.agent.token)
				}
			}
		})
	}
	c.goes(func(client int) { c.look(client); c.look(client) })
	return c.run(func(client int) { c.use(client, s, "op-"+rand.Text(), true, c.agent.token) })
}

// rotations: the token is rotated by two owners while its bearers use a permit.
func rotations(h *house, all *history, n int) moment {
	c := h.contest(all, n, "bank", "bounded", "read", "prepare")
	s := c.allow("commit")
	for range 2 {
		c.goes(func(client int) {
			if token := c.rotate(client); token != "" {
				c.use(client, s, "op-"+rand.Text(), true, token)
				c.use(client, s, "op-"+rand.Text(), true, token)
			}
		})
	}
	for range 3 {
		c.goes(func(client int) {
			for range 3 {
				c.use(client, s, "op-"+rand.Text(), true, c.agent.token)
			}
		})
	}
	c.goes(func(client int) { c.look(client); c.look(client) })
	return c.run(func(client int) { c.use(client, s, "op-"+rand.Text(), true, c.agent.token) })
}

// recoveries: agents report on what is allowed and on what stops the run, while owners
// clarify and retry.
func recoveries(h *house, all *history, n int) moment {
	c := h.contest(all, n, "bank", "bounded", "read")
	seen := c.agent.observe()
	for _, ops := range [][]string{{"foreign", "read", "foreign"}, {"read", "foreign", "read"}} {
		c.goes(func(client int) {
			for _, op := range ops {
				c.report(client, seen, op)
			}
		})
	}
	for range 2 {
		c.goes(func(client int) {
			c.act(client, h.cookie, "clarify", "clarify", map[string]any{"clarification": "As the terms say."}, true)
			c.act(client, h.cookie, "retry", "retry", nil, true)
			c.act(client, h.cookie, "clarify", "clarify", map[string]any{"clarification": "As the terms say."}, true)
		})
	}
	c.goes(func(client int) { c.look(client); c.look(client); c.look(client) })
	return c.run(func(client int) { c.act(client, h.cookie, "retry", "retry", nil, true) })
}

// collect plays the rounds of a kind and returns where each run began and what was heard.
func collect(h *house, play func(*house, *history, int) moment) ([]moment, *history) {
	all := &history{begin: time.Now(), bodies: map[string][]string{}}
	var starts []moment
	for n := range rounds {
		starts = append(starts, play(h, all, n))
	}
	return starts, all
}

// Invariants 1, 2 and 4 under concurrency: approving, executing under a key, rotating the
// token and mending a stop are each linearizable, on both engines: what clients heard has
// one order in which each answer is the model's. And all answers to one key have one body.
// The control: the history in which the last request was granted has no such order.
func TestHistories(t *testing.T) {
	engines(t, func(t *testing.T, database func() string) {
		h := openHouse(t, database())
		for _, c := range contests {
			t.Run(c.name, func(t *testing.T) {
				starts, all := collect(h, c.play)
				if r := linear(starts, all.ops); r != porcupine.Ok {
					t.Fatalf("the history of %d requests is %v\n%s", len(all.ops), r, tellAll(all))
				}
				for key, bodies := range all.bodies {
					if slices.ContainsFunc(bodies, func(b string) bool { return b != bodies[0] }) {
						t.Errorf("key %s has several answers: %q", key, bodies)
					}
				}
				tampered := slices.Clone(all.ops)
				last := &tampered[len(tampered)-1]
				t.Logf("%d requests; the last was answered %+v", len(tampered), last.Output)
				last.Output = reply{answer: ok}
				if r := linear(starts, tampered); r != porcupine.Illegal {
					t.Errorf("control: with the last request granted the history is %v", r)
				}
			})
		}
	})
}

// histories is how often the control lets its clients try: whether what they hear without
// a guard has an order also depends on who comes first.
const histories = 10

// The control of the server's part: with a guard off the same clients hear what no order
// explains.
func TestHistoriesControl(t *testing.T) {
	for _, c := range contests {
		t.Run(c.name, func(t *testing.T) {
			door := c.door
			door.Machine = true
			h := openHouse(t, "", func(a *app.Config) { a.Doors = door })
			for range histories {
				if starts, all := collect(h, c.play); linear(starts, all.ops) == porcupine.Illegal {
					return
				}
			}
			t.Errorf("%d histories are lawful without the guard", histories)
		})
	}
}

func tellAll(h *history) string {
	var lines []byte
	for _, op := range h.ops {
		line, _ := json.Marshal([]any{op.Call, op.Return, fmt.Sprintf("%+v", op.Input), op.Output})
		lines = append(append(lines, line...), '\n')
	}
	return string(lines)
}
