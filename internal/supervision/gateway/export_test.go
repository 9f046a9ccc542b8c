package gateway

import "context"

// SettleDue is one round of Settle.
func (g *Gateway) SettleDue(ctx context.Context) { g.settleDue(ctx) }
