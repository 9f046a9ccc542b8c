package control_test

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/pgtest"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
	"countersign/internal/supervision/records"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type engine interface {
	control.Ledger
	records.Ledger
	Close() error
}

// house is a plane on an engine.
type house struct {
	*control.Plane
	t      *testing.T
	config control.Config
	ledger engine
	clock  *ledger.Clock
	frozen bool
}

func onEach(t *testing.T, test func(*testing.T, *house)) {
	t.Helper()
	engines := map[string]func(t *testing.T, clock *ledger.Clock) engine{
		"sqlite": func(t *testing.T, clock *ledger.Clock) engine {
			path := filepath.Join(t.TempDir(), "countersign.db")
			must(t, sqlite.Create(t.Context(), path))
			l, err := sqlite.Open(t.Context(), path, sqlite.Options{Clock: clock})
			must(t, err)
			return l
		},
		"postgres": func(t *testing.T, clock *ledger.Clock) engine {
			l, err := postgres.Open(t.Context(), pgtest.Database(t, postgres.Migrate), postgres.Options{Clock: clock})
			must(t, err)
			return l
		},
	}
	for name, open := range engines {
		t.Run(name, func(t *testing.T) {
			h := &house{t: t, clock: &ledger.Clock{}}
			h.ledger = open(t, h.clock)
			t.Cleanup(func() { h.ledger.Close() })
			public, private, err := ed25519.GenerateKey(rand.Reader)
			must(t, err)
			key, mac := evidence.NewSigningKey(private), make([]byte, 32)
			rand.Read(mac)
			h.config = control.Config{
				Ledger: h.ledger, Chains: records.New(h.ledger, ledger.DefaultWorkspace, key), Signing: key, Keys: evidence.Keys{{Public: public}},
				Issuer: "http://localhost:8420", Workspace: ledger.DefaultWorkspace,
				MAC: func(parts ...string) []byte {
					m := hmac.New(sha256.New, mac)
					m.Write([]byte(strings.Join(parts, "\x00")))
					return m.Sum(nil)
				},
				Freeze: func(context.Context) (bool, int64, error) { return h.frozen, 0, nil },
			}
			h.open()
			test(t, h)
		})
	}
}

// open makes a plane of the house's configuration.
func (h *house) open() { h.Plane = control.New(h.config) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// browser is one session's side.
type browser struct {
	h      *house
	cookie string
}

func (b *browser) do(operation, channel string, in incident.Input, nonce string) (*control.Answer, string) {
	b.h.t.Helper()
	r := incident.Request{Operation: operation, Channel: channel, Input: in}
	if problem := r.Problem(); problem != "" {
		b.h.t.Fatalf("%s: %s", operation, problem)
	}
	a, err := b.h.Do(b.h.t.Context(), b.cookie, "192.0.2.1", r, nonce)
	if a != nil && a.Cookie != "" {
		b.cookie = a.Cookie
	}
	if d, denied := errors.AsType[*authority.Denial](err); denied {
		return a, d.Reason
	}
	must(b.h.t, err)
	return a, ""
}

func (b *browser) stage(mitigation string) *incident.Staged {
	b.h.t.Helper()
	s, err := b.h.Snapshot(b.h.t.Context(), b.cookie)
	must(b.h.t, err)
	a, reason := b.do(incident.Stage, incident.API, incident.Input{MitigationID: &mitigation, ExpectedVersion: &s.Version}, "")
	if reason != "" {
		b.h.t.Fatalf("stage: %s", reason)
	}
	return a.Snapshot.Staged
}

func (b *browser) approve() (*control.Answer, string) {
	b.h.t.Helper()
	s, nonce, err := b.h.Form(b.h.t.Context(), b.cookie)
	must(b.h.t, err)
	return b.do(incident.Approve, incident.Human, incident.Input{ActionDigest: &s.Staged.Digest, ResourceVersion: &s.Staged.Version}, nonce)
}

func (b *browser) execute(s *incident.Staged) (*control.Answer, string) {
	b.h.t.Helper()
	return b.do(incident.Execute, incident.WebMCP, incident.Input{ActionDigest: &s.Digest, ResourceVersion: &s.Version, IdempotencyKey: &s.IdempotencyKey}, "")
}
