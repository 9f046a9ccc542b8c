package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// IsEmpty reports whether the database at url holds no table, view or sequence of
// anybody's. It writes nothing.
func IsEmpty(ctx context.Context, url string) (empty bool, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false, fmt.Errorf("postgres: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = conn.QueryRow(ctx, `SELECT NOT EXISTS (
		SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_')`).Scan(&empty)
	if err != nil {
		return false, fmt.Errorf("postgres: %w", err)
	}
	return empty, nil
}
