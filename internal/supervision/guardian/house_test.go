package guardian_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/guardian"
)

// dawn is when every test begins.
var dawn = evidence.TimeOf(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC))

var key = evidence.NewSigningKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))

const issuer = "http://localhost:8420"

func subject(id string) evidence.Subject {
	return evidence.Subject{ID: id, Workspace: "default", Issuer: issuer}
}

func policy(edits ...func(*guardian.Policy)) guardian.Policy {
	p := guardian.Policy{
		Name: "Purchases", Service: "merchant", Environment: "local", Mode: "bounded", BudgetCents: 13700, Provider: "replay",
		Operations: []string{"merchant.catalog", "merchant.cart.add"}, Channels: []string{"http"},
	}
	for _, f := range edits {
		f(&p)
	}
	return p
}

// world is one policy with its chain, stored as a ledger would.
type world struct {
	t      testing.TB
	now    evidence.Time
	raw    []byte // the stored state; nil: none yet
	head   evidence.Link
	events []evidence.Event
	seeds  byte
}

func newWorld(t testing.TB) *world {
	return &world{t: t, now: dawn, head: evidence.Link{Hash: evidence.Genesis}}
}

const policyID = "01980000-0000-7000-8000-000000000001"

func (w *world) state() *guardian.State {
	w.t.Helper()
	if w.raw == nil {
		return &guardian.State{}
	}
	s, err := guardian.DecodeState(w.raw)
	must(w.t, err)
	return s
}

func (w *world) seed() (s [32]byte) {
	w.seeds++
	s[0], s[1] = w.seeds, byte(len(w.events))
	return s
}

// do decides and stores what was decided, if anything. It returns the reason of a
// denial.
func (w *world) do(f func(*guardian.Deciding) *authority.Denial) string {
	w.t.Helper()
	s := w.state()
	d := guardian.Begin(s, w.now, w.seed())
	if denial := f(d); denial != nil {
		return denial.Reason
	}
	t, err := d.Done()
	must(w.t, err)
	events, err := evidence.Seal(key, policyID, w.head, d.Now().Time(), t.Drafts)
	must(w.t, err)
	w.raw, err = canon.Marshal(s)
	must(w.t, err)
	w.events = append(w.events, events...)
	last := events[len(events)-1]
	w.head = evidence.Link{Sequence: last.Sequence, Hash: last.Hash}
	return ""
}

func (w *world) draft(p guardian.Policy) string {
	w.t.Helper()
	return w.do(func(d *guardian.Deciding) *authority.Denial { return d.Draft(subject(policyID), p) })
}

func (w *world) edit(revision int64, p guardian.Policy) string {
	w.t.Helper()
	return w.do(func(d *guardian.Deciding) *authority.Denial { return d.Edit(revision, p) })
}

func (w *world) start(revision int64) (id, reason string) {
	w.t.Helper()
	reason = w.do(func(d *guardian.Deciding) *authority.Denial {
		var denial *authority.Denial
		id, denial = d.Start(revision)
		return denial
	})
	return id, reason
}

func (w *world) complete(id string, tests []guardian.Test) string {
	w.t.Helper()
	return w.do(func(d *guardian.Deciding) *authority.Denial { return d.Complete(id, []string{"run"}, tests) })
}

func (w *world) publish(revision int64) string {
	w.t.Helper()
	return w.do(func(d *guardian.Deciding) *authority.Denial { return d.Publish(revision) })
}

// verify starts a verification and ends it with the tests.
func (w *world) verify(revision int64, edits ...func([]guardian.Test)) {
	w.t.Helper()
	id, reason := w.start(revision)
	if reason != "" {
		w.t.Fatalf("start: %s", reason)
	}
	tests := passed(w.state().Draft, w.now)
	for _, f := range edits {
		f(tests)
	}
	if reason := w.complete(id, tests); reason != "" {
		w.t.Fatalf("complete: %s", reason)
	}
}

