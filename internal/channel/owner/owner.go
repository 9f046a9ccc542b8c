// Package owner serves the owner's routes (requirements 1.8 and 1.9): create,
// see, revoke and export runs, and issue a run's restricted token. Every route
// needs the owner's session; a restricted token is refused here before anything
// else is looked at.
package owner

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/stream"
	"countersign/internal/channel/wire"
	"countersign/internal/identity"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/managed"
	"countersign/internal/supervision/workspace"
)

// Config is what the routes show beside runs.
type Config struct {
	Gateway       *gateway.Gateway
	Steps         *managed.Steps
	Owners        *identity.Owners
	Keys          evidence.Keys // the verification keys, oldest first
	Specification []byte        // api/protocol.md
	Status        Status
	Workspace     *workspace.Workspace
	Attacks       Attacks
	Hosting       func(context.Context) (Hosting, error)
	Heartbeat     time.Duration // of streams; 0 means 15 s, only tests set it
	MaxList       int           // bytes; 0 means MaxList, only tests set it
}

// Register adds the routes and their guard.
func Register(api *edge.API, c Config) {
	api.Guard(edge.OwnerPrefix, edge.OwnerGuard(api.Origin(), c.Owners.Verify))
	edge.RegisterSessions(api, c.Owners)
	o := &owner{Config: c}
	edge.Register(api, operation("get-status", http.MethodGet, "/status", "What this installation can do",
		"Providers, channels, targets and the browser, each with the reason when it is off."), o.status)
	edge.Register(api, operation("get-limits", http.MethodGet, "/limits", "What is not implemented",
		"Extension. Every line that the protocols foresee and this build does not have, each with an id that stays."), o.limits)
	edge.Register(api, operation("list-runs", http.MethodGet, "/runs", "List runs", "Complete views of at most 100 runs, newest first, at most about 8 MB; nextCursor names the next page."), o.list)
	create := operation("create-run", http.MethodPost, "/runs", "Create and initialize a run",
		"Creates the run with its one bounded grant. Values that are known but not built are 501 and named.",
		authority.NotImplemented, authority.HostedUnreachable, authority.DispatchUnconfirmed, authority.Frozen,
		authority.NotFound, authority.GuardianNotPublished, authority.GuardianDegraded, authority.GuardianMismatch)
	create.DefaultStatus = http.StatusCreated
	edge.Register(api, create, o.create)
	edge.Register(api, operation("get-run", http.MethodGet, "/runs/{id}", "One run", "The complete current view and timeline.", authority.NotFound), o.get)
	edge.Register(api, operation("revoke-run", http.MethodPost, "/runs/{id}/revoke", "Revoke a run",
		"Ends the run, its unused permit and its grant. What was dispatched already cannot be undone and stays as it is. Revoking again changes nothing.",
		authority.NotFound, authority.RunNotReady), acts(o, plainly(c.Gateway.Revoke)))
	o.registerRecovery(api)
	o.registerSteps(api)
	o.registerReconciliation(api)
	edge.Register(api, operation("issue-session", http.MethodPost, "/runs/{id}/session", "Issue the run's token",
		"Extension. Issues the restricted token for the run's agent and ends the former one. It is shown once and lives no longer than the grant.",
		authority.NotFound, authority.RunNotReady), o.session)
	evidenceOp := operation("get-evidence", http.MethodGet, "/runs/{id}/evidence", "Export the signed evidence",
		"The export file as it stands now. Verify it with countersign verify and the public key from elsewhere.", authority.NotFound)
	evidenceOp.Responses = map[string]*huma.Response{"200": {
		Description: "The export: canonical JSON and one newline.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}}},
	}}
	edge.Register(api, evidenceOp, o.evidence)
	edge.RegisterStream(api, edge.Stream{Heartbeat: c.Heartbeat, Operation: operation("stream-events", http.MethodGet, "/runs/{id}/events", "Follow the signed events",
		"Server-Sent Events: id is the sequence, event the type, data the signed event. Last-Event-ID resumes strictly behind it.", authority.NotFound)}, o.events)
	edge.Register(api, operation("get-public-key", http.MethodGet, "/public-key", "The public verification key",
		"The evidence keys in the form of evidence.pub, oldest first. Take them from here only if you trust this answer; verification needs them from elsewhere."), o.publicKey)
	spec := operation("get-specification", http.MethodGet, "/specification", "This contract", "The contract as Markdown.")
	spec.Responses = map[string]*huma.Response{"200": {
		Description: "Markdown.", Content: map[string]*huma.MediaType{"text/markdown": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	edge.Register(api, spec, o.specification)
	registerWorkspace(api, o)
	o.registerFreeze(api)
	o.registerAttacks(api)
}

func operation(id, method, path, summary, description string, reasons ...string) edge.Operation {
	return edge.Operation{
		Operation: huma.Operation{
			OperationID: id, Method: method, Path: "/api/v1/owner" + path, Summary: summary, Description: description, Tags: []string{"owner"},
		},
		Reasons: reasons,
	}
}

type owner struct {
	Config
	streams stream.Rings // by run
}

// ByID names a run in a path. huma passes over embedded types that are not exported.
type ByID struct {
	ID string `path:"id" format:"uuid" doc:"The run's id." example:"01940e2e-7c00-7000-8000-000000000001"`
}

func (b ByID) run() string { return b.ID }

// plain is a request about a run that says nothing more.
type plain struct {
	ByID
	Body *wire.Empty `required:"false"`
}

// plainly is act for a request that only names its run.
func plainly(act func(ctx context.Context, id string) error) func(context.Context, *plain) error {
	return func(ctx context.Context, in *plain) error { return act(ctx, in.ID) }
}

// acts answers a request about a run with the run's view after act.
func acts[I interface{ run() string }](o *owner, act func(context.Context, *I) error) func(context.Context, *I) (*runOutput, error) {
	return func(ctx context.Context, in *I) (*runOutput, error) {
		if err := act(ctx, in); err != nil {
			return nil, err
		}
		return o.view(ctx, (*in).run())
	}
}

type issued struct {
	Body struct {
		Token     string        `json:"token" doc:"Shown once; stored nowhere."`
		ExpiresAt evidence.Time `json:"expiresAt"`
		Origin    string        `json:"origin" doc:"The one origin where the token is good."`
	}
}

func (o *owner) session(ctx context.Context, in *plain) (*issued, error) {
	s, err := o.Gateway.IssueSession(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &issued{}
	out.Body.Token, out.Body.ExpiresAt, out.Body.Origin = s.Token, s.ExpiresAt, s.Origin
	return out, nil
}

// raw is an answer whose bytes are made elsewhere.
type raw struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Body        []byte
}

func (o *owner) evidence(ctx context.Context, in *ByID) (*raw, error) {
	var b bytes.Buffer
	if err := o.Gateway.Export(ctx, in.ID, &b); err != nil {
		return nil, err
	}
	return &raw{"application/json", `attachment; filename="evidence-` + in.ID + `.json"`, b.Bytes()}, nil
}

func (o *owner) specification(context.Context, *struct{}) (*raw, error) {
	return &raw{ContentType: "text/markdown; charset=utf-8", Body: o.Specification}, nil
}

type keysOutput struct {
	Body struct {
		KeyID     string `json:"keyId" doc:"Of the key in use."`
		PublicKey string `json:"publicKey" doc:"The key in use, base64url of the 32 raw bytes."`
		File      string `json:"file" doc:"The content of evidence.pub, oldest key first."`
	}
}

func (o *owner) publicKey(context.Context, *struct{}) (*keysOutput, error) {
	out := &keysOutput{}
	newest := o.Keys[len(o.Keys)-1]
	out.Body.KeyID, out.Body.File = evidence.KeyID(newest.Public), string(o.Keys.Format())
	out.Body.PublicKey = base64.RawURLEncoding.EncodeToString(newest.Public)
	return out, nil
}
