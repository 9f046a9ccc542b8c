// Package channel puts every route of the HTTP API together. The server and the
// published document are made by the same function, so that neither can have a
// route that the other lacks. Only the contract's own texts, which need no
// credential, stand outside the document.
//
// The examples of the document were recorded: a test plays a purchase against the
// real server, replaces ids, times, digests, tokens and signatures by fixed ones
// of the same form and cuts long lists. The same test fails when the server no
// longer answers so; record again with
//
//	go test ./internal/channel -run TestExamples -update
//	go run ./cmd/countersign openapi > api/openapi.json
package channel

import (
	"net/http"

	"countersign/api"
	"countersign/internal/channel/agent"
	"countersign/internal/channel/contexthttp"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/owner"
	"countersign/internal/channel/projects"
	"countersign/internal/channel/runbookhttp"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/runbook/control"
)

// Title and Version of the contract (H-001).
const (
	Title   = "countersign supervision protocol (browser use supervisor protocol)"
	Version = "0.1"
)

// Routes registers every route. contexts is what the routes of projects and of
// their clients ask; incidents is the incident workflow's plane, nil when it is off.
func Routes(a *edge.API, c owner.Config, contexts *perimeter.Perimeter, incidents *control.Plane) {
	owner.Register(a, c)
	agent.Register(a, c.Gateway)
	projects.Register(a, contexts, c.Owners)
	contexthttp.Register(a, contexts)
	if incidents == nil {
		runbookhttp.Register(a, nil)
		document(a.OpenAPI(), runbookhttp.Operations...)
	} else {
		runbookhttp.Register(a, incidents)
		document(a.OpenAPI())
	}
	a.Handle("GET /openapi.json", text("application/json", api.OpenAPI))
	a.Handle("GET /protocol", text("text/markdown; charset=utf-8", api.Protocol))
	a.Handle("GET /context-turns", text("text/markdown; charset=utf-8", api.ContextTurns))
	a.Handle("GET /events", text("text/markdown; charset=utf-8", api.Events))
	a.Handle("GET "+edge.ReasonsPath, text("text/markdown; charset=utf-8", api.Reasons))
}

// text serves one text of the contract.
func text(contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Write(body) // an error means the client has left
	})
}

// Document returns the OpenAPI document of all routes without anything behind
// them, those of the incident workflow too.
func Document() ([]byte, error) {
	a, err := edge.New(edge.Config{Origin: "http://localhost:8420", Title: Title, Version: Version})
	if err != nil {
		return nil, err
	}
	Routes(a, owner.Config{}, nil, &control.Plane{})
	return a.Document()
}
