package owner

import "context"

// Status is what an installation can do (H-090).
type Status struct {
	Version   string       `json:"version" example:"0.1" doc:"Of the contract."`
	Ledger    string       `json:"ledger" enum:"sqlite,postgres"`
	Providers []Capability `json:"providers"`
	Channels  []Capability `json:"channels"`
	Targets   []Capability `json:"targets"`
	Browser   Capability   `json:"browser"`
}

// Capability is one thing that is there or not, and why not.
type Capability struct {
	Name      string `json:"name" example:"http"`
	Available bool   `json:"available"`
	Reason    string `json:"reason" doc:"Why it is not available, else empty."`
}

type statusOutput struct{ Body Status }

func (o *owner) status(context.Context, *struct{}) (*statusOutput, error) {
	return &statusOutput{o.Config.Status}, nil
}
