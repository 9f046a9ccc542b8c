package projects

import (
	"context"
	"net/http"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/wire"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
)

// registerClients adds the routes of who may ask for context.
func (s *service) registerClients(api *edge.API) {
	const once = "The token is in this answer and nowhere else: only its SHA-256 is stored. Give it to the component that fetches context, never to browser code, prompts, source control or logs."
	edge.Register(api, operation("issue-shared-token", http.MethodPost, "/{id}/token", "Issue the shared token of an environment",
		"Whoever has it may read context and cannot open turns, because it names no single invoker. Issuing ends the former one; its profile is fixed with the first. "+once,
		authority.NotFound, authority.AlreadyExists, authority.ClientRevoked, authority.WorkspaceLimit), s.sharedToken)
	edge.Register(api, created(operation("create-client", http.MethodPost, "/{id}/mcp/clients", "Create a named client",
		"What it is bound to never changes; another binding is another client. With turnProtocol required, every request for context carries a turn that the client opened. "+once,
		authority.NotFound)), s.createClient)
	edge.Register(api, operation("list-clients", http.MethodGet, "/{id}/mcp/clients", "List clients", "Extension. Named and shared clients, newest first, revoked ones too; nextCursor names the next page.", authority.NotFound), s.clients)
	edge.Register(api, operation("rotate-client", http.MethodPost, "/{id}/mcp/clients/{cid}/rotate", "Give a client its next token",
		"Extension. The former token opens nothing from then on; turns that are open go on with the new one. "+once, authority.NotFound, authority.ClientRevoked, authority.WorkspaceLimit), s.rotate)
	edge.Register(api, operation("revoke-client", http.MethodPost, "/{id}/mcp/clients/{cid}/revoke", "Revoke a client",
		"Extension. Its token opens nothing from then on, for good; what was recorded of it stays. Once the shared client of an environment is revoked, no shared token is issued for it any more. Revoking again changes nothing.", authority.NotFound), s.revoke)
	edge.Register(api, exported("get-client-evidence", "/{id}/mcp/clients/{cid}/evidence", "Export a client's signed evidence"), s.clientEvidence)
}

// ByClient names a client of a project in a path.
type ByClient struct {
	ByProject
	Client string `path:"cid" pattern:"^(cli|shr)_[0-9a-f]{32}$" doc:"The client's id." example:"cli_01940e2e7c0070008000000000000001"`
}

type tokenOutput struct {
	Body struct {
		ClientID string `json:"clientId" doc:"Of the shared client of the environment."`
		Token    string `json:"token" doc:"Shown once; stored nowhere."`
	}
}

func (s *service) sharedToken(ctx context.Context, in *struct {
	ByProject
	Body struct {
		Environment string `json:"environment" enum:"production,staging" example:"staging"`
		Profile     string `json:"profile" pattern:"^[a-z0-9-]{1,40}$" doc:"Documents of other profiles are not handed out." example:"support"`
	}
}) (*tokenOutput, error) {
	c, token, err := s.SharedToken(ctx, in.ID, in.Body.Environment, in.Body.Profile, session(ctx))
	if err != nil {
		return nil, err
	}
	out := &tokenOutput{}
	out.Body.ClientID, out.Body.Token = c.ID, token
	return out, nil
}

// clientIssued is a client with the token that it has now.
type clientIssued struct {
	Body struct {
		Client perimeter.ClientView `json:"client"`
		Token  string               `json:"token" doc:"Shown once; stored nowhere."`
	}
}

func issue(c perimeter.ClientView, token string, err error) (*clientIssued, error) {
	if err != nil {
		return nil, err
	}
	out := &clientIssued{}
	out.Body.Client, out.Body.Token = c, token
	return out, nil
}

func (s *service) createClient(ctx context.Context, in *struct {
	ByProject
	Body struct {
		Name         string `json:"name" minLength:"1" maxLength:"100" doc:"What it is called on pages." example:"My application gateway"`
		Kind         string `json:"kind" enum:"custom,claude-code,mcp,bridge" example:"custom"`
		Profile      string `json:"profile" pattern:"^[a-z0-9-]{1,40}$" doc:"Documents of other profiles are not handed out." example:"support"`
		Environment  string `json:"environment" enum:"production,staging" example:"production"`
		TurnProtocol string `json:"turnProtocol,omitempty" enum:"required,absent" default:"absent" doc:"required: every request for context carries an open turn. A bridge opens none." example:"required"`
	}
}) (*clientIssued, error) {
	b := in.Body
	return issue(s.CreateClient(ctx, in.ID, project.ClientRequest{Name: b.Name, Kind: b.Kind, Profile: b.Profile, Environment: b.Environment, TurnProtocol: b.TurnProtocol}, session(ctx)))
}

// plain is a request about a client that says nothing more.
type plain struct {
	ByClient
	Body *wire.Empty `required:"false"`
}

func (s *service) rotate(ctx context.Context, in *plain) (*clientIssued, error) {
	return issue(s.RotateClient(ctx, in.ID, in.Client, session(ctx)))
}

type clientOutput struct{ Body perimeter.ClientView }

func (s *service) revoke(ctx context.Context, in *plain) (*clientOutput, error) {
	c, err := s.RevokeClient(ctx, in.ID, in.Client, session(ctx))
	if err != nil {
		return nil, err
	}
	return &clientOutput{c}, nil
}

type clientsOutput struct {
	Body struct {
		Clients    []perimeter.ClientView `json:"clients"`
		NextCursor *string                `json:"nextCursor" nullable:"true"`
	}
}

func (s *service) clients(ctx context.Context, in *struct {
	ByProject
	Page
}) (*clientsOutput, error) {
	list, next, err := s.Clients(ctx, in.ID, in.Before, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &clientsOutput{}
	out.Body.Clients, out.Body.NextCursor = append([]perimeter.ClientView{}, list...), cursor(next)
	return out, nil
}

func (s *service) clientEvidence(ctx context.Context, in *ByClient) (*raw, error) {
	return s.export(ctx, in.ID, project.KindClient, in.Client)
}
