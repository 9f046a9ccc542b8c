package keys

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"countersign/evidence"
	"countersign/internal/canon"
)

// Public is one line of a *.pub file.
type Public struct {
	Key      ed25519.PublicKey
	NotAfter time.Time // nothing signed later is valid; zero for the key in use
}

// ID returns the key id, [evidence.KeyID].
func (p Public) ID() string { return evidence.KeyID(p.Key) }

// ReadPublic reads a *.pub file, oldest key first. A list has at least one key
// and none twice; every key but the last has a notAfter, the last has none, and
// the times do not decrease.
func ReadPublic(path string) ([]Public, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	defer f.Close()
	raw, err := readBounded(f, path)
	if err != nil {
		return nil, err
	}
	list, err := parsePublic(string(raw))
	if err != nil {
		return nil, fmt.Errorf("keys: %s: %w", path, err)
	}
	return list, nil
}

func parsePublic(text string) ([]Public, error) {
	body, ended := strings.CutSuffix(text, "\n")
	if !ended {
		return nil, fmt.Errorf("the last line has no line feed")
	}
	lines := strings.Split(body, "\n")
	list := make([]Public, 0, len(lines))
	for i, line := range lines {
		encoded, end, ends := strings.Cut(line, " ")
		key, err := canon.DecodeBase64(encoded)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("line %d: want a public key as base64url", i+1)
		}
		if slices.ContainsFunc(list, func(p Public) bool { return p.Key.Equal(ed25519.PublicKey(key)) }) {
			return nil, fmt.Errorf("line %d: the key stands twice", i+1)
		}
		p := Public{Key: key}
		if last := i == len(lines)-1; ends == last {
			return nil, fmt.Errorf("line %d: every key but the last has a notAfter, the last has none", i+1)
		}
		if ends {
			if p.NotAfter, err = evidence.ParseTime(end); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			if i > 0 && p.NotAfter.Before(list[i-1].NotAfter) {
				return nil, fmt.Errorf("line %d: an older key ends later", i+1)
			}
		}
		list = append(list, p)
	}
	return list, nil
}

func encodePublic(list []Public) []byte {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(canon.EncodeBase64(p.Key))
		if !p.NotAfter.IsZero() {
			b.WriteString(" " + evidence.FormatTime(p.NotAfter))
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}
