package contexthttp_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// who is the client that a request comes from.
type who struct{ elsewhere, shared, plain, staging, crowded bool }

// state is what has become of a turn, and whether it is another client's.
type state struct{ foreign, closed, expired, full bool }

// fixtures are clients, and turns in every state that a row of the list needs.
type fixtures struct {
	*house
	tokens  map[who]string
	turns   map[state]string // of production
	full    string           // turns of staging
	staging string
	other   string // token of another client of production
}

// usedKey has been used by every client that can open turns.
const usedKey = "a-key-that-was-used-before"

// newFixtures makes turns in every state, or only in those that are quickly made; its
// clock is then where the turns that were to expire have.
func newFixtures(h *house, all bool) *fixtures {
	f := &fixtures{house: h, tokens: map[who]string{}, turns: map[state]string{}}
	f.other = h.required()
	made := func(states ...state) {
		for _, s := range states {
			token := f.token(who{})
			if s.foreign {
				token = f.other
			}
			if all || !s.full || s == (state{full: true}) {
				f.turns[s] = f.make(token, s)
			}
		}
	}
	made(state{expired: true}, state{expired: true, foreign: true}, state{expired: true, closed: true}, state{expired: true, full: true})
	h.clock.Move(turn.Life)
	for _, id := range f.turns {
		must(h.t, h.p.Settle(h.t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: turn.Kind, ID: id}))
	}
	made(state{}, state{foreign: true}, state{closed: true}, state{full: true}, state{foreign: true, closed: true}, state{foreign: true, full: true}, state{closed: true, full: true})
	if all {
		f.full = f.make(f.token(who{staging: true}), state{full: true})
	}
	return f
}

// make opens a turn and brings it into the state, but for its expiry.
func (f *fixtures) make(token string, s state) string {
	f.t.Helper()
	ctx := f.t.Context()
	by, err := f.p.Authenticate(ctx, token)
	must(f.t, err)
	started, err := f.p.Start(ctx, by, fmt.Sprintf("a-key-of-the-state-%v", s), nil)
	must(f.t, err)
	id := started.Turn.ID
	for i := 0; s.full && i < turn.MaxObservations; i++ {
		if i < turn.MaxCalls {
			_, err := f.p.Call(ctx, by, id, tools.Request{Tool: turn.Doctor})
			must(f.t, err)
		}
		_, err := f.p.Observe(ctx, by, id, fmt.Sprintf("observation-%s-%d", id, i), turn.Observation{Event: turn.PreToolUse, Tool: "mcp__seif__find", ToolUseID: "t"})
		must(f.t, err)
	}
	if s.closed {
		_, err := f.p.Complete(ctx, by, id, "completion-of-"+id, turn.Completed, nil)
		must(f.t, err)
	}
	return id
}

// token is that of a client which is made when it is first asked for.
func (f *fixtures) token(w who) string {
	f.t.Helper()
	if w.shared {
		w.plain, w.crowded = false, false // it is so
	}
	if token := f.tokens[w]; token != "" {
		return token
	}
	ctx, in := f.t.Context(), f.project
	if w.elsewhere {
		in = project.ProjectID("acme", "elsewhere")
		if _, err := f.p.FindProject(ctx, "acme", "elsewhere"); err != nil {
			_, err = f.p.CreateProject(ctx, "acme", "elsewhere", session)
			must(f.t, err)
		}
	}
	r := project.ClientRequest{Name: "gateway", Kind: project.Custom, Profile: "support", Environment: project.Production, TurnProtocol: project.Required}
	if w.staging {
		r.Environment = project.Staging
	}
	if w.plain {
		r.TurnProtocol = project.Absent
	}
	var token string
	var err error
	if w.shared {
		_, token, err = f.p.SharedToken(ctx, in, r.Environment, r.Profile, session)
	} else {
		_, token, err = f.p.CreateClient(ctx, in, r, session)
	}
	must(f.t, err)
	f.tokens[w] = token
	if w.shared || w.plain {
		return token
	}
	by, err := f.p.Authenticate(ctx, token)
	must(f.t, err)
	_, err = f.p.Start(ctx, by, usedKey, nil)
	must(f.t, err)
	for i := 1; w.crowded && i < turn.MaxOpen; i++ {
		_, err = f.p.Start(ctx, by, fmt.Sprintf("a-key-of-turn-number-%d", i), nil)
		must(f.t, err)
	}
	return token
}

// planted is a secret in every place where a refused request can have one.
const planted = "5ecret-marker-of-a-refused-request"

// asked is one request under way.
type asked struct {
	who         who
	turn        state
	environment string
	tool        string // last segment of the path
	headers     map[string][]string
	body        map[string]any
	duplicate   bool // a member stands twice
	pad         int
}

