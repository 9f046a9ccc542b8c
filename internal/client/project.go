package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

const projectsPath = "/api/projects"

func projectPath(id string) string { return projectsPath + "/" + id }

// CreateProject creates the project at a path and returns it.
func (c *Owner) CreateProject(ctx context.Context, handle, slug string) (Reply, error) {
	return c.do(ctx, "POST", projectsPath, map[string]string{"handle": handle, "slug": slug}, http.StatusCreated, nil)
}

// Projects returns all projects, oldest first.
func (c *Owner) Projects(ctx context.Context) (projects []json.RawMessage, err error) {
	var answer struct{ Projects []json.RawMessage }
	_, err = c.do(ctx, "GET", projectsPath, nil, http.StatusOK, &answer)
	return answer.Projects, err
}

// Project returns a project.
func (c *Owner) Project(ctx context.Context, id string) (Reply, error) {
	return c.do(ctx, "GET", projectPath(id), nil, http.StatusOK, nil)
}

// MissingDocuments returns those of the hashes under which the project has no document.
func (c *Owner) MissingDocuments(ctx context.Context, project string, hashes []string) ([]string, error) {
	var answer struct{ Missing []string }
	_, err := c.do(ctx, "POST", projectPath(project)+"/documents/missing", map[string]any{"sha256": hashes}, http.StatusOK, &answer)
	return answer.Missing, err
}

// Document is a document on its way to a server.
type Document struct {
	SHA256 string `json:"sha256"` // of the text
	Text   string `json:"text"`
}

// StoreDocuments stores documents; storing one again changes nothing.
func (c *Owner) StoreDocuments(ctx context.Context, project string, documents []Document) error {
	_, err := c.do(ctx, "POST", projectPath(project)+"/documents", map[string]any{"documents": documents}, http.StatusOK, nil)
	return err
}

// PublishBuild publishes the Build that a body describes, or selects it as a draft, and
// returns how the environment stands.
func (c *Owner) PublishBuild(ctx context.Context, project string, body any) (Reply, error) {
	return c.do(ctx, "POST", projectPath(project)+"/builds", body, http.StatusCreated, nil)
}

// SharedToken issues the shared token of an environment and ends the former one.
func (c *Owner) SharedToken(ctx context.Context, project string, body any) (Reply, error) {
	return c.do(ctx, "POST", projectPath(project)+"/token", body, http.StatusOK, nil)
}

func clientsPath(project string) string { return projectPath(project) + "/mcp/clients" }

// CreateClient creates a named client and returns it with its token.
func (c *Owner) CreateClient(ctx context.Context, project string, body any) (Reply, error) {
	return c.do(ctx, "POST", clientsPath(project), body, http.StatusCreated, nil)
}

// RotateClient gives a client its next token, ends the former one, and returns both.
func (c *Owner) RotateClient(ctx context.Context, project, id string) (Reply, error) {
	return c.do(ctx, "POST", clientsPath(project)+"/"+id+"/rotate", struct{}{}, http.StatusOK, nil)
}

// RevokeClient ends a client and returns it.
func (c *Owner) RevokeClient(ctx context.Context, project, id string) (Reply, error) {
	return c.do(ctx, "POST", clientsPath(project)+"/"+id+"/revoke", struct{}{}, http.StatusOK, nil)
}

// OfProject is a kind of thing that a project has a list of.
type OfProject string

// The lists of a project. Each is also the last segment of its path, but for clients.
const (
	Builds       OfProject = "builds"
	Clients      OfProject = "clients"
	Turns        OfProject = "turns"
	Interactions OfProject = "interactions"
	Gaps         OfProject = "gaps"
)

// Each looks at the newest of a project's list, at most that many that the query lets
// through, as [Owner.EachRun] does.
func (c *Owner) Each(ctx context.Context, project string, what OfProject, query url.Values, most int, look func(json.RawMessage) (goOn bool, err error)) (more bool, err error) {
	path := projectPath(project) + "/" + string(what)
	if what == Clients {
		path = clientsPath(project)
	}
	return c.each(ctx, list{path: path, query: query, member: string(what), cursor: "before"}, most, look)
}

// One returns one turn or interaction of a project with everything that belongs to it.
func (c *Owner) One(ctx context.Context, project string, what OfProject, id string) (Reply, error) {
	return c.do(ctx, "GET", projectPath(project)+"/"+string(what)+"/"+id, nil, http.StatusOK, nil)
}

// ExportProject returns the signed evidence of a project, and ExportOf of one of its
// clients, turns or interactions.
func (c *Owner) ExportProject(ctx context.Context, project string) (Reply, error) {
	return c.do(ctx, "GET", projectPath(project)+"/evidence", nil, http.StatusOK, nil)
}

// ExportOf returns the signed evidence of a client, turn, interaction or gap.
func (c *Owner) ExportOf(ctx context.Context, project string, what OfProject, id string) (Reply, error) {
	path := projectPath(project) + "/" + string(what)
	if what == Clients {
		path = clientsPath(project)
	}
	return c.do(ctx, "GET", path+"/"+id+"/evidence", nil, http.StatusOK, nil)
}
