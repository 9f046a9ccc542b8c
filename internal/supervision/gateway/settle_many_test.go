package gateway_test

import (
	"testing"
	"time"

	"countersign/internal/supervision/run"
)

// TestSettleMany: one round settles everything that is due, however much it is:
// expiries are visible within two seconds (design 1).
func TestSettleMany(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		var ids []string
		for range 120 { // more than are read at once
			ids = append(ids, h.create(run.TargetLocal))
		}
		h.clock.Move(time.Hour)
		h.SettleDue(t.Context())
		for i, id := range ids {
			if s := h.state(id); s.Status != run.StatusPaused {
				t.Fatalf("run %d of %d is still %s", i+1, len(ids), s.Status)
			}
		}
	})
}
