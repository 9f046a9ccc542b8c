package attack

import (
	"context"
	"fmt"
	"time"

	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/state"
)

// MaxRuns is how many synthetic runs attacks may have made in the last hour before
// another one begins. The whole suite makes about a hundred, one attack at most a dozen,
// each of less than a hundred events: over the owner's route nobody fills a ledger.
const MaxRuns = 250

// period is how long a run of an attack counts.
const period = time.Hour

// LimitError refuses an attack until the runs of earlier ones count no more. The oldest
// of them does so after RetryAfter.
type LimitError struct{ RetryAfter time.Duration }

func (e *LimitError) Error() string {
	return fmt.Sprintf("attack: %d runs of attacks in the last hour; try again in %s", MaxRuns, e.RetryAfter.Round(time.Second))
}

// room is nil unless attacks have made their runs for now. The count is by the ledger, so
// that all replicas of an installation share it.
func (r *Runner) room(ctx context.Context) error {
	now, err := r.Ledger.Now(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", gateway.ErrUnavailable, err)
	}
	const page = 100
	for counted, before := 0, ""; ; {
		found, err := r.Ledger.Find(ctx, ledger.Query{
			Workspace: r.Workspace, Kind: ledger.KindRun, Before: before, Limit: page,
			Where: []ledger.Attribute{{Name: records.AttributePurpose, Value: records.PurposeAttack}},
		})
		if err != nil {
			return fmt.Errorf("%w: %w", gateway.ErrUnavailable, err)
		}
		for _, s := range found {
			age := now.Sub(s.UpdatedAt)
			if age >= period {
				return nil
			}
			if counted++; counted >= MaxRuns {
				return &LimitError{period - age}
			}
		}
		if len(found) < page {
			return nil
		}
		before = found[len(found)-1].ID
	}
}

// sweep ends runs that an attack has left behind because its process ended. Their tokens
// died with it. What cannot be ended now is tried again before the next attack.
func (r *Runner) sweep(ctx context.Context) {
	now, err := r.Ledger.Now(ctx)
	for _, status := range []string{state.StatusReady, state.StatusRunning, state.StatusPaused} {
		var left []ledger.Subject
		if err == nil {
			left, err = r.Ledger.Find(ctx, ledger.Query{
				Workspace: r.Workspace, Kind: ledger.KindRun, Limit: 100,
				Where: []ledger.Attribute{{Name: "status", Value: status}, {Name: records.AttributePurpose, Value: records.PurposeAttack}},
			})
		}
		for _, s := range left {
			if now.Sub(s.UpdatedAt) <= lineFor+endingFor {
				continue // it may be under way at another replica
			}
			if err := r.Runs.Revoke(ctx, s.ID); err != nil && !authority.Denied(err, authority.RunNotReady) {
				r.Log.Warn("a run that an attack left behind could not be revoked", "run", s.ID, "error", err)
			}
		}
	}
	if err != nil {
		r.Log.Warn("an attack cannot look for runs that were left behind", "error", err)
	}
}
