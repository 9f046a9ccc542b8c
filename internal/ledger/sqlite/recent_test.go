package sqlite

import (
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// TestRecentIsWhatIsStored: after every commit of a random history, groups and lost
// races included, a subject loads as the file has it. The history holds more
// subjects than are remembered.
func TestRecentIsWhatIsStored(t *testing.T) { recentIsStored(t, func(*Ledger) {}) }

// recentIsStored calls afterCommit behind each COMMIT on the writer's goroutine.
func recentIsStored(t testing.TB, afterCommit func(*Ledger)) {
	var opened atomic.Pointer[Ledger]
	l := mustOpen(t, create(t), Options{AfterCommit: func() {
		if l := opened.Load(); l != nil {
			afterCommit(l)
		}
	}})
	opened.Store(l)
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := evidence.NewSigningKey(private)
	random := rand.New(rand.NewPCG(1, 2))
	stored := func(key ledger.Key) ledger.Subject {
		s := ledger.Subject{Key: key}
		if err := found(scanSubject(l.reads.subject.QueryRow(key.Workspace, key.Kind, key.ID), &s)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	var keys []ledger.Key
	for len(keys) < maxRecent+100 {
		var c ledger.Change
		for range 100 {
			w := newChange(fmt.Sprintf("00000000-0000-7000-8000-%012d", len(keys))).Writes[0]
			c.Writes, keys = append(c.Writes, w), append(keys, w.Key)
		}
		if r := l.Commit(t.Context(), c); r.Outcome != ledger.Stored {
			t.Fatal(r)
		}
	}
	remembered := 0
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for i := range 2000 {
		change := ledger.Change{Workspace: ledger.DefaultWorkspace}
		for _, j := range random.Perm(len(keys))[:1+random.IntN(3)] {
			s := stored(keys[j])
			w := ledger.Write{Key: s.Key, Revision: s.Revision, Head: s.Head, State: fmt.Appendf(nil, `{"n":%d}`, i)}
			if random.IntN(2) == 0 {
				w.Due = at.Add(time.Duration(i) * time.Second)
			}
			if random.IntN(2) == 0 {
				var err error
				w.Events, err = evidence.Seal(key, s.ID, s.Link(), at.Add(time.Duration(i)*time.Millisecond), []evidence.Draft{
					{ID: fmt.Sprintf("00000000-0000-7000-9%03d-%012d", random.IntN(1000), i), Type: "test", Data: map[string]int{"n": i}},
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			change.Writes = append(change.Writes, w)
		}
		if random.IntN(4) == 0 {
			change.Writes[0].Revision++ // a lost race
			change.Writes[0].Events = nil
		}
		l.Commit(t.Context(), change)
		for _, w := range change.Writes {
			_, known := l.recent.get(w.Key)
			if known {
				remembered++
			}
			got, _, err := l.Load(t.Context(), w.Key)
			if want := stored(w.Key); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("remembered %t: %+v, %v, want %+v", known, got, err, want)
			}
		}
	}
	if len(l.recent.subjects) > maxRecent || remembered < 500 {
		t.Errorf("%d subjects in memory; %d of the loads came from there", len(l.recent.subjects), remembered)
	}
}

// TestRecentEnds with the lock: what another process has written since is not
// hidden.
func TestRecentEnds(t *testing.T) {
	l := mustOpen(t, create(t), Options{})
	c := newChange("00000000-0000-7000-8000-000000000001")
	if r := l.Commit(t.Context(), c); r.Outcome != ledger.Stored {
		t.Fatal(r)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if s, _, err := l.Load(t.Context(), c.Writes[0].Key); err == nil {
		t.Errorf("a closed ledger gives %+v", s)
	}
}
