package incident_test

import (
	"bytes"
	"crypto/ed25519"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/runbook/incident"
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

// dawn is when every session begins: 0x019ca8b2d280 milliseconds since 1970.
var dawn = evidence.TimeOf(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC))

// cookieHash is what the cookie of every session is kept as.
const cookieHash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

var (
	key     = evidence.NewSigningKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	session = incident.SessionID(dawn, cookieHash)
	subject = evidence.Subject{Workspace: "default", Issuer: "http://localhost:8420"}
)

const mitigated, shifted, scaled = "restore-pool", "shift-traffic", "scale-workers"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func hash(digit string) string { return strings.Repeat(digit, 64) }

func to[T any](v T) *T { return &v }

// world is one session with its chain, stored as a ledger would, and the records of its
// executions.
type world struct {
	t       testing.TB
	now     evidence.Time
	raw     []byte
	head    evidence.Link
	events  []evidence.Event
	told    []*incident.Receipt
	records map[string]*incident.Execution
}

func begun(t testing.TB) *world {
	t.Helper()
	return &world{t: t, now: dawn, head: evidence.Link{Hash: evidence.Genesis}, raw: canon.MustMarshal(incident.New()), records: map[string]*incident.Execution{}}
}

func (w *world) after(d time.Duration) *world { w.now = w.now.Add(d); return w }

func (w *world) state() *incident.Session {
	w.t.Helper()
	s := incident.New()
	must(w.t, canon.Unmarshal(w.raw, s))
	return s
}

// ask has a request decided, and stores what was decided. Executions are looked up in the
// records, unless seen says what was found.
func (w *world) ask(operation, channel string, in incident.Input, seen incident.Seen) (*incident.Receipt, string) {
	w.t.Helper()
	r := incident.Request{Operation: operation, Channel: channel, Input: in}
	if problem := r.Problem(); problem != "" {
		w.t.Fatalf("%s: %s", operation, problem)
	}
	if operation == incident.Execute {
		if x := w.records[*in.IdempotencyKey]; x != nil {
			seen.Conflict = x.Digest != *in.ActionDigest || x.Version != *in.ResourceVersion
			if !seen.Conflict {
				seen.Record = x
			}
		}
	}
	d := incident.Begin(w.state(), subject, session, w.now, [32]byte{byte(len(w.events)), byte(len(w.events) >> 8), 1})
	receipt, denial := d.Do(r, seen)
	transition, err := d.Done()
	must(w.t, err)
	if (receipt == nil) != (len(transition.Drafts) == 0) {
		w.t.Fatalf("%d drafts, receipt %+v", len(transition.Drafts), receipt)
	}
	if receipt != nil {
		w.store(d, transition.Drafts)
		w.told = append(w.told, receipt)
		if receipt.Event == "mitigation.executed" {
			w.records[receipt.Result.Execution.IdempotencyKey] = receipt.Result.Execution
		}
	}
	return receipt, reason(denial)
}

func (w *world) store(d *incident.Deciding, drafts []evidence.Draft) {
	w.t.Helper()
	events, err := evidence.Seal(key, session, w.head, d.Now().Time(), drafts)
	must(w.t, err)
	w.raw, err = canon.Marshal(d.State())
	must(w.t, err)
	w.events, w.head = append(w.events, events...), evidence.Link{Sequence: events[0].Sequence, Hash: events[0].Hash}
}

func reason(d *authority.Denial) string {
	if d == nil {
		return ""
	}
	return d.Reason
}

func (w *world) read() { w.allow(w.ask("snapshot", "webmcp", incident.Input{}, incident.Seen{})) }

// allow fails when a request was refused.
func (w *world) allow(r *incident.Receipt, reason string) *incident.Receipt {
	w.t.Helper()
	if reason != "" {
		w.t.Fatalf("refused: %s", reason)
	}
	return r
}

func (w *world) stage(mitigation string) *incident.Receipt {
	w.t.Helper()
	return w.allow(w.ask("stage", "webmcp", incident.Input{MitigationID: &mitigation, ExpectedVersion: to(w.state().Version)}, incident.Seen{}))
}

