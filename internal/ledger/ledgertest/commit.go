package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// Five Changes of a plan; then every field of every part is read back.
func testStoresEveryPart(t *testing.T, b Backend) {
	i := start(t, b, Options{})
	p := plan{id: newID(), key: i.key}
	var last ledger.Change
	for range 5 {
		c, r, err := p.step(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		i.must(r)
		last = c
	}
	if r, err := p.audit(t.Context(), i); err != nil || r != 5 {
		t.Fatalf("audit: revision %d, %v", r, err)
	}
	w, s := last.Writes[0], i.load(p.subject())
	newest := w.Events[planEvents-1]
	at, err := evidence.ParseTime(newest.Timestamp)
	if err != nil {
		t.Fatal(err)
	}
	want := ledger.Subject{Key: w.Key, Revision: 5, Sequence: 10, Head: newest.Hash, State: w.State, Due: w.Due, UpdatedAt: at}
	if fmt.Sprint(s) != fmt.Sprint(want) {
		t.Errorf("subject %v, want %v", s, want)
	}
	events, err := i.Events(t.Context(), s.Key, 8, 0)
	if err != nil || fmt.Sprint(events) != fmt.Sprint(w.Events) {
		t.Errorf("events %v, %v, want %v", events, err, w.Events)
	}
	if events, err := i.Events(t.Context(), s.Key, 0, 3); err != nil || len(events) != 3 || events[0].Sequence != 1 {
		t.Errorf("first page: %v, %v", events, err)
	}
	if events, err := i.Events(t.Context(), runKey(newID()), 0, 3); err != nil || len(events) != 0 {
		t.Errorf("events of nobody: %v, %v", events, err)
	}
	if record, err := i.Record(t.Context(), s.Workspace, p.id, p.record(5)); err != nil || record != *last.Record {
		t.Errorf("record %v, %v, want %v", record, err, *last.Record)
	}
	if fate, err := i.Fate(t.Context(), s.Workspace, p.permit(5)); err != nil || fate != last.Fates[0] {
		t.Errorf("fate %v, %v, want %v", fate, err, last.Fates[0])
	}
	credential, now, err := i.Credential(t.Context(), s.Workspace, p.credential(5))
	if err != nil || credential != last.Credentials[0] || now.IsZero() {
		t.Errorf("credential %v at %v, %v, want %v", credential, now, err, last.Credentials[0])
	}
	if sealed, err := i.SealedValue(t.Context(), s.Key, p.seal(5)); err != nil || string(sealed) != p.seal(5) {
		t.Errorf("sealed %q, %v", sealed, err)
	}
	if _, err := i.Record(t.Context(), "elsewhere", p.id, p.record(5)); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("record of another workspace: %v", err)
	}
	if _, now, err := i.Load(t.Context(), runKey(newID())); !errors.Is(err, ledger.ErrNotFound) || now.IsZero() {
		t.Errorf("load of nobody: %v, %v", now, err)
	}
}

// What is hashed comes back byte for byte, up to the largest state.
func testKeepsBytes(t *testing.T, b Backend) {
	i := start(t, b, Options{})
	tricky := `{"big":9007199254740991,"control":"\u0001\u001f","e":"é😀","zero":"\u0000"}`
	largest := `{"s":"` + strings.Repeat("x", ledger.MaxState-len(`{"s":""}`)) + `"}`
	for _, state := range []string{`{}`, tricky, largest} {
		c := fresh()
		c.Writes[0].State = []byte(state)
		i.must(i.Commit(t.Context(), c))
		if s := i.load(c.Writes[0].Key); !bytes.Equal(s.State, []byte(state)) {
			t.Errorf("a state of %d bytes came back as %d other ones", len(state), len(s.State))
		}
	}
	c := fresh()
	id := c.Writes[0].ID
	events, err := evidence.Seal(i.key, id, evidence.Link{Hash: evidence.Genesis}, time.Now(), []evidence.Draft{{ID: newID(), Type: "t", Data: map[string]any{"a": "é"}}})
	if err != nil {
		t.Fatal(err)
	}
	events[0].Data = []byte(tricky) // sealed elsewhere with an escaped NUL: kept, never reinterpreted
	c.Writes[0].Events = events
	i.must(i.Commit(t.Context(), c))
	if got, err := i.Events(t.Context(), runKey(id), 0, 1); err != nil || string(got[0].Data) != tricky {
		t.Errorf("data %v, %v", got, err)
	}
}

