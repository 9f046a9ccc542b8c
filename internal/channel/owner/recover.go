package owner

import (
	"context"
	"net/http"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
)

// registerRecovery adds the routes by which an owner lets a stopped run go on
// (H-097 to H-100).
func (o *owner) registerRecovery(api *edge.API) {
	common := []string{authority.NotFound, authority.RecoveryNotEligible, authority.UnresolvedEffect, authority.StopVersionUnknown, authority.TurnLimit}
	with := func(more ...string) []string { return append(append([]string{}, common...), more...) }
	edge.Register(api, operation("approve-run", http.MethodPost, "/runs/{id}/approve", "Approve the prepared proposal",
		"Only for a run of exact mode that waits for it. The service is looked at once more; then a second grant is created for one use of exactly this effect. It ends after five minutes or with the proposal. Nothing is dispatched.",
		with(authority.ApprovalStale, authority.GrantExpired, authority.HostedUnreachable)...), acts(o, o.approve))
	edge.Register(api, operation("clarify-run", http.MethodPost, "/runs/{id}/clarify", "Clarify",
		"Only for a run that stopped for a clarification or after a refusal. Agent and guardian are shown the words as the owner's; grants stay as they are. At most ten in a run.",
		with()...), acts(o, o.clarify))
	edge.Register(api, operation("retry-run", http.MethodPost, "/runs/{id}/retry", "Let the run try again",
		"Only for a run that stopped for another try or for its configuration. Dispatches nothing; the next report rests on a fresh observation. What the configuration lacked is asked for again first.",
		with(authority.HostedUnreachable, authority.Frozen)...), acts(o, plainly(o.Gateway.Retry)))
	edge.Register(api, operation("simulate-run", http.MethodPost, "/runs/{id}/simulate", "Simulate an event",
		"Only for a run on a local, synthetic service. The event is recorded as simulated; what follows from it is decided as it would be for a real one.",
		with()...), acts(o, o.simulate))
}

func (o *owner) approve(ctx context.Context, in *struct {
	ByID
	Body struct {
		ProposalID string `json:"proposalId" format:"uuid" doc:"The run's transaction proposal." example:"01940e2e-7c00-7000-8000-000000000002"`
		Digest     string `json:"digest,omitempty" pattern:"^[0-9a-f]{64}$" doc:"The effect digest that was shown; must be the one that stands." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	}
}) error {
	session, _ := edge.SessionFrom(ctx) // the guard let nobody pass without one
	return o.Gateway.Approve(ctx, in.ID, in.Body.ProposalID, in.Body.Digest, session.Hash)
}

func (o *owner) clarify(ctx context.Context, in *struct {
	ByID
	Body struct {
		Clarification string `json:"clarification" minLength:"1" maxLength:"2000" doc:"In the owner's words." example:"The keyboard is meant for the home office."`
	}
}) error {
	return o.Gateway.Clarify(ctx, in.ID, in.Body.Clarification)
}

func (o *owner) simulate(ctx context.Context, in *struct {
	ByID
	Body struct {
		Event string `json:"event" enum:"expire_grant,expire_approval,expire_permit,revise_state,navigate,price_change,drop_receipt,provider_timeout" doc:"expire_approval (an extension): an approval lapses unused. drop_receipt: the receipt of the next change at the local service gets lost." example:"price_change"`
	}
}) error {
	return o.Gateway.Simulate(ctx, in.ID, in.Body.Event)
}
