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
	"countersign/internal/audit"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/supervision/chain"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/model/replay"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service/merchant"
	"countersign/store"
)

const origin = "http://localhost:8420"

// session names an owner's session.
var session = canon.Hash([]byte("a cookie"))

// house is a control plane on a real ledger with a real store beside it.
type house struct {
	*gateway.Gateway
	t        *testing.T
	engine   engine
	location string // of the ledger
	dir      string
	clock    *ledger.Clock
	ledger   openLedger
	keys     *keys.Keys
	config   gateway.Config
	store    *store.Store // in this process; nil when the store is another
	server   *httptest.Server
}

type option func(*gateway.Config)

// newHouse makes a house with a store in this process.
func newHouse(t *testing.T, e engine, options ...option) *house {
	t.Helper()
	h := emptyHouse(t, e)
	h.openStore()
	h.open(options...)
	return h
}

// emptyHouse has keys and an empty ledger and nothing open.
func emptyHouse(t *testing.T, e engine) *house {
	t.Helper()
	h := &house{t: t, engine: e, dir: t.TempDir(), clock: &ledger.Clock{}}
	must(t, keys.Init(h.control()))
	h.location = e.create(t, h.control())
	return h
}

func (h *house) control() string { return filepath.Join(h.dir, "control") }

func (h *house) storeDir() string { return filepath.Join(h.dir, "store") }

// dispatchKeys is what a store trusts.
func (h *house) dispatchKeys() []dispatch.TrustedKey {
	h.t.Helper()
	list, err := os.ReadFile(filepath.Join(h.control(), "keys", "dispatch.pub"))
	must(h.t, err)
	trust, err := dispatch.ParseKeys(list)
	must(h.t, err)
	return trust
}

func (h *house) openStore() {
	h.t.Helper()
	dir := h.storeDir()
	must(h.t, store.Create(dir))
	var err error
	h.server = httptest.NewUnstartedServer(nil)
	h.store, err = store.Open(dir, store.Options{
		Origin: "http://" + h.server.Listener.Addr().String(), Trust: h.dispatchKeys(), Clock: h.clock.Now, Log: slog.New(slog.DiscardHandler),
	})
	must(h.t, err)
	h.server.Config.Handler = h.store.Handler()
	h.server.Start()
	h.t.Cleanup(func() { h.server.Close(); h.store.Close() })
}

func (h *house) open(options ...option) {
	h.t.Helper()
	opened, err := h.engine.open(h.t.Context(), h.location, h.clock)
	must(h.t, err)
	h.ledger = opened
	h.t.Cleanup(func() { opened.Close() })
	h.config = newConfig(h.t, opened, h.control())
	h.keys = h.config.Keys
	if h.store != nil {
		h.config.Store = &gateway.Store{Origin: h.server.URL, Keys: []dispatch.TrustedKey{h.store.ReceiptKey()}}
	}
	h.Gateway = h.another(options...)
}

// another is one more gateway on the same ledger, as another request's process
// would be.
func (h *house) another(options ...option) *gateway.Gateway {
	c := h.config
	for _, o := range options {
		o(&c)
	}
	return gateway.New(c)
}

// newConfig is a gateway's configuration without a store. The window of one second
// in which bytes have to begin to leave is open: on a busy machine it would end
// runs at random. TestSendWindow closes it.
func newConfig(t testing.TB, l gateway.Ledger, control string) gateway.Config {
	t.Helper()
	loaded, err := keys.Load(control)
	must(t, err)
	guardian, err := replay.NewGuardian()
	must(t, err)
	return gateway.Config{
		Ledger: l, Keys: loaded, Issuer: origin, Services: []gateway.Service{merchant.Adapter{}}, Guardian: guardian,
		Sender: dispatch.NewClient(nil), Log: slog.New(slog.DiscardHandler), Workspace: ledger.DefaultWorkspace,
		Doors: decide.Doors{Window: true},
	}
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
func (h *house) entry(id, entryID string) (*records.Observation, *propose.Entry) {
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

func report(o *records.Observation, e *propose.Entry, edit ...func(*propose.Report)) []byte {
	r := propose.Report{
		GoalRestatement: "Buy one Fieldwork keyboard.",
		Candidates: []propose.Candidate{{
			ID: "candidate-1", Action: e.Action(), Purpose: "It serves the purchase.", Disposition: "proposed",
		}},
		SelectedCandidateID: "candidate-1",
		Justification:       propose.Justification{Summary: "It is the next step.", EvidenceRefs: []string{o.ObservationID}},
		ExpectedEffect: propose.ExpectedEffect{
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

func body(a propose.Action) []byte {
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
	turn, err := h.Propose(h.t.Context(), id, "", report(o, e))
	must(h.t, err)
	if turn.Decision.Decision != run.Allow || turn.Permit == nil {
		h.t.Fatalf("%s: %+v", entryID, turn.Decision)
	}
	return turn.Permit
}

func (h *house) operate(id string, p *gateway.Permit, key string) (*records.Operation, error) {
	return h.Operate(h.t.Context(), gateway.OperateRequest{RunID: id, Token: p.Token, Key: key, Body: body(p.Action)})
}

// do runs one whole cycle.
func (h *house) do(id, entryID string) *records.Operation {
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
	c, err := h.Capabilities(h.t.Context(), id) // a view reads the whole chain
	must(h.t, err)
	return c.State
}

// verify exports the run and verifies everything about it: integrity, lawfulness,
// the store's receipts, and that replay comes to the stored state.
func (h *house) verify(id string) {
	h.t.Helper()
	var b bytes.Buffer
	must(h.t, h.Export(h.t.Context(), id, &b))
	report, err := audit.Verify(bytes.NewReader(b.Bytes()), audit.Options{Keys: evidence.Keys{{Public: h.keys.Evidence().Public()}}})
	must(h.t, err)
	if !report.Verified {
		h.t.Errorf("evidence does not verify: %+v", report)
	}
	var replayed chain.Replay
	for _, e := range h.events(id) {
		replayed.Apply(e)
	}
	want, err := h.state(id).Encode()
	must(h.t, err)
	got, err := replayed.State().Encode()
	must(h.t, err)
	if !bytes.Equal(got, want) {
		h.t.Errorf("replay comes to another state\n got %s\nwant %s", got, want)
	}
}

// events is the whole chain.
func (h *house) events(id string) []evidence.Event {
	h.t.Helper()
	var all []evidence.Event
	for {
		page, highest, err := h.Events(h.t.Context(), id, int64(len(all)))
		must(h.t, err)
		all = append(all, page...)
		if int64(len(all)) == highest {
			return all
		}
	}
}

// count is how many events of a type the chain holds.
func (h *house) count(id, eventType string) int {
	h.t.Helper()
	n := 0
	for _, e := range h.events(id) {
		if e.Type == eventType {
			n++
		}
	}
	return n
}

// refusals are the reasons of the chain's operation.refused events.
func (h *house) refusals(id string) []string {
	h.t.Helper()
	reasons := []string{}
	for _, e := range h.events(id) {
		if e.Type == "operation.refused" {
			var d run.Refused
			must(h.t, json.Unmarshal(e.Data, &d))
			reasons = append(reasons, d.ReasonCode)
		}
	}
	return reasons
}

func reason(err error) string {
	if d, ok := errors.AsType[*authority.Denial](err); ok {
		return d.Reason
	}
	return fmt.Sprint(err)
}
