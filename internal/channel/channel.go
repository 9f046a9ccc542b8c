// Package channel puts every route of the HTTP API together. The server and the
// published document are made by the same function, so that neither can have a
// route that the other lacks.
package channel

import (
	"countersign/internal/channel/agent"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/owner"
)

// Title and Version of the contract (H-001).
const (
	Title   = "countersign supervision protocol (browser use supervisor protocol)"
	Version = "0.1"
)

// Routes registers every route.
func Routes(api *edge.API, c owner.Config) {
	owner.Register(api, c)
	agent.Register(api, c.Gateway)
}

// Document returns the OpenAPI document of all routes without anything behind
// them.
func Document() ([]byte, error) {
	api, err := edge.New(edge.Config{Origin: "http://localhost:8420", Title: Title, Version: Version})
	if err != nil {
		return nil, err
	}
	Routes(api, owner.Config{})
	return api.Document()
}
