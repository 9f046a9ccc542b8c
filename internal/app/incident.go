package app

import (
	"context"
	"fmt"
	"maps"

	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
	"countersign/internal/settle"
)

// newIncidents makes the control plane of the incident workflow.
func (a *App) newIncidents() *control.Plane {
	return control.New(control.Config{
		Ledger: a.ledger, Chains: a.gateway, Signing: a.keys.Evidence(), Keys: trusted(a.keys.EvidenceList()), MAC: a.keys.MAC, Issuer: a.origin, Workspace: ledger.DefaultWorkspace,
		Freeze: a.standing, Fault: a.config.IncidentFault, Partial: a.config.IncidentPartial, Without: a.config.IncidentWithout,
	})
}

// Incident reports whether the incident workflow is served.
func (a *App) Incident() bool { return a.config.Incident }

// standing is how the workspace stands with its freeze.
func (a *App) standing(ctx context.Context) (frozen bool, epoch int64, err error) {
	_, s, err := a.gateway.Standing(ctx)
	switch {
	case err != nil:
		return false, 0, fmt.Errorf("%w: %w", control.ErrUnavailable, err)
	case s == nil:
		return false, 0, nil
	}
	return s.Frozen != nil, s.Epoch, nil
}

// settlers are those who settle, by kind of subject. Incident sessions end also where no
// more begin.
func (a *App) settlers() settle.Kinds {
	kinds := settle.Kinds{ledger.KindRun: a.gateway.Settle, turn.Kind: a.contexts.Settle}
	maps.Copy(kinds, a.incidents.Settlers())
	return kinds
}
