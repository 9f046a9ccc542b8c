// Package settle writes down what time alone has brought about. Whoever knows a
// kind of subject settles it; package settle finds what is due and asks them.
//
// Any number of processes may settle at once: each settling is an ordinary guarded
// commit of whoever is asked. Authority never depends on it: what has expired is
// expired whatever a row says, only lists and streams show it later.
package settle

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"countersign/internal/ledger"
	"countersign/internal/supervision/ask"
)

// every is how often due subjects are looked for; expiries become visible in lists
// and streams within twice that.
const every = time.Second

// page is how many due subjects are read at once.
const page = 100

// Ledger is what settling needs of a ledger engine.
type Ledger interface {
	Due(ctx context.Context, after ledger.Overdue, limit int) ([]ledger.Overdue, error)
}

// Kinds are those who settle, by the kind of subject that they know. They are called
// one after the other. What is due of another kind is left alone and holds up nothing.
type Kinds map[string]func(context.Context, ledger.Key) error

// Settler is safe for concurrent use.
type Settler struct {
	ledger    Ledger
	workspace string
	log       *slog.Logger
	kinds     Kinds
	ended     atomic.Pointer[time.Time]
}

// New returns a settler of one workspace.
func New(l Ledger, workspace string, log *slog.Logger, kinds Kinds) *Settler {
	return &Settler{ledger: l, workspace: workspace, log: log, kinds: kinds}
}

// Run settles what is due, round after round, until ctx ends.
func (s *Settler) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Round(ctx)
			now := time.Now()
			s.ended.Store(&now)
		}
	}
}

// Ended returns when the newest round of [Settler.Run] ended in this process, by its own
// clock; zero: none has yet.
func (s *Settler) Ended() time.Time {
	if at := s.ended.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Round asks once for everything that is due now. What fails is logged and stays due.
func (s *Settler) Round(ctx context.Context) {
	tried := map[ledger.Key]bool{} // a subject that is due again may wait for the next round
	var last ledger.Overdue
	for {
		var due []ledger.Overdue
		err := ask.Safely(func() (err error) {
			due, err = s.ledger.Due(ctx, last, page)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				s.log.Warn("settling cannot read due subjects", "error", err)
			}
			return
		}
		for _, one := range due {
			last = one
			settle := s.kinds[one.Kind]
			if settle == nil || tried[one.Key] || one.Workspace != s.workspace {
				continue
			}
			tried[one.Key] = true
			if err := ask.Safely(func() error { return settle(ctx, one.Key) }); err != nil && ctx.Err() == nil {
				s.log.Warn("settling failed", one.Kind, one.ID, "error", err)
			}
		}
		if len(due) < page || ctx.Err() != nil {
			return
		}
	}
}
