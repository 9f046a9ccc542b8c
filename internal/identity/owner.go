package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"time"

	"countersign/internal/ledger"
)

// SessionLife is how long an owner session is good for (G-20).
const SessionLife = 12 * time.Hour

// Session is an owner session that was recognized.
type Session struct {
	Hash      string    // names the session; the cookie cannot be found from it
	ExpiresAt time.Time // good while now < ExpiresAt
}

// Owners signs the owner in and out. Its methods are safe for concurrent use.
type Owners struct {
	ledger    Ledger
	workspace string
	secret    [sha256.Size]byte
	failures  failures
	without   check // empty but in tests
}

// NewOwners returns Owners of a workspace for the owner secret as it is typed.
func NewOwners(l Ledger, workspace, secret string) *Owners {
	return &Owners{ledger: l, workspace: workspace, secret: sha256.Sum256([]byte(secret))}
}

// SignIn exchanges the owner secret for a cookie. The right one is taken whatever
// came before it. The remote address is the peer's host without a port; wrong
// secrets are counted by it. A wrong secret is [ErrUnauthenticated], or a
// *[RateLimitError] when a bound was reached; neither is written to the ledger.
// Hashes of equal length are compared in constant time.
func (o *Owners) SignIn(ctx context.Context, secret, remote string) (cookie string, s Session, err error) {
	now, err := o.ledger.Now(ctx)
	if err != nil {
		return "", Session{}, unavailable(err)
	}
	given := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(given[:], o.secret[:]) != 1 || o.without == checkRight {
		return "", Session{}, o.failures.count(now, remote, o.without)
	}
	cookie = newSecret()
	s = Session{Hash(cookie), now.Add(SessionLife)}
	result := o.ledger.Commit(ctx, ledger.Change{
		Workspace: o.workspace,
		Credentials: []ledger.Credential{{
			Workspace: o.workspace, Hash: s.Hash, Kind: ledger.CredentialOwner, ExpiresAt: s.ExpiresAt,
		}},
	})
	if err := result.Err(); err != nil {
		return "", Session{}, unavailable(err)
	}
	return cookie, s, nil
}

// Verify returns the session of a cookie, or [ErrUnauthenticated].
func (o *Owners) Verify(ctx context.Context, cookie string) (Session, error) {
	if !isSecret(cookie) {
		return Session{}, ErrUnauthenticated
	}
	c, err := find(ctx, o.ledger, o.workspace, ledger.CredentialOwner, Hash(cookie), o.without)
	if err != nil {
		return Session{}, err
	}
	return Session{c.Hash, c.ExpiresAt}, nil
}

// Recheck reports whether a session that was verified earlier is still good: nil
// or [ErrUnauthenticated]. Long answers such as streams call it again and again.
func (o *Owners) Recheck(ctx context.Context, s Session) error {
	_, err := find(ctx, o.ledger, o.workspace, ledger.CredentialOwner, s.Hash, o.without)
	return err
}

// SignOut ends a session. Ending one that has ended already is no error.
func (o *Owners) SignOut(ctx context.Context, s Session) error {
	result := o.ledger.Commit(ctx, ledger.Change{Workspace: o.workspace, Revoke: []string{s.Hash}})
	if err := result.Err(); err != nil {
		return unavailable(err)
	}
	return nil
}
