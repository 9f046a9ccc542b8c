package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// 12 Changes that wait together: two claims of one subject, two of one permit,
// two of one idempotency key, two of one credential, and four neighbours. One
// of each pair is stored, as is every neighbour; the losers leave no row.
func testOneGroup(t testing.TB, b Backend) {
	i := start(t, b, Options{})
	s := ledger.Subject{Key: runKey(newID()), Head: evidence.Genesis}
	i.must(i.Commit(t.Context(), ledger.Change{Writes: []ledger.Write{bare(s, `{}`)}}))
	s = i.load(s.Key)
	pairs := make([]ledger.Change, 0, 12)
	for _, part := range []func(*ledger.Change){
		func(c *ledger.Change) { c.Writes[0] = bare(s, `{"claimed":true}`) },
		func(c *ledger.Change) {
			c.Fates = []ledger.Fate{{Workspace: s.Workspace, PermitID: "p", Subject: c.Writes[0].Key, Fate: "claimed", Execution: newID()}}
		},
		func(c *ledger.Change) {
			c.Record = &ledger.Record{Workspace: s.Workspace, Principal: "run", Key: "k", Fingerprint: evidence.Genesis, Subject: c.Writes[0].Key, Object: newID()}
		},
		func(c *ledger.Change) {
			c.Credentials = []ledger.Credential{{Workspace: s.Workspace, Hash: evidence.Genesis, Kind: ledger.CredentialOwner, ExpiresAt: i.clock.Now()}}
		},
	} {
		for range 2 {
			c := fresh()
			part(&c)
			pairs = append(pairs, c)
		}
	}
	for range 4 {
		pairs = append(pairs, fresh())
	}
	before := i.rows()
	release := i.hold()
	answers := i.queue(pairs...)
	release()
	for n, which := range []ledger.Which{ledger.OnSubject, ledger.OnPermit, ledger.OnRecord, ledger.OnCredential} {
		if err := one([]ledger.Result{<-answers[2*n], <-answers[2*n+1]}, which); err != nil {
			t.Error(err)
		}
	}
	for _, answer := range answers[8:] {
		if r := <-answer; r.Outcome != ledger.Stored {
			t.Errorf("neighbour: %v", r.Err())
		}
	}
	var grown int64
	for table, rows := range i.rows() {
		grown += rows - before[table]
	}
	// Three pairs each leave a subject and its row, four neighbours a subject
	// each, and so do the commits that held the writers.
	if want := int64(3*2 + 4 + b.Writers); grown != want {
		t.Errorf("%d new rows, want %d", grown, want)
	}
	if s := i.load(s.Key); s.Revision != 2 {
		t.Errorf("the claimed subject is at revision %d, want 2", s.Revision)
	}
}

// 64 callers with 10 commits each: everything is stored, in fewer transactions
// than commits; with a batch limit of 1 the numbers are equal. 1,280 operations.
func testGroupsForm(t *testing.T, b Backend) {
	for _, limit := range []int{0, 1} {
		i := start(t, b, Options{BatchLimit: limit})
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 10 {
					if r := i.Commit(t.Context(), fresh()); r.Outcome != ledger.Stored {
						t.Errorf("commit: %v", r.Err())
					}
				}
			})
		}
		wg.Wait()
		n := i.points.count(b.Points[0])
		t.Logf("batch limit %d: 640 commits in %d transactions", limit, n)
		if limit == 1 && n != 640 || limit == 0 && n >= 640 {
			t.Errorf("batch limit %d: %d transactions for 640 commits", limit, n)
		}
	}
}

// A queue of 4 and 16 callers while nothing can be written: exactly 12 are
// refused, at once and without a row, and 4 are stored; the refused Changes
// are stored when they are tried again.
func testFullQueue(t testing.TB, b Backend) {
	i := start(t, b, Options{QueueSize: 4})
	before := i.rows()
	release := i.hold()
	type caller struct {
		change ledger.Change
		ctx    *askedContext
		answer chan ledger.Result
	}
	callers := make([]caller, 16)
	for n := range callers {
		c := caller{fresh(), newAskedContext(context.Background()), make(chan ledger.Result, 1)}
		callers[n] = c
		go func() { c.answer <- i.Commit(c.ctx, c.change) }()
	}
	var refused []ledger.Change
	var queued []caller
	for _, c := range callers {
		select {
		case <-c.ctx.asked:
			queued = append(queued, c)
		case r := <-c.answer:
			if r.Outcome != ledger.NotStored || !errors.Is(r.Cause, ledger.ErrQueueFull) {
				t.Errorf("refusal: %v", r.Err())
			}
			refused = append(refused, c.change)
		}
	}
	release()
	if len(refused) != 12 {
		t.Errorf("%d of 16 are refused, want 12", len(refused))
	}
	for _, c := range queued {
		if r := <-c.answer; r.Outcome != ledger.Stored {
			t.Errorf("queued: %v", r.Err())
		}
	}
	var grown int64
	for table, rows := range i.rows() {
		grown += rows - before[table]
	}
	if want := int64(4 + b.Writers); grown != want {
		t.Errorf("%d subjects, want %d", grown, want)
	}
	for _, c := range refused {
		i.must(i.Commit(t.Context(), c))
	}
}

