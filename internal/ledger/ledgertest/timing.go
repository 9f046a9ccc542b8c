package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// The time of a commit is never before the newest event of its Change. An event
// an hour ahead pins it to the millisecond on every engine, so that the three
// boundary cases are exact: at NotAfter is too late.
func testNotAfterBoundaries(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		now, err := i.Now(t.Context())
		if err != nil {
			return err
		}
		at := now.Add(time.Hour)
		for _, one := range []struct {
			name     string
			notAfter time.Time
			want     ledger.Outcome
		}{
			{"1 ms before NotAfter", at.Add(time.Millisecond), ledger.Stored},
			{"at NotAfter", at, ledger.Conflict},
			{"1 ms after NotAfter", at.Add(-time.Millisecond), ledger.Conflict},
			{"no NotAfter", time.Time{}, ledger.Stored},
		} {
			c := fresh()
			c.NotAfter = one.notAfter
			w := &c.Writes[0]
			w.Events, err = evidence.Seal(i.key, w.ID, evidence.Link{Hash: evidence.Genesis}, at, []evidence.Draft{{ID: newID(), Type: "t", Data: map[string]any{}}})
			if err != nil {
				return err
			}
			before := i.rows()
			r := i.Commit(t.Context(), c)
			if r.Outcome != one.want || r.Outcome == ledger.Conflict && r.Which != ledger.OnExpiry {
				return fmt.Errorf("%s: %v", one.name, r.Err())
			}
			if r.Outcome == ledger.Conflict {
				if err := i.unchanged(before); err != nil {
					return fmt.Errorf("%s: %w", one.name, err)
				}
			}
		}
		return nil
	}, taking(withoutNotAfter))
}

// A decision that was in time when it was queued and waited too long fails.
func testNotAfterInQueue(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		now, err := i.Now(t.Context())
		if err != nil {
			return err
		}
		release := i.hold()
		late, early := fresh(), fresh()
		late.NotAfter, early.NotAfter = now.Add(30*time.Second), now.Add(10*time.Minute)
		answers := i.queue(late, early)
		i.clock.Move(31 * time.Second)
		release()
		if r := <-answers[0]; r.Outcome != ledger.Conflict || r.Which != ledger.OnExpiry {
			return fmt.Errorf("31 s in the queue of a Change with 30 s: %v", r.Err())
		}
		if r := <-answers[1]; r.Outcome != ledger.Stored {
			return fmt.Errorf("31 s in the queue of a Change with 10 min: %v", r.Err())
		}
		return nil
	}, taking(withoutNotAfter))
}

func workspaceKey(name string) ledger.Key {
	return ledger.Key{Workspace: name, Kind: ledger.KindWorkspace, ID: name}
}

// freeze sets or lifts the freeze of a workspace.
func freeze(ctx context.Context, e Engine, workspace string, on bool) error {
	s, err := load(ctx, e, workspaceKey(workspace))
	if err != nil {
		return err
	}
	w := bare(s, `{}`)
	if on {
		w.Attributes = []ledger.Attribute{{Name: ledger.AttributeFrozen, Value: "1"}}
	}
	return e.Commit(ctx, ledger.Change{Writes: []ledger.Write{w}}).Err()
}

// Frozen, only what is Freezable is refused, only in that workspace, until the
// freeze is lifted.
func testFreeze(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		freezable := func() ledger.Change {
			c := fresh()
			c.Freezable, c.Workspace = true, ledger.DefaultWorkspace
			return c
		}
		i.must(i.Commit(t.Context(), freezable()))
		if err := freeze(t.Context(), i, ledger.DefaultWorkspace, true); err != nil {
			return err
		}
		before := i.rows()
		if r := i.Commit(t.Context(), freezable()); r.Outcome != ledger.Conflict || r.Which != ledger.OnFreeze {
			return fmt.Errorf("while frozen: %v", r.Err())
		}
		if err := i.unchanged(before); err != nil {
			return err
		}
		i.must(i.Commit(t.Context(), fresh()))
		elsewhere := freezable()
		elsewhere.Workspace, elsewhere.Writes[0].Workspace = "elsewhere", "elsewhere"
		i.must(i.Commit(t.Context(), elsewhere))
		if err := freeze(t.Context(), i, ledger.DefaultWorkspace, false); err != nil {
			return err
		}
		i.must(i.Commit(t.Context(), freezable()))
		return nil
	}, taking(withoutFreeze))
}

