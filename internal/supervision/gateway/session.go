package gateway

import (
	"context"
	"errors"
	"fmt"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/supervision/run"
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

// Authenticate returns the run that a restricted token belongs to. Only the
// newest token of a run is good, and only until it expires. The token of a run
// that has ended still names its run, so that answers can be fetched again; it
// authorizes nothing.
func (g *Gateway) Authenticate(ctx context.Context, token string) (string, error) {
	unauthenticated := &authority.Denial{Reason: authority.AuthenticationRequired, Detail: "The bearer token is unknown, replaced or expired."}
	c, err := identity.NewTokens(g.Ledger, g.Workspace).Lookup(ctx, token)
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		return "", unauthenticated
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	subject, _, err := g.Ledger.Load(ctx, g.runKey(c.Subject))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	s, err := run.DecodeState(subject.State)
	if err != nil {
		return "", err
	}
	if s.Session.Generation != c.Generation {
		return "", unauthenticated
	}
	return c.Subject, nil
}

// Revoke ends the run, its unused permit and its grants (H-096). Revoking again
// changes nothing.
func (g *Gateway) Revoke(ctx context.Context, id string) error {
	return g.decide(ctx, id, func(a *attempt) error { return denied(a.Deciding.Revoke()) })
}
