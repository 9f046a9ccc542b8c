package channel_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
)

// caller is a client that asks for what is another's.
type caller struct {
	*project
	token  string
	opened string // its own turn
}

// send asks with a good body of the operation, in the caller's own turn unless edited.
func (c *caller) send(r contextRoute, body map[string]any, edits ...edit) answer {
	c.t.Helper()
	who := []edit{set("Authorization", "Bearer "+c.token), key()}
	if r.tool() {
		who = append(who, inTurn(c.opened))
	}
	return c.do(r.Method, r.path, body, append(who, edits...)...)
}

// to puts another path in place of the operation's.
func to(path string) edit { return func(r *http.Request) { r.URL.Path = path } }

// foreignToCaller are the probes of one operation: what belongs to the client a.client,
// sent by another.
func foreignToCaller(a *project, c *caller, r contextRoute, key string) (list []foreign) {
	for kind, id := range a.named {
		none := "trn_" + hexID()
		if kind != "context turn" { // malformed as the id of a turn, whoever has it
			none = id[:4] + hexID()
		}
		switch {
		case r.tool():
			list = append(list, foreign{"the turn in a header, " + kind, func(id string) answer { return c.send(r, r.body(), inTurn(id)) }, id, none})
		case strings.Contains(r.Path, "{id}"):
			list = append(list, foreign{"the turn in the path, " + kind, func(id string) answer {
				return c.send(r, r.body(), to(strings.Replace(r.path, c.opened, id, 1)))
			}, id, none})
		}
		if r.name == "context-why" && strings.HasPrefix(id, "int_") {
			list = append(list, foreign{"an interaction, " + kind, func(id string) answer { return c.send(r, map[string]any{"interactionId": id}) }, id, none})
		}
	}
	if _, ref := r.body()["ref"]; ref {
		list = append(list, foreign{"a document of another profile", func(id string) answer {
			body := maps.Clone(r.body())
			body["ref"] = id
			return c.send(r, body)
		}, "salaries", "nothing"})
	}
	if !r.tool() && r.name != "record-bridge-receipt" {
		list = append(list, foreign{"a taken key", func(id string) answer {
			fresh := &caller{c.project, c.token, ""}
			fresh.opened = fresh.start()
			return fresh.send(r, r.body(), to(strings.Replace(r.path, c.opened, fresh.opened, 1)), set("Idempotency-Key", id))
		}, key, "key-" + hexID()})
	}
	return append(list, foreign{"another project's path", func(id string) answer {
		return c.send(r, r.body(), to(strings.Replace(r.path, c.path, id, 1)))
	}, "/acme/sales", "/acme/nowhere"}, foreign{"another handle", func(id string) answer {
		return c.send(r, r.body(), to(strings.Replace(r.path, c.path, id, 1)))
	}, "/acme/sales", "/nobody/sales"})
}

// start opens a turn of the caller's own.
func (c *caller) start() string {
	c.t.Helper()
	own := *c.project
	own.token = c.token
	return own.open()
}

// S-042 S-056 S-065: what belongs to one client is not found by another, of the same
// project or of another, under any operation: the answer is that to something which does
// not exist. Nothing happens to whose it was.
func TestForeignClients(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.project("support")
	h.project("sales")
	salaries := "---\nid: salaries\ntitle: Salaries\nprofiles: [finance]\n---\nWhat everybody earns.\n"
	h.projects("POST", "/"+a.id+"/documents", map[string]any{"documents": []any{map[string]any{"text": salaries}}}).is(t, "documents", 200, "")
	a.publish("production", false, append([]string{salaries}, documents...)...).is(t, "publish", 201, "")
	const taken = "key-of-the-other-client"
	for _, r := range contextRoutes("") { // of each operation another one
		a.ask(a.token, "/turns/start", map[string]any{}, set("Idempotency-Key", taken+"-"+r.ID)).is(t, "take a key", 201, "")
	}
	closed := a.open()
	end := map[string]any{"status": "completed", "note": "The provider answered."}
	a.ask(a.token, "/turns/"+closed+"/complete", end, set("Idempotency-Key", taken)).is(t, "complete", 200, "")
	a.named["ended turn"] = closed

	other := a.create("Other", "custom", "required")
	other.is(t, "client", 201, "")
	c := &caller{a, other.text("token"), ""}
	c.opened = c.start()
	before := a.turns()
	tried := 0
	for _, r := range contextRoutes(c.opened) {
		if r.name == "record-bridge-receipt" {
			continue // it names nothing, and this client may not send it
		}
		for _, f := range foreignToCaller(a, c, r, taken+"-"+r.ID) {
			tried++
			if told := oracle(a.named, f); told != "" {
				t.Errorf("%s: %s", r.ID, told)
			}
		}
	}
	if tried < 200 {
		t.Errorf("%d probes", tried)
	}
	if after := a.turns(); after != before {
		t.Errorf("the client's turns are\n%s\nbefore\n%s", after, before)
	}
	// Control: the client itself is told its own turn, interaction and key from those that
	// are not there.
	own := &caller{a, a.token, a.named["context turn"]}
	for _, r := range contextRoutes(own.opened) {
		if r.name != "context-why" {
			continue
		}
		for kind, id := range map[string]string{"turn": own.opened, "interaction": a.named["interaction of a turn"]} {
			f := foreign{kind, func(id string) answer { return own.send(r, r.body(), inTurn(id)) }, id, "trn_" + hexID()}
			if kind == "interaction" {
				f.send, f.none = func(id string) answer { return own.send(r, map[string]any{"interactionId": id}) }, "int_"+hexID()
			}
			if oracle(nil, f) == "" {
				t.Errorf("control: %s: one's own %s is not told from one that is not there", r.ID, kind)
			}
		}
	}
	a.ask(a.token, "/turns/"+closed+"/complete", end, set("Idempotency-Key", taken)).is(t, "the key of the client itself", 200, "")
}

// turns are the turns of the project's first client, with how far each has come.
func (p *project) turns() string {
	p.t.Helper()
	a := p.projects("GET", "/"+p.id+"/turns?client="+p.client, nil)
	a.is(p.t, "turns", 200, "")
	return string(a.body)
}
