package admission

import (
	"context"

	"countersign/internal/authority"
	"countersign/internal/contextturn/project"
)

// Clients reads clients of the context perimeter.
type Clients interface {
	ContextClient(ctx context.Context, id string) (*project.Client, error)
}

// TakesTurns denies a run the context turns of a client that is not there, is revoked or
// has not opted in to the turn protocol (G-39). nil is no client. Each attempt asks again.
func TakesTurns(ctx context.Context, clients Clients, id *string) error {
	if id == nil {
		return nil
	}
	client, err := clients.ContextClient(ctx, *id)
	switch {
	case err != nil:
		return err
	case client.Revoked():
		return &authority.Denial{Reason: authority.InvalidRequest, Detail: "body.contextClient: the client is revoked"}
	case !client.Required():
		return &authority.Denial{Reason: authority.InvalidRequest, Detail: "body.contextClient: the client was not created with turnProtocol required"}
	}
	return nil
}
