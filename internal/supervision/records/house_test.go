package records_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/pgtest"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/model/replay"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service/merchant"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type engine interface {
	gateway.Ledger
	EraseText(ctx context.Context, key ledger.Key, commitment string) error
	Close() error
}

// house is a ledger with runs, written by a gateway and read by a Reader of its
// own, which remembers nothing of what the gateway did.
type house struct {
	*records.Reader
	t       *testing.T
	gateway *gateway.Gateway
	config  gateway.Config
	ledger  engine
	clock   *ledger.Clock
	keys    *keys.Keys
}

func onEach(t *testing.T, test func(*testing.T, *house)) {
	t.Helper()
	engines := map[string]func(dir string, clock *ledger.Clock) engine{
		"sqlite": func(dir string, clock *ledger.Clock) engine {
			path := filepath.Join(dir, "countersign.db")
			must(t, sqlite.Create(t.Context(), path))
			l, err := sqlite.Open(t.Context(), path, sqlite.Options{Clock: clock})
			must(t, err)
			return l
		},
		"postgres": func(_ string, clock *ledger.Clock) engine {
			l, err := postgres.Open(t.Context(), pgtest.Database(t, postgres.Migrate), postgres.Options{Clock: clock})
			must(t, err)
			return l
		},
	}
	for name, open := range engines {
		t.Run(name, func(t *testing.T) {
			h := &house{t: t, clock: &ledger.Clock{}}
			dir := t.TempDir()
			must(t, keys.Init(filepath.Join(dir, "control")))
			var err error
			h.keys, err = keys.Load(filepath.Join(dir, "control"))
			must(t, err)
			h.ledger = open(dir, h.clock)
			t.Cleanup(func() { h.ledger.Close() })
			guardian, err := replay.NewGuardian()
			must(t, err)
			h.config = gateway.Config{
				Ledger: h.ledger, Keys: h.keys, Issuer: "http://localhost:8420", Services: []gateway.Service{merchant.Adapter{}},
				Guardian: guardian, Log: slog.New(slog.DiscardHandler), Workspace: ledger.DefaultWorkspace,
			}
			h.gateway = gateway.New(h.config)
			h.Reader = h.reader(h.ledger)
			test(t, h)
		})
	}
}

func (h *house) reader(l records.Ledger) *records.Reader {
	return records.New(l, ledger.DefaultWorkspace, h.keys.Evidence())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const instruction = "Buy one Fieldwork keyboard for $137 total using the approved terms."

func (h *house) create() string {
	h.t.Helper()
	id, err := h.gateway.Create(h.t.Context(), gateway.CreateRequest{
		Config: run.Config{
			Service: "merchant", Target: run.TargetLocal, Channel: "http", TrafficActor: "agent", Mode: "bounded",
			ExecutionMode: "replay", Executor: "replay", Interrogator: "replay",
		},
		Budget: 13700, Instruction: instruction,
	})
	must(h.t, err)
	return id
}

// allow has a read of the catalog permitted.
func (h *house) allow(id string) *gateway.Permit {
	h.t.Helper()
	o, err := h.gateway.Observe(h.t.Context(), id)
	must(h.t, err)
	e := &o.Catalog[slices.IndexFunc(o.Catalog, func(e propose.Entry) bool { return e.OperationID == "merchant.catalog" })]
	body, err := json.Marshal(propose.Report{
		GoalRestatement:     "Buy one Fieldwork keyboard.",
		Candidates:          []propose.Candidate{{ID: "candidate-1", Action: e.Action(), Purpose: "It serves the purchase.", Disposition: "proposed"}},
		SelectedCandidateID: "candidate-1",
		Justification:       propose.Justification{Summary: "It is the next step.", EvidenceRefs: []string{o.ObservationID}},
		ExpectedEffect:      propose.ExpectedEffect{OperationID: e.OperationID, DisclosedFields: e.Effect.DisclosedFields, Postconditions: e.Effect.Postconditions},
		Uncertainties:       []string{},
	})
	must(h.t, err)
	turn, err := h.gateway.Propose(h.t.Context(), id, "", body)
	must(h.t, err)
	if turn.Permit == nil {
		h.t.Fatalf("%+v", turn.Decision)
	}
	return turn.Permit
}

func request(id string, p *gateway.Permit) gateway.OperateRequest {
	body, err := json.Marshal(map[string]any{"action": p.Action})
	if err != nil {
		panic(err)
	}
	return gateway.OperateRequest{RunID: id, Token: p.Token, Key: "key-of-" + p.PermitID, Body: body}
}

// read reads the catalog: a whole cycle with prose and a view.
func (h *house) read(id string) {
	h.t.Helper()
	out, err := h.gateway.Operate(h.t.Context(), request(id, h.allow(id)))
	must(h.t, err)
	if out.State != run.ExecutionVerified {
		h.t.Fatalf("%+v", out)
	}
}

// fill lengthens the chain with measurements until it has n events.
func (h *house) fill(id string, n int64) {
	h.t.Helper()
	c, err := h.Load(h.t.Context(), id)
	must(h.t, err)
	d := decide.Begin(c.State, c.Now, [32]byte{1}, true, decide.Doors{})
	for d.State().Events < n {
		d.Measure(run.Metrics{})
	}
	next, err := d.Done()
	must(h.t, err)
	events, err := evidence.Seal(h.keys.Evidence(), id, c.Subject.Link(), d.Now().Time(), next.Drafts)
	must(h.t, err)
	state, err := next.State.Encode()
	must(h.t, err)
	must(h.t, h.ledger.Commit(h.t.Context(), ledger.Change{Writes: []ledger.Write{{
		Key: c.Subject.Key, Revision: c.Subject.Revision, Head: c.Subject.Head, State: state, Events: events,
	}}}).Err())
}

// subject is the run as the ledger has it.
func (h *house) subject(id string) ledger.Subject {
	h.t.Helper()
	s, _, err := h.ledger.Load(h.t.Context(), h.Key(id))
	must(h.t, err)
	return s
}

func reason(err error) string {
	if d, ok := errors.AsType[*authority.Denial](err); ok {
		return d.Reason
	}
	return ""
}

// hooked calls hook after each read of a run.
type hooked struct {
	records.Ledger
	hook func()
	load func(ledger.Key) ledger.Subject // instead of the ledger's; nil: the ledger's
	text error                           // of every look-up of a text
	read []evidence.Text                 // by Texts
	refs []ledger.Subject                // by Load
}

func (l *hooked) Load(ctx context.Context, key ledger.Key) (ledger.Subject, time.Time, error) {
	if l.load != nil {
		return l.load(key), time.Now(), nil
	}
	s, now, err := l.Ledger.Load(ctx, key)
	l.refs = append(l.refs, s)
	l.after()
	return s, now, err
}

func (l *hooked) Events(ctx context.Context, key ledger.Key, after int64, limit int) ([]evidence.Event, error) {
	events, err := l.Ledger.Events(ctx, key, after, limit)
	l.after()
	return events, err
}

func (l *hooked) Texts(ctx context.Context, key ledger.Key) ([]evidence.Text, error) {
	l.after() // before: so that texts of later events are among them
	var err error
	l.read, err = l.Ledger.Texts(ctx, key)
	return l.read, err
}

func (l *hooked) Text(ctx context.Context, key ledger.Key, commitment string) (evidence.Text, error) {
	if l.text != nil {
		return evidence.Text{}, l.text
	}
	return l.Ledger.Text(ctx, key, commitment)
}

func (l *hooked) after() {
	if l.hook != nil {
		l.hook()
	}
}
