package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"countersign/dispatch"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/model/replay"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service/merchant"
)

// plane is a control plane in this process, with the product's own parts and no
// HTTP in front.
type plane struct {
	*gateway.Gateway
	keys   *keys.Keys
	ledger io.Closer
}

// closable is a ledger that somebody opened.
type closable interface {
	gateway.Ledger
	io.Closer
}

// initFolder makes keys and, when database is "", an empty SQLite ledger.
func initFolder(ctx context.Context, dir, database string) error {
	if err := keys.Init(dir); err != nil {
		return err
	}
	if database != "" {
		return postgres.Migrate(ctx, database)
	}
	return sqlite.Create(ctx, ledgerFile(dir))
}

func ledgerFile(dir string) string { return filepath.Join(dir, "countersign.db") }

func openLedger(ctx context.Context, dir, database string, o sqlite.Options) (closable, error) {
	if database != "" {
		return postgres.Open(ctx, database, postgres.Options{BatchLimit: o.BatchLimit})
	}
	return sqlite.Open(ctx, ledgerFile(dir), o)
}

// openPlane opens a control plane on an opened ledger.
func openPlane(dir string, l closable) (*plane, error) {
	loaded, err := keys.Load(dir)
	if err != nil {
		return nil, err
	}
	guardian, err := replay.NewGuardian()
	if err != nil {
		return nil, err
	}
	g := gateway.New(gateway.Config{
		Ledger: l, Keys: loaded, Issuer: "http://localhost:8420", Services: []gateway.Service{merchant.Adapter{}}, Guardian: guardian,
		Sender: dispatch.NewClient(nil), Log: slog.New(slog.DiscardHandler), Workspace: ledger.DefaultWorkspace,
	})
	return &plane{Gateway: g, keys: loaded, ledger: l}, nil
}

// newRun creates a run with the local merchant, as the demo does.
func (p *plane) newRun(ctx context.Context) (string, error) {
	return p.Create(ctx, gateway.CreateRequest{
		Config: run.Config{
			Service: "merchant", Target: run.TargetLocal, Channel: "http", TrafficActor: "agent", Mode: "bounded",
			ExecutionMode: "replay", Executor: "replay", Interrogator: "replay",
		},
		Budget: 13700, Instruction: "Buy one Fieldwork keyboard for $137 total using the approved terms.",
	})
}

// cycled is an action that can be done again and again: a cycle of it is the full
// one (observe, propose, check, judge, permit, claim, dispatch, receipt, verify)
// in the same three commits as a purchase at the local merchant.
const cycled = "merchant.catalog"

// cyclesPerRun keeps a run far from its bounds on turns and events.
const cyclesPerRun = 200

// cycle does one whole cycle and returns the spent permit's id.
func (p *plane) cycle(ctx context.Context, id, entryID string) (permitID string, err error) {
	o, err := p.Observe(ctx, id)
	if err != nil {
		return "", err
	}
	report, err := reportOn(o.Catalog, o.ObservationID, entryID)
	if err != nil {
		return "", err
	}
	turn, err := p.Propose(ctx, id, "", encode(report))
	if err != nil {
		return "", err
	}
	if turn.Permit == nil {
		return "", fmt.Errorf("%s was not permitted: %s", entryID, turn.Decision.ReasonCode)
	}
	done, err := p.Operate(ctx, gateway.OperateRequest{
		RunID: id, Token: turn.Permit.Token, Key: "key-of-" + turn.Permit.PermitID, Body: operationBody(turn.Permit.Action),
	})
	if err != nil {
		return "", err
	}
	if done.State != run.ExecutionVerified {
		return "", fmt.Errorf("%s ended as %s", entryID, done.State)
	}
	return turn.Permit.PermitID, nil
}

var errNotOffered = errors.New("the catalog does not offer it")

// reportOn is a consumer's report that proposes the entry.
func reportOn(catalog []propose.Entry, observationID, entryID string) (*propose.Report, error) {
	for i := range catalog {
		e := &catalog[i]
		if e.EntryID != entryID && e.OperationID != entryID {
			continue
		}
		return &propose.Report{
			GoalRestatement:     "Buy one Fieldwork keyboard.",
			Candidates:          []propose.Candidate{{ID: "candidate-1", Action: e.Action(), Purpose: "It serves the purchase.", Disposition: "proposed"}},
			SelectedCandidateID: "candidate-1",
			Justification:       propose.Justification{Summary: "It is the next step.", EvidenceRefs: []string{observationID}},
			ExpectedEffect: propose.ExpectedEffect{
				OperationID: e.OperationID, TransactionProposalID: e.Effect.TransactionProposalID,
				DisclosedFields: e.Effect.DisclosedFields, Postconditions: e.Effect.Postconditions,
			},
			Uncertainties: []string{},
		}, nil
	}
	return nil, fmt.Errorf("%s: %w", entryID, errNotOffered)
}

func operationBody(a propose.Action) []byte { return encode(map[string]any{"action": a}) }

// encode writes a value that always encodes.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
