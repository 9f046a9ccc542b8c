// Package agent serves the restricted consumer transport (requirements 1.11):
// what an agent may see and ask for with the token of its run. Every route names
// the run by the token alone; there is no route that grants, approves or issues a
// token, and owner cookies are not looked at (H-139).
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/wire"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// Prefix is where the routes of the restricted transport begin.
const Prefix = "/api/v1/"

// Register adds the routes and their guard.
func Register(api *edge.API, g *gateway.Gateway) {
	api.Guard(Prefix, edge.BearerGuard(g.Authenticate))
	a := &agent{g}
	edge.Register(api, operation("get-capabilities", http.MethodGet, "/api/v1/capabilities", "What the run may do",
		"Grant, terms, budget, workflow position and the newest catalog."), a.capabilities)
	edge.Register(api, operation("get-observation", http.MethodGet, "/api/v1/observation", "The current trusted observation",
		"Returns the newest observation while it stands, else takes a new one. Observe again after every operation.",
		authority.RunNotReady, authority.UnresolvedEffect, authority.InProgress, authority.HostedUnreachable, authority.TurnLimit), a.observation)
	turns := operation("submit-report", http.MethodPost, "/api/v1/turns", "Propose one action",
		"Takes a report (TurnProposal) on exactly one action of the current catalog. A well-formed report is always answered with a decision; an ALLOW comes with one permit of at most 30 seconds. After a lost answer get the decision.",
		authority.RunNotReady, authority.PermitOutstanding, authority.UnresolvedEffect, authority.TurnLimit, authority.Frozen)
	turns.Malformed = authority.MalformedProposal
	turns.BodySchema = reportSchema(api.OpenAPI().Components.Schemas)
	edge.Register(api, turns, a.turn)
	edge.Register(api, operation("get-decision", http.MethodGet, "/api/v1/decision", "The newest decision",
		"The answer to the newest report, with the permit while it is live.", authority.NotFound), a.decision)
	operate := operation("execute-operation", http.MethodPost, "/api/v1/operation", "Execute the permitted action",
		"Executes exactly the action that the permit names, once. Repeating the request with the same key returns the stored result with the header Idempotency-Replayed and has no second effect.",
		authority.PermitRequired, authority.PermitMismatch, authority.PermitRevoked, authority.PermitExpired, authority.PermitConsumed, authority.StaleState,
		authority.GrantExpired, authority.GrantExhausted, authority.BudgetExceeded, authority.IdempotencyConflict, authority.UnresolvedEffect,
		authority.InProgress, authority.DispatchUnconfirmed, authority.HostedUnreachable, authority.RunNotReady, authority.Frozen)
	operate.BodySchema = actionSchema(api.OpenAPI().Components.Schemas)
	edge.Register(api, operate, a.operate)
}

func operation(id, method, path, summary, description string, reasons ...string) edge.Operation {
	return edge.Operation{
		Operation: huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Description: description, Tags: []string{"agent"}},
		Reasons:   reasons,
	}
}

type agent struct{ g *gateway.Gateway }

// runID is the run that the guard's credential names.
func runID(ctx context.Context) string {
	c, _ := edge.CredentialFrom(ctx)
	return c.Subject
}

type budget struct {
	LimitCents    string `json:"limitCents" example:"13700"`
	SpentCents    string `json:"spentCents" example:"0"`
	ReservedCents string `json:"reservedCents" example:"0"`
}

type capabilities struct {
	Body struct {
		RunID          string            `json:"runId"`
		Service        string            `json:"service" example:"merchant"`
		Target         string            `json:"target" example:"hosted"`
		Channel        string            `json:"channel" example:"http"`
		Mode           string            `json:"mode" example:"bounded"`
		Status         string            `json:"status" example:"ready"`
		Instruction    string            `json:"instruction" doc:"What the owner asks for. Restate it in goalRestatement of a report."`
		Clarifications []string          `json:"clarifications" doc:"What the owner has added since, oldest first. It widens no grant."`
		Terms          json.RawMessage   `json:"terms" doc:"The owner's terms."`
		Grants         []authority.Grant `json:"grants" doc:"What is allowed, how often and until when."`
		Budget         budget            `json:"budget"`
		Workflow       []run.Step        `json:"workflow"`
		Position       string            `json:"position" doc:"The first workflow step that is not closed."`
		Catalog        []propose.Entry   `json:"catalog"`
	}
}

