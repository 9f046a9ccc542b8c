package gateway_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"countersign/dispatch"
	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// controlTask is a control plane in a process of its own. It makes a run, takes the
// steps and stops for good at one point of the last of them; without steps, at a
// point of making the run.
type controlTask struct {
	Engine   string
	Location string   // of the ledger
	Control  string   // folder of the keys
	Shop     string   // origin; "" for a run on the local target
	ShopKey  string   // a line of receipt.pub
	Steps    []string // entries or operations
	Point    string
	Probe    *probeTask // instead of a new run
}

// probeTask is an execution to ask about.
type probeTask struct{ Run, Execution string }

func (c *controlTask) work() error {
	t := &childTB{}
	e, err := engineNamed(c.Engine)
	if err != nil {
		return err
	}
	opened, err := e.open(context.Background(), c.Location, &ledger.Clock{})
	if err != nil {
		return err
	}
	config, target := newConfig(t, opened, c.Control), run.TargetLocal
	if c.Shop != "" {
		keys, err := dispatch.ParseKeys([]byte(c.ShopKey))
		if err != nil {
			return err
		}
		config.Store, target = &gateway.Store{Origin: c.Shop, Keys: keys}, run.TargetHosted
	}
	armed := len(c.Steps) == 0
	config.Fault = func(point string) {
		if armed && point == c.Point {
			say(line{Point: point})
			select {}
		}
	}
	config.Ledger = effectLedger{opened, config.Fault, func() bool { return armed && c.Point == insideEffect }}
	g := gateway.New(config)
	ctx := context.Background()
	if p := c.Probe; p != nil {
		return g.Probe(ctx, p.Run, p.Execution)
	}
	id, err := g.Create(ctx, createRequest(target))
	if err != nil {
		return err
	}
	for i, entry := range c.Steps {
		armed = i == len(c.Steps)-1
		o, err := g.Observe(ctx, id)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(o.Catalog, func(e propose.Entry) bool { return e.EntryID == entry || e.OperationID == entry })
		if i < 0 {
			return fmt.Errorf("the catalog has no %s", entry)
		}
		turn, err := g.Propose(ctx, id, "", report(o, &o.Catalog[i]))
		if err != nil || turn.Permit == nil {
			return fmt.Errorf("%s: %+v, %w", entry, turn, err)
		}
		r := request(id, turn.Permit)
		say(line{Request: &r})
		if _, err := g.Operate(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// childTB lets a child use what tests share; a failure ends it.
type childTB struct{ testing.TB }

func (*childTB) Helper() {}
func (*childTB) Fatal(args ...any) {
	say(line{Err: fmt.Sprint(args...)})
	os.Exit(1)
}

// Points of the one commit that holds the effect of a local service together with
// its receipt. insideEffect is there only when that commit is torn in two.
const (
	beforeEffect = "before-effect"
	insideEffect = "inside-effect"
	afterEffect  = "after-effect"
)

// effectLedger has points where the state of a local service is stored.
type effectLedger struct {
	gateway.Ledger
	at   func(point string)
	torn func() bool // the control: the effect is stored before its receipt
}

func (l effectLedger) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	i := slices.IndexFunc(c.Writes, func(w ledger.Write) bool { return w.Key.Kind == ledger.KindService })
	if i < 0 {
		return l.Ledger.Commit(ctx, c)
	}
	l.at(beforeEffect)
	if l.torn() {
		if r := l.Ledger.Commit(ctx, ledger.Change{Workspace: c.Workspace, Writes: c.Writes[i : i+1]}); r.Outcome != ledger.Stored {
			return r
		}
		l.at(insideEffect)
	}
	r := l.Ledger.Commit(ctx, c)
	l.at(afterEffect)
	return r
}
