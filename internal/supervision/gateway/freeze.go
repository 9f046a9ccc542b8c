package gateway

import (
	"context"

	"countersign/internal/ledger"
)

// learnEpoch reads how many freezes the workspace has seen. It is remembered only to be
// stated by the next Change: the ledger compares it.
func (g *Gateway) learnEpoch(ctx context.Context) error {
	_, s, err := g.Standing(ctx)
	if err == nil && s != nil {
		g.epoch.Store(s.Epoch)
	}
	return err
}

// freeze stops the run because the workspace is frozen, in a commit that holds only
// while that freeze stands. When it was lifted meanwhile the run goes on.
func (g *Gateway) freeze(ctx context.Context, a *attempt) error {
	subject, s, err := g.Standing(ctx)
	if err != nil || s == nil || s.Frozen == nil {
		return err
	}
	a.Deciding.Freeze()
	a.change.Guards = append(a.change.Guards, ledger.Guard{Key: subject.Key, Revision: subject.Revision})
	return nil
}
