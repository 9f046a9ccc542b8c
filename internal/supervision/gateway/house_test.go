package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/model/replay"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service/merchant"
	"countersign/store"
)

const origin = "http://localhost:8420"

// house is a control plane on a real SQLite ledger with a real store beside it.
type house struct {
	*gateway.Gateway
	t      *testing.T
	dir    string
	clock  *ledger.Clock
	ledger *sqlite.Ledger
	keys   *keys.Keys
	store  *store.Store
	server *httptest.Server
}

type option func(*gateway.Config)

func newHouse(t *testing.T, options ...option) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), clock: &ledger.Clock{}}
	must(t, keys.Init(filepath.Join(h.dir, "control")))
	must(t, sqlite.Create(t.Context(), filepath.Join(h.dir, "control", "countersign.db")))
	h.openStore()
	h.open(options...)
	return h
}

func (h *house) openStore() {
	h.t.Helper()
	dir := filepath.Join(h.dir, "store")
	must(h.t, store.Create(dir))
	list, err := os.ReadFile(filepath.Join(h.dir, "control", "keys", "dispatch.pub"))
	must(h.t, err)
	trust, err := dispatch.ParseKeys(list)
	must(h.t, err)
	h.server = httptest.NewUnstartedServer(nil)
	h.store, err = store.Open(dir, store.Options{Origin: "http://" + h.server.Listener.Addr().String(), Trust: trust, Log: slog.New(slog.DiscardHandler)})
	must(h.t, err)
	h.server.Config.Handler = h.store.Handler()
	h.server.Start()
	h.t.Cleanup(func() { h.server.Close(); h.store.Close() })
}

func (h *house) open(options ...option) {
	h.t.Helper()
	var err error
	h.keys, err = keys.Load(filepath.Join(h.dir, "control"))
	must(h.t, err)
	h.ledger, err = sqlite.Open(h.t.Context(), filepath.Join(h.dir, "control", "countersign.db"), sqlite.Options{Clock: h.clock})
	must(h.t, err)
	h.t.Cleanup(func() { h.ledger.Close() })
	guardian, err := replay.NewGuardian()
	must(h.t, err)
	c := gateway.Config{
		Ledger: h.ledger, Keys: h.keys, Issuer: origin, Services: []gateway.Service{merchant.Adapter{}}, Guardian: guardian,
		Store: &gateway.Store{Origin: h.server.URL, Keys: []dispatch.TrustedKey{h.store.ReceiptKey()}}, Sender: dispatch.NewClient(nil),
		Log: slog.New(slog.DiscardHandler), Workspace: ledger.DefaultWorkspace,
	}
	for _, o := range options {
		o(&c)
	}
	h.Gateway = gateway.New(c)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *house) create(target string) string {
	h.t.Helper()
	id, err := h.Create(h.t.Context(), createRequest(target))
	must(h.t, err)
	return id
}

func createRequest(target string) gateway.CreateRequest {
	return gateway.CreateRequest{
		Config: run.Config{
			Service: "merchant", Target: target, Channel: "http", TrafficActor: "agent", Mode: "bounded",
			ExecutionMode: "replay", Executor: "replay", Interrogator: "replay",
		},
		Budget: 13700, Instruction: "Buy one Fieldwork keyboard for $137 total using the approved terms.",
	}
}

// entry finds the control with the id in the current catalog.
func (h *house) entry(id, entryID string) (*gateway.Observation, *run.Entry) {
	h.t.Helper()
	o, err := h.Observe(h.t.Context(), id)
	must(h.t, err)
	for i := range o.Catalog {
		if e := &o.Catalog[i]; e.EntryID == entryID || e.OperationID == entryID {
			return o, e
		}
	}
	h.t.Fatalf("the catalog has no %s", entryID)
	return nil, nil
}

func report(o *gateway.Observation, e *run.Entry, edit ...func(*run.Report)) []byte {
	r := run.Report{
		GoalRestatement: "Buy one Fieldwork keyboard.",
		Candidates: []run.Candidate{{
			ID: "candidate-1", Action: e.Action(), Purpose: "It serves the purchase.", Disposition: "proposed",
		}},
		SelectedCandidateID: "candidate-1",
		Justification:       run.Justification{Summary: "It is the next step.", EvidenceRefs: []string{o.ObservationID}},
		ExpectedEffect: run.ExpectedEffect{
			OperationID: e.OperationID, TransactionProposalID: e.Effect.TransactionProposalID,
			DisclosedFields: e.Effect.DisclosedFields, Postconditions: e.Effect.Postconditions,
		},
		Uncertainties: []string{},
	}
	for _, f := range edit {
		f(&r)
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return b
}

func body(a run.Action) []byte {
	b, err := json.Marshal(map[string]any{"action": a})
	if err != nil {
		panic(err)
	}
	return b
}

// allow proposes the entry and returns the permit.
func (h *house) allow(id, entryID string) *gateway.Permit {
	h.t.Helper()
	o, e := h.entry(id, entryID)
	turn, err := h.Propose(h.t.Context(), id, report(o, e))
	must(h.t, err)
	if turn.Decision.Decision != run.Allow || turn.Permit == nil {
		h.t.Fatalf("%s: %+v", entryID, turn.Decision)
	}
	return turn.Permit
}

func (h *house) operate(id string, p *gateway.Permit, key string) (*gateway.Operation, error) {
	return h.Operate(h.t.Context(), gateway.OperateRequest{RunID: id, Token: p.Token, Key: key, Body: body(p.Action)})
}

// do runs one whole cycle.
func (h *house) do(id, entryID string) *gateway.Operation {
	h.t.Helper()
	p := h.allow(id, entryID)
	out, err := h.operate(id, p, "key-of-"+p.PermitID)
	must(h.t, err)
	if out.State != run.ExecutionVerified {
		h.t.Fatalf("%s: %+v", entryID, out)
	}
	return out
}

func (h *house) buy(id string) {
	h.t.Helper()
	for _, entry := range []string{"merchant.catalog", "product:fieldwork-keyboard", "add:fieldwork-keyboard:1", "checkout:addr_home", "merchant.checkout.submit"} {
		h.do(id, entry)
	}
}

func (h *house) state(id string) *run.State {
	h.t.Helper()
	v, err := h.View(h.t.Context(), id)
	must(h.t, err)
	return v.State
}

// verify exports the run and verifies everything about it.
func (h *house) verify(id string) {
	h.t.Helper()
	var b bytes.Buffer
	must(h.t, h.Export(h.t.Context(), id, &b))
	var replayed run.Replay
	report, err := evidence.Verify(&b, evidence.Keys{{Public: h.keys.Evidence().Public()}}, evidence.Options{
		Each: func(e evidence.Event) error { replayed.Apply(e); return nil },
	})
	must(h.t, err)
	if !report.OK() {
		h.t.Errorf("evidence does not verify: %+v", report)
	}
	if !replayed.Known() || len(replayed.Unlawful()) > 0 {
		h.t.Errorf("unlawful: %+v", replayed.Unlawful())
	}
	want, err := h.state(id).Encode()
	must(h.t, err)
	got, err := replayed.State().Encode()
	must(h.t, err)
	if !bytes.Equal(got, want) {
		h.t.Errorf("replay comes to another state\n got %s\nwant %s", got, want)
	}
}

func reason(err error) string {
	if d, ok := errors.AsType[*authority.Denial](err); ok {
		return d.Reason
	}
	return fmt.Sprint(err)
}