// row is one row of the rejection list, violated.
type row struct {
	want  string
	spoil func(*asked)
}

// cases are the routes, each with a good body and the rows that it has of its own.
var cases = []struct {
	tool string
	body map[string]any
	long string // a member that can be too long
	most int
}{
	{"turns/start", map[string]any{"clientRef": "job-7"}, "clientRef", 512},
	{"compass", map[string]any{"task": "When are refunds paid?"}, "task", 4000},
	{"resolve", map[string]any{"ref": "refunds"}, "ref", 200},
	{"turns/{id}/observations", observation, "toolUseId", 128},
	{"turns/{id}/complete", map[string]any{"status": "completed"}, "note", 2000},
}

// rows are all rows of G-30 that a route has, in order.
func rows(tool, long string, most int) []row {
	header := func(name string, values ...string) func(*asked) {
		return func(a *asked) { a.headers[name] = values }
	}
	turns := strings.HasPrefix(tool, "turns/")
	list := []row{
		{"403 https_required", header("X-Forwarded-Proto", "http")},
		{"415 content_type", header("Content-Type", "text/plain")},
		{"413 too_large", func(a *asked) { a.pad = 17 << 10 }},
		{"401 token_missing", header("Authorization")},
		{"401 token_invalid", header("Authorization", "Bearer seif_"+strings.Repeat("A", 43))},
		{"404 project_not_found", func(a *asked) { a.who.elsewhere = true }},
		{"403 named_client_required", func(a *asked) { a.who.shared = true }},
		{"403 turn_protocol_not_enabled", func(a *asked) { a.who.plain = true }},
		{"403 environment_mismatch", func(a *asked) { a.who.staging = true }},
		{"403 profile_mismatch", header("X-Seif-Profile", planted)},
		{"400 body_invalid", func(a *asked) { a.duplicate = true }},
		{"400 unknown_field", func(a *asked) { a.body["toolInput"] = map[string]any{"secret": planted} }},
	}
	switch tool {
	case "turns/{id}/observations":
		list = append(list,
			row{"400 event_not_allowed", func(a *asked) { a.body["event"] = planted }},
			row{"400 tool_not_allowed", func(a *asked) { a.body["tool"] = planted }})
	case "turns/{id}/complete":
		list = append(list, row{"400 status_not_allowed", func(a *asked) { a.body["status"] = planted }})
	}
	list = append(list, row{"400 value_too_long", func(a *asked) { a.body[long] = strings.Repeat("x", most+1) }})
	if turns {
		list = append(list,
			row{"400 idempotency_key_invalid", header("Idempotency-Key", "short")},
			row{"409 idempotency_conflict", header("Idempotency-Key", usedKey)})
	} else {
		list = append(list,
			row{"400 turn_required", header("X-Seif-Turn-Id")},
			row{"400 turn_id_invalid", header("X-Seif-Turn-Id", planted)})
	}
	if tool == "turns/start" {
		return append(list, row{"429 limit_reached", func(a *asked) { a.who.crowded = true }})
	}
	list = append(list,
		row{"404 turn_not_found", func(a *asked) { a.turn.foreign = true }},
		row{"409 turn_closed", func(a *asked) { a.turn.closed = true }},
		row{"410 turn_expired", func(a *asked) { a.turn.expired = true }})
	if tool != "turns/{id}/complete" {
		list = append(list, row{"429 limit_reached", func(a *asked) { a.turn.full = true }})
	}
	if !turns {
		list = append(list, row{"409 build_missing", func(a *asked) { a.who.staging, a.environment = true, "staging" }})
	}
	if tool == "resolve" {
		list = append(list, row{"404 item_not_found", func(a *asked) { a.body["ref"] = "no-such-item" }})
	}
	return list
}

// together reports whether two rows can be violated by one request. Of the header that
// names the turn one thing is wrong at a time; a client that opens no turns needs none and
// has none; staging has a client of its own and takes plain HTTP.
func together(first, second string) bool {
	is := func(reason string, list ...string) bool { return slices.Contains(list, reason) }
	named := []string{"400 turn_required", "400 turn_id_invalid"}
	switch {
	case is(first, named...):
		return is(second, "409 build_missing", "404 item_not_found")
	case is(first, "403 named_client_required", "403 turn_protocol_not_enabled"):
		return !is(second, "400 turn_required", "429 limit_reached", "409 build_missing")
	case is(first, "403 https_required", "403 environment_mismatch", "404 turn_not_found", "409 turn_closed", "410 turn_expired"):
		return second != "409 build_missing"
	}
	return true
}

