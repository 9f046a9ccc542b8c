package postgres

import (
	"context"
	"sync/atomic"
	"testing"

	"countersign/internal/ledger"
	"countersign/internal/ledger/ledgertest"
)

// telling is how a check is told the engine's answers.
type telling func(ledger.Result) ledger.Result

func honest(r ledger.Result) ledger.Result { return r }

// as tells one outcome as another.
func as(from, to ledger.Outcome) telling {
	return func(r ledger.Result) ledger.Result {
		if r.Outcome == from {
			r.Outcome = to
		}
		return r
	}
}

// undivided gives a group whose statement failed one fate.
func undivided(l *Ledger, group []*job) {
	_ = l.fault(beforeBegin) // counts
	var results []ledger.Result
	if err := l.try(group, &results); err != nil {
		answerAll(group, notStored(err))
		return
	}
	l.answer(group, results)
}

// unfenced looks a lost Change up while its session may still be storing it.
func unfenced(l *Ledger, c ledger.Change) ledger.Result {
	var results []ledger.Result
	lost := l.try([]*job{newJob(&c)}, &results)
	if lost == nil {
		return results[0]
	}
	stored, err := isStored(context.Background(), l.writes, &c)
	switch {
	case err != nil:
		return ledger.Result{Outcome: ledger.Unknown, Cause: err}
	case stored:
		return ledger.Result{Outcome: ledger.Stored}
	}
	return notStored(lost)
}

// patchedOnce writes over what has overtaken its first Change, which leaves a step
// without its event.
func patchedOnce() committer {
	var first atomic.Bool
	return func(l *Ledger, c ledger.Change) ledger.Result {
		if !first.CompareAndSwap(false, true) {
			return waited(l, c)
		}
		w := c.Writes[0]
		w.Events = nil
		for read := w.Revision; ; {
			s, _, err := l.Load(context.Background(), w.Key)
			if err != nil && read > 0 {
				return ledger.Result{Outcome: ledger.Unknown, Cause: err}
			}
			if s.Revision == read {
				continue // not yet overtaken
			}
			w.Revision, w.Head = s.Revision, s.Head
			if r := waited(l, ledger.Change{Writes: []ledger.Write{w}}); r.Outcome != ledger.Conflict {
				return r
			}
		}
	}
}

// TestControls: each guard, switched off, is noticed by its test. Those of a
// crashed server stand in TestServerCrash, which has one.
func TestControls(t *testing.T) {
	t.Parallel()
	ledgertest.RunControls(t, []ledgertest.Control{
		{Test: "TestFailedStatementHarmsNoNeighbour", Off: "redoing a group one by one", Want: "Change 0: ledger: not stored",
			Check: func(t testing.TB) { harmsNoNeighbour(t, undivided) }},
		{Test: "TestLostAnswerOfARunningStatement", Off: "ending the lost session", Want: "ledger: conflict on subject",
			Check: func(t testing.TB) { lostAnswer(t, unfenced) }},
		{Test: "TestReplicasRace", Off: "the revision guard", Want: "revision 60, sequence 59",
			Check: func(t testing.TB) { replicasRace(t, patchedOnce()) }},
	})
}
