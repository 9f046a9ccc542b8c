package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// sessionEntry is the effect of opening a session at a store.
func sessionEntry(svc Service) *propose.Entry {
	return &propose.Entry{
		Kind: "service", OperationID: svc.Name() + ".session.open", Args: []byte("{}"), Transport: "service",
		Effect: propose.Effect{Class: propose.ClassPrepare, DisclosedFields: []string{}, Postconditions: []string{}},
	}
}

// seeHosted looks at the store. A failure stores nothing.
func (g *Gateway) seeHosted(ctx context.Context, s *run.State, svc Service, view *string) (decide.Sighting, error) {
	store := svc.(Hosted)
	var bodies [][]byte
	captured, err := g.now(ctx)
	if err != nil {
		return decide.Sighting{}, err
	}
	for _, r := range store.Reads(s.OrderID) {
		body, _, err := g.link.Read(ctx, s, r, time.Time{})
		if err != nil {
			g.Log.Warn("a hosted store cannot be observed", "run", s.ID, "error", err)
			return decide.Sighting{}, &authority.Denial{Reason: authority.HostedUnreachable, Detail: "The store cannot be observed; try again."}
		}
		bodies = append(bodies, body)
	}
	sighting, err := store.SeeHosted(bodies, view)
	if err != nil {
		g.Log.Warn("a hosted store is not understood", "run", s.ID, "error", err)
		return decide.Sighting{}, &authority.Denial{Reason: authority.HostedUnreachable, Detail: "The store's answers are not understood."}
	}
	sighting.CapturedAt = captured
	return sighting, nil
}

// now is the ledger's time.
func (g *Gateway) now(ctx context.Context) (evidence.Time, error) {
	now, err := g.Ledger.Now(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return evidence.TimeOf(now), nil
}

func isNotFound(err error) bool { return errors.Is(err, ledger.ErrNotFound) }
