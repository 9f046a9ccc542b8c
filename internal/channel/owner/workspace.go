package owner

import (
	"bytes"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/wire"
	"countersign/internal/money"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/workspace"
)

// registerWorkspace adds the routes of section 1.17.
func registerWorkspace(api *edge.API, o *owner) {
	created := func(op edge.Operation) edge.Operation {
		op.DefaultStatus = http.StatusCreated
		return op
	}
	edge.Register(api, operation("get-workspace", http.MethodGet, "/workspace", "Services and guardian policies",
		"Everything that is registered, oldest first, with each policy's state, verification, published version and readiness."), o.workspace)
	edge.Register(api, created(operation("create-service", http.MethodPost, "/workspace/services", "Register a service",
		"Adds an entry to the inventory. It is metadata: nothing is ever sent to its origin.", authority.WorkspaceLimit)), o.createService)
	edge.Register(api, created(operation("create-guardian", http.MethodPost, "/workspace/guardians", "Draft a guardian policy",
		"Begins a policy at revision 1. It binds nothing before it is verified and activated.", authority.NotImplemented, authority.WorkspaceLimit)), o.createGuardian)
	edge.Register(api, operation("get-guardian", http.MethodGet, "/workspace/guardians/{id}", "One guardian policy", "Extension. The policy as it stands now.", authority.NotFound), o.guardian)
	edge.Register(api, operation("edit-guardian", http.MethodPut, "/workspace/guardians/{id}", "Edit a guardian policy",
		"Makes the next revision from the given one, which has to be the current one: a concurrent edit is refused, never overwritten. Published versions do not change.",
		authority.NotFound, authority.RevisionConflict, authority.NotImplemented, authority.WorkspaceLimit), o.editGuardian)
	edge.Register(api, operation("verify-guardian", http.MethodPost, "/workspace/guardians/{id}/verify", "Verify a guardian policy",
		"Sends synthetic reads through this server's own listener and checks the configuration. No order, transfer or trade is placed and no model is called. What was found is in the answer, success or not.",
		authority.NotFound, authority.RevisionConflict, authority.NotImplemented, authority.InProgress, authority.WorkspaceLimit), o.verifyGuardian)
	edge.Register(api, operation("activate-guardian", http.MethodPost, "/workspace/guardians/{id}/activate", "Publish a guardian policy",
		"Makes the revision the next published version, which never changes. Needs a successful verification of exactly this revision within the last hour. The enforcement is degraded 24 hours later.",
		authority.NotFound, authority.RevisionConflict, authority.NotImplemented, authority.GuardianNotVerified, authority.WorkspaceLimit), o.activateGuardian)
	for _, e := range []struct {
		id, path, summary string
		register          func(edge.Operation)
	}{
		{"get-inventory-evidence", "/workspace/evidence", "Export the inventory's signed evidence", func(op edge.Operation) { edge.Register(api, op, o.inventoryEvidence) }},
		{"get-guardian-evidence", "/workspace/guardians/{id}/evidence", "Export a policy's signed evidence", func(op edge.Operation) { edge.Register(api, op, o.guardianEvidence) }},
	} {
		op := operation(e.id, http.MethodGet, e.path, e.summary, "Extension. An export like that of a run; countersign verify reads it.", authority.NotFound)
		op.Responses = map[string]*huma.Response{"200": {
			Description: "The export: canonical JSON and one newline.",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}}},
		}}
		e.register(op)
	}
	edge.Register(api, operation("get-hosting", http.MethodGet, "/hosting", "How this installation is hosted",
		"Database connectivity, where the runtime is, the background worker and the signing key, as of now."), o.hosting)
}

type serviceInput struct {
	Body struct {
		Name        string `json:"name" minLength:"1" maxLength:"80" example:"Synthetic merchant"`
		Kind        string `json:"kind" enum:"merchant,bank,broker,custom" doc:"custom: a service that no adapter of this build knows." example:"merchant"`
		Environment string `json:"environment" enum:"local,staging,production" doc:"local: the built-in adapter's own synthetic service. The others are remote." example:"local"`
		Origin      string `json:"origin,omitempty" maxLength:"200" doc:"Metadata: never a destination." example:"http://127.0.0.1:8421"`
		Description string `json:"description,omitempty" maxLength:"1000" doc:"Free text; the evidence holds what stands for it." example:"The local synthetic shop."`
	}
}

