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
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/workspace"
)

// registerFreeze adds the routes of L-8.
func (o *owner) registerFreeze(api *edge.API) {
	edge.Register(api, operation("get-freeze", http.MethodGet, "/freeze", "Whether the workspace is frozen", "Extension. The freeze that stands, if one does, and every effect that was dispatched and has no outcome yet."), o.freezeState)
	edge.Register(api, operation("freeze", http.MethodPost, "/freeze", "Freeze the workspace",
		"Extension (L-8). From then on nothing in the workspace is issued, claimed or dispatched: a run that asks for it stops with FROZEN. What was dispatched before cannot be called back; inFlight names it. "+
			"Looking, revoking, approving, probing and recording what became of an effect go on. Freezing what is frozen changes nothing and answers the freeze that stands."), o.freeze)
	edge.Register(api, operation("unfreeze", http.MethodPost, "/unfreeze", "Lift the freeze",
		"Extension (L-8). Runs that the freeze has stopped go on when the owner retries them. Unfreezing what is not frozen changes nothing.", authority.RevisionConflict), o.unfreeze)
	op := operation("get-freeze-evidence", http.MethodGet, "/freeze/evidence", "Export the signed evidence of the freezes", "Extension. An export like that of a run; countersign verify reads it.", authority.NotFound)
	op.Responses = map[string]*huma.Response{"200": {
		Description: "The export: canonical JSON and one newline.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}}},
	}}
	edge.Register(api, op, o.freezeEvidence)
}

// FreezeView is how the workspace stands.
type FreezeView struct {
	Frozen     bool                         `json:"frozen"`
	Epoch      int64                        `json:"epoch" doc:"Freezes that the workspace has seen."`
	Since      wire.Nullable[evidence.Time] `json:"since" doc:"Of the freeze that stands; null when none does."`
	Reason     string                       `json:"reason" doc:"Of the freeze that stands; empty when none does, or when it was erased."`
	InFlight   []string                     `json:"inFlight" doc:"Executions that were dispatched and whose outcome was still waited for when this was read. In a frozen workspace all of them were dispatched before the freeze."`
	Executions []OpenExecution              `json:"executions" doc:"Those, and the ones whose outcome is unconfirmed: probe or reconcile them."`
	Head       string                       `json:"head" doc:"SEQ:HASH of the newest event of the workspace's chain; empty before its first."`
}

// OpenExecution is an intent without an outcome.
type OpenExecution struct {
	ExecutionID  string        `json:"executionId"`
	RunID        string        `json:"runId"`
	OperationID  string        `json:"operationId"`
	State        string        `json:"state" enum:"dispatched,unconfirmed"`
	DispatchedAt evidence.Time `json:"dispatchedAt"`
}

// FreezeAnswer is how it stands after a request to change that.
type FreezeAnswer struct {
	FreezeView
	Changed bool `json:"changed" doc:"This request did it; false: it was so before, or somebody has changed it since."`
}

type freezeOutput struct{ Body FreezeView }

type freezeAnswer struct{ Body FreezeAnswer }

func (o *owner) freezeState(ctx context.Context, _ *struct{}) (*freezeOutput, error) {
	f, err := o.Workspace.FreezeState(ctx)
	if err != nil {
		return nil, err
	}
	return &freezeOutput{newFreezeView(f)}, nil
}

func (o *owner) freeze(ctx context.Context, in *struct {
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, in the owner's words; erasable." example:"An agent orders what nobody asked for."`
	}
}) (*freezeAnswer, error) {
	return answered(o.Workspace.Freeze(ctx, in.Body.Reason))
}

func (o *owner) unfreeze(ctx context.Context, in *struct {
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, in the owner's words; erasable." example:"The agent is revoked."`
		Epoch  int64  `json:"epoch,omitempty" minimum:"1" doc:"The freeze that is meant: when another one has come since, that stays. Left out: the one that stands." example:"1"`
	}
}) (*freezeAnswer, error) {
	return answered(o.Workspace.Unfreeze(ctx, in.Body.Reason, in.Body.Epoch))
}

func answered(f *workspace.Frozen, err error) (*freezeAnswer, error) {
	if err != nil {
		return nil, err
	}
	return &freezeAnswer{FreezeAnswer{newFreezeView(f), f.Changed}}, nil
}

func newFreezeView(f *workspace.Frozen) FreezeView {
	v := FreezeView{Frozen: f.Frozen, Epoch: f.Epoch, Reason: f.Reason, InFlight: []string{}, Executions: []OpenExecution{}, Head: f.Head}
	if f.Frozen {
		v.Since = wire.Null(&f.Since)
	}
	for _, x := range f.Open {
		if x.State == run.ExecutionDispatched {
			v.InFlight = append(v.InFlight, x.ExecutionID)
		}
		v.Executions = append(v.Executions, OpenExecution{x.ExecutionID, x.RunID, x.OperationID, x.State, x.DispatchedAt})
	}
	return v
}

func (o *owner) freezeEvidence(ctx context.Context, _ *struct{}) (*raw, error) {
	var b bytes.Buffer
	if err := o.Workspace.ExportFreezes(ctx, &b); err != nil {
		return nil, err
	}
	return &raw{"application/json", `attachment; filename="evidence-workspace.json"`, b.Bytes()}, nil
}