// Fourteen Changes that no state of the ledger could take, each of them
// NotStored with a cause and without a row.
func testInvalidChange(t *testing.T, b Backend) {
	i := start(t, b, Options{})
	p := plan{id: newID(), key: i.key}
	if _, r, err := p.step(t.Context(), i); err != nil || r.Outcome != ledger.Stored {
		t.Fatal(r, err)
	}
	s := i.load(p.subject())
	before := i.rows()
	for name, spoil := range map[string]func(c *ledger.Change){
		"no state": func(c *ledger.Change) { c.Writes[0].State = nil },
		"state over the bound": func(c *ledger.Change) {
			c.Writes[0].State = []byte(`{"s":"` + strings.Repeat("x", ledger.MaxState) + `"}`)
		},
		"sequence gap": func(c *ledger.Change) { c.Writes[0].Events[1].Sequence++ },
		"sequence off the head": func(c *ledger.Change) {
			c.Writes[0].Events[0].Sequence++
			c.Writes[0].Events[1].Sequence++
		},
		"previousHash":        func(c *ledger.Change) { c.Writes[0].Events[0].PreviousHash = evidence.Genesis },
		"runId":               func(c *ledger.Change) { c.Writes[0].Events[0].RunID = newID() },
		"timestamp":           func(c *ledger.Change) { c.Writes[0].Events[0].Timestamp = "yesterday" },
		"subject twice":       func(c *ledger.Change) { c.Writes = append(c.Writes, bare(s, `{}`)) },
		"written and guarded": func(c *ledger.Change) { c.Guards = []ledger.Guard{{Key: s.Key, Revision: s.Revision}} },
		"permit twice":        func(c *ledger.Change) { c.Fates = append(c.Fates, c.Fates[0]) },
		"credential twice":    func(c *ledger.Change) { c.Credentials = append(c.Credentials, c.Credentials[0]) },
		"text not its hash":   func(c *ledger.Change) { c.Writes[0].Texts[0].Text += "!" },
		"another workspace":   func(c *ledger.Change) { c.Fates[0].Workspace = "elsewhere" },
		"nothing":             func(c *ledger.Change) { *c = ledger.Change{Workspace: ledger.DefaultWorkspace} },
	} {
		_, now, err := i.Load(t.Context(), s.Key)
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.next(s, now)
		if err != nil {
			t.Fatal(err)
		}
		spoil(&c)
		if r := i.Commit(t.Context(), c); r.Outcome != ledger.NotStored || !errors.Is(r.Cause, ledger.ErrInvalid) {
			t.Errorf("%s: %v because of %v", name, r.Outcome, r.Cause)
		}
	}
	if err := i.unchanged(before); err != nil {
		t.Error(err)
	}
	if _, r, err := p.step(t.Context(), i); err != nil || r.Outcome != ledger.Stored {
		t.Errorf("the good one afterwards: %v, %v", r.Err(), err)
	}
}

// race commits all Changes at once, spread over the engines.
func race(ctx context.Context, engines []Engine, changes []ledger.Change) []ledger.Result {
	results := make([]ledger.Result, len(changes))
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for n := range changes {
		wg.Go(func() {
			<-gate
			results[n] = engines[n%len(engines)].Commit(ctx, changes[n])
		})
	}
	close(gate)
	wg.Wait()
	return results
}

// one reports an error unless exactly one result is Stored and every other a
// conflict of the given kind.
func one(results []ledger.Result, which ledger.Which) error {
	stored := 0
	for _, r := range results {
		switch {
		case r.Outcome == ledger.Stored:
			stored++
		case r.Outcome != ledger.Conflict || r.Which != which:
			return fmt.Errorf("%v, want a conflict on the %s", r.Err(), which)
		}
	}
	if stored != 1 {
		return fmt.Errorf("%d of %d are stored", stored, len(results))
	}
	return nil
}

