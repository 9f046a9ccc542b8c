// Package projects serves the owner's routes about projects of the context perimeter
// (requirements 3.2 and G-37): projects and what they hand out, the clients that may ask
// for it, and what was recorded of them. Every route needs the owner's session, and no
// token of a run or of a client gets in (S-016, G-35).
//
// Paths under [edge.ProjectsPrefix] are the protocol's. What it does not name is marked
// "Extension." in the document.
package projects

import (
	"bytes"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/turn"
	"countersign/internal/identity"
)

// Tag is that of the operations in the document.
const Tag = "projects"

// Register adds the routes and their guard. Without a perimeter they can be documented
// and not served.
func Register(api *edge.API, p *perimeter.Perimeter, owners *identity.Owners) {
	api.Guard(edge.ProjectsPrefix, edge.ProjectsGuard(api.Origin(), owners.Verify))
	s := &service{p}
	s.registerProjects(api)
	s.registerClients(api)
	s.registerRecords(api)
}

func operation(id, method, path, summary, description string, reasons ...string) edge.Operation {
	return edge.Operation{
		Operation: huma.Operation{OperationID: id, Method: method, Path: "/api/projects" + path, Summary: summary, Description: description, Tags: []string{Tag}},
		Reasons:   reasons,
	}
}

func created(op edge.Operation) edge.Operation {
	op.DefaultStatus = http.StatusCreated
	return op
}

// exported documents an answer that is signed evidence.
func exported(id, path, summary string) edge.Operation {
	op := operation(id, http.MethodGet, path, summary, "Extension. An export like that of a run; countersign verify reads it.", authority.NotFound)
	op.Responses = map[string]*huma.Response{"200": {
		Description: "The export: canonical JSON and one newline.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}}},
	}}
	return op
}

type service struct{ *perimeter.Perimeter }

// ByProject names a project in a path. huma passes over embedded types that are not
// exported.
type ByProject struct {
	ID string `path:"id" pattern:"^prj_[0-9a-f]{32}$" doc:"The project's id." example:"prj_8f0c9f6f5a1f4d3b8f0c9f6f5a1f4d3b"`
}

// Page is a part of a list.
type Page struct {
	Before string `query:"before" pattern:"^[a-z]{3}_[0-9a-f]{32}$" doc:"nextCursor of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"100"`
}

// session is the hash that names the owner's session, which opens nothing.
func session(ctx context.Context) string {
	s, _ := edge.SessionFrom(ctx) // the guard let nobody pass without one
	return s.Hash
}

// cursor is how a list names its next page; nil: there is none.
func cursor(next string) *string {
	if next == "" {
		return nil
	}
	return &next
}

// raw is an export, whose bytes are made elsewhere.
type raw struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Body        []byte
}

// export answers with the signed evidence of something of a project.
func (s *service) export(ctx context.Context, project, kind, id string) (*raw, error) {
	var b bytes.Buffer
	if err := s.Export(ctx, project, kind, id, &b); err != nil {
		return nil, err
	}
	return &raw{"application/json", `attachment; filename="evidence-` + id + `.json"`, b.Bytes()}, nil
}

// kindOf is the kind of what an id of an interaction names.
func kindOf(interaction string) string {
	if turn.IsID("brg_", interaction) {
		return turn.KindBridge
	}
	return turn.KindInteraction
}
