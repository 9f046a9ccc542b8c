package records

import (
	"context"
	"errors"
	"fmt"

	"countersign/internal/authority"
	"countersign/internal/contextturn/project"
	"countersign/internal/ledger"
)

// ContextClient reads a client of the context perimeter, of whichever project.
func (r *Reader) ContextClient(ctx context.Context, id string) (*project.Client, error) {
	subject, _, err := r.ledger.Load(ctx, ledger.Key{Workspace: r.workspace, Kind: project.KindClient, ID: id})
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, &authority.Denial{Reason: authority.NotFound, Detail: "There is no such context client."}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return project.DecodeClient(subject.State)
}