// approval is the request that approves what is staged, execution the one that executes it.
func (w *world) approval() incident.Input {
	s := w.state().Staged
	return incident.Input{ActionDigest: &s.Digest, ResourceVersion: &s.Version}
}

func (w *world) execution() incident.Input {
	s := w.state().Staged
	return incident.Input{ActionDigest: &s.Digest, ResourceVersion: &s.Version, IdempotencyKey: &s.IdempotencyKey}
}

func (w *world) approve() *incident.Receipt {
	w.t.Helper()
	return w.allow(w.ask("approve", "human", w.approval(), incident.Seen{Form: true}))
}

func (w *world) execute() *incident.Receipt {
	w.t.Helper()
	return w.allow(w.ask("execute", "webmcp", w.execution(), incident.Seen{}))
}

func (w *world) fail() *incident.Receipt {
	w.t.Helper()
	return w.allow(w.ask("execute", "webmcp", w.execution(), incident.Seen{Partial: true}))
}

func (w *world) reset() *incident.Receipt {
	w.t.Helper()
	return w.allow(w.ask("reset", "human", incident.Input{ExpectedVersion: to(w.state().Version)}, incident.Seen{}))
}

// staged is a session in which a mitigation is staged, approved one that is approved too,
// executed one where it was executed.
func staged(t testing.TB) *world   { w := begun(t); w.stage(mitigated); return w }
func approved(t testing.TB) *world { w := staged(t); w.approve(); return w }
func executed(t testing.TB) *world { w := approved(t); w.execute(); return w }
func failed(t testing.TB) *world   { w := approved(t); w.fail(); return w }

// lawful holds the chain against its replay, which comes to the stored state.
func (w *world) lawful() {
	w.t.Helper()
	r := replayed(w.events)
	if !r.Known() || len(r.Unlawful()) > 0 {
		w.t.Fatalf("known %t, unlawful %+v", r.Known(), r.Unlawful())
	}
	if got := canon.MustMarshal(r.State()); !bytes.Equal(got, w.raw) {
		w.t.Errorf("replayed to\n%s\nstored is\n%s", got, w.raw)
	}
}

func replayed(events []evidence.Event) *incident.Replay {
	r := incident.NewReplay()
	for _, e := range events {
		r.Apply(e)
	}
	return r
}

// rules are the rules that a chain breaks.
func rules(events []evidence.Event) (list []string) {
	for _, u := range replayed(events).Unlawful() {
		list = append(list, u.Rule)
	}
	return list
}

// sealed hashes and signs data as the chain of the session; at are the times.
func sealed(t testing.TB, data []any, at []evidence.Time) (chain []evidence.Event) {
	t.Helper()
	head := evidence.Link{Hash: evidence.Genesis}
	for i, d := range data {
		events, err := evidence.Seal(key, session, head, at[i].Time(), []evidence.Draft{{ID: fmt.Sprintf("01980000-0000-7000-9000-%012d", i), Type: "incident.receipt", Data: d}})
		must(t, err)
		chain, head = append(chain, events...), evidence.Link{Sequence: events[0].Sequence, Hash: events[0].Hash}
	}
	return chain
}

// forged is the chain of the world with its newest receipt changed, sealed anew.
func (w *world) forged(change func(*incident.Receipt)) []evidence.Event {
	w.t.Helper()
	var data []any
	var at []evidence.Time
	for i, e := range w.events {
		var r incident.Receipt
		must(w.t, canon.Unmarshal(e.Data, &r))
		if i == len(w.events)-1 {
			change(&r)
		}
		when, err := evidence.ParseTime(e.Timestamp)
		must(w.t, err)
		data, at = append(data, &r), append(at, evidence.TimeOf(when))
	}
	return sealed(w.t, data, at)
}

// source is what the package is written in.
func source(t testing.TB) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	must(t, err)
	var all strings.Builder
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			content, err := os.ReadFile(file)
			must(t, err)
			all.Write(content)
		}
	}
	return all.String()
}
