package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/internal/app"
	"countersign/internal/canon"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/managed"
)

// owns asks a route of the owner's projects.
func (d *desk) owns(method, path string, body any) heard {
	d.t.Helper()
	return send(d.t, method, d.origin+"/api/projects"+path, body, d.headers())
}

const handbook = "---\nid: keyboards\ntitle: Buying keyboards\n---\nA Fieldwork keyboard is bought with the approved terms and sent to the home address.\n"

// project makes a project and a client of it that takes part in the turn protocol.
func (d *desk) project(slug string) (project, client string) {
	d.t.Helper()
	project = d.owns("POST", "", map[string]any{"handle": "acme", "slug": slug}).is(d.t, "project", 201, "").at("id").(string)
	client = d.owns("POST", "/"+project+"/mcp/clients", map[string]any{
		"name": "desk", "kind": "custom", "profile": "support", "environment": "production", "turnProtocol": "required",
	}).is(d.t, "client", 201, "").at("client", "id").(string)
	return project, client
}

// handOut publishes the handbook.
func (d *desk) handOut(project string) {
	d.t.Helper()
	d.owns("POST", "/"+project+"/documents", map[string]any{"documents": []any{map[string]any{"text": handbook}}}).is(d.t, "documents", 200, "")
	d.owns("POST", "/"+project+"/builds", map[string]any{"environment": "production", "manifest": map[string]any{
		"format": "countersign-build/1", "cases": []any{},
		"documents": []any{map[string]any{"ref": "keyboards", "title": "Buying keyboards", "sha256": canon.Hash([]byte(handbook)), "bytes": len(handbook)}},
	}}).is(d.t, "publish", 201, "")
}

// runFor creates a run whose attempts are made in turns of the client.
func (d *desk) runFor(client string) string {
	d.t.Helper()
	body := map[string]string{"contextClient": client}
	for name, value := range localRun {
		body[name] = value
	}
	r := d.ask("POST", "/runs", body).is(d.t, "create", 201, "")
	if r.at("contextClient") != client || r.at("contextTurn") != nil {
		d.t.Errorf("created with %v in %v", r.at("contextClient"), r.at("contextTurn"))
	}
	return r.at("runId").(string)
}

// turns are the newest turns of a client, newest first.
func (d *desk) turns(project, client string) []any {
	d.t.Helper()
	list, _ := d.owns("GET", "/"+project+"/turns?client="+client, nil).is(d.t, "turns", 200, "").at("turns").([]any)
	return list
}

// witness sees what the authored executor is told, before it answers.
type witness struct {
	managed.Executor
	mu   sync.Mutex
	sees func(context.Context, decide.Briefing) error
}

func (w *witness) Propose(ctx context.Context, b decide.Briefing) ([]byte, error) {
	w.mu.Lock()
	sees := w.sees
	w.mu.Unlock()
	if err := sees(ctx, b); err != nil {
		return nil, err
	}
	return w.Executor.Propose(ctx, b)
}

func (w *witness) let(sees func(context.Context, decide.Briefing) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sees = sees
}

// watched puts the witness in front of the executor.
func watched(w *witness) func(*app.Config) {
	return func(c *app.Config) {
		*c = app.WithPatience(app.WithSwap(*c, func(wired reflect.Type, d any) any {
			if wired == reflect.TypeFor[managed.Executor]() {
				w.Executor = d.(managed.Executor)
				return w
			}
			return d
		}), patience)
	}
}

