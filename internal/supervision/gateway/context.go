package gateway

import (
	"context"
	"errors"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
	"countersign/internal/supervision/ask"
	"countersign/internal/supervision/run"
)

// contextTries is how many lost races a decision may have until it says no more of a
// context turn than whoever reported. Its deliveries change the turn all the time, and
// must not hold up what it only labels.
const contextTries = maxTries / 2

// inContext tells a decision which context turn its report was made in (L-10); an empty
// id is none. The turn permits and blocks nothing: whatever is wrong with it, the report
// is decided on. It is observed if it is in this ledger and open, which the commit holds
// it to. tries counts the tries of the decision.
func (g *Gateway) inContext(ctx context.Context, a *attempt, id string, tries *int) {
	if id == "" {
		return
	}
	*tries++
	t := run.ContextTurn{ID: id, Class: run.ClassReported}
	if *tries > contextTries {
		a.InContext(&t, 0)
		return
	}
	key := ledger.Key{Workspace: g.Workspace, Kind: ledger.KindContextTurn, ID: id}
	var until evidence.Time
	err := ask.Safely(func() error {
		subject, _, err := g.Ledger.Load(ctx, key)
		if err != nil {
			return err
		}
		s, err := turn.DecodeState(subject.State)
		if err != nil {
			return err
		}
		if s.At(a.Now()) == turn.Open {
			t.Class, until = run.ClassObserved, s.ExpiresAt
			a.change.Guards = append(a.change.Guards, ledger.Guard{Key: key, Revision: subject.Revision})
		}
		return nil
	})
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		g.Log.Warn("a context turn cannot be read", "run", a.State().ID, "turn", id, "error", err)
	}
	a.InContext(&t, until)
}

// namedClient denies a run the context turns of a client that is not there, not known by
// its name or without the turn protocol (G-39). Each attempt asks again.
func (g *Gateway) namedClient(ctx context.Context, id *string) error {
	if id == nil {
		return nil
	}
	missing := &authority.Denial{Reason: authority.NotFound, Detail: "There is no such context client."}
	if !run.IsContextClient(*id) {
		return missing
	}
	subject, _, err := g.Ledger.Load(ctx, ledger.Key{Workspace: g.Workspace, Kind: ledger.KindContextClient, ID: *id})
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return missing
	case err != nil:
		return errors.Join(ErrUnavailable, err)
	}
	client, err := project.DecodeClient(subject.State)
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
