package gateway

import (
	"context"
	"time"

	"countersign/internal/ledger"
)

// settleEvery is how often due subjects are looked for; expiries become visible
// in lists and streams within twice that.
const settleEvery = time.Second

// Settle writes what time alone has brought about, until ctx ends. Any number of
// processes may do it at once: each settling is an ordinary guarded commit.
func (g *Gateway) Settle(ctx context.Context) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.settleDue(ctx)
		}
	}
}

func (g *Gateway) settleDue(ctx context.Context) {
	due, err := g.Ledger.Due(ctx, 100)
	if err != nil {
		if ctx.Err() == nil {
			g.Log.Warn("settling cannot read due subjects", "error", err)
		}
		return
	}
	for _, key := range due {
		if key.Kind != ledger.KindRun || key.Workspace != g.Workspace {
			continue
		}
		err := g.decide(ctx, key.ID, func(*attempt) error { return nil })
		if err != nil && ctx.Err() == nil {
			g.Log.Warn("settling failed", "run", key.ID, "error", err)
		}
	}
}