func (a *agent) capabilities(ctx context.Context, _ *struct{}) (*capabilities, error) {
	c, err := a.g.Capabilities(ctx, runID(ctx))
	if err != nil {
		return nil, err
	}
	s, out := c.State, &capabilities{}
	b := &out.Body
	b.RunID, b.Service, b.Target, b.Channel, b.Mode, b.Status = s.ID, s.Config.Service, s.Config.Target, s.Config.Channel, s.Config.Mode, s.Status
	b.Terms, b.Workflow, b.Position, b.Catalog = s.Terms, s.Workflow, c.Position, c.Catalog
	b.Budget = budget{s.Budget.Limit.String(), s.Budget.Spent.String(), s.Budget.Reserved.String()}
	b.Instruction, b.Clarifications, b.Grants = c.Instruction, c.Clarifications, s.Grants
	return out, nil
}

type observed struct{ Body *wire.Observation }

func (a *agent) observation(ctx context.Context, _ *struct{}) (*observed, error) {
	o, err := a.g.Observe(ctx, runID(ctx))
	if err != nil {
		return nil, err
	}
	return &observed{wire.NewObservation(o)}, nil
}

type permit struct {
	PermitID  string         `json:"permitId"`
	Token     string         `json:"token" doc:"Send it in x-step-permit."`
	ExpiresAt evidence.Time  `json:"expiresAt"`
	Action    propose.Action `json:"action" doc:"The one action that it is good for."`
}

type turned struct {
	Body struct {
		TurnID   string                `json:"turnId"`
		Decision *wire.Decision        `json:"decision"`
		Permit   wire.Nullable[permit] `json:"permit"`
	}
}

func newTurned(t *gateway.Turn) *turned {
	out := &turned{}
	out.Body.TurnID, out.Body.Decision = t.TurnID, wire.NewDecision(&t.Decision)
	if p := t.Permit; p != nil {
		out.Body.Permit = wire.Null(&permit{p.PermitID, p.Token, p.ExpiresAt, p.Action})
	}
	return out
}

type reportInput struct {
	ContextTurn string `header:"X-SEIF-Turn-Id" pattern:"^trn_[0-9a-f]{32}$" doc:"The context turn that the report was made in, if there is one. It is recorded beside the report, permits nothing and blocks nothing." example:"trn_0190a3c5e7b27f4a8d1c5b9e3f6a2d48"`
	RawBody     []byte `contentType:"application/json"`
}

func (a *agent) turn(ctx context.Context, in *reportInput) (*turned, error) {
	t, err := a.g.Propose(ctx, runID(ctx), in.ContextTurn, in.RawBody)
	if err != nil {
		return nil, placed(err)
	}
	return newTurned(t), nil
}

// placed names the places of a body that is malformed, as the reader of other
// routes does.
func placed(err error) error {
	wrong, ok := errors.AsType[*propose.MalformedError](err)
	if !ok {
		return err
	}
	refusal := edge.Refuse(wrong.Reason, wrong.Detail)
	for _, p := range wrong.Problems {
		refusal.At(p.Pointer, p.Message)
	}
	return refusal
}

func (a *agent) decision(ctx context.Context, _ *struct{}) (*turned, error) {
	t, err := a.g.Decision(ctx, runID(ctx))
	if err != nil {
		return nil, err
	}
	return newTurned(t), nil
}

type operateInput struct {
	Permit  string `header:"x-step-permit" maxLength:"200" doc:"The token of the permit."`
	Key     string `header:"x-idempotency-key" maxLength:"160" doc:"16 to 160 characters out of A-Z a-z 0-9 - _ . ~, fresh for each operation." example:"op-2f1c8e7a9b3d4c5e"`
	RawBody []byte `contentType:"application/json"`
}

type operated struct {
	Replayed string `header:"Idempotency-Replayed" doc:"true when this is the stored result of an earlier request."`
	Body     struct {
		ExecutionID   string                      `json:"executionId"`
		State         string                      `json:"state" enum:"receipted,verified,mismatch,not_applied,reconciled" doc:"reconciled: all that is known is what the owner stated; there is no receipt."`
		Receipt       wire.Nullable[wire.Receipt] `json:"receipt"`
		ObservationID *string                     `json:"observationId" nullable:"true" doc:"The observation that verified it."`
	}
}

func (a *agent) operate(ctx context.Context, in *operateInput) (*operated, error) {
	by, _ := edge.CredentialFrom(ctx)
	o, err := a.g.Operate(ctx, gateway.OperateRequest{RunID: by.Subject, Generation: by.Generation, Token: in.Permit, Key: in.Key, Body: in.RawBody})
	if err != nil {
		return nil, placed(err)
	}
	out := &operated{}
	if o.Replayed {
		out.Replayed = "true"
	}
	out.Body.ExecutionID, out.Body.State, out.Body.Receipt, out.Body.ObservationID = o.ExecutionID, o.State, wire.Null(wire.NewReceipt(o.Receipt)), o.ObservationID
	return out, nil
}
