package attack

import (
	"context"

	"countersign/internal/authority"
	"countersign/internal/supervision/run"
)

// Unaltered is a runner that leaves out the one alteration of every attack.
func Unaltered(r *Runner) *Runner { return &Runner{Config: r.Config, unaltered: true} }

// GrantEnded carries out an attack of the tests: a report within a grant that has ended,
// which check 7 has to refuse.
func GrantEnded(ctx context.Context, r *Runner) (*Result, error) {
	a := on(Bank, "T07", "Grant that has ended", "The run's grant has ended.", beforeIt, shape{want: paused(authority.GrantExpired), check: 7, do: func(t *trial) {
		s, report := t.prepared(alteration{"", func(*trial, object) {}})
		t.alter(func() { s.Simulate(run.SimulateExpireGrant) })
		t.attackIn(s, func() *Reply { return s.Pursue(encode(report)) })
	}})
	return r.carry(ctx, &a, Bank)
}
