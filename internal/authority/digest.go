package authority

import (
	"crypto/sha256"
	"encoding/hex"

	"countersign/internal/canon"
)

// Domain separates the digests of different things.
type Domain string

// The domains. Their fields are fixed in docs/architecture.md.
const (
	DomainEffect  Domain = "effect"
	DomainAction  Domain = "action"
	DomainGoal    Domain = "goal"
	DomainTerms   Domain = "terms"
	DomainEntry   Domain = "entry"
	DomainCatalog Domain = "catalog"
	DomainState   Domain = "state"
	DomainReport  Domain = "report"
	DomainRequest Domain = "request"
	DomainRunbook Domain = "runbook"
)

// Digest is the lowercase hex SHA-256 over "countersign/<domain>/1", one zero
// byte, and the RFC 8785 form of fields. Fields must be values that the program
// built itself: what cannot be canonical panics.
func Digest(domain Domain, fields any) string {
	h := sha256.New()
	h.Write([]byte("countersign/" + string(domain) + "/1\x00"))
	h.Write(canon.MustMarshal(fields))
	return hex.EncodeToString(h.Sum(nil))
}
