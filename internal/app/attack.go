package app

import (
	"context"

	"countersign/internal/channel/edge"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/supervision/attack"
)

// newAttacks makes the runner of the attack suite, which asks this installation over its
// own listener.
func (a *App) newAttacks(owners *identity.Owners) (*attack.Runner, error) {
	client, base, err := a.ownClient()
	if err != nil {
		return nil, err
	}
	return attack.New(attack.Config{
		Runs: swapped[attack.Runs](a.config, a.gateway), Ledger: a.ledger, Workspace: ledger.DefaultWorkspace, Store: a.config.AttackedStore, Log: a.config.Log,
		HTTP: client, Base: base, Origin: a.origin, SignIn: a.signIn(owners, "attack"),
	}), nil
}

// Attacks is the runner of the attack suite; it needs [App.Serve] at work.
func (a *App) Attacks() *attack.Runner { return a.attacks }

// signIn makes owner's sessions for what acts as an owner within the program; purpose
// names it among the sessions.
func (a *App) signIn(owners *identity.Owners, purpose string) func(context.Context) (string, func(context.Context) error, error) {
	return func(ctx context.Context) (string, func(context.Context) error, error) {
		cookie, session, err := owners.SignIn(ctx, a.keys.Secret(), purpose)
		if err != nil {
			return "", nil, err
		}
		return edge.OwnerCookie + "=" + cookie, func(ctx context.Context) error { return owners.SignOut(ctx, session) }, nil
	}
}
