package identity

import (
	"time"

	"countersign/internal/ledger"
)

// ContextPrefix starts every token of a context client, so that people and scanners
// recognize one that has leaked.
const ContextPrefix = "seif_"

// contextEnd is when the credential of a context client would end. Such a token is good
// until it is rotated or revoked; a credential has to have an end.
var contextEnd = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// NewContextToken makes the token of a context client: [ContextPrefix] and 256 random bits
// as base64url. The caller fills in whose it is and its generation; the token is shown once
// and stored nowhere.
func NewContextToken(workspace, origin string) (token string, c Credential) {
	token = ContextPrefix + newSecret()
	return token, Credential{Workspace: workspace, Hash: Hash(token), Kind: ledger.CredentialContext, Origin: origin, ExpiresAt: contextEnd}
}

// NewContextTokens recognizes the tokens of context clients of a workspace: the client is
// the credential's Subject.
func NewContextTokens(l Ledger, workspace string) *Tokens {
	return &Tokens{ledger: l, workspace: workspace, prefix: ContextPrefix, kind: ledger.CredentialContext}
}
