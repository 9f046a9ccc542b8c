package records

import (
	"context"
	"fmt"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/supervision/run"
)

// attributeOpen marks a run that is neither created nor running and has an intent
// without an outcome. Those statuses mark the others already, so that an ordinary cycle
// writes no attribute more.
const attributeOpen = "open"

// Attributes are what lists find a run by.
func Attributes(s *run.State) []ledger.Attribute {
	list := []ledger.Attribute{{Name: "status", Value: s.Status}, {Name: "service", Value: s.Config.Service}, Purpose(s)}
	if open(s) != nil && s.Status != run.StatusCreated && s.Status != run.StatusRunning {
		list = append(list, ledger.Attribute{Name: attributeOpen, Value: "1"})
	}
	return list
}

// Open is an intent without an outcome: dispatched, and neither a receipt nor anything
// else that closes it is recorded; or one that had none when the workspace was frozen.
type Open struct {
	ExecutionID string
	RunID       string
	OperationID string
	// State is [run.ExecutionDispatched] while an outcome is waited for, and
	// [run.ExecutionUnconfirmed] when none came: then only a look-up or an owner's
	// statement can tell. Of one that has its outcome meanwhile it is that.
	State        string
	DispatchedAt evidence.Time
}

// open returns the intent of a run that has no outcome, or nil.
func open(s *run.State) *Open {
	if s.Unresolved() || s.Opening() {
		return intent(s)
	}
	return nil
}

// intent returns the newest intent of a run, or nil: its execution, or before the first
// one the opening of its session at the store.
func intent(s *run.State) *Open {
	switch x := s.Execution; {
	case x != nil:
		return &Open{x.ID, s.ID, x.OperationID, x.State, x.DispatchedAt}
	case s.Hosted != nil:
		return &Open{s.Hosted.ExecutionID, s.ID, s.Config.Service + ".session.open", s.Hosted.Phase, s.CreatedAt}
	}
	return nil
}

// Open lists every intent of the workspace without an outcome, runs of the newest
// first. It is no snapshot: one that gets its outcome during the call may be listed or
// not, and so may one that begins; one that was there before the call and still is when
// it returns is listed.
func (r *Reader) Open(ctx context.Context) ([]Open, error) {
	list := []Open{}
	seen := map[string]bool{}
	// A run leaves the first two for the last, never the other way round while its
	// intent is open: none is missed in between.
	for _, where := range []ledger.Attribute{{Name: "status", Value: run.StatusCreated}, {Name: "status", Value: run.StatusRunning}, {Name: attributeOpen, Value: "1"}} {
		for before := ""; ; {
			page, err := r.ledger.Find(ctx, ledger.Query{Workspace: r.workspace, Kind: ledger.KindRun, Where: []ledger.Attribute{where}, Before: before, Limit: findPage})
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			for _, subject := range page {
				s, err := run.DecodeState(subject.State)
				if err != nil {
					return nil, err
				}
				if x := open(s); x != nil && !seen[x.ExecutionID] {
					seen[x.ExecutionID] = true
					list = append(list, *x)
				}
			}
			if len(page) < findPage {
				break
			}
			before = page[len(page)-1].ID
		}
	}
	return list, nil
}

// findPage is how many runs are read at once.
const findPage = 100
