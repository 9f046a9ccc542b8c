package sqlite

import (
	"errors"
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

// unmindful tells what was refused after Unknown as stored.
func unmindful(r ledger.Result) ledger.Result {
	if errors.Is(r.Cause, errStopped) {
		return ledger.Result{Outcome: ledger.Stored}
	}
	return r
}

// forgetful keeps each subject in memory as it was first put there.
func forgetful() func(*Ledger) {
	first := make(map[ledger.Key]ledger.Subject)
	return func(l *Ledger) {
		l.recent.mu.Lock()
		defer l.recent.mu.Unlock()
		for key, s := range l.recent.subjects {
			if old, ok := first[key]; ok {
				l.recent.subjects[key] = old
			} else {
				first[key] = s
			}
		}
	}
}

// TestControls: each guard, switched off, is noticed by its test.
func TestControls(t *testing.T) {
	stored, notStored, unknownFate := ledger.Stored, ledger.NotStored, ledger.Unknown
	ledgertest.RunControls(t, []ledgertest.Control{
		{Test: "TestAnswerAtEveryPoint", Off: "saying what was not stored", Want: "want not stored",
			Check: func(t testing.TB) { answerAt(t, beforeCommit, as(notStored, stored)) }},
		{Test: "TestAnswerAtEveryPoint", Off: "looking up what may be stored", Want: "answered not stored (<nil>), want stored",
			Check: func(t testing.TB) { answerAt(t, afterCommitPoint, as(stored, notStored)) }},
		{Test: "TestUnknown", Off: "saying that a fate is unknown", Want: "answer",
			Check: func(t testing.TB) { unknown(t, as(unknownFate, stored)) }},
		{Test: "TestUnknown", Off: "taking nothing more", Want: "after Unknown",
			Check: func(t testing.TB) { unknown(t, unmindful) }},
		{Test: "TestFolderLock", Off: "the lock", Want: "second Open: <nil>",
			Check: func(t testing.TB) { locked(t, open) }},
		{Test: "TestRecentIsWhatIsStored", Off: "taking in what a commit wrote", Want: "remembered true",
			Check: func(t testing.TB) { recentIsStored(t, forgetful()) }},
	})
}
