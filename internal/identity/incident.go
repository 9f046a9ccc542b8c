package identity

import (
	"time"

	"countersign/internal/ledger"
)

// NewIncidentCookie makes the cookie of an anonymous incident session: 256 random bits as
// base64url. The caller fills in whose it is; the cookie is shown once and stored
// nowhere.
func NewIncidentCookie(workspace, origin string, expiresAt time.Time) (cookie string, c Credential) {
	cookie = newSecret()
	return cookie, Credential{Workspace: workspace, Hash: Hash(cookie), Kind: ledger.CredentialIncident, Origin: origin, ExpiresAt: expiresAt}
}

// NewIncidentCookies recognizes the cookies of incident sessions of a workspace: the
// session is the credential's Subject. It names a browser and no person.
func NewIncidentCookies(l Ledger, workspace string) *Tokens {
	return &Tokens{ledger: l, workspace: workspace, kind: ledger.CredentialIncident}
}
