package authority

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"countersign/evidence"
)

// Fresh makes the identifiers and salts of one decision from a seed of 32
// random bytes, so that deciding itself needs no source of randomness: the same
// seed and time give the same names. It is not safe for concurrent use.
type Fresh struct {
	seed [32]byte
	now  evidence.Time
	n    uint16
}

// NewFresh starts a decision's names. The seed must come from a secure source
// and be used once.
func NewFresh(seed [32]byte, now evidence.Time) *Fresh { return &Fresh{seed: seed, now: now} }

func (f *Fresh) next(label byte) [sha256.Size]byte {
	f.n++
	b := append(f.seed[:len(f.seed):len(f.seed)], label)
	return sha256.Sum256(binary.BigEndian.AppendUint16(b, f.n))
}

// ID returns a UUIDv7 (RFC 9562) of the decision's time. IDs of one Fresh
// ascend.
func (f *Fresh) ID() string {
	b := f.next('i')
	binary.BigEndian.PutUint64(b[:8], uint64(f.now)<<16|uint64(f.n&0xfff))
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Salt returns the salt of one text.
func (f *Fresh) Salt() (salt [evidence.SaltSize]byte) {
	b := f.next('s')
	copy(salt[:], b[:])
	return salt
}

// IsID reports whether s is a UUID as countersign spells it: lowercase,
// hyphenated, version 7, variant 10.
func IsID(s string) bool {
	if len(s) != 36 || s[14] != '7' || s[19] != '8' && s[19] != '9' && s[19] != 'a' && s[19] != 'b' {
		return false
	}
	for i, c := range []byte(s) {
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		if hyphen != (c == '-') || !hyphen && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
