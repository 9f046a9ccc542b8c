package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// The model of one permit and one idempotency key: who claimed the permit and
// what the key answers. A claim takes both or none.
type (
	claimState struct{ fate, object string }
	claimInput struct {
		round int
		op    string // claim, fate or record
		value string // of a claim: the execution it would be
	}
	claimOutput struct {
		outcome ledger.Outcome
		which   ledger.Which
		value   string // of a read; empty when there is nothing
	}
)

var claimModel = porcupine.Model{
	Init: func() any { return claimState{} },
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		rounds := make(map[int][]porcupine.Operation)
		for _, op := range history {
			round := op.Input.(claimInput).round
			rounds[round] = append(rounds[round], op)
		}
		parts := make([][]porcupine.Operation, 0, len(rounds))
		for _, part := range rounds {
			parts = append(parts, part)
		}
		return parts
	},
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(claimState), input.(claimInput), output.(claimOutput)
		switch in.op {
		case "fate":
			return out.value == s.fate, s
		case "record":
			return out.value == s.object, s
		}
		switch {
		case out.outcome == ledger.Stored:
			return s == claimState{}, claimState{in.value, in.value}
		case out.which == ledger.OnPermit:
			return s.fate != "", s
		case out.which == ledger.OnRecord:
			return s.object != "", s
		}
		return false, s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// 30 rounds of 10 clients that contend for one permit and one idempotency key:
// each reads both, claims, and reads both again. Call and return are taken at
// the client. 1,500 operations must have one order in which each of them is
// right; without unique keys there is none.
func testLinearizable(t *testing.T, b Backend) {
	holds(t, b, Options{}, func(i *instance) error {
		engines := []Engine{i.Engine}
		if _, weak := i.Engine.(weakened); !weak {
			engines = i.replicas()
		}
		const rounds, clients = 30, 10
		var mu sync.Mutex
		var history []porcupine.Operation
		var failures []error
		begin := time.Now()
		for round := range rounds {
			var wg sync.WaitGroup
			gate := make(chan struct{})
			for client := range clients {
				c := claimer{engines[client%len(engines)], fmt.Sprintf("%d", round), newID()}
				wg.Go(func() {
					<-gate
					for _, op := range []string{"fate", "record", "claim", "fate", "record"} {
						call := time.Since(begin).Nanoseconds()
						out, err := c.do(t.Context(), op)
						ret := time.Since(begin).Nanoseconds()
						mu.Lock()
						if err != nil {
							failures = append(failures, err)
						}
						history = append(history, porcupine.Operation{ClientId: client, Input: claimInput{round, op, c.execution}, Call: call, Output: out, Return: ret})
						mu.Unlock()
					}
				})
			}
			close(gate)
			wg.Wait()
		}
		if err := errors.Join(failures...); err != nil {
			return err
		}
		if n := len(history); n != rounds*clients*5 {
			return fmt.Errorf("%d operations", n)
		}
		if result := porcupine.CheckOperationsTimeout(claimModel, history, time.Minute); result != porcupine.Ok {
			return fmt.Errorf("the history of %d operations is %v", len(history), result)
		}
		return nil
	}, taking(withoutUniqueRows))
}

type claimer struct {
	engine    Engine
	round     string
	execution string
}

func (c claimer) do(ctx context.Context, op string) (claimOutput, error) {
	switch op {
	case "fate":
		f, err := c.engine.Fate(ctx, ledger.DefaultWorkspace, "permit-"+c.round)
		if errors.Is(err, ledger.ErrNotFound) {
			err = nil
		}
		return claimOutput{value: f.Execution}, err
	case "record":
		r, err := c.engine.Record(ctx, ledger.DefaultWorkspace, "run", "key-"+c.round)
		if errors.Is(err, ledger.ErrNotFound) {
			err = nil
		}
		return claimOutput{value: r.Object}, err
	}
	change := fresh()
	subject := change.Writes[0].Key
	change.Record = &ledger.Record{Workspace: subject.Workspace, Principal: "run", Key: "key-" + c.round, Fingerprint: evidence.Genesis, Subject: subject, Object: c.execution}
	change.Fates = []ledger.Fate{{Workspace: subject.Workspace, PermitID: "permit-" + c.round, Subject: subject, Fate: "claimed", Execution: c.execution}}
	r := c.engine.Commit(ctx, change)
	if r.Outcome != ledger.Stored && r.Outcome != ledger.Conflict {
		return claimOutput{}, r.Err()
	}
	return claimOutput{outcome: r.Outcome, which: r.Which}, nil
}