// turn is the turn that the request names; empty when there is none in this state. The
// client is there afterwards.
func (f *fixtures) turn(a *asked) string {
	f.t.Helper()
	token := f.token(a.who)
	switch {
	case a.environment == "":
		return f.turns[a.turn]
	case a.turn.full:
		return f.full
	case f.staging == "":
		f.staging = f.make(token, state{})
	}
	return f.staging
}

// sent sends the request and returns its answer.
func (f *fixtures) sent(a *asked) answer {
	f.t.Helper()
	id, path := f.turn(a), "/acme/support/context/"
	if a.environment != "" {
		path = "/acme/support/" + a.environment + "/context/"
	}
	raw := mustJSON(f.t, a.body)
	if a.duplicate {
		raw = `{"` + planted + `":"` + planted + `","` + planted + `":1,` + raw[1:]
	}
	r := f.request(f.token(a.who), path+strings.ReplaceAll(a.tool, "{id}", id), raw+strings.Repeat(" ", a.pad))
	r.Header.Set("X-Seif-Turn-Id", id)
	for name, values := range a.headers {
		r.Header[name] = values
	}
	got, err := f.send(http.DefaultClient, r)
	must(f.t, err)
	return got
}

// TestRejectionList: on the routes of a turn, every row of the list alone and every two
// rows together, against the real server: the one that stands first answers. Nothing is
// stored by what is refused, but for the count of a late report; nothing that was sent is
// repeated or logged.
func TestRejectionList(t *testing.T) {
	// S-028 S-065 S-066 S-078
	t.Run("sqlite", func(t *testing.T) { rejections(t, openSQLite, true) })
	// S-042 S-043 S-055 S-056
	t.Run("postgres", func(t *testing.T) { rejections(t, openPostgres, false) })
}

// rejections tries all pairs, or the rows alone and the adjacent ones.
func rejections(t *testing.T, open func(*house), all bool) {
	f := newFixtures(newHouse(t, open), all)
	for _, c := range cases {
		list, tried := rows(c.tool, c.long, c.most), 0
		for i, first := range list {
			for j := i; j < len(list); j++ {
				if !all && j > i+1 || j > i && !together(first.want, list[j].want) {
					continue
				}
				a := &asked{tool: c.tool, headers: map[string][]string{}, body: maps.Clone(c.body)}
				list[j].spoil(a)
				first.spoil(a)
				if f.turn(a) == "" {
					continue // not made on this engine
				}
				before := f.rows()
				got := f.sent(a)
				what := fmt.Sprintf("%s: %s and %s", c.tool, first.want, list[j].want)
				tried++
				if got.String() != first.want {
					t.Errorf("%s: %s\n%.300s", what, got, got.body)
					continue
				}
				if retry := got.header.Get("Retry-After"); (retry != "") != (got.status == 429) {
					t.Errorf("%s: Retry-After %q", what, retry)
				}
				if got.header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s: Cache-Control %q", what, got.header.Get("Cache-Control"))
				}
				if strings.Contains(strings.ReplaceAll(string(got.body), "body."+planted, ""), planted) || strings.Contains(string(got.body), marker) {
					t.Errorf("%s: a value is repeated, or context is in it: %s", what, got.body)
				}
				want := before
				if first.want == "410 turn_expired" && c.tool == "turns/{id}/complete" {
					want = oneMore(oneMore(before, "events"), "idempotency") // contextturn.late, counted once for its key
				}
				if after := f.rows(); after != want {
					t.Errorf("%s: the ledger has %s, want %s", what, after, want)
				}
			}
		}
		if tried < 2*len(list)-8 {
			t.Errorf("%s: %d requests for %d rows", c.tool, tried, len(list))
		}
		// Control: the same request with nothing wrong is taken.
		a := &asked{tool: c.tool, headers: map[string][]string{}, body: maps.Clone(c.body)}
		before := f.rows()
		if got := f.sent(a); got.status >= 300 || f.rows() == before {
			t.Errorf("%s with nothing wrong: %s, %s", c.tool, got, f.rows())
		}
	}
	for what, secret := range map[string]string{"what was sent": planted, "a token": f.token(who{}), "another token": f.other} {
		if strings.Contains(f.log.String(), secret) {
			t.Errorf("%s is in the log", what)
		}
	}
}

// oneMore is the count of rows with one more in a table.
func oneMore(rows, table string) string {
	list := strings.Split(rows, ", ")
	for i, entry := range list {
		if name, n, _ := strings.Cut(entry, " "); name == table {
			count, err := strconv.Atoi(n)
			if err == nil {
				list[i] = fmt.Sprint(name, " ", count+1)
			}
		}
	}
	return strings.Join(list, ", ")
}

