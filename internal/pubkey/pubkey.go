// Package pubkey reads and writes *.pub files: the lists of public keys that the
// parties hand to each other, evidence.pub, dispatch.pub and a store's
// receipt.pub. Packages evidence, dispatch and keys each show the list in a type
// of their own; this is the one reader behind them.
package pubkey

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"countersign/internal/canon"
)

// Key is one line of a list.
type Key struct {
	Public   ed25519.PublicKey
	NotAfter time.Time // last instant at which the key counts; zero: no end
}

// Parse reads a list: lines KEY or KEY NOTAFTER, oldest key first, each with a
// line feed. KEY is base64url without padding of the 32 raw bytes, NOTAFTER an
// RFC 3339 time from 1970 to 9999, one space stands between them. A file without
// keys, a key that stands twice and any other byte are errors that name the line.
func Parse(file []byte) ([]Key, error) {
	text, ended := strings.CutSuffix(string(file), "\n")
	if !ended {
		return nil, errors.New("want lines KEY [NOTAFTER], each with a line feed")
	}
	var list []Key
	for i, line := range strings.Split(text, "\n") {
		key, err := parseLine(line)
		if err == nil && slices.ContainsFunc(list, func(k Key) bool { return k.Public.Equal(key.Public) }) {
			err = errors.New("want each key once")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		list = append(list, key)
	}
	return list, nil
}

var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

func parseLine(line string) (Key, error) {
	encoded, end, ends := strings.Cut(line, " ")
	raw, err := canon.DecodeBase64(encoded)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return Key{}, errors.New("want a key as base64url without padding of 32 bytes")
	}
	key := Key{Public: raw}
	if ends {
		// time.Parse takes spellings that RFC 3339 does not have, and the zero
		// time would mean that the key has no end.
		key.NotAfter, err = time.Parse(time.RFC3339, end)
		if year := key.NotAfter.UTC().Year(); err != nil || !rfc3339.MatchString(end) || year < 1970 || year > 9999 {
			return Key{}, errors.New("want the end of the key's time as RFC 3339, from 1970 to 9999")
		}
	}
	return key, nil
}

// Format writes the list that [Parse] reads. Times are cut to milliseconds, which
// is as much as an event or a token can tell.
func Format(list []Key) []byte {
	var b strings.Builder
	for _, k := range list {
		b.WriteString(canon.EncodeBase64(k.Public))
		if !k.NotAfter.IsZero() {
			b.WriteString(" " + k.NotAfter.UTC().Format("2006-01-02T15:04:05.000Z"))
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}
