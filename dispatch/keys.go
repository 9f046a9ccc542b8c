package dispatch

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"countersign/internal/canon"
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

// ParseKeys reads a *.pub file: lines KEY or KEY notAfter, oldest key first. KEY
// is base64url without padding of the 32 raw bytes, notAfter an RFC 3339 time.
// Blank lines, other bytes, a key that stands twice and a file without keys are
// errors, which name the line.
func ParseKeys(file []byte) ([]TrustedKey, error) {
	text, ended := strings.CutSuffix(string(file), "\n")
	if !ended {
		return nil, errors.New("dispatch: a key file is lines KEY [notAfter], each with a line end")
	}
	var keys []TrustedKey
	seen := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		key, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("dispatch: key file, line %d: %w", i+1, err)
		}
		if seen[key.ID()] {
			return nil, fmt.Errorf("dispatch: key file, line %d: the key stands twice", i+1)
		}
		seen[key.ID()] = true
		keys = append(keys, key)
	}
	return keys, nil
}

func parseKey(line string) (TrustedKey, error) {
	text, end, limited := strings.Cut(line, " ")
	raw, err := canon.DecodeBase64(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return TrustedKey{}, errors.New("want base64url of 32 bytes")
	}
	key := TrustedKey{Public: raw}
	if limited {
		if key.NotAfter, err = time.Parse(time.RFC3339, end); err != nil {
			return TrustedKey{}, errors.New("want notAfter as an RFC 3339 time")
		}
	}
	return key, nil
}

// FormatKeys writes the file that [ParseKeys] reads. Times are cut to seconds.
func FormatKeys(keys []TrustedKey) []byte {
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(canon.EncodeBase64(k.Public))
		if !k.NotAfter.IsZero() {
			b.WriteString(" " + k.NotAfter.UTC().Format(time.RFC3339))
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}
