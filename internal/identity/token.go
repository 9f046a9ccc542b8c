package identity

import (
	"context"
	"strings"
	"time"

	"countersign/internal/ledger"
)

// TokenPrefix starts every restricted run token, so that people and scanners
// recognize one that has leaked.
const TokenPrefix = "cs_run_"

// NewRunToken makes the restricted token of a run: [TokenPrefix] and 256 random
// bits as base64url. The credential goes into the Change that stores the same
// generation in the run's state; the token is shown once and stored nowhere.
// origin is where the token may be used (L-6).
func NewRunToken(workspace, runID string, generation int64, origin string, expiresAt time.Time) (token string, c Credential) {
	token = TokenPrefix + newSecret()
	return token, Credential{
		Workspace: workspace, Hash: Hash(token), Kind: ledger.CredentialRun,
		Subject: runID, Generation: generation, Origin: origin, ExpiresAt: expiresAt,
	}
}

// Tokens recognizes the tokens of one kind in a workspace. It is safe for concurrent use.
type Tokens struct {
	ledger    Ledger
	workspace string
	prefix    string
	kind      string // of the credential
	without   check  // empty but in tests
}

// NewTokens recognizes restricted run tokens of a workspace: the run is the credential's
// Subject.
func NewTokens(l Ledger, workspace string) *Tokens {
	return &Tokens{ledger: l, workspace: workspace, prefix: TokenPrefix, kind: ledger.CredentialRun}
}

// Lookup returns the credential of a token. An owner cookie is no token, nor is a token of
// another kind. Every token that is not good now is [ErrUnauthenticated].
func (t *Tokens) Lookup(ctx context.Context, token string) (Credential, error) {
	secret, prefixed := strings.CutPrefix(token, t.prefix)
	if !prefixed || !isSecret(secret) {
		return Credential{}, ErrUnauthenticated
	}
	return find(ctx, t.ledger, t.workspace, t.kind, Hash(token), t.without)
}
