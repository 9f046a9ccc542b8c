package project_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/contextturn/project"
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

var (
	key     = evidence.NewSigningKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	subject = evidence.Subject{Workspace: "default", Issuer: "http://localhost:8420"}
	session = strings.Repeat("5", 64)
)

// Identifiers as anybody can compute them: the first 32 hex digits of the SHA-256 of
// "acme/help" and of that id, a slash and the environment.
const (
	projectID = "prj_cdcbee48c6110699453054b081ee2c54"
	clientID  = "cli_019800000000700080000000000000aa"
)

// hash is a SHA-256 of nothing in particular.
func hash(digit string) string { return strings.Repeat(digit, 64) }

// deciding is a decision about any of the three.
type deciding interface {
	Done() (*machine.Transition, error)
	Now() evidence.Time
}

// replay is the replay of any of the three.
type replay interface {
	Apply(evidence.Event)
	Known() bool
	Unlawful() []machine.Unlawful
}

// world is one subject with its chain, stored as a ledger would. S is its state.
type world[S any] struct {
	t      testing.TB
	now    evidence.Time
	raw    []byte // the stored state; nil: none yet
	decode func([]byte) (*S, error)
	head   evidence.Link
	events []evidence.Event
	texts  []evidence.Text
	seeds  byte
}

func newWorld[S any](t testing.TB, decode func([]byte) (*S, error)) *world[S] {
	return &world[S]{t: t, now: dawn, decode: decode, head: evidence.Link{Hash: evidence.Genesis}}
}

func (w *world[S]) state() *S {
	w.t.Helper()
	if w.raw == nil {
		return new(S)
	}
	s, err := w.decode(w.raw)
	must(w.t, err)
	return s
}

// do decides and stores what was decided, if anything. It returns the reason of a denial.
func (w *world[S]) do(f func(*S, evidence.Time, [32]byte) (deciding, *authority.Denial)) string {
	w.t.Helper()
	w.seeds++
	s := w.state()
	d, denial := f(s, w.now, [32]byte{w.seeds, byte(len(w.events))})
	if denial != nil {
		return denial.Reason
	}
	t, err := d.Done()
	must(w.t, err)
	if len(t.Drafts) == 0 {
		return ""
	}
	subject, err := canon.Marshal(s)
	must(w.t, err)
	var id struct {
		ID string `json:"id"`
	}
	must(w.t, json.Unmarshal(subject, &id))
	events, err := evidence.Seal(key, id.ID, w.head, d.Now().Time(), t.Drafts)
	must(w.t, err)
	w.raw, w.events, w.texts = subject, append(w.events, events...), append(w.texts, t.Texts...)
	last := events[len(events)-1]
	w.head = evidence.Link{Sequence: last.Sequence, Hash: last.Hash}
	return ""
}

// lawful holds the chain against its replay, which comes to the stored state.
func (w *world[S]) lawful(r replay, state func() *S) {
	w.t.Helper()
	for _, e := range w.events {
		r.Apply(e)
	}
	if !r.Known() || len(r.Unlawful()) > 0 {
		w.t.Fatalf("known %t, unlawful %+v", r.Known(), r.Unlawful())
	}
	if got := canon.MustMarshal(state()); !bytes.Equal(got, w.raw) {
		w.t.Errorf("replayed to\n%s\nstored is\n%s", got, w.raw)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// desk is a project that is worked on.
type desk struct{ *world[project.Project] }

func newDesk(t testing.TB) desk { return desk{newWorld(t, project.Decode)} }

func (d desk) open(handle, slug string) string {
	d.t.Helper()
	return d.do(func(s *project.Project, now evidence.Time, seed [32]byte) (deciding, *authority.Denial) {
		x := project.Begin(s, now, seed)
		return x, x.Open(subject, handle, slug, session)
	})
}

func (d desk) publish(environment, digest string, draft bool) (b project.BuildRef, reason string) {
	d.t.Helper()
	reason = d.do(func(s *project.Project, now evidence.Time, seed [32]byte) (deciding, *authority.Denial) {
		x := project.Begin(s, now, seed)
		var denial *authority.Denial
		b, denial = x.Publish(environment, project.BuildRef{Digest: digest, Documents: 3, Cases: 2, Bytes: 4000}, draft, session)
		return x, denial
	})
	return b, reason
}

func (d desk) lawful() {
	d.t.Helper()
	r := project.NewReplay()
	d.world.lawful(r, r.State)
}

// badge is a client.
type badge struct{ *world[project.Client] }

func newBadge(t testing.TB) badge { return badge{newWorld(t, project.DecodeClient)} }

func request(edits ...func(*project.ClientRequest)) project.ClientRequest {
	r := project.ClientRequest{Name: "My application gateway", Kind: "custom", Profile: "support", Environment: "production", TurnProtocol: "required"}
	for _, f := range edits {
		f(&r)
	}
	return r
}

func (b badge) change(f func(*project.DecidingClient) *authority.Denial) string {
	b.t.Helper()
	return b.do(func(s *project.Client, now evidence.Time, seed [32]byte) (deciding, *authority.Denial) {
		x := project.BeginClient(s, now, seed)
		return x, f(x)
	})
}

func (b badge) create(r project.ClientRequest) string {
	b.t.Helper()
	return b.change(func(d *project.DecidingClient) *authority.Denial {
		return d.Create(subject, projectID, r, hash("a"), session)
	})
}

func (b badge) share(environment, profile, tokenHash string) string {
	b.t.Helper()
	return b.change(func(d *project.DecidingClient) *authority.Denial {
		return d.Share(subject, projectID, environment, profile, tokenHash, session)
	})
}

func (b badge) rotate(tokenHash string) string {
	b.t.Helper()
	return b.change(func(d *project.DecidingClient) *authority.Denial { return d.Rotate(tokenHash, session) })
}

func (b badge) revoke() string {
	b.t.Helper()
	return b.change(func(d *project.DecidingClient) *authority.Denial { return d.Revoke(session) })
}

func (b badge) lawful() {
	b.t.Helper()
	r := project.NewClientReplay()
	b.world.lawful(r, r.State)
}

// note is a gap.
type note struct{ *world[project.Gap] }

func newNote(t testing.TB) note { return note{newWorld(t, project.DecodeGap)} }

func (n note) report(r project.GapReport) (id, reason, detail string) {
	n.t.Helper()
	reason = n.do(func(s *project.Gap, now evidence.Time, seed [32]byte) (deciding, *authority.Denial) {
		d := project.BeginGap(s, now, seed)
		denial := d.Report(subject, projectID, r)
		if denial != nil {
			detail = denial.Detail
		}
		id = s.ID
		return d, denial
	})
	return id, reason, detail
}

func text(s string) *string { return &s }
