package perimeter

import (
	"countersign/evidence"
	"countersign/internal/contextturn/project"
	"countersign/internal/ledger"
)

// ProjectView is a project as it is shown.
type ProjectView struct {
	ID           string               `json:"id"`
	Handle       string               `json:"handle"`
	Slug         string               `json:"slug"`
	CreatedAt    evidence.Time        `json:"createdAt"`
	Environments project.Environments `json:"environments"`
	Head         string               `json:"head" doc:"SEQ:HASH of the newest event of the project's chain."`
}

// ClientView is a client as it is shown; the token is nowhere.
type ClientView struct {
	ID           string         `json:"id"`
	Project      string         `json:"project"`
	Name         string         `json:"name"`
	Kind         string         `json:"kind" enum:"custom,claude-code,mcp,bridge,shared"`
	Profile      string         `json:"profile"`
	Environment  string         `json:"environment" enum:"production,staging"`
	TurnProtocol string         `json:"turnProtocol" enum:"required,absent"`
	Generation   int64          `json:"generation" doc:"Of its token; a rotation makes the next one."`
	CreatedAt    evidence.Time  `json:"createdAt"`
	RevokedAt    *evidence.Time `json:"revokedAt" nullable:"true"`
	Head         string         `json:"head" doc:"SEQ:HASH of the newest event of the client's chain."`
}

// BuildView is a Build or draft of an environment.
type BuildView struct {
	Environment string        `json:"environment" enum:"production,staging"`
	Number      int64         `json:"number" doc:"From 1 within its environment; 0 of a draft."`
	Draft       bool          `json:"draft"`
	Digest      string        `json:"digest" doc:"SHA-256 of the manifest."`
	Documents   int64         `json:"documents"`
	Cases       int64         `json:"cases"`
	Bytes       int64         `json:"bytes"`
	PublishedAt evidence.Time `json:"publishedAt"`
	Selected    bool          `json:"selected" doc:"Context is handed out from it."`
	Unchanged   bool          `json:"unchanged" doc:"It stood there already; nothing was published."`
	Changes     *Changes      `json:"changes,omitempty" doc:"Of a publication: its documents against those that the environment handed out before."`
}

func viewProject(subject ledger.Subject, s *project.Project) ProjectView {
	return ProjectView{s.ID, s.Handle, s.Slug, s.CreatedAt, s.Environments, subject.Link().String()}
}

func viewClient(subject ledger.Subject, s *project.Client) ClientView {
	return ClientView{s.ID, s.Project, s.Name, s.Kind, s.Profile, s.Environment, s.TurnProtocol, s.Generation, s.CreatedAt, s.RevokedAt, subject.Link().String()}
}

func viewBuild(environment string, b project.BuildRef, selected, unchanged bool) BuildView {
	return BuildView{environment, b.Number, b.Number == 0, b.Digest, b.Documents, b.Cases, b.Bytes, b.PublishedAt, selected, unchanged, nil}
}
