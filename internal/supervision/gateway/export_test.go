package gateway

import (
	"context"

	"countersign/internal/ledger"
	"countersign/internal/settle"
)

// Settler settles what is due of the gateway's runs.
func (g *Gateway) Settler() *settle.Settler {
	return settle.New(g.Ledger.(settle.Ledger), g.Workspace, g.Log, settle.Kinds{ledger.KindRun: g.Settle})
}

// SettleDue settles everything that is due now, once.
func (g *Gateway) SettleDue(ctx context.Context) { g.Settler().Round(ctx) }

// LearnEpoch reads how many freezes the workspace has seen, before the first refusal
// tells.
func (g *Gateway) LearnEpoch(ctx context.Context) error { return g.learnEpoch(ctx) }
