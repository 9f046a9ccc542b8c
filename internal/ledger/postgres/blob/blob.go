// Package blob stores and finds bytes by their hash in a PostgreSQL database, a
// call in one statement. What it is given has passed [ledger.CheckBlobs] or
// [ledger.CheckHashes].
package blob

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"countersign/internal/ledger"
)

// Put stores what is not there yet, all of it or, after an error, perhaps none:
// a connection that was lost does not tell.
func Put(ctx context.Context, pool *pgxpool.Pool, blobs []ledger.Blob) error {
	if len(blobs) == 0 {
		return nil
	}
	// In one order, since who inserts a row that another transaction has inserted
	// waits for that transaction.
	sorted := slices.SortedFunc(slices.Values(blobs), func(a, b ledger.Blob) int {
		return strings.Compare(a.Workspace+"\x00"+a.Hash, b.Workspace+"\x00"+b.Hash)
	})
	n := len(sorted)
	workspace, hash, types, bytes := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	for i, b := range sorted {
		workspace[i], hash[i], types[i], bytes[i] = b.Workspace, b.Hash, b.Type, b.Bytes
	}
	_, err := pool.Exec(ctx, `
		INSERT INTO blobs (workspace, hash, type, bytes)
		SELECT workspace, hash, type, bytes FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
			WITH ORDINALITY AS given (workspace, hash, type, bytes, number) ORDER BY number
		ON CONFLICT DO NOTHING`, workspace, hash, types, bytes)
	if err != nil {
		return fmt.Errorf("postgres: put blobs: %w", err)
	}
	return nil
}

// Find returns those of the hashes that exist, in the order asked.
func Find(ctx context.Context, pool *pgxpool.Pool, workspace string, hashes []string) ([]ledger.Blob, error) {
	rows, err := pool.Query(ctx, `
		SELECT b.hash, b.type, b.bytes FROM unnest($2::text[]) WITH ORDINALITY AS asked (hash, number)
		JOIN blobs b ON b.workspace = $1 AND b.hash = asked.hash ORDER BY asked.number`, workspace, hashes)
	if err != nil {
		return nil, fmt.Errorf("postgres: blobs: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Blob, error) {
		b := ledger.Blob{Workspace: workspace}
		err := row.Scan(&b.Hash, &b.Type, &b.Bytes)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: blobs: %w", err)
	}
	return found, nil
}

// Missing returns those of the hashes that do not exist, in the order asked.
func Missing(ctx context.Context, pool *pgxpool.Pool, workspace string, hashes []string) ([]string, error) {
	rows, err := pool.Query(ctx, `
		SELECT asked.hash FROM unnest($2::text[]) WITH ORDINALITY AS asked (hash, number)
		WHERE NOT EXISTS (SELECT FROM blobs b WHERE b.workspace = $1 AND b.hash = asked.hash)
		ORDER BY asked.number`, workspace, hashes)
	if err != nil {
		return nil, fmt.Errorf("postgres: missing blobs: %w", err)
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("postgres: missing blobs: %w", err)
	}
	return missing, nil
}
