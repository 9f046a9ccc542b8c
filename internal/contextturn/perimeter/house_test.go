package perimeter_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/authority"
	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/pgtest"
	"countersign/internal/supervision/records"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type engine interface {
	perimeter.Ledger
	records.Ledger
	EraseText(ctx context.Context, key ledger.Key, commitment string) error
	Close() error
}

// house is a perimeter on an engine, with one project.
type house struct {
	*perimeter.Perimeter
	t       *testing.T
	config  perimeter.Config
	ledger  engine
	clock   *ledger.Clock
	project string
}

// session names an owner's session.
var session = strings.Repeat("5", 64)

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
			_, private, err := ed25519.GenerateKey(rand.Reader)
			must(t, err)
			key, mac := evidence.NewSigningKey(private), make([]byte, 32)
			rand.Read(mac)
			h.config = perimeter.Config{
				Ledger: h.ledger, Chains: records.New(h.ledger, ledger.DefaultWorkspace, key), Signing: key, Issuer: "http://localhost:8420", Workspace: ledger.DefaultWorkspace,
				MAC: func(parts ...string) []byte {
					m := hmac.New(sha256.New, mac)
					m.Write([]byte(strings.Join(parts, "\x00")))
					return m.Sum(nil)
				},
			}
			h.open()
			p, err := h.CreateProject(t.Context(), "acme", "support", session)
			must(t, err)
			h.project = p.ID
			test(t, h)
		})
	}
}

// open makes a perimeter of the house's configuration.
func (h *house) open() {
	h.Perimeter = perimeter.New(h.config)
	h.t.Cleanup(func() { h.Close() })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// document is a whole file.
func document(id, title, text string) string {
	return fmt.Sprintf("---\nid: %s\ntitle: %s\n---\n%s\n", id, title, text)
}

// refunds is a Build of three documents.
var refunds = []string{
	document("refunds", "Refund policy", "Refunds are paid within five days to the original card."),
	document("shipping", "Shipping times", "Parcels leave the warehouse on the next working day."),
	document("invoices", "Invoices", "Invoices are sent by mail at the end of the month."),
}

// publish publishes whole files.
func (h *house) publish(environment string, draft bool, files ...string) perimeter.BuildView {
	h.t.Helper()
	_, err := h.PutDocuments(h.t.Context(), h.project, files)
	must(h.t, err)
	b, err := h.Publish(h.t.Context(), h.project, environment, draft, manifest(h.t, files...), session)
	must(h.t, err)
	return b
}

func manifest(t *testing.T, files ...string) content.Manifest {
	t.Helper()
	docs := make([]*content.Document, len(files))
	for i, file := range files {
		d, faults := content.ParseDocument([]byte(file))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		docs[i] = d
	}
	return content.NewManifest(docs, []content.Case{{ID: "money-back", Task: "When are refunds paid?", ExpectRefs: []string{docs[0].Ref}}})
}

// client makes a client of production and lets it in.
func (h *house) client(protocol string) (*perimeter.Caller, string) {
	h.t.Helper()
	_, token, err := h.CreateClient(h.t.Context(), h.project, project.ClientRequest{Name: "gateway", Kind: project.Custom, Profile: "support", Environment: project.Production, TurnProtocol: protocol}, session)
	must(h.t, err)
	return h.enter(token), token
}

func (h *house) enter(token string) *perimeter.Caller {
	h.t.Helper()
	by, err := h.Authenticate(h.t.Context(), token)
	must(h.t, err)
	return by
}

func (h *house) start(by *perimeter.Caller) string {
	h.t.Helper()
	s, err := h.Start(h.t.Context(), by, key(), nil)
	must(h.t, err)
	return s.Turn.ID
}

// key is a fresh idempotency key.
func key() string { return rand.Text() }

func (h *house) compass(by *perimeter.Caller, turnID, task string) (*perimeter.Answer, error) {
	return h.Call(h.t.Context(), by, turnID, tools.Request{Tool: turn.Compass, Task: &task})
}

// is requires a denial for the reason.
func is(t *testing.T, err error, reason string) {
	t.Helper()
	if !authority.Denied(err, reason) {
		t.Errorf("%v, want %s", err, reason)
	}
}

// lawful exports a chain and requires that it verifies and that every transition is
// lawful. It returns the types of its events.
func (h *house) lawful(kind, id string) (types []string) {
	h.t.Helper()
	var b bytes.Buffer
	must(h.t, h.Export(h.t.Context(), h.project, kind, id, &b))
	report, err := audit.Verify(bytes.NewReader(b.Bytes()), audit.Options{Keys: evidence.Keys{{Public: h.config.Signing.Public()}}})
	must(h.t, err)
	if !report.OK() {
		h.t.Errorf("%s %s does not verify: %+v", kind, id, report)
	}
	x, err := evidence.ReadExport(&b)
	must(h.t, err)
	for _, e := range x.Events {
		types = append(types, e.Type)
	}
	return types
}

var errFault = errors.New("a fault")