// S-080: before the executor is asked its turn is open and has its context; the turn is
// completed after the technical call has returned.
// S-081: the executor knows neither the turn nor a token, and is not asked to call anything.
// G-39, L-10: the attempt's proposal names the turn, observed. A turn says how the call
// ended: failed without an answer or not in time, cancelled when the owner revoked the run.
func TestAttemptInContextTurn(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		w := &witness{}
		d := openDesk(t, url, watched(w))
		project, client := d.project("shop")
		d.handOut(project)

		for _, c := range []struct {
			name            string
			during          func(ctx context.Context, run string) error
			status, reports string
			proposed        bool
		}{
			{"answered", func(context.Context, string) error { return nil }, "COMPLETED_WITH_CONTEXT_DELIVERY", "completed", true},
			{"failed", func(context.Context, string) error { return fmt.Errorf("no answer") }, "REPORTED_FAILED", "failed", false},
			{"not in time", func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }, "REPORTED_FAILED", "failed", false},
			{"revoked", func(_ context.Context, run string) error {
				d.ask("POST", "/runs/"+run+"/revoke", map[string]any{}).is(t, "revoke", 200, "")
				return nil
			}, "REPORTED_CANCELLED", "cancelled", false},
		} {
			run := d.runFor(client)
			type seen struct {
				told  decide.Briefing
				turns []any
			}
			asked := make(chan seen, 1)
			w.let(func(ctx context.Context, b decide.Briefing) error {
				asked <- seen{b, d.turns(project, client)}
				return c.during(ctx, run)
			})
			d.ask("POST", "/runs/"+run+"/step", map[string]any{})
			first := <-asked
			told, before := first.told, first.turns
			text, _ := json.Marshal(told)
			if !strings.Contains(told.Context, "sent to the home address") || strings.Contains(string(text), "trn_") || strings.Contains(string(text), "seif_") {
				t.Errorf("%s: the executor is told %q", c.name, text)
			}
			at := func(list []any, member string) any { return heard{body: canon.MustMarshal(list)}.at(0, member) }
			if at(before, "status") != "OPEN" || at(before, "deliveries") != 1.0 || at(before, "runId") != run || at(before, "via") != "supervision" {
				t.Errorf("%s: when the executor is asked: %v", c.name, before)
			}
			after := d.turns(project, client)
			if at(after, "id") != at(before, "id") || at(after, "status") != c.status || at(after, "reported") != c.reports || at(after, "contextCalls") != 1.0 {
				t.Errorf("%s: afterwards: %v", c.name, after[0])
			}
			turn := at(before, "id").(string)
			detail := d.owns("GET", "/"+project+"/turns/"+turn, nil).is(t, "turn", 200, "")
			var types []string
			for _, line := range detail.at("lines").([]any) {
				types = append(types, line.(map[string]any)["type"].(string))
			}
			if want := []string{"contextturn.opened", "context.delivered", "contextturn.completed"}; !slices.Equal(types, want) {
				t.Errorf("%s: the turn has %v, want %v", c.name, types, want)
			}
			id, _ := detail.at("lines", 1, "interaction", "id").(string)
			if asked := d.owns("GET", "/"+project+"/interactions/"+id, nil).is(t, "interaction", 200, ""); asked.at("request", "task") != localRun["instruction"] || asked.at("tool") != "compass" {
				t.Errorf("%s: compass was asked %s", c.name, asked.body)
			}
			var want any
			if c.proposed {
				want = map[string]any{"id": turn, "class": "observed"}
			}
			if got := d.ask("GET", "/runs/"+run, nil).at("contextTurn"); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the run shows %v, want %v", c.name, got, want)
			}
			d.lawful("/runs/" + run + "/evidence")
		}
	})
}

// S-085: an attempt whose turn cannot be opened goes on without, and the turn is absent. One
// that has nothing to hand out is completed without a delivery.
func TestAttemptWithoutContext(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		w := &witness{}
		d := openDesk(t, url, watched(w))
		project, client := d.project("empty")
		var told decide.Briefing
		w.let(func(_ context.Context, b decide.Briefing) error { told = b; return nil })
		step := func(run string) heard {
			t.Helper()
			told = decide.Briefing{}
			r := d.ask("POST", "/runs/"+run+"/step", map[string]any{}).is(t, "step", 200, "")
			if told.AttemptID == "" || told.Context != "" || r.at("lastDecision", "decision") != "ALLOW" || r.at("executions", 0, "state") != "verified" {
				t.Errorf("told %q, decided %v, executed %v", told.Context, r.at("lastDecision"), r.at("executions"))
			}
			return r
		}
		run := d.runFor(client)
		if r := step(run); r.at("contextTurn", "class") != "observed" {
			t.Errorf("nothing is published, and the run shows %v", r.at("contextTurn"))
		}
		list := d.turns(project, client)
		if turn := (heard{body: canon.MustMarshal(list)}); len(list) != 1 || turn.at(0, "status") != "COMPLETED_WITHOUT_CONTEXT_DELIVERY" || turn.at(0, "deliveries") != 0.0 {
			t.Errorf("nothing is published, and the turns are %v", list)
		}
		run = d.runFor(client)
		d.owns("POST", "/"+project+"/mcp/clients/"+client+"/revoke", map[string]any{}).is(t, "revoke", 200, "")
		if r := step(run); r.at("contextTurn") != nil {
			t.Errorf("the client is revoked, and the run shows %v", r.at("contextTurn"))
		}
		if list := d.turns(project, client); len(list) != 1 {
			t.Errorf("the client is revoked and has %d turns", len(list))
		}
		body := map[string]string{"contextClient": client}
		for name, value := range localRun {
			body[name] = value
		}
		d.ask("POST", "/runs", body).is(t, "a run for a revoked client", 400, "INVALID_REQUEST")
		body["contextClient"] = "cli_ffffffffffffffffffffffffffffffff"
		d.ask("POST", "/runs", body).is(t, "a run for nobody", 404, "NOT_FOUND")
	})
}

