package projects

import (
	"context"
	"fmt"
	"net/http"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/wire"
	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
)

// registerProjects adds the routes of projects and of what they hand out.
func (s *service) registerProjects(api *edge.API) {
	edge.Register(api, operation("list-projects", http.MethodGet, "", "List projects", "Extension. Every project, by handle and slug, with what each environment hands out."), s.projects)
	edge.Register(api, created(operation("create-project", http.MethodPost, "", "Create a project",
		"Its context is at /HANDLE/SLUG/context/ and, of staging, at /HANDLE/SLUG/staging/context/. Handles that this server needs for paths of its own are refused.",
		authority.AlreadyExists, authority.WorkspaceLimit)), s.create)
	edge.Register(api, operation("get-project", http.MethodGet, "/{id}", "One project", "Extension. The project as it stands now.", authority.NotFound), s.get)
	store := operation("store-documents", http.MethodPost, "/{id}/documents", "Store documents",
		fmt.Sprintf("Extension. Stores documents under the SHA-256 of their text, at most 1000 and %d bytes of JSON a request. Storing one again changes nothing. A document is handed out only as part of a Build or draft that names it.", edge.LargestBody), authority.NotFound)
	store.MaxBody = edge.LargestBody
	edge.Register(api, store, s.store)
	edge.Register(api, operation("missing-documents", http.MethodPost, "/{id}/documents/missing", "Which documents are not stored",
		"Extension. Of the given hashes those under which nothing is stored, in their order; an upload that was interrupted goes on with them.", authority.NotFound), s.missing)
	publish := created(operation("publish-build", http.MethodPost, "/{id}/builds", "Publish a Build",
		fmt.Sprintf("Makes an immutable Build of documents that are stored, at most %d bytes of JSON, and hands out context of its environment from it. With draft, in staging alone, the manifest can be replaced by the next one. "+
			"What an environment hands out already changes nothing when it is published again.", edge.LargestBody), authority.NotFound, authority.WorkspaceLimit))
	publish.MaxBody = edge.LargestBody
	edge.Register(api, publish, s.publish)
	edge.Register(api, operation("list-builds", http.MethodGet, "/{id}/builds", "What the environments have", "Extension. Of each environment the newest Build, and of staging the draft; context is handed out from what is selected.", authority.NotFound), s.builds)
	edge.Register(api, exported("get-project-evidence", "/{id}/evidence", "Export a project's signed evidence"), s.projectEvidence)
}

// ProjectView is a project with what its environments hand out.
type ProjectView struct {
	ID           string              `json:"id"`
	Handle       string              `json:"handle"`
	Slug         string              `json:"slug"`
	CreatedAt    evidence.Time       `json:"createdAt"`
	Environments ProjectEnvironments `json:"environments"`
	Head         string              `json:"head" doc:"SEQ:HASH of the newest event of the project's chain."`
}

// ProjectEnvironments are the two that every project has.
type ProjectEnvironments struct {
	Production ProjectEnvironment `json:"production"`
	Staging    ProjectEnvironment `json:"staging"`
}

// ProjectEnvironment is what an environment hands out.
type ProjectEnvironment struct {
	Selected string                      `json:"selected" enum:"build,draft,none" doc:"Of which context is handed out; none: nothing was published yet."`
	Build    wire.Nullable[ProjectBuild] `json:"build" doc:"The newest; null before the first."`
	Draft    wire.Nullable[ProjectBuild] `json:"draft" doc:"Of staging; null when there is none."`
}

// ProjectBuild is a Build or a draft of an environment.
type ProjectBuild struct {
	Number      int64         `json:"number" doc:"From 1 within its environment; 0 of a draft."`
	Digest      string        `json:"digest" doc:"SHA-256 of the manifest."`
	Documents   int64         `json:"documents"`
	Cases       int64         `json:"cases"`
	Bytes       int64         `json:"bytes" doc:"Of its documents."`
	PublishedAt evidence.Time `json:"publishedAt"`
}