// ServiceView is one entry of the inventory.
type ServiceView struct {
	ServiceID   string        `json:"serviceId"`
	Name        string        `json:"name"`
	Kind        string        `json:"kind" enum:"merchant,bank,broker,custom"`
	Environment string        `json:"environment" enum:"local,staging,production"`
	Origin      *string       `json:"origin" nullable:"true" doc:"Metadata: never a destination."`
	Description string        `json:"description"`
	CreatedAt   evidence.Time `json:"createdAt"`
}

// PolicyBody is what an owner says about a policy.
type PolicyBody struct {
	Name        string   `json:"name" minLength:"1" maxLength:"80" example:"Keyboard purchases"`
	ServiceID   string   `json:"serviceId,omitempty" format:"uuid" doc:"An entry of the inventory. Without it service names a built-in service."`
	Service     string   `json:"service,omitempty" enum:"merchant,bank,broker,custom" doc:"Needed without serviceId, else left out or the entry's kind." example:"merchant"`
	Environment string   `json:"environment" enum:"local,staging,production" doc:"Only local can be published." example:"local"`
	Mode        string   `json:"mode" enum:"exact,bounded" example:"bounded"`
	BudgetCents string   `json:"budgetCents" pattern:"^(0|[1-9][0-9]{0,11})$" doc:"Of every run that is bound to it." example:"13700"`
	Provider    string   `json:"provider" enum:"openai,replay" doc:"Of the guardian. Only replay is built." example:"replay"`
	Operations  []string `json:"operations" minItems:"1" maxItems:"32" doc:"All that a bound run may see and do." example:"[\"merchant.catalog\"]"`
	Channels    []string `json:"channels" minItems:"1" maxItems:"4" doc:"browser, http, mcp or webmcp." example:"[\"http\"]"`
}

// Policy is what one revision or version says.
type Policy struct {
	Name        string   `json:"name"`
	ServiceID   *string  `json:"serviceId" nullable:"true"`
	Service     string   `json:"service"`
	Environment string   `json:"environment"`
	Mode        string   `json:"mode"`
	BudgetCents string   `json:"budgetCents"`
	Provider    string   `json:"provider"`
	Operations  []string `json:"operations"`
	Channels    []string `json:"channels"`
}

// GuardianView is a guardian policy as it stands now.
type GuardianView struct {
	GuardianID   string                          `json:"guardianId"`
	Status       string                          `json:"status" enum:"draft,verified,published,degraded"`
	Revision     int64                           `json:"revision" doc:"Of the draft; send it with the next change."`
	Policy       Policy                          `json:"policy" doc:"The draft."`
	CreatedAt    evidence.Time                   `json:"createdAt"`
	UpdatedAt    evidence.Time                   `json:"updatedAt"`
	Verifying    bool                            `json:"verifying" doc:"A verification is under way."`
	Verification wire.Nullable[VerificationView] `json:"verification" doc:"The newest that has ended."`
	Published    wire.Nullable[PublishedView]    `json:"published" doc:"The newest version."`
	Readiness    Readiness                       `json:"readiness"`
	Head         string                          `json:"head" doc:"SEQ:HASH of the newest event of the policy's chain."`
}

// VerificationView is what a verification has found.
type VerificationView struct {
	VerificationID string        `json:"verificationId"`
	Revision       int64         `json:"revision"`
	Passed         bool          `json:"passed"`
	CompletedAt    evidence.Time `json:"completedAt"`
	ExpiresAt      evidence.Time `json:"expiresAt" doc:"From then on no activation rests on it."`
	RunIDs         []string      `json:"runIds" doc:"The synthetic runs, revoked by now. Lists of runs leave them out."`
	Tests          []TestView    `json:"tests"`
}

