package gateway

import "context"

// SettleDue is one round of Settle.
func (g *Gateway) SettleDue(ctx context.Context) { g.settleDue(ctx) }

// LearnEpoch reads how many freezes the workspace has seen, before the first refusal
// tells.
func (g *Gateway) LearnEpoch(ctx context.Context) error { return g.learnEpoch(ctx) }