// 25 rounds of 8 writers of one subject: one is stored, the others leave
// nothing. 200 operations, and as many with revisions ignored as the control.
func testLostRace(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		engines := []Engine{i.Engine}
		if _, weak := i.Engine.(overwriting); !weak {
			engines = i.replicas()
		}
		key := runKey(newID())
		i.must(i.Commit(t.Context(), ledger.Change{Writes: []ledger.Write{bare(ledger.Subject{Key: key, Head: evidence.Genesis}, `{"v":0}`)}}))
		for round := range 25 {
			s := i.load(key)
			before := i.rows()
			changes := make([]ledger.Change, 8)
			for n := range changes {
				c := ledger.Change{Writes: []ledger.Write{bare(s, fmt.Sprintf(`{"v":"%d-%d"}`, round, n))}}
				c.Writes[0].Sealed = []ledger.Sealed{{Name: newID(), Bytes: []byte("x")}}
				c.Fates = []ledger.Fate{{Workspace: key.Workspace, PermitID: newID(), Subject: key, Fate: "claimed"}}
				changes[n] = c
			}
			results := race(t.Context(), engines, changes)
			if err := one(results, ledger.OnSubject); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			for n, r := range results {
				if r.Outcome == ledger.Conflict && r.On != key {
					return fmt.Errorf("the conflict names %v", r.On)
				}
				if r.Outcome == ledger.Stored && !bytes.Equal(i.load(key).State, changes[n].Writes[0].State) {
					return fmt.Errorf("the stored state is not the winner's")
				}
			}
			var grown int64
			for table, rows := range i.rows() {
				grown += rows - before[table]
			}
			if grown != 2 { // the winner's sealed value and fate
				return fmt.Errorf("round %d left %d rows, want 2", round, grown)
			}
		}
		return nil
	}, func(e Engine) Engine { return overwriting{e} })
}

// A guard that moved, one that should not be there and one that holds: the
// guarded subject is compared and not bumped.
func testReadGuards(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		guarded, absent := runKey(newID()), runKey(newID())
		s := ledger.Subject{Key: guarded, Head: evidence.Genesis}
		i.must(i.Commit(t.Context(), ledger.Change{Writes: []ledger.Write{bare(s, `{"v":1}`)}}))
		commit := func(g ...ledger.Guard) ledger.Result {
			c := fresh()
			c.Guards = g
			return i.Commit(t.Context(), c)
		}
		i.must(commit(ledger.Guard{Key: guarded, Revision: 1}, ledger.Guard{Key: absent}))
		if s = i.load(guarded); s.Revision != 1 {
			return fmt.Errorf("the guard bumped its subject to %d", s.Revision)
		}
		i.must(i.Commit(t.Context(), ledger.Change{Writes: []ledger.Write{bare(s, `{"v":2}`)}}))
		before := i.rows()
		for _, g := range []ledger.Guard{{Key: guarded, Revision: 1}, {Key: guarded, Revision: 3}, {Key: guarded}, {Key: absent, Revision: 1}} {
			if r := commit(g); r.Outcome != ledger.Conflict || r.Which != ledger.OnGuard || r.On != g.Key {
				return fmt.Errorf("guard %v: %v on %v", g, r.Err(), r.On)
			}
		}
		return i.unchanged(before)
	}, taking(withoutGuards))
}

