package sqlite

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"countersign/internal/ledger"
)

var errInjected = errors.New("injected fault")

// Stricter than what both engines share: on one writer the answer is known at
// every point. Not stored before the COMMIT, found to be stored after it, for
// the whole group, since the fault is in the transaction of all of them. 8
// Changes a point; every one that is not stored is tried again and is.
func TestAnswerAtEveryPoint(t *testing.T) {
	for _, point := range Points {
		switch point { // reached with other parts than these Changes have; ledgertest covers them
		case afterFreeze, afterUpdate, afterGuard, afterEvent, afterText, afterSeal, afterUnseal, afterRecord, afterPermit, afterCredential, afterRevoke, afterRollback:
			continue
		}
		t.Run(point, func(t *testing.T) { answerAt(t, point, honest) })
	}
}

func answerAt(t testing.TB, point string, tell telling) {
	var hit atomic.Bool
	gate, held := make(chan struct{}), make(chan struct{})
	var begins atomic.Int32
	l := mustOpen(t, create(t), Options{Fault: func(p string) error {
		if p == beforeBegin && begins.Add(1) == 1 { // the first transaction keeps the writer
			close(held)
			<-gate
		}
		if p == point && begins.Load() == 2 && hit.CompareAndSwap(false, true) {
			return errInjected
		}
		return nil
	}})
	commit := func(c ledger.Change) <-chan ledger.Result {
		answer := make(chan ledger.Result, 1)
		j := prepareJob(t, c)
		if err := l.queue.put(j); err != nil {
			t.Fatal(err)
		}
		go func() { answer <- <-j.answer }()
		return answer
	}
	plug := commit(newChange("plug"))
	<-held
	var answers []<-chan ledger.Result
	for n := range 8 {
		c := newChange(fmt.Sprint(n))
		c.Writes[0].Attributes = []ledger.Attribute{{Name: "a", Value: "b"}}
		answers = append(answers, commit(c))
	}
	close(gate)
	if r := <-plug; r.Outcome != ledger.Stored {
		t.Fatal(r.Err())
	}
	want := ledger.NotStored
	if slices.Contains(DurablePoints, point) {
		want = ledger.Stored
	}
	for n, answer := range answers {
		r := tell(<-answer)
		if r.Outcome != want || want == ledger.NotStored && !errors.Is(r.Cause, errInjected) {
			t.Errorf("answered %v (%v), want %v", r.Outcome, r.Cause, want)
		}
		_, _, err := l.Load(t.Context(), ledger.Key{Workspace: "default", Kind: "run", ID: fmt.Sprint(n)})
		if stored := err == nil; stored != (want == ledger.Stored) {
			t.Errorf("answered %v and there: %v", r.Outcome, stored)
		}
		if r.Outcome == ledger.NotStored {
			if r := l.Commit(t.Context(), newChange(fmt.Sprint(n))); r.Outcome != ledger.Stored {
				t.Errorf("tried again: %v", r.Err())
			}
		}
	}
	if !hit.Load() {
		t.Error("the point was not hit")
	}
}

func prepareJob(t testing.TB, c ledger.Change) *job {
	t.Helper()
	p, err := prepare(&c)
	if err != nil {
		t.Fatal(err)
	}
	return &job{change: p, answer: make(chan ledger.Result, 1)}
}

// 8 Changes that wait are one transaction; with a batch limit of 3 they are three.
func TestGroupSize(t *testing.T) {
	for limit, want := range map[int]int32{0: 1, 3: 3, 1: 8} {
		gate, held := make(chan struct{}), make(chan struct{})
		var begins atomic.Int32
		l := mustOpen(t, create(t), Options{BatchLimit: limit, Fault: func(p string) error {
			if p == beforeBegin && begins.Add(1) == 1 {
				close(held)
				<-gate
			}
			return nil
		}})
		jobs := []*job{prepareJob(t, newChange("plug"))}
		if err := l.queue.put(jobs[0]); err != nil {
			t.Fatal(err)
		}
		<-held
		for n := range 8 {
			j := prepareJob(t, newChange(fmt.Sprint(n)))
			jobs = append(jobs, j)
			if err := l.queue.put(j); err != nil {
				t.Fatal(err)
			}
		}
		close(gate)
		for _, j := range jobs {
			if r := <-j.answer; r.Outcome != ledger.Stored {
				t.Error(r.Err())
			}
		}
		if n := begins.Load() - 1; n != want {
			t.Errorf("limit %d: %d transactions for 8 changes, want %d", limit, n, want)
		}
	}
}

// A COMMIT reports an error and the file cannot be opened again: the answer is
// Unknown, nothing more is taken, and Failed says that the process has to end.
// The next start finds the Change.
func TestUnknown(t *testing.T) { unknown(t, honest) }

func unknown(t testing.TB, tell telling) {
	path := create(t)
	moved := path + ".moved"
	var armed atomic.Bool
	l := mustOpen(t, path, Options{Fault: func(p string) error {
		if p == afterCommitPoint && armed.Load() {
			if err := os.Rename(path, moved); err != nil {
				return err
			}
			return errInjected
		}
		return nil
	}})
	if r := l.Commit(t.Context(), newChange("before")); r.Outcome != ledger.Stored {
		t.Fatal(r.Err())
	}
	select {
	case <-l.Failed():
		t.Fatal("failed before anything happened")
	default:
	}
	armed.Store(true)
	if r := tell(l.Commit(t.Context(), newChange("a"))); r.Outcome != ledger.Unknown || !errors.Is(r.Cause, errInjected) {
		t.Fatalf("answer %v", r.Err())
	}
	<-l.Failed()
	if r := tell(l.Commit(t.Context(), newChange("b"))); r.Outcome != ledger.NotStored || !errors.Is(r.Cause, errStopped) {
		t.Errorf("after Unknown: %v", r.Err())
	}
	if err := l.Ping(t.Context()); err == nil {
		t.Error("Ping after Unknown is nil")
	}
	l.Close()
	if err := os.Rename(moved, path); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, path, Options{})
	if _, _, err := l.Load(t.Context(), newChange("a").Writes[0].Key); err != nil {
		t.Errorf("the Change of the unknown commit: %v", err)
	}
	if _, _, err := l.Load(t.Context(), newChange("b").Writes[0].Key); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the refused Change: %v", err)
	}
}
