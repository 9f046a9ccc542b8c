package postgres

import (
	"context"

	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres/blob"
)

// PutBlobs stores what is not there yet. After an error it may be stored; the
// same call may be made again. Blobs that [ledger.CheckBlobs] refuses leave nothing.
func (l *Ledger) PutBlobs(ctx context.Context, blobs []ledger.Blob) error {
	if err := ledger.CheckBlobs(blobs); err != nil {
		return err
	}
	if err := l.fault(beforeBegin); err != nil {
		return err
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	if err := blob.Put(ctx, l.writes, blobs); err != nil {
		return err
	}
	return l.fault(afterCommit)
}

// Blobs returns those of the hashes that exist, in the order asked, or an error
// that wraps [ledger.ErrInvalid] for what [ledger.CheckHashes] refuses.
func (l *Ledger) Blobs(ctx context.Context, workspace string, hashes []string) ([]ledger.Blob, error) {
	if err := ledger.CheckHashes(workspace, hashes); err != nil {
		return nil, err
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	return blob.Find(ctx, l.reads, workspace, hashes)
}

// Missing returns those of the hashes that do not exist, in the order asked.
// Errors are as those of Blobs.
func (l *Ledger) Missing(ctx context.Context, workspace string, hashes []string) ([]string, error) {
	if err := ledger.CheckHashes(workspace, hashes); err != nil {
		return nil, err
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	return blob.Missing(ctx, l.reads, workspace, hashes)
}
