package store

import (
	"context"
	"fmt"
)

// ofOpener selects the sessions that were opened for a step permit.
const ofOpener = `sid IN (SELECT sid FROM dispatch_ledger WHERE pid = $1)`

// Effects counts what the store has applied in the sessions that were opened for a step
// permit, by its own ledger: the opening itself, changes of the cart, checkouts, orders.
// A control plane opens a session for the id of its run. What was refused, or closed
// before it came, is no effect.
func (s *Store) Effects(ctx context.Context, opener string) (n int64, err error) {
	return s.count(ctx, `SELECT count(*) FROM dispatch_ledger WHERE result = 'applied' AND `+ofOpener, opener)
}

// Charged is what the orders of these sessions cost in cents.
func (s *Store) Charged(ctx context.Context, opener string) (cents int64, err error) {
	return s.count(ctx, `SELECT coalesce(sum(total_cents), 0) FROM orders WHERE `+ofOpener, opener)
}

func (s *Store) count(ctx context.Context, query, opener string) (n int64, err error) {
	if err := s.read.QueryRowContext(ctx, query, opener).Scan(&n); err != nil {
		return 0, fmt.Errorf("store: account: %w", err)
	}
	return n, nil
}
