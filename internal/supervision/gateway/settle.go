package gateway

import (
	"context"
	"time"

	"countersign/internal/ledger"
	"countersign/internal/supervision/ask"
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
			now := time.Now()
			g.settled.Store(&now)
		}
	}
}

// Settled returns when the newest round of [Gateway.Settle] ended in this process, by
// its own clock; zero: none has yet.
func (g *Gateway) Settled() time.Time {
	if at := g.settled.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// settlePage is how many due subjects are read at once.
const settlePage = 100

// settleDue settles everything that is due now, once.
func (g *Gateway) settleDue(ctx context.Context) {
	tried := map[ledger.Key]bool{}
	for fresh := true; fresh; {
		fresh = false
		var due []ledger.Key
		err := ask.Safely(func() (err error) {
			due, err = g.Ledger.Due(ctx, settlePage+len(tried)) // what cannot be settled stays due, in front
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				g.Log.Warn("settling cannot read due subjects", "error", err)
			}
			return
		}
		for _, key := range due {
			if tried[key] || key.Kind != ledger.KindRun || key.Workspace != g.Workspace {
				continue
			}
			tried[key], fresh = true, true
			err := ask.Safely(func() error { return g.decide(ctx, key.ID, func(*attempt) error { return nil }) })
			if err != nil && ctx.Err() == nil {
				g.Log.Warn("settling failed", "run", key.ID, "error", err)
			}
		}
	}
}
