package turn_test

import (
	"bytes"
	"crypto/ed25519"
	"flag"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/contextturn/turn"
	"countersign/internal/machine"
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

// dawn is when every test begins.
var dawn = evidence.TimeOf(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC))

const (
	projectID = "prj_0123456789abcdef0123456789abcdef"
	clientID  = "cli_019800000000700080000000000000aa"
	sharedID  = "shr_0123456789abcdef0123456789abcdef"
	turnID    = "trn_019800000000700080000000000000bb"
	runID     = "01980000-0000-7000-8000-000000000001"
)

var (
	key     = evidence.NewSigningKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	subject = evidence.Subject{Workspace: "default", Issuer: "http://localhost:8420"}
	by      = turn.Binding{Project: projectID, Client: clientID, Profile: "support", Environment: "production"}
	build   = turn.Build{Environment: "production", Number: 3, Digest: hash("b")}
)

func hash(digit string) string { return strings.Repeat(digit, 64) }

func text(s string) *string { return &s }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// items are n documents.
func items(n int) (list []turn.Item) {
	for i := range n {
		list = append(list, turn.Item{Ref: "refunds/eu" + strings.Repeat("'", i), SHA256: hash("c")})
	}
	return list
}

// compass is an answer of compass with n items.
func compass(n int) turn.Answer {
	verdict := turn.Covered
	if n == 0 {
		verdict = turn.Gap
	}
	return turn.Answer{Tool: turn.Compass, Build: &build, Verdict: &verdict, Items: items(n), Request: `{"task":"How do refunds work?"}`, Answer: `{"text":"Like this."}`}
}

// world is one turn with its chain, stored as a ledger would.
type world struct {
	t      testing.TB
	now    evidence.Time
	raw    []byte
	head   evidence.Link
	events []evidence.Event
	texts  []evidence.Text
	seeds  byte
}

func (w *world) seed() [32]byte { w.seeds++; return [32]byte{w.seeds, byte(len(w.events))} }

func (w *world) store(s *turn.State, at evidence.Time, t *machine.Transition) {
	w.t.Helper()
	if len(t.Drafts) == 0 {
		return
	}
	events, err := evidence.Seal(key, s.ID, w.head, at.Time(), t.Drafts)
	must(w.t, err)
	w.raw, err = canon.Marshal(s)
	must(w.t, err)
	last := events[len(events)-1]
	w.events, w.texts, w.head = append(w.events, events...), append(w.texts, t.Texts...), evidence.Link{Sequence: last.Sequence, Hash: last.Hash}
}

// started is a turn that the client has opened.
func started(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, now: dawn, head: evidence.Link{Hash: evidence.Genesis}}
	s, transition, err := turn.Start(by, turn.Label{}, nil, subject, w.now, w.seed())
	must(t, err)
	w.store(s, w.now, transition)
	return w
}

func (w *world) state() *turn.State {
	w.t.Helper()
	s, err := turn.DecodeState(w.raw)
	must(w.t, err)
	return s
}

// do decides and stores what was decided, if anything, also beside a denial. It returns
// the reason of a denial.
func (w *world) do(f func(*turn.Deciding) *authority.Denial) string {
	w.t.Helper()
	s := w.state()
	d := turn.Begin(s, w.now, w.seed())
	denial := f(d)
	transition, err := d.Done()
	must(w.t, err)
	w.store(d.State(), d.Now(), transition)
	if denial == nil {
		return ""
	}
	return denial.Reason
}

func (w *world) call(a turn.Answer) string {
	w.t.Helper()
	return w.do(func(d *turn.Deciding) *authority.Denial { _, denial := d.Call(a); return denial })
}

func (w *world) observe() string {
	w.t.Helper()
	return w.do(func(d *turn.Deciding) *authority.Denial {
		return d.Observe(turn.Observation{Event: "pre_tool_use", Tool: "mcp__seif__context_compass", ToolUseID: "toolu_01"})
	})
}

func (w *world) complete(reported string) string {
	w.t.Helper()
	return w.do(func(d *turn.Deciding) *authority.Denial { return d.Complete(reported, turn.Note(nil)) })
}

// settle lets time do what it does by itself.
func (w *world) settle() {
	w.t.Helper()
	w.do(func(*turn.Deciding) *authority.Denial { return nil })
}

func (w *world) after(d time.Duration) *world { w.now = w.now.Add(d); return w }

func (w *world) types() string {
	var list []string
	for _, e := range w.events {
		list = append(list, e.Type)
	}
	return strings.Join(list, " ")
}

// lawful holds the chain against its replay, which comes to the stored state.
func (w *world) lawful() {
	w.t.Helper()
	r := turn.NewReplay()
	for _, e := range w.events {
		r.Apply(e)
	}
	if !r.Known() || len(r.Unlawful()) > 0 {
		w.t.Fatalf("known %t, unlawful %+v", r.Known(), r.Unlawful())
	}
	if got := canon.MustMarshal(r.State()); !bytes.Equal(got, w.raw) {
		w.t.Errorf("replayed to\n%s\nstored is\n%s", got, w.raw)
	}
}