// What is Freezable states how many freezes the workspace has seen. A decision that
// was made before another freeze came and went is refused, also in a group with one
// that knows of it; what is not Freezable states nothing.
func testFreezeEpoch(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		key := workspaceKey(ledger.DefaultWorkspace)
		knowing := func(epoch int64) ledger.Change {
			c := fresh()
			c.Freezable, c.FreezeEpoch, c.Workspace = true, epoch, ledger.DefaultWorkspace
			return c
		}
		seen := func(epoch int64, more ...ledger.Attribute) {
			s, err := load(t.Context(), i, key)
			if err != nil {
				t.Fatal(err)
			}
			w := bare(s, `{}`)
			w.Attributes = append(more, ledger.Attribute{Name: ledger.AttributeFreezes, Value: fmt.Sprint(epoch)})
			i.must(i.Commit(t.Context(), ledger.Change{Writes: []ledger.Write{w}}))
		}
		refused := func(epoch int64, which ledger.Which) error {
			before := i.rows()
			if r := i.Commit(t.Context(), knowing(epoch)); r.Outcome != ledger.Conflict || r.Which != which {
				return fmt.Errorf("knowing of %d freezes: %v, want a conflict on %s", epoch, r.Err(), which)
			}
			return i.unchanged(before)
		}
		if err := refused(1, ledger.OnEpoch); err != nil {
			return fmt.Errorf("never frozen: %w", err)
		}
		i.must(i.Commit(t.Context(), knowing(0)))
		for epoch := int64(9); epoch < 12; epoch++ { // numbers, not texts
			seen(epoch, ledger.Attribute{Name: ledger.AttributeFrozen, Value: "1"})
			for _, known := range []int64{epoch - 1, epoch} {
				if err := refused(known, ledger.OnFreeze); err != nil {
					return fmt.Errorf("frozen: %w", err)
				}
			}
			seen(epoch)
			for _, known := range []int64{0, epoch - 1, epoch + 1} {
				if err := refused(known, ledger.OnEpoch); err != nil {
					return fmt.Errorf("after freeze %d: %w", epoch, err)
				}
			}
			i.must(i.Commit(t.Context(), knowing(epoch)))
			i.must(i.Commit(t.Context(), fresh()))
			release := i.hold()
			answers := i.queue(knowing(epoch), knowing(epoch-1), knowing(epoch))
			release()
			for n, want := range []ledger.Outcome{ledger.Stored, ledger.Conflict, ledger.Stored} {
				if r := <-answers[n]; r.Outcome != want {
					return fmt.Errorf("change %d of a group: %v, want %v", n, r.Err(), want)
				}
			}
		}
		return nil
	}, taking(withoutFreeze))
}

// 12 rounds: while 10 claimers commit as fast as they can, the workspace is
// frozen. What is visible once the freeze was answered is all there will be: no
// claim becomes visible afterwards, and every claim that starts afterwards is
// refused. A freeze that is checked on an older view fails here. At least 240
// claims, and their control.
func testFreezeRace(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		engines := []Engine{i.Engine}
		if _, weak := i.Engine.(weakened); !weak {
			engines = i.replicas()
		}
		for round := range 12 {
			if err := freezeRound(t.Context(), engines, fmt.Sprintf("w%d", round)); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		return nil
	}, taking(withoutFreeze))
}

func freezeRound(ctx context.Context, engines []Engine, workspace string) error {
	const claimers, warm, after = 10, 20, 2
	var claims, refused atomic.Int64
	var frozen atomic.Bool
	warmed := make(chan struct{})
	errs := make(chan error, claimers)
	var wg sync.WaitGroup
	for n := range claimers {
		wg.Go(func() {
			for left := after; left > 0; {
				late := frozen.Load() // before the call starts
				c := fresh()
				c.Freezable, c.Workspace, c.Writes[0].Workspace = true, workspace, workspace
				r := engines[n%len(engines)].Commit(ctx, c)
				switch {
				case r.Outcome == ledger.Stored && late:
					errs <- errors.New("a claim that started after the freeze is stored")
					return
				case r.Outcome == ledger.Stored:
					if claims.Add(1) == warm {
						close(warmed)
					}
				case r.Outcome == ledger.Conflict && r.Which == ledger.OnFreeze:
					refused.Add(1)
					left--
				default:
					errs <- r.Err()
					return
				}
			}
		})
	}
	select {
	case <-warmed:
	case err := <-errs:
		frozen.Store(true) // nothing is frozen: ends the claimers that are left
		wg.Wait()
		return err
	}
	if err := freeze(ctx, engines[0], workspace, true); err != nil {
		return err
	}
	seen, err := countRuns(ctx, engines[0], workspace)
	if err != nil {
		return err
	}
	frozen.Store(true)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	end, err := countRuns(ctx, engines[0], workspace)
	if err != nil {
		return err
	}
	if end != seen {
		return fmt.Errorf("%d claims when the freeze was answered, %d at the end", seen, end)
	}
	return nil
}

func countRuns(ctx context.Context, e Engine, workspace string) (n int, err error) {
	for before := ""; ; {
		page, err := e.Find(ctx, ledger.Query{Workspace: workspace, Kind: ledger.KindRun, Before: before, Limit: 100})
		if err != nil || len(page) == 0 {
			return n, err
		}
		n += len(page)
		before = page[len(page)-1].ID
	}
}

