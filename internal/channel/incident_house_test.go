package channel_test

import (
	"context"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
)

// newIncidents makes the control plane of the incident workflow of this house.
func (h *house) newIncidents() *control.Plane {
	return control.New(control.Config{
		Ledger: h.ledger, Chains: h.gateway, Signing: h.keys.Evidence(), Keys: evidence.Keys{{Public: h.keys.Evidence().Public()}}, MAC: h.keys.MAC, Issuer: h.origin, Workspace: ledger.DefaultWorkspace,
		Freeze: func(ctx context.Context) (bool, int64, error) {
			f, err := h.gateway.Freeze(ctx)
			return f.Frozen, f.Epoch, err
		},
	})
}
