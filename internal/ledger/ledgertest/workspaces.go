package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// The same names stand for one thing in one workspace and for another in the next: ids,
// idempotency keys, permits, credentials, texts and sealed values. What is written in one
// is neither found nor met nor changed in the other.
func testWorkspaces(t testing.TB, b Backend) {
	i := start(t, b, Options{})
	ctx, p := t.Context(), plan{id: newID(), key: i.key}
	here, there := p.subject(), p.subject()
	there.Workspace = "elsewhere"
	only := runKey(newID())
	s := i.begun(here)
	step := func(s ledger.Subject) {
		t.Helper()
		now, err := i.Now(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.next(s, now)
		if err != nil {
			t.Fatal(err)
		}
		if r := i.Commit(ctx, c); r.Outcome != ledger.Stored {
			t.Fatalf("in %s: %v", s.Workspace, r.Err())
		}
	}
	step(s)
	step(i.begun(there)) // the same names, and no conflict
	step(i.begun(there)) // takes away there what has the same name here
	i.must(i.Commit(ctx, ledger.Change{Writes: []ledger.Write{{Key: only, Head: evidence.Genesis, State: []byte(`{}`), Due: time.Unix(1, 0)}}}))
	if err := i.EraseText(ctx, there, p.text(1).Commitment); err != nil {
		t.Error(err)
	}
	for _, w := range []struct {
		key      ledger.Key
		revision int64
	}{{here, 1}, {there, 2}} {
		if s := i.begun(w.key); s.Revision != w.revision || string(s.State) != string(p.state(w.revision)) {
			t.Errorf("%s: revision %d with %s, want %d", w.key, s.Revision, s.State, w.revision)
		}
		events, err := i.Events(ctx, w.key, 0, 0)
		if err != nil || len(events) != int(w.revision)*planEvents {
			t.Errorf("%s: %d events, %v", w.key, len(events), err)
		}
		found, err := i.Find(ctx, ledger.Query{Workspace: w.key.Workspace, Kind: w.key.Kind, Where: []ledger.Attribute{{Name: "owner", Value: p.id}}})
		if err != nil || len(found) != 1 || found[0].Key != w.key || found[0].Revision != w.revision {
			t.Errorf("%s: found %v, %v", w.key, found, err)
		}
		isHere := w.key == here
		for what, is := range map[string]struct {
			err  error
			want bool
		}{
			"credential 1": {second(i.Credential(ctx, w.key.Workspace, p.credential(1))), isHere},
			"text 1":       {last(i.Text(ctx, w.key, p.text(1).Commitment)), isHere},
			"sealed 1":     {last(i.SealedValue(ctx, w.key, p.seal(1))), isHere},
			"record 2":     {last(i.Record(ctx, w.key.Workspace, p.id, p.record(2))), !isHere},
			"fate 2":       {last(i.Fate(ctx, w.key.Workspace, p.permit(2))), !isHere},
			"credential 2": {second(i.Credential(ctx, w.key.Workspace, p.credential(2))), !isHere},
			"text 2":       {last(i.Text(ctx, w.key, p.text(2).Commitment)), !isHere},
			"sealed 2":     {last(i.SealedValue(ctx, w.key, p.seal(2))), !isHere},
		} {
			if is.want && is.err != nil || !is.want && !errors.Is(is.err, ledger.ErrNotFound) {
				t.Errorf("%s: %s: %v, want it there: %v", w.key, what, is.err, is.want)
			}
		}
		texts, err := i.Texts(ctx, w.key)
		if err != nil || len(texts) != 1 {
			t.Errorf("%s: %d texts, %v", w.key, len(texts), err)
		}
	}
	// What one workspace has alone the other has not, nor in its lists.
	alone := only
	alone.Workspace = there.Workspace
	if _, _, err := i.Load(ctx, alone); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("%s: %v", alone, err)
	}
	if found, err := i.Find(ctx, ledger.Query{Workspace: there.Workspace, Kind: there.Kind}); err != nil || len(found) != 1 {
		t.Errorf("a list has %v, %v", found, err)
	}
	// A freeze stops its own workspace.
	frozen := ledger.Key{Workspace: there.Workspace, Kind: ledger.KindWorkspace, ID: there.Workspace}
	i.must(i.Commit(ctx, ledger.Change{Writes: []ledger.Write{{Key: frozen, Head: evidence.Genesis, State: []byte(`{}`), Attributes: []ledger.Attribute{{Name: ledger.AttributeFrozen, Value: "1"}}}}}))
	step(i.begun(here))
	now, err := i.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.next(i.begun(there), now)
	if err != nil {
		t.Fatal(err)
	}
	if r := i.Commit(ctx, c); r.Outcome != ledger.Conflict || r.Which != ledger.OnFreeze {
		t.Errorf("in the frozen one: %v", r)
	}
	// Whoever settles is told whose a due subject is.
	due, err := i.Due(ctx, ledger.Overdue{}, 10)
	if err != nil || fmt.Sprint(due) != fmt.Sprint([]ledger.Overdue{{Key: only, Since: time.Unix(1, 0).UTC()}}) {
		t.Errorf("due %v, %v", due, err)
	}
}

// begun reads a subject that may not be there yet.
func (i *instance) begun(key ledger.Key) ledger.Subject {
	i.t.Helper()
	s, _, err := i.Load(i.t.Context(), key)
	if errors.Is(err, ledger.ErrNotFound) {
		return ledger.Subject{Key: key, Head: evidence.Genesis}
	}
	if err != nil {
		i.t.Fatal(err)
	}
	return s
}

func last[T any](_ T, err error) error           { return err }
func second[T, U any](_ T, _ U, err error) error { return err }

// merging reads every workspace as the default one.
func merging(_ *instance, e Engine) Engine { return merged{e} }

type merged struct{ Engine }

func (m merged) Fate(ctx context.Context, _, permitID string) (ledger.Fate, error) {
	return m.Engine.Fate(ctx, ledger.DefaultWorkspace, permitID)
}