// failingContexts fails in front of the context gateway, for managed attempts.
type failingContexts struct {
	managed.Contexts
	f *fault
}

func (c *failingContexts) fails(where string) (spoiled bool, err error) {
	switch c.f.at(where) {
	case errs:
		return false, errInside
	case hangs: // and passes over the end of its context
		defer c.f.leave()
		c.f.hold()
		return false, errInside
	case panics:
		panic(hidden)
	case late:
		defer c.f.leave()
		c.f.hold()
	case garbles:
		return true, nil
	}
	return false, nil
}

func (c *failingContexts) Open(ctx context.Context, client, runID string) (string, error) {
	if spoiled, err := c.fails("open"); spoiled || err != nil {
		return hidden, err
	}
	return c.Contexts.Open(context.WithoutCancel(ctx), client, runID)
}

func (c *failingContexts) Ask(ctx context.Context, client, turn, task string) (string, error) {
	if spoiled, err := c.fails("ask"); spoiled || err != nil {
		return hidden, err
	}
	return c.Contexts.Ask(context.WithoutCancel(ctx), client, turn, task)
}

func (c *failingContexts) Complete(ctx context.Context, client, turn, key, status string) error {
	if _, err := c.fails("complete"); err != nil {
		return err
	}
	return c.Contexts.Complete(context.WithoutCancel(ctx), client, turn, key, status)
}

// attemptContexts lets what hands out context to attempts fail: none is held up (S-085).
func attemptContexts(t *testing.T) {
	b := openBooth(t, []string{"managed.Contexts"})
	project, client := b.project("shop")
	b.handOut(project)
	for _, where := range []string{"open", "ask", "complete"} {
		for _, how := range ways {
			what := where + ", " + how
			run := b.runFor(client)
			b.f.set(how, where)
			r := b.ask("POST", "/runs/"+run+"/step", map[string]any{})
			if hits := b.f.mend(); hits != 1 {
				t.Errorf("%s: was met %d times", what, hits)
			}
			if r.status != 200 || r.at("status") != "ready" || r.at("lastDecision", "decision") != "ALLOW" || r.at("executions", 0, "state") != "verified" {
				t.Errorf("%s: the attempt is held up: %d %.600s", what, r.status, r.body)
			}
			if named := r.at("contextTurn") != nil; named != (where != "open") {
				t.Errorf("%s: the run shows the turn %v", what, r.at("contextTurn"))
			}
			b.complain(what, b.quiet(r))
			b.lawful("/runs/" + run + "/evidence")
		}
	}
}

// S-071 S-077: fifteen minutes after its start a turn that nobody completed has expired. The
// settler writes that down, once, with two replicas at work on PostgreSQL, and leaves a turn that is open.
func TestContextTurnIsSettled(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		d := openDesk(t, url)
		if url != "" {
			serve(t, app.Config{Dir: d.dir, Addr: "localhost:0", Database: url, Clock: d.clock}) // another replica
		}
		project, _ := d.project("shop")
		token := d.owns("POST", "/"+project+"/mcp/clients", map[string]any{
			"name": "asker", "kind": "custom", "profile": "support", "environment": "production", "turnProtocol": "required",
		}).is(t, "client", 201, "").at("token").(string)
		start := func(key string) string {
			return send(t, "POST", d.origin+"/acme/shop/context/turns/start", map[string]any{}, map[string]string{"Authorization": "Bearer " + token, "Idempotency-Key": key}).
				is(t, "start", 201, "").at("turn", "id").(string)
		}
		chain := func(turn string) string {
			return string(d.owns("GET", "/"+project+"/turns/"+turn+"/evidence", nil).is(t, "evidence", 200, "").body)
		}
		old := start("key-of-the-old-turn")
		d.move(14 * time.Minute)
		young := start("key-of-the-young-turn")
		if strings.Contains(chain(old), `"contextturn.expired"`) {
			t.Error("expired after 14 minutes")
		}
		d.move(time.Minute)
		waitFor(t, "the old turn is settled", func() bool { return strings.Contains(chain(old), `"contextturn.expired"`) })
		if n := strings.Count(chain(old), `"type":"contextturn.expired"`); n != 1 {
			t.Errorf("%d contextturn.expired", n)
		}
		if strings.Contains(chain(young), `"contextturn.expired"`) {
			t.Error("the young turn has expired")
		}
		for id, want := range map[string]string{old: "EXPIRED_OR_INCOMPLETE", young: "OPEN"} {
			if got := d.owns("GET", "/"+project+"/turns/"+id, nil).at("status"); got != want {
				t.Errorf("%s is %v, want %s", id, got, want)
			}
		}
	})
}
