package perimeter

import (
	"context"
	"errors"

	"countersign/internal/authority"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/identity"
	"countersign/internal/ledger"
)

// Caller is whom a token names. Nothing is stored on behalf of one whose record has
// changed since it was read.
type Caller struct {
	Client project.Client
	guard  ledger.Guard
}

// Shared reports whether the caller has the project's shared token, which names no single
// invoker (S-015).
func (c *Caller) Shared() bool { return c.Client.Kind == project.Shared }

// Required reports whether the client has opted in to the turn protocol (S-023).
func (c *Caller) Required() bool { return c.Client.TurnProtocol == project.Required }

// Serves reports whether the caller belongs to the project of that handle and slug.
func (c *Caller) Serves(handle, slug string) bool {
	return c.Client.Project == project.ProjectID(handle, slug)
}

func (c *Caller) binding() turn.Binding {
	return turn.Binding{Project: c.Client.Project, Client: c.Client.ID, Profile: c.Client.Profile, Environment: c.Client.Environment}
}

// Authenticate returns the caller of a token; identity.ErrUnauthenticated for one that is
// unknown, revoked or rotated, which look the same.
func (p *Perimeter) Authenticate(ctx context.Context, token string) (*Caller, error) {
	credential, err := identity.NewContextTokens(p.Ledger, p.Workspace).Lookup(ctx, token)
	if err != nil {
		return nil, err
	}
	caller, err := p.CallerOf(ctx, credential.Subject)
	if authority.Denied(err, authority.NotFound) {
		return nil, identity.ErrUnauthenticated
	}
	if err != nil {
		return nil, err
	}
	if caller.Client.Revoked() || caller.Client.Generation != credential.Generation {
		return nil, identity.ErrUnauthenticated
	}
	return caller, nil
}

// CallerOf returns the caller that a client's record stands for, revoked or not.
func (p *Perimeter) CallerOf(ctx context.Context, clientID string) (*Caller, error) {
	subject, client, _, err := p.ClientState(ctx, clientID)
	if err != nil {
		return nil, err
	}
	return &Caller{*client, ledger.Guard{Key: subject.Key, Revision: subject.Revision}}, nil
}

// decideFor is decide on behalf of a caller. Its client's record guards every Change; when
// that was revoked or rotated since, no try can succeed and the caller is denied.
func (p *Perimeter) decideFor(ctx context.Context, by *Caller, f func() (*ledger.Change, error)) error {
	tried := false
	err := p.decide(ctx, func() (*ledger.Change, error) {
		if tried {
			if err := p.still(ctx, by); err != nil {
				return nil, err
			}
		}
		tried = true
		c, err := f()
		if c != nil {
			c.Guards = append(c.Guards, by.guard)
		}
		return c, err
	})
	if errors.Is(err, ledger.ErrContended) {
		return denied(turn.IdempotencyInProgress, "Too many requests for the same turn at once.")
	}
	return err
}

func (p *Perimeter) still(ctx context.Context, by *Caller) error {
	subject, _, err := p.Ledger.Load(ctx, by.guard.Key)
	switch {
	case err != nil:
		return unavailable(err)
	case subject.Revision != by.guard.Revision:
		return denied(turn.TokenInvalid, "The client was revoked, or its token was rotated.")
	}
	return nil
}
