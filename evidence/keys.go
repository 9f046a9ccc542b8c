package evidence

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"countersign/internal/canon"
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
	text, ended := strings.CutSuffix(string(file), "\n")
	if !ended {
		return nil, errors.New("evidence: key file: want lines KEY [NOTAFTER], each with a line feed")
	}
	var keys Keys
	for i, line := range strings.Split(text, "\n") {
		key, err := parseKey(line)
		if err == nil && keys.index(KeyID(key.Public)) >= 0 {
			err = errors.New("want each key once")
		}
		if err != nil {
			return nil, fmt.Errorf("evidence: key file, line %d: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

func parseKey(line string) (TrustedKey, error) {
	encoded, end, ends := strings.Cut(line, " ")
	raw, err := canon.DecodeBase64(encoded)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return TrustedKey{}, errors.New("want a key as base64url without padding of 32 bytes")
	}
	key := TrustedKey{Public: raw}
	if ends {
		// time.Parse takes spellings that RFC 3339 does not have, and the zero
		// time would mean that the key has no end.
		key.NotAfter, err = time.Parse(time.RFC3339, end)
		if year := key.NotAfter.UTC().Year(); err != nil || !rfc3339.MatchString(end) || year < 1970 || year > 9999 {
			return TrustedKey{}, errors.New("want the end of the key's time as RFC 3339, from 1970 to 9999")
		}
	}
	return key, nil
}

// Format writes the file that [ParseKeys] reads. Times are written in
// [TimeLayout]; what it cuts is less than any event can tell.
func (ks Keys) Format() []byte {
	var b bytes.Buffer
	for _, k := range ks {
		b.WriteString(canon.EncodeBase64(k.Public))
		if !k.NotAfter.IsZero() {
			b.WriteString(" " + FormatTime(k.NotAfter))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// index returns the place of the key with this id, or -1.
func (ks Keys) index(id string) int {
	for i, k := range ks {
		if KeyID(k.Public) == id {
			return i
		}
	}
	return -1
}

// ended reports whether t is later than the key's last instant.
func (k TrustedKey) ended(t time.Time) bool {
	return !k.NotAfter.IsZero() && t.After(k.NotAfter)
}