// contended is a ledger on which every commit loses its race while it is set.
type contended struct {
	perimeter.Ledger
	on atomic.Bool
}

func (c *contended) Commit(ctx context.Context, change ledger.Change) ledger.Result {
	if c.on.Load() {
		return ledger.Result{Outcome: ledger.Conflict}
	}
	return c.Ledger.Commit(ctx, change)
}

// A request that loses every race is told to come again: 409 with Retry-After, and nothing
// is stored. Sent again with the same key it is taken.
func TestLostRaces(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		l := h.config.Ledger.(*contended)
		token := h.required()
		id := h.open(token)
		for path, body := range map[string]any{
			"/turns/start": map[string]any{}, "/compass": task, "/turns/" + id + "/observations": observation, "/turns/" + id + "/complete": completed,
		} {
			before := h.rows()
			l.on.Store(true)
			got := h.ask(token, path, body, "Idempotency-Key", "the-key-of-"+strings.ReplaceAll(path, "/", "."), "X-SEIF-Turn-Id", id).is(t, path, "409 idempotency_in_progress")
			l.on.Store(false)
			if got.header.Get("Retry-After") == "" || strings.Contains(string(got.body), marker) {
				t.Errorf("%s: Retry-After %q\n%s", path, got.header.Get("Retry-After"), got.body)
			}
			if after := h.rows(); after != before {
				t.Errorf("%s: the ledger has %s, before %s", path, after, before)
			}
			if strings.HasSuffix(path, "complete") {
				continue // it would end the turn before the others
			}
			again := h.ask(token, path, body, "Idempotency-Key", "the-key-of-"+strings.ReplaceAll(path, "/", "."), "X-SEIF-Turn-Id", id)
			if again.status >= 300 || again.header.Get("Idempotency-Replayed") != "" {
				t.Errorf("%s again: %s", path, again)
			}
		}
	}, func(c *perimeter.Config) { c.Ledger = &contended{Ledger: c.Ledger} })
}

// overtaken is a ledger on which another request is carried out right after a key was
// looked up in vain.
type overtaken struct {
	perimeter.Ledger
	by atomic.Pointer[func()]
}

func (o *overtaken) Record(ctx context.Context, workspace, principal, key string) (ledger.Record, error) {
	r, err := o.Ledger.Record(ctx, workspace, principal, key)
	if err != nil {
		if other := o.by.Swap(nil); other != nil {
			(*other)()
		}
	}
	return r, err
}

// S-035 S-063: a request that the same request overtakes between the look-up of its key and
// the reading of its turn is answered as a repeat, not by what the first one has made of
// the turn: a completion gets its receipt, an observation of a turn that has ended
// meanwhile its first answer, a start for which the last place is taken its turn.
func TestOvertakenByItself(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		l := h.config.Ledger.(*overtaken)
		token := h.required()
		for len(h.openTurns()) < turn.MaxOpen-1 {
			h.open(token)
		}
		id := h.openTurns()[0]
		const key = "the-key-of-both-requests"
		ask := func(path string, body any, key string) answer {
			return h.ask(token, path, body, "Idempotency-Key", key)
		}
		for _, c := range []struct {
			path  string
			body  any
			after func() // the first request
		}{
			{"/turns/start", map[string]any{}, func() {}},
			{"/turns/" + id + "/observations", observation, func() { ask("/turns/"+id+"/complete", completed, key+"-end").is(t, "complete", "200") }},
			{"/turns/" + h.openTurns()[1] + "/complete", completed, func() {}},
		} {
			var first answer
			other := func() {
				first = ask(c.path, c.body, key+strings.ReplaceAll(c.path, "/", "-"))
				c.after()
			}
			l.by.Store(&other)
			got := ask(c.path, c.body, key+strings.ReplaceAll(c.path, "/", "-")).is(t, c.path, "200")
			if first.status >= 300 || got.header.Get("Idempotency-Replayed") != "true" || c.path != "/turns/start" && string(got.body) != string(first.body) {
				t.Errorf("%s: %s\nfirst: %s %s", c.path, got.body, first, first.body)
			}
		}
	}, func(c *perimeter.Config) { c.Ledger = &overtaken{Ledger: c.Ledger} })
}

// openTurns are the open turns of the project, newest first.
func (h *house) openTurns() (ids []string) {
	h.t.Helper()
	q := turnsOf(h)
	q.Status = turn.Open
	list, _, err := h.p.Turns(h.t.Context(), q)
	must(h.t, err)
	for _, v := range list {
		ids = append(ids, v.ID)
	}
	return ids
}
