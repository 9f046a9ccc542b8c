// Package blob stores and finds bytes by their hash in a PostgreSQL database, a
// call in one statement.
package blob

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"countersign/internal/ledger"
)

// Store is safe for concurrent use.
type Store struct {
	Writes, Reads *pgxpool.Pool
	// Patiently bounds a statement, however long its caller would wait.
	Patiently func(context.Context) (context.Context, context.CancelFunc)
	// Before and After are the fail points around the statement that stores.
	Before, After func() error
}

// PutBlobs stores what is not there yet, or returns an error that wraps
// [ledger.ErrInvalid] for what [ledger.CheckBlobs] refuses; that leaves nothing.
// After any other error it may be stored, and the same call may be made again.
func (s *Store) PutBlobs(ctx context.Context, blobs []ledger.Blob) error {
	if err := ledger.CheckBlobs(blobs); err != nil || len(blobs) == 0 {
		return err
	}
	// In one order, since who inserts a row that another transaction has inserted
	// waits for that transaction.
	sorted := slices.SortedFunc(slices.Values(blobs), func(a, b ledger.Blob) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Hash, b.Hash))
	})
	n := len(sorted)
	workspace, hash, types, bytes := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	for i, b := range sorted {
		workspace[i], hash[i], types[i], bytes[i] = b.Workspace, b.Hash, b.Type, b.Bytes
	}
	if err := s.Before(); err != nil {
		return err
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	_, err := s.Writes.Exec(ctx, `
		INSERT INTO blobs (workspace, hash, type, bytes)
		SELECT workspace, hash, type, bytes FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
			WITH ORDINALITY AS given (workspace, hash, type, bytes, number) ORDER BY number
		ON CONFLICT DO NOTHING`, workspace, hash, types, bytes)
	if err != nil {
		return fmt.Errorf("postgres: put blobs: %w", err)
	}
	return s.After()
}

// Blobs returns those of the hashes that exist, in the order asked, or an error
// that wraps [ledger.ErrInvalid] for what [ledger.CheckHashes] refuses.
func (s *Store) Blobs(ctx context.Context, workspace string, hashes []string) ([]ledger.Blob, error) {
	return ofHashes(ctx, s, `
		SELECT b.hash, b.type, b.bytes FROM unnest($2::text[]) WITH ORDINALITY AS asked (hash, number)
		JOIN blobs b ON b.workspace = $1 AND b.hash = asked.hash ORDER BY asked.number`,
		workspace, hashes, func(row pgx.CollectableRow) (ledger.Blob, error) {
			b := ledger.Blob{Workspace: workspace}
			err := row.Scan(&b.Hash, &b.Type, &b.Bytes)
			return b, err
		})
}

// Missing returns those of the hashes that do not exist, in the order asked.
// Errors are as those of Blobs.
func (s *Store) Missing(ctx context.Context, workspace string, hashes []string) ([]string, error) {
	return ofHashes(ctx, s, `
		SELECT asked.hash FROM unnest($2::text[]) WITH ORDINALITY AS asked (hash, number)
		WHERE NOT EXISTS (SELECT FROM blobs b WHERE b.workspace = $1 AND b.hash = asked.hash)
		ORDER BY asked.number`, workspace, hashes, pgx.RowTo[string])
}

func ofHashes[T any](ctx context.Context, s *Store, query, workspace string, hashes []string, scan pgx.RowToFunc[T]) ([]T, error) {
	if err := ledger.CheckHashes(workspace, hashes); err != nil || len(hashes) == 0 {
		return nil, err
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	rows, err := s.Reads.Query(ctx, query, workspace, hashes)
	if err != nil {
		return nil, fmt.Errorf("postgres: blobs: %w", err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("postgres: blobs: %w", err)
	}
	return found, nil
}
