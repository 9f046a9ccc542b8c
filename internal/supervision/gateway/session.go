package gateway

import (
	"context"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/identity"
	"countersign/internal/ledger"
)

// Session is a restricted session as it is shown once, to the owner.
type Session struct {
	Token     string
	ExpiresAt evidence.Time
	Origin    string
}

// IssueSession issues the run's restricted token and ends the former one. It
// lives no longer than the grant.
func (g *Gateway) IssueSession(ctx context.Context, id string) (*Session, error) {
	out := &Session{Origin: g.Issuer}
	err := g.decide(ctx, id, func(a *attempt) error {
		if denial := a.IssueSession(g.Issuer); denial != nil {
			return denial
		}
		session := a.State().Session
		token, credential := identity.NewRunToken(g.Workspace, id, session.Generation, session.Origin, session.ExpiresAt.Time())
		out.Token, out.ExpiresAt = token, session.ExpiresAt
		a.change.Credentials = []ledger.Credential{credential}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Authenticate returns the credential of a restricted token; its Subject is the
// run. Only the newest token of a run is good, and only until it expires; any
// other is identity.ErrUnauthenticated. The token of a run that has ended still
// names its run, so that answers can be fetched again; it authorizes nothing. A
// token used at another origin than it was issued for ends the run (L-6).
func (g *Gateway) Authenticate(ctx context.Context, token string) (identity.Credential, error) {
	c, err := identity.NewTokens(g.Ledger, g.Workspace).Lookup(ctx, token)
	if err != nil {
		return c, err
	}
	a, err := g.begin(ctx, c.Subject)
	if err != nil {
		return c, err
	}
	if a.State().Session.Generation != c.Generation && !g.Doors.Generation {
		return c, identity.ErrUnauthenticated
	}
	if c.Origin != g.Issuer {
		err := g.decide(ctx, c.Subject, func(a *attempt) error {
			a.Misuse()
			return nil
		})
		return c, first(err, &authority.Denial{Reason: authority.CredentialMisuse, Detail: "The token was issued for another origin; the run is over."})
	}
	return c, nil
}

// Revoke ends the run, its unused permit and its grants (H-096). Revoking again
// changes nothing.
func (g *Gateway) Revoke(ctx context.Context, id string) error {
	return g.decide(ctx, id, func(a *attempt) error { return denied(a.Deciding.Revoke()) })
}