// TestView is one test with its own result and time.
type TestView struct {
	Name     string                         `json:"name"`
	Result   string                         `json:"result" enum:"passed,failed,not_built,not_measured"`
	Expected wire.Nullable[guardian.Answer] `json:"expected" doc:"Of a request; null for a check of the configuration."`
	Observed wire.Nullable[guardian.Answer] `json:"observed" doc:"null when there was no answer, or no request."`
	Note     string                         `json:"note"`
	At       evidence.Time                  `json:"at"`
}

// PublishedView is a published version.
type PublishedView struct {
	Version        int64         `json:"version"`
	Revision       int64         `json:"revision"`
	VerificationID string        `json:"verificationId"`
	PublishedAt    evidence.Time `json:"publishedAt"`
	DegradedAt     evidence.Time `json:"degradedAt"`
	Policy         Policy        `json:"policy"`
}

// Readiness says what a request would be answered now.
type Readiness struct {
	Activation   Ready  `json:"activation"`
	NewRuns      Ready  `json:"newRuns"`
	NativeWebMCP string `json:"nativeWebMcp" enum:"not_measured" doc:"No browser takes part in a verification."`
}

// Ready is whether it would be done, and else why not.
type Ready struct {
	Ready      bool   `json:"ready"`
	ReasonCode string `json:"reasonCode" doc:"Empty when ready."`
	Detail     string `json:"detail"`
}

type workspaceOutput struct {
	Body struct {
		Services  []ServiceView  `json:"services"`
		Guardians []GuardianView `json:"guardians"`
		Head      string         `json:"head" doc:"SEQ:HASH of the newest event of the inventory's chain; empty before the first."`
	}
}

type serviceOutput struct{ Body ServiceView }

type guardianOutput struct{ Body GuardianView }

func (o *owner) workspace(ctx context.Context, _ *struct{}) (*workspaceOutput, error) {
	v, err := o.Workspace.View(ctx)
	if err != nil {
		return nil, err
	}
	out := &workspaceOutput{}
	out.Body.Services, out.Body.Guardians, out.Body.Head = []ServiceView{}, []GuardianView{}, v.Head
	for _, s := range v.Services {
		out.Body.Services = append(out.Body.Services, newServiceView(s))
	}
	for _, g := range v.Guardians {
		out.Body.Guardians = append(out.Body.Guardians, newGuardianView(g))
	}
	return out, nil
}

func (o *owner) createService(ctx context.Context, in *serviceInput) (*serviceOutput, error) {
	b := in.Body
	r := workspace.ServiceRequest{Name: b.Name, Kind: b.Kind, Environment: b.Environment, Description: b.Description}
	if b.Origin != "" {
		r.Origin = &b.Origin
	}
	s, err := o.Workspace.Register(ctx, r)
	if err != nil {
		return nil, err
	}
	return &serviceOutput{newServiceView(*s)}, nil
}

type guardianInput struct{ Body PolicyBody }

func (o *owner) createGuardian(ctx context.Context, in *guardianInput) (*guardianOutput, error) {
	policy, err := in.Body.policy()
	if err != nil {
		return nil, err
	}
	id, err := o.Workspace.Draft(ctx, policy)
	if err != nil {
		return nil, err
	}
	return o.guardianView(ctx, id)
}

// policy is the body in the machine's terms.
func (b *PolicyBody) policy() (guardian.Policy, error) {
	budget, err := money.Parse(b.BudgetCents)
	switch {
	case err != nil:
		return guardian.Policy{}, &authority.Denial{Reason: authority.InvalidRequest, Detail: "body.budgetCents: want cents as a decimal string"}
	case b.Service == "" && b.ServiceID == "":
		return guardian.Policy{}, &authority.Denial{Reason: authority.InvalidRequest, Detail: "body.service: want service or serviceId"}
	}
	p := guardian.Policy{
		Name: b.Name, Service: b.Service, Environment: b.Environment, Mode: b.Mode, BudgetCents: budget, Provider: b.Provider, Operations: b.Operations, Channels: b.Channels,
	}
	if b.ServiceID != "" {
		p.ServiceID = &b.ServiceID
	}
	return p, nil
}

// ByGuardian names a policy in a path.
type ByGuardian struct {
	ID string `path:"id" format:"uuid" doc:"The policy's id." example:"01940e2e-7c00-7000-8000-000000000001"`
}

