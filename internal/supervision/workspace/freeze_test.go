package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"countersign/internal/audit"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/workspace"
)

// session names an owner's session.
var session = strings.Repeat("5", 64)

// frozen requires that the workspace stands so.
func (h *house) frozen(epoch int64, reason string) *workspace.Frozen {
	h.t.Helper()
	f, err := h.FreezeState(h.t.Context())
	must(h.t, err)
	if f.Epoch != epoch || f.Frozen != (reason != "") || f.Frozen && f.Reason != reason {
		h.t.Errorf("the workspace stands as %+v, want epoch %d and reason %q", f.Freeze, epoch, reason)
	}
	return f
}

// L-8: a freeze needs a reason, is an event, counts, and answers the freeze that stands;
// a second one changes nothing. What is exported verifies.
func TestFreeze(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		ctx := t.Context()
		h.frozen(0, "")
		if err := h.ExportFreezes(ctx, new(bytes.Buffer)); reason(err) != authority.NotFound {
			t.Errorf("an export of nothing: %v", err)
		}
		if _, err := h.Freeze(ctx, " ", session); reason(err) != authority.InvalidRequest {
			t.Errorf("no reason: %v", err)
		}
		if f, err := h.Unfreeze(ctx, "to be sure", 0, session); err != nil || f.Changed || f.Frozen {
			t.Errorf("unfreezing what is not frozen: %+v, %v", f, err)
		}
		h.frozen(0, "")
		f, err := h.Freeze(ctx, "an agent went astray", session)
		must(t, err)
		if !f.Changed || f.Epoch != 1 || f.Reason != "an agent went astray" || f.Since == 0 || len(f.Intents) != 0 {
			t.Errorf("answered %+v", f)
		}
		again, err := h.Freeze(ctx, "me too", session)
		must(t, err)
		if again.Changed || again.Freeze != f.Freeze {
			t.Errorf("the second answers %+v, want %+v", again.Freeze, f.Freeze)
		}
		if _, err := h.Unfreeze(ctx, "the wrong one", 7, session); reason(err) != authority.RevisionConflict {
			t.Errorf("lifting another freeze: %v", err)
		}
		h.frozen(1, "an agent went astray")
		lifted, err := h.Unfreeze(ctx, "found and ended", 1, session)
		must(t, err)
		if !lifted.Changed || lifted.Frozen || lifted.Epoch != 1 {
			t.Errorf("lifted: %+v", lifted)
		}
		if lifted.Since != f.Since || lifted.Until < f.Since || lifted.Reason != "an agent went astray" || lifted.Lifted != "found and ended" || lifted.Session != session || lifted.LiftedBy != session {
			t.Errorf("the last freeze: %+v", lifted)
		}
		_, err = h.Freeze(ctx, "once more", session)
		must(t, err)
		h.frozen(2, "once more")

		var b bytes.Buffer
		must(t, h.ExportFreezes(ctx, &b))
		report, err := audit.Verify(bytes.NewReader(b.Bytes()), audit.Options{Keys: h.keys})
		must(t, err)
		if !report.Verified || report.Lawfulness.Status != "frozen" || report.Count != 6 {
			t.Errorf("the export: %+v", report)
		}
		if !strings.Contains(b.String(), "found and ended") || strings.Contains(b.String(), "me too") {
			t.Error("the export has not the reasons that count")
		}
	})
}

// Of many freezes at once one is stored, and all answer it; so with their end.
func TestFreezeRace(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		all := func(do func(context.Context) (*workspace.Frozen, error)) (changed int64) {
			var n atomic.Int64
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					f, err := do(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if f.Changed {
						n.Add(1)
					}
				})
			}
			wg.Wait()
			return n.Load()
		}
		for round := int64(1); round <= 3; round++ {
			if n := all(func(ctx context.Context) (*workspace.Frozen, error) { return h.Freeze(ctx, "stop", session) }); n != 1 {
				t.Errorf("%d freezes of 8 were stored", n)
			}
			h.frozen(round, "stop")
			if n := all(func(ctx context.Context) (*workspace.Frozen, error) { return h.Unfreeze(ctx, "go", 0, session) }); n != 1 {
				t.Errorf("%d of 8 ends were stored", n)
			}
			h.frozen(round, "")
		}
	})
}

// failing is a ledger whose first commits fail so.
type failing struct {
	workspace.Ledger
	left   atomic.Int64
	store  bool // and are stored all the same
	answer ledger.Result
}

