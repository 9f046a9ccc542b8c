package dispatch

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"countersign/internal/pubkey"
)

// TrustedKey is a public key that tokens may be signed with.
type TrustedKey struct {
	Public   ed25519.PublicKey
	NotAfter time.Time // last instant at which the key counts; zero: no end
}

// ID is the kid of tokens signed with the key.
func (k TrustedKey) ID() string { return KeyID(k.Public) }

// KeyID is the first 16 hex characters of the SHA-256 of the raw public key.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// ParseKeys reads a *.pub file: lines KEY or KEY NOTAFTER, oldest key first, each
// with a line feed. KEY is base64url without padding of the 32 raw bytes, NOTAFTER
// an RFC 3339 time from 1970 to 9999. Other bytes, a key that stands twice and a
// file without keys are errors, which name the line.
func ParseKeys(file []byte) ([]TrustedKey, error) {
	list, err := pubkey.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("dispatch: key file: %w", err)
	}
	keys := make([]TrustedKey, len(list))
	for i, k := range list {
		keys[i] = TrustedKey(k)
	}
	return keys, nil
}

// FormatKeys writes the file that [ParseKeys] reads. Times are cut to
// milliseconds.
func FormatKeys(keys []TrustedKey) []byte {
	list := make([]pubkey.Key, len(keys))
	for i, k := range keys {
		list[i] = pubkey.Key(k)
	}
	return pubkey.Format(list)
}
