package evidence

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"countersign/internal/pubkey"
)

// TrustedKey is a public key that was made known outside the evidence.
type TrustedKey struct {
	Public   ed25519.PublicKey
	NotAfter time.Time // last instant of what the key signed; zero: no end
}

// Keys are the trusted keys of one issuer, oldest first.
type Keys []TrustedKey

// ParseKeys reads a *.pub file: lines KEY or KEY NOTAFTER, oldest key first,
// each with a line feed. KEY is base64url without padding of the 32 raw bytes,
// NOTAFTER an RFC 3339 time from 1970 to 9999, one space stands between them. A file without keys,
// a key that stands twice and any other byte are errors that name the line.
func ParseKeys(file []byte) (Keys, error) {
	list, err := pubkey.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("evidence: key file: %w", err)
	}
	keys := make(Keys, len(list))
	for i, k := range list {
		keys[i] = TrustedKey(k)
	}
	return keys, nil
}

// Format writes the file that [ParseKeys] reads. Times are written in
// [TimeLayout]; what it cuts is less than any event can tell.
func (ks Keys) Format() []byte {
	list := make([]pubkey.Key, len(ks))
	for i, k := range ks {
		list[i] = pubkey.Key(k)
	}
	return pubkey.Format(list)
}

// ended reports whether t is later than the key's last instant.
func (k TrustedKey) ended(t time.Time) bool {
	return !k.NotAfter.IsZero() && t.After(k.NotAfter)
}
