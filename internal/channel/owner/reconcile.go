package owner

import (
	"context"
	"net/http"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/supervision/decide"
)

// registerReconciliation adds the routes by which an owner finds out what became of an
// unconfirmed effect, or states it (G-14, L-4).
func (o *owner) registerReconciliation(api *edge.API) {
	edge.Register(api, operation("probe-run", http.MethodPost, "/runs/{id}/probe", "Ask the store what became of an effect",
		"Extension. For an execution that is unconfirmed, or rests on an owner's statement. The store closes the dispatch, so that a late original is refused, and answers with a signed receipt: applied goes on to be verified and may complete the run, anything else stops it for a retry. "+
			"Sends nothing again, and may be repeated. The newest execution.probed of the timeline has the answer; without a receipt nothing changes. 503 says that nobody answered.",
		authority.NotFound, authority.RecoveryNotEligible, authority.InProgress, authority.HostedUnreachable, authority.TurnLimit), acts(o, o.probe))
	edge.Register(api, operation("reconcile-run", http.MethodPost, "/runs/{id}/reconcile", "State what became of an effect",
		"Extension. An owner's word about an execution that is unconfirmed, recorded as such. applied counts the amount as spent and never completes the run; not_applied gives it back and stops the run for a retry; unknown changes nothing. "+
			"At a store not_applied first closes the dispatch as a probe does: a receipt takes the place of the statement, and without one the statement is refused until 90 seconds after the dispatch. A receipt that says otherwise later is recorded, and stops the run.",
		authority.NotFound, authority.RecoveryNotEligible, authority.InProgress, authority.PermitStillLive, authority.TurnLimit), acts(o, o.reconcile))
}

func (o *owner) probe(ctx context.Context, in *struct {
	ByID
	Body struct {
		ExecutionID string `json:"executionId" format:"uuid" doc:"The execution in doubt." example:"01940e2e-7c00-7000-8000-000000000002"`
	}
}) error {
	return o.Gateway.Probe(ctx, in.ID, in.Body.ExecutionID)
}

func (o *owner) reconcile(ctx context.Context, in *struct {
	ByID
	Body struct {
		ExecutionID string `json:"executionId" format:"uuid" doc:"The execution in doubt." example:"01940e2e-7c00-7000-8000-000000000002"`
		Finding     string `json:"finding" enum:"applied,not_applied,unknown" doc:"What the owner states." example:"not_applied"`
		Note        string `json:"note,omitempty" maxLength:"500" doc:"In the owner's words. It stands beside the chain, so that the format allows it to be erased." example:"The shop's own list of orders does not have it."`
	}
}) error {
	b := in.Body
	return o.Gateway.Reconcile(ctx, in.ID, decide.Statement{ExecutionID: b.ExecutionID, Finding: b.Finding, Note: b.Note})
}
