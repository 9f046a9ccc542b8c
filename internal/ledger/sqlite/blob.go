package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"

	"countersign/internal/ledger"
)

const (
	insertBlob = `INSERT INTO blobs (workspace, hash, type, bytes) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`
	// CROSS JOIN keeps the order of the list.
	readBlobs = `SELECT b.hash, b.type, b.bytes FROM json_each(?) j CROSS JOIN blobs b
		WHERE b.workspace = ? AND b.hash = j.value ORDER BY j.key`
	readMissing = `SELECT j.value FROM json_each(?) j
		WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.workspace = ? AND b.hash = j.value) ORDER BY j.key`
)

// blobShare is about how many bytes of blobs the writer takes with one group, so
// that a large call does not hold up the Changes that wait.
const blobShare = 512 << 10

// PutBlobs stores what is not there yet, in several groups. After an error a
// part of it may be stored; the same call may be made again. Blobs that
// [ledger.CheckBlobs] refuses leave nothing. They must not be altered afterwards.
func (l *Ledger) PutBlobs(ctx context.Context, blobs []ledger.Blob) error {
	if err := ledger.CheckBlobs(blobs); err != nil {
		return err
	}
	for share := range shares(blobs) {
		err := l.do(ctx, func(t *tx) error {
			for i := range share {
				b := &share[i]
				if _, err := t.exec("", insertBlob, b.Workspace, b.Hash, b.Type, b.Bytes); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shares cuts blobs into pieces that end with the one that reaches blobShare.
func shares(blobs []ledger.Blob) iter.Seq[[]ledger.Blob] {
	return func(yield func([]ledger.Blob) bool) {
		first, size := 0, 0
		for i := range blobs {
			if size += len(blobs[i].Bytes); size >= blobShare || i == len(blobs)-1 {
				if !yield(blobs[first : i+1]) {
					return
				}
				first, size = i+1, 0
			}
		}
	}
}

// Blobs returns those of the hashes that exist, in the order asked, or an error
// that wraps [ledger.ErrInvalid] for what [ledger.CheckHashes] refuses.
func (l *Ledger) Blobs(ctx context.Context, workspace string, hashes []string) ([]ledger.Blob, error) {
	return ofHashes(ctx, l.reads.blobs, workspace, hashes, func(rows *sql.Rows) (ledger.Blob, error) {
		b := ledger.Blob{Workspace: workspace}
		err := rows.Scan(&b.Hash, &b.Type, &b.Bytes)
		return b, err
	})
}

// Missing returns those of the hashes that do not exist, in the order asked.
// Errors are as those of Blobs.
func (l *Ledger) Missing(ctx context.Context, workspace string, hashes []string) ([]string, error) {
	return ofHashes(ctx, l.reads.missing, workspace, hashes, func(rows *sql.Rows) (hash string, err error) {
		err = rows.Scan(&hash)
		return hash, err
	})
}

func ofHashes[T any](ctx context.Context, s *sql.Stmt, workspace string, hashes []string, scan func(*sql.Rows) (T, error)) ([]T, error) {
	if err := ledger.CheckHashes(workspace, hashes); err != nil || len(hashes) == 0 {
		return nil, err
	}
	asked, err := json.Marshal(hashes)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return list(ctx, s, scan, string(asked), workspace)
}
