package gateway

import (
	"context"
	"errors"

	"countersign/evidence"
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
	key := ledger.Key{Workspace: g.Workspace, Kind: turn.Kind, ID: id}
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