func (o *owner) guardian(ctx context.Context, in *ByGuardian) (*guardianOutput, error) {
	return o.guardianView(ctx, in.ID)
}

func (o *owner) guardianView(ctx context.Context, id string) (*guardianOutput, error) {
	g, err := o.Workspace.Guardian(ctx, id)
	if err != nil {
		return nil, err
	}
	return &guardianOutput{newGuardianView(g)}, nil
}

type revisionInput struct {
	ByGuardian
	Body struct {
		Revision int64 `json:"revision" minimum:"1" doc:"The current revision, as it was read." example:"1"`
	}
}

func (o *owner) editGuardian(ctx context.Context, in *struct {
	ByGuardian
	Body struct {
		Revision int64 `json:"revision" minimum:"1" doc:"The revision that the edit was made from." example:"1"`
		PolicyBody
	}
}) (*guardianOutput, error) {
	policy, err := in.Body.policy()
	if err != nil {
		return nil, err
	}
	if err := o.Workspace.Edit(ctx, in.ID, in.Body.Revision, policy); err != nil {
		return nil, err
	}
	return o.guardianView(ctx, in.ID)
}

func (o *owner) verifyGuardian(ctx context.Context, in *revisionInput) (*guardianOutput, error) {
	if err := o.Workspace.Verify(ctx, in.ID, in.Body.Revision); err != nil {
		return nil, err
	}
	return o.guardianView(ctx, in.ID)
}

func (o *owner) activateGuardian(ctx context.Context, in *revisionInput) (*guardianOutput, error) {
	if err := o.Workspace.Activate(ctx, in.ID, in.Body.Revision); err != nil {
		return nil, err
	}
	return o.guardianView(ctx, in.ID)
}

func (o *owner) inventoryEvidence(ctx context.Context, _ *struct{}) (*raw, error) {
	var b bytes.Buffer
	if err := o.Workspace.ExportInventory(ctx, &b); err != nil {
		return nil, err
	}
	return &raw{"application/json", `attachment; filename="evidence-inventory.json"`, b.Bytes()}, nil
}

func (o *owner) guardianEvidence(ctx context.Context, in *ByGuardian) (*raw, error) {
	var b bytes.Buffer
	if err := o.Workspace.ExportGuardian(ctx, in.ID, &b); err != nil {
		return nil, err
	}
	return &raw{"application/json", `attachment; filename="evidence-` + in.ID + `.json"`, b.Bytes()}, nil
}

func newServiceView(s workspace.Service) ServiceView {
	return ServiceView{s.ID, s.Name, s.Kind, s.Environment, s.Origin, s.Text, s.CreatedAt}
}

func newPolicy(p *guardian.Policy) Policy {
	return Policy{p.Name, p.ServiceID, p.Service, p.Environment, p.Mode, p.BudgetCents.String(), p.Provider, p.Operations, p.Channels}
}

func newGuardianView(g *workspace.Guardian) GuardianView {
	s := g.State
	v := GuardianView{
		GuardianID: s.ID, Status: g.Status, Revision: s.Revision, Policy: newPolicy(&s.Draft), CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
		Verifying: s.Verifying(g.Now), Readiness: Readiness{newReady(g.Activation), newReady(g.NewRuns), guardian.NotMeasured}, Head: g.Head,
	}
	if n := s.Verification; n != nil {
		shown := &VerificationView{n.ID, n.Revision, n.Passed, n.CompletedAt, n.ExpiresAt(), append([]string{}, g.Runs...), []TestView{}}
		for _, t := range g.Tests {
			shown.Tests = append(shown.Tests, TestView{t.Name, t.Result, wire.Null(t.Expected), wire.Null(t.Observed), t.Note, t.At})
		}
		v.Verification = wire.Null(shown)
	}
	if p := s.Published; p != nil {
		v.Published = wire.Null(&PublishedView{p.Version, p.Revision, p.VerificationID, p.PublishedAt, p.DegradedAt(), newPolicy(&p.Policy)})
	}
	return v
}

func newReady(denial *authority.Denial) Ready {
	if denial == nil {
		return Ready{Ready: true}
	}
	return Ready{false, denial.Reason, denial.Detail}
}
