// Package identity says who is asking: the owner by a login session, an agent by
// a restricted run token. It decides nothing about what they may do.
//
// # Owner
//
// [Owners.SignIn] exchanges the owner secret for a session cookie of 256 random
// bits that is good for [SessionLife]; [Owners.Verify] recognizes the cookie and
// [Owners.SignOut] ends it. The ledger holds only the SHA-256 of a cookie, so
// that its reader cannot sign in. A session has expired at its ExpiresAt
// (now >= expiresAt), whatever the row says.
//
// Wrong secrets are counted in a window of one minute: [MaxWrong] for each
// remote address and [MaxWrongAll] for the process. After that each further one is
// refused with how long to wait, until a failure leaves the window. The bounds keep
// a program with the wrong secret from filling log and memory, and tell it to wait.
// They do not prevent guessing, which 256 random bits do: the right secret is
// compared first and always taken, so that nobody keeps the owner out. It is not
// counted either: each session is a row of the ledger, and whoever has the secret
// can write more than that. With replicas each counts for itself.
//
// # Agent
//
// [NewRunToken] makes a restricted token and the credential to store with the
// run's Change, so that token, generation and run state change together.
// [Tokens.Lookup] recognizes the token. A token that Lookup accepts can still be
// superseded or misused; the caller compares the credential's Generation with
// the run's state and its Origin with the configured one (L-6).
package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"countersign/internal/canon"
	"countersign/internal/ledger"
)

var (
	// ErrUnauthenticated covers every cookie, token and secret that is not good
	// now. It does not say why: unknown, expired and revoked look the same.
	ErrUnauthenticated = errors.New("identity: not authenticated")
	// ErrUnavailable means that the ledger could not be asked or did not store.
	// It wraps the ledger's cause.
	ErrUnavailable = errors.New("identity: the ledger does not answer")
)

// Ledger is what identity needs of a ledger. Credential returns
// ledger.ErrNotFound for a hash it does not hold, and otherwise the credential,
// expired or not, with the time that came with the read.
type Ledger interface {
	Now(ctx context.Context) (time.Time, error)
	Commit(ctx context.Context, c ledger.Change) ledger.Result
	Credential(ctx context.Context, workspace, hash string) (ledger.Credential, time.Time, error)
}

// Credential is a stored, hashed secret.
type Credential = ledger.Credential

// secretSize is the length of a cookie or token in random bytes.
const secretSize = 32

func newSecret() string {
	b := make([]byte, secretSize)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	return canon.EncodeBase64(b)
}

// isSecret reports whether s is spelled as newSecret spells, so that nothing
// else is hashed and looked up.
func isSecret(s string) bool {
	b, err := canon.DecodeBase64(s)
	return err == nil && len(b) == secretSize
}

// Hash returns what is stored of a cookie or token: lowercase hex SHA-256.
func Hash(secret string) string { return canon.Hash([]byte(secret)) }

// check names a check that tests leave out, to see that it is the one that protects.
type check string

const (
	checkExpiry check = "expiry" // of sessions and tokens
	checkRight  check = "right"  // that the right secret is taken whatever the bounds say
	checkOwn    check = "own"    // MaxWrong
	checkAll    check = "all"    // MaxWrongAll
)

// find returns the live credential of a hash.
func find(ctx context.Context, l Ledger, workspace, kind, hash string, without check) (Credential, error) {
	c, now, err := l.Credential(ctx, workspace, hash)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return Credential{}, ErrUnauthenticated
	case err != nil:
		return Credential{}, unavailable(err)
	case c.Kind != kind || !now.Before(c.ExpiresAt) && without != checkExpiry:
		return Credential{}, ErrUnauthenticated
	}
	return c, nil
}

func unavailable(cause error) error { return fmt.Errorf("%w: %w", ErrUnavailable, cause) }