// Due is inclusive, ordered, bounded, and gone when a commit takes it away.
func testDue(t *testing.T, b Backend) {
	i := start(t, b, Options{})
	now, err := i.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []ledger.Overdue
	for n := range 4 {
		c := fresh()
		c.Writes[0].Due = now.Add(time.Duration(n+1) * time.Hour)
		all = append(all, ledger.Overdue{Key: c.Writes[0].Key, Since: c.Writes[0].Due})
		i.must(i.Commit(t.Context(), c))
	}
	i.must(i.Commit(t.Context(), fresh())) // never due
	var after ledger.Overdue
	want := func(limit int, want ...ledger.Overdue) {
		t.Helper()
		if got, err := i.Due(t.Context(), after, limit); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("due %v, %v, want %v", got, err, want)
		}
	}
	want(0)
	i.clock.Move(time.Hour - time.Minute)
	want(0)
	i.clock.Move(2*time.Hour + 2*time.Minute)
	want(0, all[:3]...)
	want(2, all[:2]...)
	i.must(i.Commit(t.Context(), ledger.Change{Writes: []ledger.Write{bare(i.load(all[0].Key), `{}`)}}))
	want(0, all[1:3]...)
	after = all[1]
	want(0, all[2])
	after = all[2]
	want(0)

	// Subjects of one moment come in the order of their keys, page by page.
	var same []ledger.Overdue
	for n := range 5 {
		for _, kind := range []string{ledger.KindRun, "contextturn"} {
			c := fresh()
			c.Writes[0].Kind, c.Writes[0].Due = kind, all[2].Since
			c.Writes[0].ID = fmt.Sprintf("%d%s", n%2, c.Writes[0].ID)
			same = append(same, ledger.Overdue{Key: c.Writes[0].Key, Since: all[2].Since})
			i.must(i.Commit(t.Context(), c))
		}
	}
	same = append(same, all[2])
	slices.SortFunc(same, func(a, b ledger.Overdue) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	for after = all[1]; len(same) > 0; after, same = same[min(2, len(same)-1)], same[min(3, len(same)):] {
		want(3, same[:min(3, len(same))]...)
	}
	want(3)
}

// The clock's offset moves Now and the time of every read; a subject's newest
// timestamp is its floor.
func testClock(t *testing.T, b Backend) {
	i := start(t, b, Options{})
	p := plan{id: newID(), key: i.key}
	if _, r, err := p.step(t.Context(), i); err != nil || r.Outcome != ledger.Stored {
		t.Fatal(r.Err(), err)
	}
	before, err := i.Now(t.Context())
	if err != nil || before.Location() != time.UTC || before != before.Truncate(time.Millisecond) {
		t.Fatalf("now %v, %v: want UTC milliseconds", before, err)
	}
	i.clock.Move(24 * time.Hour)
	s, moved, err := i.Load(t.Context(), p.subject())
	if err != nil || moved.Sub(before) < 24*time.Hour || moved.Sub(before) > 25*time.Hour {
		t.Fatalf("a day later it is %v after %v, %v", moved, before, err)
	}
	if _, r, err := p.step(t.Context(), i); err != nil || r.Outcome != ledger.Stored {
		t.Fatal(r.Err(), err)
	}
	i.clock.Move(-48 * time.Hour)
	s, now, err := i.Load(t.Context(), p.subject())
	if err != nil || now != s.UpdatedAt || now.Before(moved) {
		t.Errorf("the clock went back: now %v, newest %v, %v", now, s.UpdatedAt, err)
	}
	if _, r, err := p.step(t.Context(), i); err != nil || r.Outcome != ledger.Stored {
		t.Fatal(r.Err(), err)
	}
	events, err := i.Events(t.Context(), s.Key, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(events); n++ {
		if events[n].Timestamp < events[n-1].Timestamp {
			t.Errorf("timestamps decrease: %s, %s", events[n-1].Timestamp, events[n].Timestamp)
		}
	}
}

// Only an opening that lives holds leases.
func testLeases(t testing.TB, b Backend) {
	i := start(t, b, Options{})
	first := i.Holder()
	alive := func(holder string, want bool) {
		t.Helper()
		if got, err := i.HolderAlive(t.Context(), holder); err != nil || got != want {
			t.Errorf("holder %s alive: %v, %v, want %v", holder, got, err, want)
		}
	}
	alive(first, true)
	alive(newID(), false)
	alive("", false)
	if engines := i.replicas(); len(engines) > 1 {
		other := engines[1].Holder()
		if other == first {
			t.Error("two openings are one holder")
		}
		alive(other, true)
		if err := engines[1].Close(); err != nil {
			t.Fatal(err)
		}
		alive(other, false)
		alive(first, true)
	}
	i.restart()
	if i.Holder() == first {
		t.Error("a new opening has the former one's name")
	}
	alive(i.Holder(), true)
	alive(first, false)
}