func newProjectView(p perimeter.ProjectView) ProjectView {
	e := p.Environments
	return ProjectView{p.ID, p.Handle, p.Slug, p.CreatedAt, ProjectEnvironments{newEnvironment(e.Production), newEnvironment(e.Staging)}, p.Head}
}

func newEnvironment(e project.Environment) ProjectEnvironment {
	v := ProjectEnvironment{e.Selected, newBuildRef(e.Build), newBuildRef(e.Draft)}
	if v.Selected == "" {
		v.Selected = "none"
	}
	return v
}

func newBuildRef(b *project.BuildRef) wire.Nullable[ProjectBuild] {
	if b == nil {
		return wire.Null[ProjectBuild](nil)
	}
	return wire.Null(&ProjectBuild{b.Number, b.Digest, b.Documents, b.Cases, b.Bytes, b.PublishedAt})
}

type projectOutput struct{ Body ProjectView }

type projectsOutput struct {
	Body struct {
		Projects []ProjectView `json:"projects"`
	}
}

func (s *service) projects(ctx context.Context, _ *struct{}) (*projectsOutput, error) {
	list, err := s.Projects(ctx)
	if err != nil {
		return nil, err
	}
	out := &projectsOutput{}
	out.Body.Projects = []ProjectView{}
	for _, p := range list {
		out.Body.Projects = append(out.Body.Projects, newProjectView(p))
	}
	return out, nil
}

func (s *service) create(ctx context.Context, in *struct {
	Body struct {
		Handle string `json:"handle" minLength:"1" maxLength:"40" pattern:"^[a-z0-9](-?[a-z0-9])*$" doc:"First segment of the project's paths." example:"acme"`
		Slug   string `json:"slug" minLength:"1" maxLength:"40" pattern:"^[a-z0-9](-?[a-z0-9])*$" doc:"Second segment." example:"support"`
	}
}) (*projectOutput, error) {
	return shown(s.CreateProject(ctx, in.Body.Handle, in.Body.Slug, session(ctx)))
}

func (s *service) get(ctx context.Context, in *ByProject) (*projectOutput, error) {
	return shown(s.Project(ctx, in.ID))
}

func shown(p perimeter.ProjectView, err error) (*projectOutput, error) {
	if err != nil {
		return nil, err
	}
	return &projectOutput{newProjectView(p)}, nil
}

type stored struct {
	Body struct {
		Stored []string `json:"stored" doc:"The SHA-256 of each text, in their order."`
	}
}

func (s *service) store(ctx context.Context, in *struct {
	ByProject
	Body struct {
		Documents []struct {
			SHA256 string `json:"sha256,omitempty" pattern:"^[0-9a-f]{64}$" doc:"Of the text in UTF-8; another one is refused."`
			Text   string `json:"text" minLength:"1" doc:"The whole document with its front matter, at most 262144 bytes." example:"---\nid: refunds\ntitle: Refunds\n---\nThe money goes back to the card.\n"`
		} `json:"documents" minItems:"1" maxItems:"1000"`
	}
}) (*stored, error) {
	texts := make([]string, len(in.Body.Documents))
	wrong := edge.Refuse(authority.InvalidRequest, "")
	for i, d := range in.Body.Documents {
		switch {
		case d.SHA256 != "" && d.SHA256 != canon.Hash([]byte(d.Text)):
			wrong.At(fmt.Sprintf("/documents/%d/sha256", i), "is not that of the text")
		case len(d.Text) > content.MaxDocument:
			wrong.At(fmt.Sprintf("/documents/%d/text", i), fmt.Sprintf("has more than %d bytes", content.MaxDocument))
		}
		texts[i] = d.Text
	}
	if len(wrong.Errors) > 0 {
		return nil, wrong
	}
	hashes, err := s.PutDocuments(ctx, in.ID, texts)
	if err != nil {
		return nil, err
	}
	out := &stored{}
	out.Body.Stored = hashes
	return out, nil
}

