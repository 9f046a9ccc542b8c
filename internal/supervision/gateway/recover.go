package gateway

import (
	"context"

	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
)

// Approve approves the prepared proposal of a run that waits for it (H-099). The
// service is looked at once more: what has changed since it was prepared cannot be
// approved. digest is the effect digest that the owner saw, "" when not given; approver is the hash
// that names the owner's session, and stands in the evidence.
func (g *Gateway) Approve(ctx context.Context, id, proposalID, digest, approver string) error {
	return g.seeing(ctx, id, nil, func(a *attempt, see func() (decide.Sighting, error)) error {
		if denial := a.CanApprove(); denial != nil {
			return denial
		}
		seen, err := see()
		if err != nil {
			return err
		}
		catalog, err := g.Catalog(ctx, a.State())
		if err != nil {
			return err
		}
		return denied(a.Deciding.Approve(decide.ApproveRequest{ProposalID: proposalID, Digest: digest, Catalog: catalog.Catalog, Seen: seen, Approver: approver}))
	})
}

// Clarify adds the owner's words to a run that stopped for them or after a refusal
// (H-098). No grant changes.
func (g *Gateway) Clarify(ctx context.Context, id, words string) error {
	return g.decide(ctx, id, func(a *attempt) error { return denied(a.Deciding.Clarify(words)) })
}

// Retry lets a run go on that stopped for another try or for its configuration (H-097).
// What the configuration lacked is asked for again first; while it still fails the run
// stays as it is.
func (g *Gateway) Retry(ctx context.Context, id string) error {
	return g.seeing(ctx, id, nil, func(a *attempt, see func() (decide.Sighting, error)) error {
		if denial := a.CanRetry(); denial != nil {
			return denial
		}
		switch stop := a.State().Stop; stop.ReasonCode {
		case authority.HostedUnreachable:
			if _, err := see(); err != nil {
				return err
			}
		case authority.Frozen:
			a.change.Freezable = true // the commit fails while the freeze lasts
		}
		return denied(a.Deciding.Retry())
	})
}

// Simulate lets one synthetic event happen to a local run (H-100, G-19).
func (g *Gateway) Simulate(ctx context.Context, id, event string) error {
	return g.decide(ctx, id, func(a *attempt) error {
		if denial := a.Deciding.Simulate(event); denial != nil || event != run.SimulatePriceChange {
			return denied(denial)
		}
		local, err := g.local(ctx, a)
		if err != nil {
			return err
		}
		next, err := g.services[a.State().Config.Service].PriceChange(local.State)
		if err != nil {
			return err
		}
		a.change.Writes = append(a.change.Writes, ledger.Write{Key: local.Key, Revision: local.Revision, Head: local.Head, State: next})
		return nil
	})
}
