package app

import (
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/ledger"
)

// newPerimeter makes the context gateway.
func (a *App) newPerimeter() *perimeter.Perimeter {
	return perimeter.New(perimeter.Config{
		Ledger: a.ledger, Chains: a.gateway, Signing: a.keys.Evidence(), MAC: a.keys.MAC, Issuer: a.origin, Workspace: ledger.DefaultWorkspace, Log: a.config.Log,
		Fault: a.config.ContextFault, Unrecorded: a.config.Unrecorded,
	})
}
