package canon

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Hash returns the lowercase hex SHA-256 of b.
func Hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// IsHash reports whether s is spelled as [Hash] spells: 64 lowercase hex digits.
func IsHash(s string) bool {
	if len(s) != 2*sha256.Size {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// EncodeBase64 returns base64url without padding (RFC 4648 section 5).
func EncodeBase64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// DecodeBase64 reads base64url without padding and accepts the one spelling
// that [EncodeBase64] writes: no padding, no line ends, no set trailing bits.
func DecodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, fmt.Errorf("canon: line end inside base64url")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("canon: not base64url without padding")
	}
	return b, nil
}