// passed are the tests of a verification of the policy that found nothing wrong, as
// requirement H-204 and H-206 list them.
func passed(p guardian.Policy, at evidence.Time) (tests []guardian.Test) {
	configuration := func(name, result string) {
		tests = append(tests, guardian.Test{Name: name, Result: result, At: at})
	}
	probe := func(name string, status int64, reason string) {
		answer := guardian.Answer{Status: status, ReasonCode: reason}
		again := answer
		tests = append(tests, guardian.Test{Name: name, Expected: &answer, Observed: &again, Result: "passed", At: at})
	}
	configuration("service", "passed")
	configuration("environment", "passed")
	configuration("operations", "passed")
	for _, c := range p.Channels {
		configuration("channel."+c, "passed")
	}
	configuration("webmcp.native", "not_measured")
	configuration("runs.synthetic", "passed")
	probe("caller.no_token", 401, "AUTHENTICATION_REQUIRED")
	probe("caller.wrong_token", 401, "AUTHENTICATION_REQUIRED")
	probe("caller.owner_cookie", 401, "AUTHENTICATION_REQUIRED")
	probe("caller.run_token_on_owner_route", 403, "BEARER_ON_OWNER_ROUTE")
	probe("origin.foreign_read", 403, "ORIGIN_REJECTED")
	probe("origin.foreign_change", 403, "ORIGIN_REJECTED")
	probe("origin.missing", 403, "ORIGIN_REJECTED")
	probe("receipt.observation", 200, "")
	probe("receipt.report", 200, "RELEVANT")
	probe("permit.none", 403, "PERMIT_REQUIRED")
	probe("permit.foreign", 403, "PERMIT_MISMATCH")
	probe("receipt.read", 200, "")
	probe("idempotency.same_request", 200, "")
	probe("idempotency.other_body", 409, "IDEMPOTENCY_CONFLICT")
	configuration("runs.revoked", "passed")
	return tests
}

// failing makes the test of a name fail.
func failing(name string) func([]guardian.Test) {
	return func(tests []guardian.Test) {
		i := slices.IndexFunc(tests, func(t guardian.Test) bool { return t.Name == name })
		tests[i].Result = "failed"
	}
}

// lawful replays the chain and compares what it amounts to with the stored state.
func (w *world) lawful() {
	w.t.Helper()
	r := guardian.NewReplay()
	for _, e := range w.events {
		r.Apply(e)
	}
	if !r.Known() || len(r.Unlawful()) > 0 {
		w.t.Errorf("known %t, unlawful: %+v", r.Known(), r.Unlawful())
	}
	again, err := canon.Marshal(r.State())
	must(w.t, err)
	if !bytes.Equal(again, w.raw) {
		w.t.Errorf("the chain amounts to\n%s\nstored is\n%s", again, w.raw)
	}
}

// tamper seals the chain again after changing the data of the newest event of a type.
func (w *world) tamper(eventType string, change func(map[string]any)) []evidence.Event {
	w.t.Helper()
	at := -1
	for i, e := range w.events {
		if e.Type == eventType {
			at = i
		}
	}
	if at < 0 {
		w.t.Fatalf("no %s in the chain", eventType)
	}
	return w.sealed(func(i int, d *evidence.Draft, _ *time.Time) {
		if i == at {
			var data map[string]any
			decoder := json.NewDecoder(bytes.NewReader(d.Data.(json.RawMessage)))
			decoder.UseNumber()
			must(w.t, decoder.Decode(&data))
			change(data)
			raw, err := json.Marshal(data)
			must(w.t, err)
			raw, err = canon.Canonical(raw)
			must(w.t, err)
			d.Data = json.RawMessage(raw)
		}
	})
}

// sealed seals the chain again, each event as edit leaves it.
func (w *world) sealed(edit func(i int, d *evidence.Draft, at *time.Time)) (out []evidence.Event) {
	w.t.Helper()
	head := evidence.Link{Hash: evidence.Genesis}
	for i, e := range w.events {
		at, err := evidence.ParseTime(e.Timestamp)
		must(w.t, err)
		d := evidence.Draft{ID: e.ID, Type: e.Type, Data: e.Data}
		edit(i, &d, &at)
		events, err := evidence.Seal(key, policyID, head, at, []evidence.Draft{d})
		must(w.t, err)
		out, head = append(out, events...), evidence.Link{Sequence: events[0].Sequence, Hash: events[0].Hash}
	}
	return out
}

// rules replays a chain and returns the broken rules.
func rules(events []evidence.Event) (broken []string) {
	r := guardian.NewReplay()
	for _, e := range events {
		r.Apply(e)
	}
	for _, u := range r.Unlawful() {
		broken = append(broken, u.Rule)
	}
	return broken
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
