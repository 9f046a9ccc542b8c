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
	edge.Register(api, operation("get-freeze", http.MethodGet, "/freeze", "Whether the workspace is frozen", "Extension. The freeze that stands, or the last one, and every effect that was dispatched and has no outcome yet."), o.freezeState)
	edge.Register(api, operation("freeze", http.MethodPost, "/freeze", "Freeze the workspace",
		"Extension. From its commit on no run gets a permit or sends anything: one that asks for it stops with FROZEN. What was dispatched before cannot be called back; inFlight names it. "+
			"Looking, revoking, approving, probing and recording what became of an effect go on, and so does time: grants, approvals, proposals and tokens keep running out. "+
			"Freezing what is frozen changes nothing and answers the freeze that stands."), o.freeze)
	edge.Register(api, operation("unfreeze", http.MethodPost, "/unfreeze", "Lift the freeze",
		"Extension. Runs that the freeze has stopped go on when the owner retries them. Unfreezing what is not frozen changes nothing.", authority.RevisionConflict), o.unfreeze)
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
	Settled    []OpenExecution              `json:"settled" doc:"Of a frozen workspace: executions that had no outcome when it was frozen and have one now, which is their state. Of the first 100 such; empty when it is not frozen."`
	Last       wire.Nullable[LastFreeze]    `json:"last" doc:"The newest freeze, also when it is lifted; null when the workspace was never frozen."`
	Head       string                       `json:"head" doc:"SEQ:HASH of the newest event of the workspace's chain; empty before its first."`
}

// LastFreeze is the newest freeze of the workspace.
type LastFreeze struct {
	Epoch           int64                        `json:"epoch"`
	Since           evidence.Time                `json:"since"`
	Reason          string                       `json:"reason" doc:"Empty when it was erased."`
	Session         string                       `json:"session" doc:"The owner's session that froze: the SHA-256 of its cookie, which opens nothing. A session, not a person."`
	Until           wire.Nullable[evidence.Time] `json:"until" doc:"null while it stands."`
	UnfreezeReason  string                       `json:"unfreezeReason" doc:"Empty while it stands, or when it was erased."`
	UnfreezeSession string                       `json:"unfreezeSession" doc:"The owner's session that unfroze; empty while it stands."`
}

// OpenExecution is an intent without an outcome, or one that had none when the workspace
// was frozen.
type OpenExecution struct {
	ExecutionID  string        `json:"executionId"`
	RunID        string        `json:"runId"`
	OperationID  string        `json:"operationId"`
	State        string        `json:"state" enum:"dispatched,unconfirmed,receipted,verified,mismatch,not_applied,voided,reconciled,opened,failed" doc:"dispatched and unconfirmed have no outcome; opened and failed are of a session at the store."`
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
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, in the owner's words. It stands beside the chain, so that the format allows it to be erased." example:"An agent orders what nobody asked for."`
	}
}) (*freezeAnswer, error) {
	session, _ := edge.SessionFrom(ctx) // the guard let nobody pass without one
	return answered(o.Workspace.Freeze(ctx, in.Body.Reason, session.Hash))
}

func (o *owner) unfreeze(ctx context.Context, in *struct {
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, in the owner's words. It stands beside the chain, so that the format allows it to be erased." example:"The agent is revoked."`
		Epoch  int64  `json:"epoch,omitempty" minimum:"1" doc:"The freeze that is meant: when another one has come since, that stays. Left out: the one that stands." example:"1"`
	}
}) (*freezeAnswer, error) {
	session, _ := edge.SessionFrom(ctx)
	return answered(o.Workspace.Unfreeze(ctx, in.Body.Reason, in.Body.Epoch, session.Hash))
}

func answered(f *workspace.Frozen, err error) (*freezeAnswer, error) {
	if err != nil {
		return nil, err
	}
	return &freezeAnswer{FreezeAnswer{newFreezeView(f), f.Changed}}, nil
}

func newFreezeView(f *workspace.Frozen) FreezeView {
	v := FreezeView{Frozen: f.Frozen, Epoch: f.Epoch, InFlight: []string{}, Executions: []OpenExecution{}, Settled: []OpenExecution{}, Head: f.Head}
	if f.Frozen {
		v.Since, v.Reason = wire.Null(&f.Since), f.Reason
	}
	if f.Since != 0 {
		last := LastFreeze{Epoch: f.Epoch, Since: f.Since, Reason: f.Reason, Session: f.Session, UnfreezeReason: f.Lifted, UnfreezeSession: f.LiftedBy}
		if !f.Frozen {
			last.Until = wire.Null(&f.Until)
		}
		v.Last = wire.Null(&last)
	}
	for _, x := range f.Intents {
		shown := OpenExecution{x.ExecutionID, x.RunID, x.OperationID, x.State, x.DispatchedAt}
		switch x.State {
		case run.ExecutionDispatched:
			v.InFlight = append(v.InFlight, x.ExecutionID)
			v.Executions = append(v.Executions, shown)
		case run.ExecutionUnconfirmed:
			v.Executions = append(v.Executions, shown)
		default:
			v.Settled = append(v.Settled, shown)
		}
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
