package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"countersign/internal/contextturn/content"
)

// perimeter is a project of a house, and what asks it for context.
type perimeter struct {
	*house
	id, path string // path is HANDLE/SLUG
	session  string
	keys     int // used so far
}

func (h *house) project(path string) *perimeter {
	h.t.Helper()
	p := &perimeter{house: h, path: path, session: h.cookie()}
	handle, slug, _ := strings.Cut(path, "/")
	var made struct{ ID string }
	p.owner("POST", "", object{"handle": handle, "slug": slug}, &made)
	p.id = made.ID
	return p
}

// owner sends a request of the owner about the project.
func (p *perimeter) owner(method, path string, body, into any) {
	p.t.Helper()
	p.send(method, strings.TrimSuffix("/api/projects/"+p.id, "/")+path, body, map[string]string{"Cookie": p.session, "Origin": p.origin}, into)
}

// send sends a request that has to succeed.
func (p *perimeter) send(method, path string, body any, header map[string]string, into any) {
	p.t.Helper()
	status, answer := p.try(method, path, body, header)
	if status/100 != 2 {
		p.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if into != nil {
		must(p.t, json.Unmarshal(answer, into))
	}
}

func (p *perimeter) try(method, path string, body any, header map[string]string) (status int, answer []byte) {
	p.t.Helper()
	raw, err := json.Marshal(body)
	must(p.t, err)
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.origin+path, bytes.NewReader(raw))
	must(p.t, err)
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	must(p.t, err)
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	must(p.t, err)
	return resp.StatusCode, answer
}

// publish makes a Build, or saves a draft, of whole documents.
func (p *perimeter) publish(environment string, draft bool, documents ...string) {
	p.t.Helper()
	var texts []object
	var list []*content.Document
	for _, text := range documents {
		d, faults := content.ParseDocument([]byte(text))
		must(p.t, content.Error(faults))
		texts, list = append(texts, object{"text": text}), append(list, d)
	}
	p.owner("POST", "/documents", object{"documents": texts}, nil)
	m := content.NewManifest(list, []content.Case{})
	p.owner("POST", "/builds", object{"environment": environment, "draft": draft, "manifest": m}, nil)
}

const refunds = "---\nid: refunds\ntitle: Refunds of card payments\ntags: [payments]\nauthor: Payments team\nsource: handbook\n---\n" +
	"# Refunds\n\nA card payment is refunded to the card within five days.\nA refund above 500 USD needs a second person.\n"

// caller is a client with its token.
type caller struct {
	*perimeter
	id, name, token string
	base            string
}

func (p *perimeter) client(name, environment, kind, protocol string) *caller {
	p.t.Helper()
	var made struct {
		Client struct{ ID string }
		Token  string
	}
	p.owner("POST", "/mcp/clients", object{"name": name, "kind": kind, "profile": "support", "environment": environment, "turnProtocol": protocol}, &made)
	c := &caller{perimeter: p, id: made.Client.ID, name: name, token: made.Token, base: "/" + p.path + "/context/"}
	if environment == "staging" {
		c.base = "/" + p.path + "/staging/context/"
	}
	return c
}

// header is that of a request about a turn, "" for one outside of turns.
func (c *caller) header(turnID string) map[string]string {
	c.keys++
	h := map[string]string{"Authorization": "Bearer " + c.token, "Idempotency-Key": fmt.Sprintf("key-%012d", c.keys)}
	if turnID != "" {
		h["X-SEIF-Turn-Id"] = turnID
	}
	return h
}

func (c *caller) start(label string) string {
	c.t.Helper()
	body := object{}
	if label != "" {
		body["clientRef"] = label
	}
	var made struct{ Turn struct{ ID string } }
	c.send("POST", c.base+"turns/start", body, c.header(""), &made)
	return made.Turn.ID
}

// call asks a tool and returns the id of the interaction.
func (c *caller) call(turnID, tool string, body object) string {
	c.t.Helper()
	var made struct{ Interaction struct{ ID string } }
	c.send("POST", c.base+tool, body, c.header(turnID), &made)
	return made.Interaction.ID
}

func (c *caller) observe(turnID string) {
	c.t.Helper()
	c.send("POST", c.base+"turns/"+turnID+"/observations", object{"event": "pre_tool_use", "tool": "mcp__seif__context_compass", "toolUseId": "toolu_01"}, c.header(""), nil)
}

func (c *caller) complete(turnID, status, note string) {
	c.t.Helper()
	body := object{"status": status}
	if note != "" {
		body["note"] = note
	}
	c.send("POST", c.base+"turns/"+turnID+"/complete", body, c.header(""), nil)
}

// at is the address of a page of the project.
func (p *perimeter) at(rest string) string { return "/projects/" + p.id + rest }

// look opens a page of the project.
func (b *tab) look(p *perimeter, rest string) { b.t.Helper(); b.open(p.origin + p.at(rest)) }
