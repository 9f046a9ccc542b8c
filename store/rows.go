package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// row is the row that a query stands at.
type row interface{ Scan(...any) error }

// find returns the one row of a query, or nil when there is none. what is named
// in errors.
func find[T any](ctx context.Context, q queryer, what string, scan func(row) (T, error), query string, args ...any) (*T, error) {
	v, err := scan(q.QueryRowContext(ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: %s: %w", what, err)
	}
	return &v, nil
}

// list returns all rows of a query.
func list[T any](ctx context.Context, q queryer, what string, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("store: %s: %w", what, err)
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("store: %s: %w", what, err)
		}
		all = append(all, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("store: %s: %w", what, err)
	}
	return all, nil
}

// single scans a row of one column.
func single[T any](r row) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// document scans a row of one column that holds a JSON document, as the shop
// wrote it.
func document[T any](r row) (v T, err error) {
	text, err := single[string](r)
	if err != nil {
		return v, err
	}
	err = json.Unmarshal([]byte(text), &v)
	return v, err
}