func (l *failing) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if l.left.Add(-1) < 0 {
		return l.Ledger.Commit(ctx, c)
	}
	if l.store {
		if r := l.Ledger.Commit(ctx, c); r.Outcome != ledger.Stored {
			return r
		}
	}
	return l.answer
}

// A freeze gets in where others are refused for want of room, and where the answer of its
// commit is lost; then nothing is stored twice. Who hangs up early does not end it.
func TestFreezeGetsIn(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		for name, l := range map[string]*failing{
			"full":   {answer: ledger.Result{Outcome: ledger.NotStored, Cause: ledger.ErrQueueFull}},
			"lost":   {answer: ledger.Result{Outcome: ledger.Unknown, Cause: errors.New("the connection was lost")}},
			"stored": {answer: ledger.Result{Outcome: ledger.Unknown, Cause: errors.New("the connection was lost")}, store: true},
		} {
			l.left.Store(3)
			h := newHouse(t, open, plan{ledger: func(engine workspace.Ledger) workspace.Ledger { l.Ledger = engine; return l }})
			gone, hangUp := context.WithCancel(t.Context())
			hangUp()
			f, err := h.Freeze(gone, "stop", session)
			if err != nil || !f.Changed || f.Epoch != 1 {
				t.Errorf("%s: %+v, %v", name, f, err)
			}
			h.frozen(1, "stop")
		}
	})
}

// unlisted is a ledger that does not store the first lists of what is in flight.
type unlisted struct {
	workspace.Ledger
	left atomic.Int64
}

func (l *unlisted) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if c.Writes[0].Events[0].Type == "workspace.inflight" && l.left.Add(-1) >= 0 {
		return ledger.Result{Outcome: ledger.NotStored, Cause: ledger.ErrQueueFull}
	}
	return l.Ledger.Commit(ctx, c)
}

// A freeze does not depend on the list of what is in flight: without one it stands, says so
// and is answered, and who freezes again adds the list and changes nothing else.
func TestFreezeUnlisted(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		l := &unlisted{}
		l.left.Store(1)
		h := newHouse(t, open, plan{ledger: func(engine workspace.Ledger) workspace.Ledger { l.Ledger = engine; return l }})
		for _, listed := range []bool{false, true, true} {
			f, err := h.Freeze(t.Context(), "stop", session)
			must(t, err)
			if !f.Frozen || f.Listed != listed || f.Changed == listed || f.Epoch != 1 {
				t.Errorf("%+v, want listed %t", f, listed)
			}
		}
		var b bytes.Buffer
		must(t, h.ExportFreezes(t.Context(), &b))
		if n := strings.Count(b.String(), `"workspace.inflight"`); n != 1 {
			t.Errorf("%d lists in the evidence", n)
		}
	})
}

// A ledger that is closed is not asked again.
func TestFreezeAtTheEnd(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		l := &failing{answer: ledger.Result{Outcome: ledger.NotStored, Cause: ledger.ErrClosed}}
		l.left.Store(1 << 40)
		h := newHouse(t, open, plan{ledger: func(engine workspace.Ledger) workspace.Ledger { l.Ledger = engine; return l }})
		if f, err := h.Freeze(t.Context(), "stop", session); !errors.Is(err, ledger.ErrClosed) || l.left.Load() != 1<<40-1 {
			t.Errorf("%+v, %v after %d commits, want one", f, err, 1<<40-l.left.Load())
		}
	})
}

// The reason can be erased: then the freeze stands and says nothing.
func TestReasonErased(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		_, err := h.Freeze(t.Context(), "it was Alice", session)
		must(t, err)
		key := ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindWorkspace, ID: ledger.DefaultWorkspace}
		texts, err := h.ledger.Texts(t.Context(), key)
		must(t, err)
		eraser := h.ledger.(interface {
			EraseText(context.Context, ledger.Key, string) error
		})
		for _, text := range texts {
			must(t, eraser.EraseText(t.Context(), key, text.Commitment))
		}
		f, err := h.FreezeState(t.Context())
		if err != nil || !f.Frozen || f.Reason != "" || f.Epoch != 1 {
			t.Errorf("%+v, %v", f, err)
		}
		var b bytes.Buffer
		must(t, h.ExportFreezes(t.Context(), &b))
		if report, err := audit.Verify(bytes.NewReader(b.Bytes()), audit.Options{Keys: h.keys}); err != nil || !report.Verified || strings.Contains(b.String(), "Alice") {
			t.Errorf("the export: %+v, %v", report, err)
		}
	})
}

func reason(err error) string {
	if d, ok := errors.AsType[*authority.Denial](err); ok {
		return d.Reason
	}
	return ""
}
