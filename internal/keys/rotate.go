package keys

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"countersign/evidence"
)

// Rotate gives the folder a new evidence key and returns its public half. The
// former key stays in evidence.pub with notAfter = now, cut to milliseconds.
// Nothing may be signed with the former key at a later time, so no server may
// have the folder open; the caller holds its lock. A rotation that was
// interrupted is finished by the next call instead of starting another. now must
// not be before an earlier key's notAfter.
func Rotate(dir string, now time.Time) (Public, error) {
	base := filepath.Join(dir, keysFolder, "evidence")
	list, err := ReadPublic(base + ".pub")
	if err != nil {
		return Public{}, err
	}
	path := base + ".key" + nextSuffix
	seed, err := readKey(path, "evidence")
	interrupted := err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
		seed = fresh()
	case err != nil:
		return Public{}, err
	}
	next := Public{Key: ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)}
	if newest := &list[len(list)-1]; !newest.Key.Equal(next.Key) {
		if _, _, err := loadSigning(dir, "evidence"); err != nil {
			return Public{}, err
		}
		newest.NotAfter = evidence.TimeOf(now).Time()
		lines := encodePublic(append(list, next))
		if _, err := parsePublic(lines); err != nil {
			return Public{}, fmt.Errorf("keys: cannot rotate: %w", err)
		}
		if !interrupted {
			if err := write(path, encodeKey("evidence", seed), 0o600); err != nil {
				return Public{}, err
			}
		}
		if err := write(base+".pub", lines, 0o644); err != nil {
			return Public{}, err
		}
	}
	// From here on the folder asks for the next key; until it is in place, Load
	// refuses and a repeated Rotate comes back to this line.
	if err := os.Rename(path, base+".key"); err != nil {
		return Public{}, fmt.Errorf("keys: %w", err)
	}
	return next, syncDir(filepath.Dir(base))
}
