package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Blob is bytes under their own hash: a document, a manifest. It is never
// altered and belongs to a workspace, not to a subject.
type Blob struct {
	Workspace string
	Hash      string // lowercase hex SHA-256 of Bytes
	Type      string // media type; of two for the same bytes the first stays
	Bytes     []byte // at least one
}

// Bounds of one call.
const (
	MaxBlobs     = 1000    // blobs or hashes
	MaxBlobBytes = 8 << 20 // of all blobs together
)

// CheckBlobs reports what makes blobs unfit for every engine, as an error that
// wraps [ErrInvalid]. Engines call it before they store any of them.
func CheckBlobs(blobs []Blob) error {
	if len(blobs) > MaxBlobs {
		return fmt.Errorf("%w: %d blobs, at most %d", ErrInvalid, len(blobs), MaxBlobs)
	}
	var v validation
	size := 0
	for i := range blobs {
		b := &blobs[i]
		v.name("workspace of a blob", b.Workspace)
		v.name("type of a blob", b.Type)
		if len(b.Bytes) == 0 {
			v.fail("blob %q is empty", b.Hash)
		}
		if size += len(b.Bytes); size > MaxBlobBytes {
			v.fail("blobs of more than %d bytes", MaxBlobBytes)
		}
		if v.err != nil {
			return v.err
		}
		if sum := sha256.Sum256(b.Bytes); hex.EncodeToString(sum[:]) != b.Hash {
			v.fail("blob %q has another hash", b.Hash)
		}
	}
	return v.err
}

// CheckHashes reports what makes a list of hashes unfit to be asked for, as an
// error that wraps [ErrInvalid].
func CheckHashes(workspace string, hashes []string) error {
	if len(hashes) > MaxBlobs {
		return fmt.Errorf("%w: %d hashes, at most %d", ErrInvalid, len(hashes), MaxBlobs)
	}
	var v validation
	v.name("workspace", workspace)
	for _, h := range hashes {
		if !isHash(h) {
			v.fail("%q is not a lowercase hex SHA-256", h)
		}
	}
	return v.err
}

func isHash(s string) bool {
	if len(s) != 2*sha256.Size {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