// Of 8 Changes that wait, three lose their callers. The others are stored and
// in one piece; a caller that left is told Unknown and its Change is there or
// not, whole.
func testCancelledCaller(t testing.TB, b Backend) {
	i := start(t, b, Options{})
	plans := make([]plan, 8)
	changes := make([]ledger.Change, 8)
	for n := range plans {
		plans[n] = plan{id: newID(), key: i.key}
		var err error
		if changes[n], err = plans[n].next(ledger.Subject{Key: plans[n].subject(), Head: evidence.Genesis}, i.clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
	release := i.hold()
	answers := make([]<-chan ledger.Result, 8)
	var cancels []context.CancelFunc
	for n := range plans {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		answers[n] = i.queueOne(ctx, changes[n])
		if n%3 == 0 {
			cancels = append(cancels, cancel)
		}
	}
	for _, cancel := range cancels {
		cancel()
	}
	results := make([]ledger.Result, 8)
	for n := 0; n < 8; n += 3 { // they leave while the writers are still held
		results[n] = <-answers[n]
		if r := results[n]; r.Outcome != ledger.Unknown && r.Outcome != ledger.NotStored || !errors.Is(r.Cause, context.Canceled) {
			t.Errorf("a caller that left: %v", r.Err())
		}
	}
	release()
	for n := range plans {
		if n%3 != 0 {
			if results[n] = <-answers[n]; results[n].Outcome != ledger.Stored {
				t.Errorf("neighbour: %v", results[n].Err())
			}
		}
	}
	if err := i.Close(); err != nil { // finishes what is queued
		t.Fatal(err)
	}
	i.Engine = i.open()
	for n, p := range plans {
		revision, err := p.audit(t.Context(), i)
		if err != nil {
			t.Error(err)
		}
		if results[n].Outcome == ledger.Stored && revision != 1 || results[n].Outcome == ledger.NotStored && revision != 0 {
			t.Errorf("%v, but the subject is at revision %d", results[n].Outcome, revision)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := i.rows()
	if r := i.Commit(ended, fresh()); r.Outcome != ledger.NotStored || !errors.Is(r.Cause, context.Canceled) {
		t.Errorf("a context that had ended: %v", r.Err())
	}
	if err := i.unchanged(before); err != nil {
		t.Error(err)
	}
}

// Close stores what is queued; later commits are refused.
func testClose(t *testing.T, b Backend) {
	i := start(t, b, Options{})
	release := i.hold()
	answers := i.queue(fresh(), fresh(), fresh())
	closed := make(chan error, 1)
	go func() { closed <- i.Close() }()
	release()
	for _, answer := range answers {
		if r := <-answer; r.Outcome != ledger.Stored && !(r.Outcome == ledger.NotStored && errors.Is(r.Cause, ledger.ErrClosed)) {
			t.Errorf("queued before Close: %v", r.Err())
		}
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if r := i.Commit(t.Context(), fresh()); r.Outcome != ledger.NotStored || !errors.Is(r.Cause, ledger.ErrClosed) {
		t.Errorf("after Close: %v", r.Err())
	}
	if err := i.Ping(t.Context()); err == nil {
		t.Error("Ping after Close is nil")
	}
	if err := i.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// Restarting keeps everything; the next commit continues the chain.
func testRestart(t testing.TB, b Backend) {
	i := start(t, b, Options{})
	p := plan{id: newID(), key: i.key}
	for want := int64(1); want <= 4; want++ {
		if _, r, err := p.step(t.Context(), i); err != nil || r.Outcome != ledger.Stored {
			t.Fatal(r.Err(), err)
		}
		before := i.rows()
		i.restart()
		if err := i.unchanged(before); err != nil {
			t.Error(err)
		}
		if r, err := p.audit(t.Context(), i); err != nil || r != want {
			t.Fatal(fmt.Errorf("revision %d, want %d: %w", r, want, err))
		}
	}
}
