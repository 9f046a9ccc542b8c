package keys

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"time"

	"countersign/evidence"
	"countersign/internal/pubkey"
)

// Public is one line of a *.pub file.
type Public struct {
	Key      ed25519.PublicKey
	NotAfter time.Time // nothing signed later is valid; zero for the key in use
}

// ID returns the key id, [evidence.KeyID].
func (p Public) ID() string { return evidence.KeyID(p.Key) }

// ReadPublic reads a *.pub file of a folder, oldest key first. A list has at least
// one key and none twice; every key but the last has a notAfter, the last has
// none, and the times do not decrease. Only this package writes these files, so
// any spelling but its own is refused.
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
	list, err := parsePublic(raw)
	if err != nil {
		return nil, fmt.Errorf("keys: %s: %w", path, err)
	}
	return list, nil
}

func parsePublic(file []byte) ([]Public, error) {
	keys, err := pubkey.Parse(file)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(pubkey.Format(keys), file) {
		return nil, errors.New("a notAfter is not in UTC with milliseconds, as countersign writes it")
	}
	list := make([]Public, len(keys))
	for i, k := range keys {
		if last := i == len(keys)-1; k.NotAfter.IsZero() != last {
			return nil, fmt.Errorf("line %d: every key but the last has a notAfter, the last has none", i+1)
		}
		list[i] = Public{Key: k.Public, NotAfter: k.NotAfter}
		if i > 0 && !k.NotAfter.IsZero() && k.NotAfter.Before(list[i-1].NotAfter) {
			return nil, fmt.Errorf("line %d: an older key ends later", i+1)
		}
	}
	return list, nil
}

func encodePublic(list []Public) []byte {
	keys := make([]pubkey.Key, len(list))
	for i, p := range list {
		keys[i] = pubkey.Key{Public: p.Key, NotAfter: p.NotAfter}
	}
	return pubkey.Format(keys)
}