// MaxHashes is how many hashes one request may ask about, so that it fits [edge.MaxBody].
const MaxHashes = 900

func (s *service) missing(ctx context.Context, in *struct {
	ByProject
	Body struct {
		SHA256 []string `json:"sha256" minItems:"1" maxItems:"900" doc:"Each 64 lowercase hex digits."`
	}
}) (*struct {
	Body struct {
		Missing []string `json:"missing"`
	}
}, error) {
	wrong := edge.Refuse(authority.InvalidRequest, "")
	for i, hash := range in.Body.SHA256 {
		if !canon.IsHash(hash) {
			wrong.At(fmt.Sprintf("/sha256/%d", i), "want 64 lowercase hex digits")
		}
	}
	if len(wrong.Errors) > 0 {
		return nil, wrong
	}
	missing, err := s.MissingDocuments(ctx, in.ID, in.Body.SHA256)
	if err != nil {
		return nil, err
	}
	out := &struct {
		Body struct {
			Missing []string `json:"missing"`
		}
	}{}
	out.Body.Missing = append([]string{}, missing...)
	return out, nil
}

// Manifest says which documents and test cases a Build consists of.
type Manifest struct {
	Format    string             `json:"format" enum:"countersign-build/1" example:"countersign-build/1"`
	Documents []ManifestDocument `json:"documents" minItems:"1" maxItems:"20000" doc:"In the order of their refs."`
	Cases     []ManifestCase     `json:"cases" maxItems:"2000" doc:"In the order of their ids."`
}

// ManifestDocument is one document of a manifest.
type ManifestDocument struct {
	Ref    string `json:"ref" pattern:"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$" doc:"Its id." example:"refunds"`
	Title  string `json:"title" minLength:"1" maxLength:"200" example:"Refunds"`
	SHA256 string `json:"sha256" doc:"Of the whole document, which is stored."`
	Bytes  int    `json:"bytes" minimum:"1" maximum:"262144"`
}

// ManifestCase is one test case of a manifest.
type ManifestCase struct {
	ID         string   `json:"id" pattern:"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$" example:"card-refund"`
	Task       string   `json:"task" minLength:"1" maxLength:"4000" example:"How do I refund a card?"`
	ExpectRefs []string `json:"expectRefs" minItems:"1" maxItems:"20" doc:"Refs of documents that compass has to return for the task." example:"[\"refunds\"]"`
}

type buildOutput struct{ Body perimeter.BuildView }

func (s *service) publish(ctx context.Context, in *struct {
	ByProject
	Body struct {
		Environment string   `json:"environment" enum:"production,staging" example:"production"`
		Draft       bool     `json:"draft,omitempty" default:"false" doc:"Only in staging."`
		Manifest    Manifest `json:"manifest"`
	}
}) (*buildOutput, error) {
	m := content.Manifest{Format: in.Body.Manifest.Format, Documents: make([]content.Entry, len(in.Body.Manifest.Documents)), Cases: make([]content.Case, len(in.Body.Manifest.Cases))}
	for i, d := range in.Body.Manifest.Documents {
		m.Documents[i] = content.Entry(d)
	}
	for i, c := range in.Body.Manifest.Cases {
		m.Cases[i] = content.Case{ID: c.ID, Task: c.Task, ExpectRefs: c.ExpectRefs}
	}
	b, err := s.Publish(ctx, in.ID, in.Body.Environment, in.Body.Draft, m, session(ctx))
	if err != nil {
		return nil, err
	}
	return &buildOutput{b}, nil
}

type buildsOutput struct {
	Body struct {
		Builds []perimeter.BuildView `json:"builds"`
	}
}

func (s *service) builds(ctx context.Context, in *ByProject) (*buildsOutput, error) {
	list, err := s.Builds(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &buildsOutput{}
	out.Body.Builds = list
	return out, nil
}

func (s *service) projectEvidence(ctx context.Context, in *ByProject) (*raw, error) {
	return s.export(ctx, in.ID, project.Kind, in.ID)
}
