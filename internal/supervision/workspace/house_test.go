package workspace_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"countersign/evidence"
	"countersign/internal/channel"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/owner"
	"countersign/internal/identity"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/pgtest"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/model/replay"
	"countersign/internal/supervision/service/merchant"
	"countersign/internal/supervision/workspace"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type openLedger interface {
	gateway.Ledger
	Close() error
}

// engines runs a test on SQLite and on PostgreSQL.
func engines(t *testing.T, f func(t *testing.T, open func(*ledger.Clock) openLedger)) {
	t.Run("sqlite", func(t *testing.T) {
		f(t, func(clock *ledger.Clock) openLedger {
			path := filepath.Join(t.TempDir(), "countersign.db")
			must(t, sqlite.Create(t.Context(), path))
			l, err := sqlite.Open(t.Context(), path, sqlite.Options{Clock: clock})
			must(t, err)
			return l
		})
	})
	t.Run("postgres", func(t *testing.T) {
		f(t, func(clock *ledger.Clock) openLedger {
			l, err := postgres.Open(t.Context(), pgtest.Database(t, postgres.Migrate), postgres.Options{Clock: clock})
			must(t, err)
			return l
		})
	})
}

// house is a control plane that answers on a real port, with a workspace that verifies
// against it.
type house struct {
	*workspace.Workspace
	t       *testing.T
	clock   *ledger.Clock
	ledger  openLedger
	gateway *gateway.Gateway
	keys    evidence.Keys
}

// plan is what a test changes about a house.
type plan struct {
	around func(http.Handler) http.Handler         // around everything that is served
	config func(*workspace.Config)                 // the workspace's
	ledger func(workspace.Ledger) workspace.Ledger // under the workspace
	runs   func(workspace.Runs) workspace.Runs     // under the workspace
}

func newHouse(t *testing.T, open func(*ledger.Clock) openLedger, p plan) *house {
	t.Helper()
	h := &house{t: t, clock: new(ledger.Clock)}
	dir := filepath.Join(t.TempDir(), "control")
	must(t, keys.Init(dir))
	k, err := keys.Load(dir)
	must(t, err)
	h.ledger = open(h.clock)
	t.Cleanup(func() { h.ledger.Close() })
	listener, err := net.Listen("tcp", "localhost:0")
	must(t, err)
	origin := fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	judge, err := replay.NewGuardian()
	must(t, err)
	h.gateway = gateway.New(gateway.Config{
		Ledger: h.ledger, Keys: k, Issuer: origin, Services: []gateway.Service{merchant.Adapter{}}, Guardian: judge,
		Log: slog.New(slog.DiscardHandler), Workspace: ledger.DefaultWorkspace,
	})
	owners := identity.NewOwners(h.ledger, ledger.DefaultWorkspace, k.Secret())
	c := workspace.Config{
		Ledger: h.ledger, Signing: k.Evidence(), Issuer: origin, Workspace: ledger.DefaultWorkspace, Runs: h.gateway, Services: h.gateway.Services,
		Channels: []string{"http"}, Log: slog.New(slog.DiscardHandler), HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Base: origin,
		SignIn: func(ctx context.Context) (string, func(context.Context) error, error) {
			cookie, session, err := owners.SignIn(ctx, k.Secret(), "verification")
			return edge.OwnerCookie + "=" + cookie, func(ctx context.Context) error { return owners.SignOut(ctx, session) }, err
		},
	}
	if p.ledger != nil {
		c.Ledger = p.ledger(c.Ledger)
	}
	if p.runs != nil {
		c.Runs = p.runs(c.Runs)
	}
	if p.config != nil {
		p.config(&c)
	}
	h.Workspace, h.keys = workspace.New(c), evidence.Keys{{Public: k.Evidence().Public()}}
	api, err := edge.New(edge.Config{Origin: origin, Title: channel.Title, Version: channel.Version})
	must(t, err)
	channel.Routes(api, owner.Config{Gateway: h.gateway, Owners: owners, Keys: h.keys, Workspace: h.Workspace}, nil, nil)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- (&edge.Server{API: api, Wrap: p.around}).Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return h
}

func policy(edits ...func(*guardian.Policy)) guardian.Policy {
	p := guardian.Policy{
		Name: "Look", Service: "merchant", Environment: "local", Mode: "bounded", BudgetCents: 13700, Provider: "replay",
		Operations: []string{"merchant.catalog", "merchant.cart.add"}, Channels: []string{"http"},
	}
	for _, f := range edits {
		f(&p)
	}
	return p
}

func (h *house) drafted(edits ...func(*guardian.Policy)) string {
	h.t.Helper()
	id, err := h.Draft(h.t.Context(), policy(edits...))
	must(h.t, err)
	return id
}

func (h *house) shown(id string) *workspace.Guardian {
	h.t.Helper()
	g, err := h.Guardian(h.t.Context(), id)
	must(h.t, err)
	return g
}

// failed lists the tests that have not passed, native WebMCP left out.
func (h *house) failed(id string) (names []string) {
	h.t.Helper()
	for _, test := range h.shown(id).Tests {
		if test.Result != "passed" && test.Name != "webmcp.native" {
			names = append(names, test.Name)
		}
	}
	return names
}

// synthetic returns the status of every run of a verification.
func (h *house) synthetic() (status []string) {
	h.t.Helper()
	list, err := h.ledger.Find(h.t.Context(), ledger.Query{
		Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, Limit: 100, Where: []ledger.Attribute{{Name: "purpose", Value: "verification"}},
	})
	must(h.t, err)
	for _, s := range list {
		v, err := h.gateway.View(h.t.Context(), s.ID)
		must(h.t, err)
		status = append(status, v.State.Status)
	}
	return status
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
