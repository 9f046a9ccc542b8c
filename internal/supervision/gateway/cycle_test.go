package gateway_test

import (
	"testing"

	"countersign/internal/supervision/run"
)

// H-045 H-140 H-221: a purchase at both targets, its receipts and its evidence.
func TestPurchase(t *testing.T) {
	for _, target := range []string{run.TargetLocal, run.TargetHosted} {
		t.Run(target, func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine) {
				h := newHouse(t, e)
				id := h.create(target)
				h.buy(id)
				s := h.state(id)
				if s.Status != run.StatusCompleted || s.Budget.Spent != 13700 || s.Budget.Reserved != 0 {
					t.Errorf("status %s, spent %s, reserved %s; want completed, 13700, 0", s.Status, s.Budget.Spent, s.Budget.Reserved)
				}
				h.verify(id)
			})
		})
	}
}
