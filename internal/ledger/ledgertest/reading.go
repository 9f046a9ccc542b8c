package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// 120 subjects: newest first, by attributes, in pages that miss and repeat none.
func testFind(t *testing.T, b Backend) {
	i := start(t, b, Options{})
	var ids, odd []string
	for n := range 120 {
		c := fresh()
		c.Writes[0].Attributes = []ledger.Attribute{{Name: "status", Value: fmt.Sprint(n % 2)}, {Name: "third", Value: fmt.Sprint(n % 3)}}
		i.must(i.Commit(t.Context(), c))
		ids = append(ids, c.Writes[0].ID)
		if n%2 == 1 && n%3 == 0 {
			odd = append(odd, c.Writes[0].ID)
		}
	}
	slices.Reverse(ids)
	slices.Reverse(odd)
	collect := func(q ledger.Query) (got []string) {
		t.Helper()
		for {
			page, err := i.Find(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > 100 || q.Limit > 0 && len(page) > q.Limit {
				t.Fatalf("a page of %d", len(page))
			}
			if len(page) == 0 {
				return got
			}
			for _, s := range page {
				got = append(got, s.ID)
				if s.Revision != 1 || string(s.State) != `{"v":1}` || s.Head != evidence.Genesis {
					t.Fatalf("found %v", s)
				}
			}
			q.Before = got[len(got)-1]
		}
	}
	all := ledger.Query{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun}
	if got := collect(all); !slices.Equal(got, ids) {
		t.Errorf("all: %d ids, want 120 newest first", len(got))
	}
	some := all
	some.Limit = 7
	some.Where = []ledger.Attribute{{Name: "status", Value: "1"}, {Name: "third", Value: "0"}}
	if got := collect(some); !slices.Equal(got, odd) {
		t.Errorf("status 1 and third 0: %d ids, want %d", len(got), len(odd))
	}
	some.Where = []ledger.Attribute{{Name: "status", Value: "2"}}
	if got := collect(some); len(got) != 0 {
		t.Errorf("status 2: %d ids, want none", len(got))
	}
	elsewhere := all
	elsewhere.Workspace = "elsewhere"
	if got := collect(elsewhere); len(got) != 0 {
		t.Errorf("elsewhere: %d ids, want none", len(got))
	}
}

// A watcher wakes after a commit to its subject, on every replica, and sees it.
func testWatch(t *testing.T, b Backend) {
	i := start(t, b, Options{})
	key := runKey(newID())
	for n, e := range i.replicas() {
		w := e.Watch(key)
		defer w.Close()
		s := i.load(key)
		i.must(i.Commit(t.Context(), ledger.Change{Writes: []ledger.Write{bare(s, `{}`)}}))
		for { // a wake-up may be spurious
			select {
			case <-w.C:
			case <-time.After(30 * time.Second):
				t.Fatalf("replica %d was not woken", n)
			}
			now, err := load(t.Context(), e, key)
			if err != nil {
				t.Fatal(err)
			}
			if now.Revision == s.Revision+1 {
				break
			}
		}
	}
}

// An erased text is gone for good, also after a restart; the chain is as before.
func testEraseText(t *testing.T, b Backend) {
	i := start(t, b, Options{})
	p := plan{id: newID(), key: i.key}
	for range 2 {
		if _, r, err := p.step(t.Context(), i); err != nil || r.Outcome != ledger.Stored {
			t.Fatal(r.Err(), err)
		}
	}
	erased, kept := p.text(1), p.text(2)
	if err := i.EraseText(t.Context(), p.subject(), erased.Commitment); err != nil {
		t.Fatal(err)
	}
	if err := i.EraseText(t.Context(), p.subject(), erased.Commitment); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("erased again: %v", err)
	}
	if err := i.EraseText(t.Context(), runKey(newID()), kept.Commitment); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("erased at another subject: %v", err)
	}
	i.restart()
	texts, err := i.Texts(t.Context(), p.subject())
	if err != nil || len(texts) != 1 || texts[0].Text != kept.Text {
		t.Errorf("texts %v, %v, want the second only", texts, err)
	}
	if text, err := i.Text(t.Context(), p.subject(), kept.Commitment); err != nil || text.Text != kept.Text {
		t.Errorf("the kept text reads as %v, %v", text, err)
	}
	if _, err := i.Text(t.Context(), p.subject(), erased.Commitment); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the erased text: %v", err)
	}
	if err := p.auditChain(t.Context(), i, i.load(p.subject())); err != nil {
		t.Error(err)
	}
}

// The first fingerprints stay: any other set is refused, on every replica and
// after a restart.
func testInstallation(t testing.TB, b Backend) {
	i := start(t, b, Options{})
	keys := map[string]string{"evidence": "0123456789abcdef", "mac": "fedcba9876543210"}
	if err := i.CheckInstallation(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	check := func(e Engine) {
		t.Helper()
		if err := e.CheckInstallation(t.Context(), keys); err != nil {
			t.Errorf("the same keys: %v", err)
		}
		for name, other := range map[string]map[string]string{
			"another key": {"evidence": "0123456789abcdef", "mac": "0000000000000000"},
			"one less":    {"evidence": "0123456789abcdef"},
			"one more":    {"evidence": "0123456789abcdef", "mac": "fedcba9876543210", "seal": "00"},
			"none":        {},
		} {
			if err := e.CheckInstallation(t.Context(), other); err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
	}
	for _, e := range i.replicas() {
		check(e)
	}
	if err := i.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	other := start(t, b, Options{})
	if err := other.CheckInstallation(t.Context(), map[string]string{"evidence": "another"}); err != nil {
		t.Errorf("another database: %v", err)
	}
	if b.Replicas == 1 {
		i.restart()
		check(i)
	}
}
