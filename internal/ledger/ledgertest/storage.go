package ledgertest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"countersign/internal/ledger"
)

// Refusal is a way in which the storage below an engine fails.
type Refusal struct {
	Error string // part of the cause that the engine then reports
	// Begin makes the database refuse, with an error of its own, a Change of the
	// subject that adds 60,000 bytes. It is called at Points[0] on the goroutine
	// that writes; whether other Changes are refused too is the engine's affair
	// ([Backend.Divides]). mend ends the refusal.
	Begin func(ctx context.Context, e Engine, location string, subject ledger.Key) (mend func() error, err error)
}

func testDiskFull(t testing.TB, b Backend) { refused(t, b, b.DiskFull) }
func testIOError(t testing.TB, b Backend)  { refused(t, b, b.IOError) }

// Of 10 Changes that wait together the storage refuses the first: it is not
// stored and nothing of it is there. Its neighbours are stored, or not stored for
// the same reason where a group has one fate. The next commit is good, what was
// not stored is stored when it is tried again, and all of it is there after a
// restart.
func refused(t testing.TB, b Backend, refusal Refusal) {
	i := start(t, b, Options{})
	plans := make([]plan, 10)
	changes := make([]ledger.Change, len(plans))
	for n := range plans {
		plans[n] = plan{id: newID(), key: i.key}
		_, r, err := plans[n].step(t.Context(), i.raw)
		if err != nil {
			t.Fatal(err)
		}
		i.must(r)
		s := i.load(plans[n].subject())
		if changes[n], err = plans[n].next(s, s.UpdatedAt); err != nil {
			t.Fatal(err)
		}
	}
	first := &changes[0].Writes[0]
	first.Sealed = append(first.Sealed, ledger.Sealed{Name: "large", Bytes: []byte(strings.Repeat("x", 60_000))})

	var begun atomic.Bool
	var mend func() error
	release := i.holdThen(func(point string) (err error) {
		if point == b.Points[0] && begun.CompareAndSwap(false, true) {
			mend, err = refusal.Begin(context.Background(), i.raw, i.location, first.Key)
		}
		return err
	})
	answers := i.queue(changes...)
	release()
	var again []int
	for n, answer := range answers {
		r := <-answer
		want := int64(1)
		switch {
		case n > 0 && r.Outcome == ledger.Stored:
			want = 2
		case r.Outcome != ledger.NotStored || !strings.Contains(r.Cause.Error(), refusal.Error):
			t.Errorf("Change %d: %v (%v), want a refusal with %q", n, r.Outcome, r.Cause, refusal.Error)
		case n > 0 && b.Divides:
			t.Errorf("neighbour %d: %v", n, r.Err())
		}
		if want == 1 {
			again = append(again, n)
		}
		if revision, err := plans[n].audit(t.Context(), i); err != nil || revision != want {
			t.Errorf("Change %d: %v, and revision %d, %v, want %d", n, r.Outcome, revision, err, want)
		}
	}
	if _, err := i.SealedValue(t.Context(), first.Key, "large"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the refused value: %v", err)
	}
	i.must(i.Commit(t.Context(), fresh()))
	if mend == nil {
		t.Fatal("the storage refused nothing")
	}
	if err := mend(); err != nil {
		t.Fatal(err)
	}
	for _, n := range again {
		i.must(i.Commit(t.Context(), changes[n]))
	}
	i.restart()
	for n, p := range plans {
		if revision, err := p.audit(t.Context(), i); err != nil || revision != 2 {
			t.Errorf("Change %d after the restart: revision %d, %v, want 2", n, revision, err)
		}
	}
}
