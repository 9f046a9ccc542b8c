package owner

import (
	"context"

	"countersign/internal/limits"
)

type limitsOutput struct {
	Body struct {
		Limits []limits.Line `json:"limits"`
	}
}

// limits lists what the protocols foresee and this build does not have (G-40).
func (o *owner) limits(context.Context, *struct{}) (*limitsOutput, error) {
	out := &limitsOutput{}
	out.Body.Limits = limits.All()
	return out, nil
}