// 50 rounds of two Changes, each of which leans on the subject that the other
// one writes: never are both stored. 100 operations and their control.
func testWriteSkew(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		engines := []Engine{i.Engine}
		if _, weak := i.Engine.(weakened); !weak {
			engines = i.replicas()
		}
		x, y := runKey(newID()), runKey(newID())
		for _, k := range []ledger.Key{x, y} {
			i.must(i.Commit(t.Context(), ledger.Change{Writes: []ledger.Write{bare(ledger.Subject{Key: k, Head: evidence.Genesis}, `{}`)}}))
		}
		stored := 0
		for range 50 {
			sx, sy := i.load(x), i.load(y)
			results := race(t.Context(), engines, []ledger.Change{
				{Writes: []ledger.Write{bare(sx, `{}`)}, Guards: []ledger.Guard{{Key: y, Revision: sy.Revision}}},
				{Writes: []ledger.Write{bare(sy, `{}`)}, Guards: []ledger.Guard{{Key: x, Revision: sx.Revision}}},
			})
			both := 0
			for _, r := range results {
				switch {
				case r.Outcome == ledger.Stored:
					both++
				case r.Outcome != ledger.Conflict:
					return r.Err()
				}
			}
			if both == 2 {
				return errors.New("both are stored, each on what the other changed")
			}
			stored += both
		}
		if stored == 0 {
			return errors.New("none of 50 rounds stored anything")
		}
		return nil
	}, taking(withoutGuards))
}

// An idempotency key and a credential hash are taken once; the second Change
// leaves nothing, also none of its other parts.
func testDuplicateKeys(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		record := func(object string) ledger.Change {
			c := fresh()
			c.Record = &ledger.Record{Workspace: ledger.DefaultWorkspace, Principal: "run", Key: "k", Fingerprint: evidence.Genesis,
				Subject: c.Writes[0].Key, Object: object, Sequence: 1}
			return c
		}
		credential := func() ledger.Change {
			c := fresh()
			c.Credentials = []ledger.Credential{{Workspace: ledger.DefaultWorkspace, Hash: evidence.Genesis, Kind: ledger.CredentialOwner, ExpiresAt: time.Now().Add(time.Hour)}}
			return c
		}
		i.must(i.Commit(t.Context(), record("first")))
		i.must(i.Commit(t.Context(), credential()))
		before := i.rows()
		if r := i.Commit(t.Context(), record("second")); r.Outcome != ledger.Conflict || r.Which != ledger.OnRecord {
			return fmt.Errorf("second record: %v", r.Err())
		}
		if r := i.Commit(t.Context(), credential()); r.Outcome != ledger.Conflict || r.Which != ledger.OnCredential {
			return fmt.Errorf("second credential: %v", r.Err())
		}
		if err := i.unchanged(before); err != nil {
			return err
		}
		if got, err := i.Record(t.Context(), ledger.DefaultWorkspace, "run", "k"); err != nil || got.Object != "first" {
			return fmt.Errorf("the record is %v, %v", got, err)
		}
		other := record("third")
		other.Record.Principal = "another run"
		i.must(i.Commit(t.Context(), other))
		return nil
	}, taking(withoutUniqueRows))
}

// A permit has one fate: claimed, then revoked and expired are refused, and so
// is another claim. 50 permits are then contended for by 8 claimers each.
func testSecondFate(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		fate := func(permit, end, execution string) ledger.Change {
			c := fresh()
			c.Fates = []ledger.Fate{{Workspace: ledger.DefaultWorkspace, PermitID: permit, Subject: c.Writes[0].Key, Fate: end, Execution: execution}}
			return c
		}
		i.must(i.Commit(t.Context(), fate("p", "claimed", "e1")))
		before := i.rows()
		for _, end := range []string{"revoked", "expired", "claimed"} {
			if r := i.Commit(t.Context(), fate("p", end, "e2")); r.Outcome != ledger.Conflict || r.Which != ledger.OnPermit {
				return fmt.Errorf("claimed, then %s: %v", end, r.Err())
			}
		}
		if err := i.unchanged(before); err != nil {
			return err
		}
		if f, err := i.Fate(t.Context(), ledger.DefaultWorkspace, "p"); err != nil || f.Fate != "claimed" || f.Execution != "e1" {
			return fmt.Errorf("the fate is %v, %v", f, err)
		}
		engines := i.replicas()
		for range 50 {
			permit := newID()
			changes := make([]ledger.Change, 8)
			for n := range changes {
				changes[n] = fate(permit, "claimed", newID())
			}
			if err := one(race(t.Context(), engines, changes), ledger.OnPermit); err != nil {
				return err
			}
		}
		return nil
	}, taking(withoutUniqueRows))
}
