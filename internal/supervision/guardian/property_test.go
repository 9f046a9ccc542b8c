package guardian_test

import (
	"flag"
	"reflect"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/supervision/guardian"

	"pgregory.net/rapid"
)

// TestMain keeps rapid from leaving files of failed draws in the tree; a failure prints
// its draws and its seed.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.checks": "100"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// ledgerOf is what a reader of the requirements would note down of a policy, kept apart
// from the machine.
type ledgerOf struct {
	revision int64
	running  string // of the current revision
	until    evidence.Time
	success  map[int64]evidence.Time // newest verification of a revision, when it passed
	versions []guardian.Published
}

// Whatever is asked in whatever order and at whatever time: what a publication rests on
// is a success of exactly that revision less than an hour ago, no version ever changes,
// no edit is lost, and the chain replays to the stored state.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		if reason := w.draft(policy()); reason != "" {
			r.Fatal(reason)
		}
		m := ledgerOf{revision: 1, success: map[int64]evidence.Time{}}
		ids := []string{"none"}
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			w.now = w.now.Add(rapid.SampledFrom([]time.Duration{
				0, time.Second, 59 * time.Second, time.Minute, 59 * time.Minute, time.Hour, 24 * time.Hour,
			}).Draw(r, "later"))
			revision := max(1, m.revision-rapid.Int64Range(0, 1).Draw(r, "behind"))
			current := revision == m.revision
			switch rapid.SampledFrom([]string{"edit", "start", "complete", "complete", "publish", "publish"}).Draw(r, "do") {
			case "edit":
				p := policy(func(p *guardian.Policy) { p.BudgetCents += 1 })
				if done := w.edit(revision, p) == ""; done != current {
					r.Fatalf("edit from %d at %d: done %t", revision, m.revision, done)
				}
				if current {
					m.revision, m.running = m.revision+1, ""
				}
			case "start":
				id, reason := w.start(revision)
				lawful := current && (m.running == "" || w.now >= m.until)
				if (reason == "") != lawful {
					r.Fatalf("start: %q, lawful %t", reason, lawful)
				}
				if lawful {
					m.running, m.until, ids = id, w.now.Add(time.Minute), append(ids, id)
				}
			case "complete":
				id := ids[len(ids)-1]
				if rapid.IntRange(0, 4).Draw(r, "an older one") == 0 {
					id = rapid.SampledFrom(ids).Draw(r, "verification")
				}
				tests := passed(policy(), w.now)
				good := rapid.IntRange(0, 3).Draw(r, "fails") > 0
				if !good {
					tests[rapid.IntRange(0, len(tests)-1).Draw(r, "test")].Result = "failed"
				}
				lawful := id == m.running && id != "none" && w.now < m.until
				if done := w.complete(id, tests) == ""; done != lawful {
					r.Fatalf("complete: done %t, lawful %t", done, lawful)
				}
				if lawful {
					m.running = ""
					delete(m.success, m.revision)
					if good {
						m.success[m.revision] = w.now
					}
				}
			case "publish":
				at, verified := m.success[m.revision]
				lawful := current && verified && w.now < at.Add(time.Hour)
				if done := w.publish(revision) == ""; done != lawful {
					r.Fatalf("publish: done %t, lawful %t", done, lawful)
				}
				if lawful {
					m.versions = append(m.versions, *w.state().Published)
				}
			}
			s := w.state()
			if s.Revision != m.revision {
				r.Fatalf("revision %d, want %d", s.Revision, m.revision)
			}
			if n := len(m.versions); n > 0 {
				newest := m.versions[n-1]
				if !reflect.DeepEqual(*s.Published, newest) || newest.Version != int64(n) {
					r.Fatalf("version %d changed or was left out: %+v", n, s.Published)
				}
				if _, denial := s.Bindable(w.now); (denial == nil) != (w.now < newest.PublishedAt.Add(24*time.Hour)) {
					r.Fatalf("bindable at %s: %v, published at %s", w.now, denial, newest.PublishedAt)
				}
			}
		}
		w.lawful()
	})
}
