package owner

import (
	"context"
	"net/http"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
)

// registerSteps adds the routes by which a run goes on with its managed executor
// (H-094, H-095).
func (o *owner) registerSteps(api *edge.API) {
	reasons := []string{authority.NotFound, authority.RunNotReady, authority.AttemptInProgress, authority.PermitOutstanding, authority.UnresolvedEffect, authority.HostedUnreachable}
	edge.Register(api, operation("step-run", http.MethodPost, "/runs/{id}/step", "Advance one supervised action",
		"Observes, asks the run's executor, checks, asks the guardian, executes and verifies one action. Only for a run that is ready, has no live permit and no attempt under way. Whatever the attempt comes to is in the view; a caller that hangs up ends nothing.",
		reasons...), acts(o, plainly(o.Steps.Step)))
	edge.Register(api, operation("play-run", http.MethodPost, "/runs/{id}/play", "Advance until the run pauses or ends",
		"Repeats a step until the run is not ready any more, at most 16 times.", reasons...), o.play)
}

type playOutput struct {
	Body struct {
		Run              *RunView `json:"run"`
		Steps            int      `json:"steps" minimum:"0" maximum:"16" doc:"Attempts that were made."`
		PlayLimitReached bool     `json:"playLimitReached" doc:"The run is ready for more."`
	}
}

func (o *owner) play(ctx context.Context, in *plain) (*playOutput, error) {
	played, err := o.Steps.Play(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	view, err := o.view(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &playOutput{}
	out.Body.Run, out.Body.Steps, out.Body.PlayLimitReached = view.Body, played.Steps, played.AtLimit
	return out, nil
}
