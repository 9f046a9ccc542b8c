package channel_test

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"countersign/internal/channel/edge"
	"countersign/internal/channel/runbookhttp"
	builds "countersign/internal/contextturn/content"
)

// asProjectOwner is everything that an owner's request to the routes of projects carries
// beside its session: no x-halfspan-owner.
func (h *house) asProjectOwner(cookie string) edit {
	return func(r *http.Request) {
		h.asOwner(cookie)(r)
		r.Header.Del("X-Halfspan-Owner")
	}
}

// projects sends an owner's request; path is what follows /api/projects.
func (h *house) projects(method, path string, body any, edits ...edit) answer {
	h.t.Helper()
	return h.do(method, "/api/projects"+path, body, append([]edit{h.asProjectOwner(h.cookie)}, edits...)...)
}

// documents of the tests, each the whole file.
var documents = []string{
	"---\nid: refunds\ntitle: Refunds\ntags: [money]\nauthor: Payments team\nsource: https://wiki.example.com/refunds\n---\nThe money goes back to the card within five days.\n",
	"---\nid: shipping\ntitle: Shipping\nprofiles: [support]\n---\nParcels leave the warehouse on weekdays before noon.\n",
}

// manifest is that of documents, and of a test case that the first one answers.
func manifest(texts ...string) builds.Manifest {
	var docs []*builds.Document
	for _, text := range texts {
		d, faults := builds.ParseDocument([]byte(text))
		if len(faults) > 0 {
			panic(builds.Error(faults))
		}
		docs = append(docs, d)
	}
	return builds.NewManifest(docs, []builds.Case{{ID: "card-refund", Task: "Is the money back on the card?", ExpectRefs: []string{"refunds"}}})
}

// project is one that has one of everything, and what names these things by kind.
type project struct {
	*house
	id, path                       string
	client, shared, plain, bridge  string // ids
	token, plainToken, bridgeToken string
	named                          map[string]string
}

// project makes a project at acme and the slug.
func (h *house) project(slug string) *project {
	h.t.Helper()
	p := &project{house: h, path: "/acme/" + slug}
	created := func(what string, a answer) map[string]any {
		h.t.Helper()
		a.is(h.t, what, 201, "")
		return a.members()
	}
	p.id = created("project", h.projects("POST", "", map[string]any{"handle": "acme", "slug": slug}))["id"].(string)
	var sent []any
	for _, text := range documents {
		sent = append(sent, map[string]any{"text": text})
	}
	h.projects("POST", "/"+p.id+"/documents", map[string]any{"documents": sent}).is(h.t, "documents", 200, "")
	for _, environment := range []string{"production", "staging"} {
		created("publish", p.publish(environment, false, documents...))
	}
	client := func(name, kind, turns string) (id, token string) {
		m := created("client", p.create(name, kind, turns))
		return m["client"].(map[string]any)["id"].(string), m["token"].(string)
	}
	p.client, p.token = client("Gateway", "custom", "required")
	p.plain, p.plainToken = client("Reader", "mcp", "absent")
	p.bridge, p.bridgeToken = client("Bridge", "bridge", "absent")
	shared := h.projects("POST", "/"+p.id+"/token", map[string]any{"environment": "staging", "profile": "support"})
	shared.is(h.t, "shared token", 200, "")
	p.shared = shared.text("clientId")

	start := p.ask(p.token, "/turns/start", map[string]any{"clientRef": "ticket 7"}, key())
	turn := created("start", start)["turn"].(map[string]any)["id"].(string)
	p.named = map[string]string{"project": p.id, "client": p.client, "shared client": p.shared, "context turn": turn}
	p.ask(p.token, "/compass", map[string]any{"task": "Is the money back on the card?"}, set("X-SEIF-Turn-Id", turn)).is(h.t, "compass", 200, "")
	gap := created("gap", p.ask(p.token, "/report-gap", map[string]any{"task": "What about gift cards?", "detail": "Asked twice."}, set("X-SEIF-Turn-Id", turn)))
	p.named["gap"], p.named["interaction of a turn"] = gap["gapId"].(string), interaction(gap)
	p.named["interaction"] = interaction(p.ask(p.plainToken, "/resolve", map[string]any{"ref": "refunds"}).members())
	receipt := created("receipt", p.ask(p.bridgeToken, "/bridge/receipts", map[string]any{"kind": "file.read", "digest": strings.Repeat("ab", 32)}, key()))
	p.named["receipt"] = receipt["receipt"].(map[string]any)["id"].(string)
	return p
}

// interaction is the id of the interaction that an answer is of.
func interaction(answer map[string]any) string {
	return answer["interaction"].(map[string]any)["id"].(string)
}

// publish publishes documents that are stored.
func (p *project) publish(environment string, draft bool, texts ...string) answer {
	p.t.Helper()
	return p.projects("POST", "/"+p.id+"/builds", map[string]any{"environment": environment, "draft": draft, "manifest": manifest(texts...)})
}

// create makes a client of production.
func (p *project) create(name, kind, turns string) answer {
	p.t.Helper()
	p.clock.Move(time.Millisecond)
	return p.projects("POST", "/"+p.id+"/mcp/clients", map[string]any{"name": name, "kind": kind, "profile": "support", "environment": "production", "turnProtocol": turns})
}

// ask sends a client's request; path is what follows /context.
func (p *project) ask(token, path string, body any, edits ...edit) answer {
	p.t.Helper()
	p.clock.Move(time.Millisecond) // ids sort by time, on a clock that stands too
	return p.do("POST", p.path+"/context"+path, body, append([]edit{set("Authorization", "Bearer "+token)}, edits...)...)
}

// recorded is what the owner sees of the project: how far each chain has come.
func (p *project) recorded() string {
	p.t.Helper()
	var b strings.Builder
	for _, path := range []string{"", "/builds", "/mcp/clients", "/turns", "/interactions", "/gaps"} {
		a := p.projects("GET", "/"+p.id+path, nil)
		a.is(p.t, path, 200, "")
		b.WriteString(string(a.body) + "\n")
	}
	b.WriteString(string(p.projects("GET", "", nil).body))
	return b.String()
}

// in is an operation's path with what it names filled in; what the map lacks stays.
func (p *project) in(path string) string {
	return strings.NewReplacer("{id}", p.id, "{cid}", p.client, "{tid}", p.named["context turn"], "{iid}", p.named["interaction"], "{gid}", p.named["gap"]).Replace(path)
}

// key is a fresh Idempotency-Key.
func key() edit { return set("Idempotency-Key", "key-"+hexID()) }

// hexID is what stands behind the prefix of an id that nothing has.
func hexID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// family is whose routes a path is among: owner, project, agent, or context for those of
// the clients.
func family(path string) string {
	switch {
	case strings.HasPrefix(path, edge.OwnerPrefix):
		return "owner"
	case strings.HasPrefix(path+"/", edge.ProjectsPrefix):
		return "project"
	case strings.HasPrefix(path, runbookhttp.Path):
		return "incident"
	case strings.HasPrefix(path, "/api/v1/"):
		return "agent"
	}
	return "context"
}
