package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/supervision/chain"
)

// audited is what a ledger holds after its process was killed.
type audited struct {
	events   int
	problems []string // why no number of that process counts
}

// audit opens the ledger that a killed process left, verifies and replays every
// chain with an acknowledged cycle, and looks for each of those cycles.
func audit(ctx context.Context, dir, database string, acks []acknowledged) (_ *audited, err error) {
	l, err := openLedger(ctx, dir, database, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	p, err := openPlane(dir, l)
	if err != nil {
		return nil, err
	}
	byRun := map[string][]string{}
	for _, a := range acks {
		byRun[a.runID] = append(byRun[a.runID], a.permitID)
	}
	a := &auditing{plane: p, claims: map[string]int{}}
	runs := make(chan string)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for id := range runs {
				a.chain(ctx, id, byRun[id])
			}
		})
	}
	for id := range byRun {
		runs <- id
	}
	close(runs)
	workers.Wait()
	for permit, n := range a.claims {
		if n > 1 {
			a.problem("permit %s was claimed %d times", permit, n)
		}
	}
	if len(acks) == 0 {
		a.problem("nothing was acknowledged")
	}
	return &a.audited, nil
}

// auditing is one audit under way; chain is safe for concurrent use.
type auditing struct {
	plane *plane
	mu    sync.Mutex
	audited
	claims map[string]int // by permit, over all chains
}

// maxProblems is how many are told one by one.
const maxProblems = 3

func (a *auditing) problem(format string, args ...any) {
	if len(a.problems) < maxProblems {
		a.problems = append(a.problems, fmt.Sprintf(format, args...))
	}
}

// chain exports one run and verifies it with the trusted key, as a stranger would.
func (a *auditing) chain(ctx context.Context, id string, permits []string) {
	var file bytes.Buffer
	exportErr := a.plane.Export(ctx, id, &file)
	var machine chain.Replay
	claimed, verified := map[string]string{}, map[string]bool{} // permit to execution; executions
	var twice []string
	report, verifyErr := evidence.Verify(&file, evidence.Keys{{Public: a.plane.keys.Evidence().Public()}}, evidence.Options{Workers: 1, Each: func(e evidence.Event) error {
		machine.Apply(e)
		var data struct {
			PermitID    string `json:"permitId"`
			ExecutionID string `json:"executionId"`
		}
		switch e.Type {
		case "permit.claimed":
			if err := json.Unmarshal(e.Data, &data); err != nil {
				return err
			}
			if _, already := claimed[data.PermitID]; already {
				twice = append(twice, data.PermitID)
			}
			claimed[data.PermitID] = data.ExecutionID
		case "execution.verified":
			if err := json.Unmarshal(e.Data, &data); err != nil {
				return err
			}
			verified[data.ExecutionID] = true
		}
		return nil
	}})
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := errors.Join(exportErr, verifyErr); err != nil {
		a.problem("run %s: %v", id, err)
		return
	}
	a.events += int(report.Count)
	if !report.OK() {
		a.problem("the chain of run %s does not verify", id)
	}
	if unlawful := machine.Unlawful(); !machine.Known() || len(unlawful) > 0 {
		a.problem("run %s is not lawful: %v", id, unlawful)
	}
	for _, permit := range twice {
		a.claims[permit]++
	}
	for permit := range claimed {
		a.claims[permit]++
	}
	for _, permit := range permits {
		if execution := claimed[permit]; execution == "" || !verified[execution] {
			a.problem("run %s: the acknowledged cycle of permit %s is not there", id, permit)
		}
	}
}

// auditBare looks for every acknowledged cycle of a killed bare program: its
// idempotency record and as many events as its cycles had.
func auditBare(ctx context.Context, dir string, eventsOfCycle int, acks []acknowledged) (_ *audited, err error) {
	db, err := sql.Open("sqlite", "file:"+ledgerFile(dir))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	a := &auditing{}
	cycles := map[string]int{}
	for _, x := range acks {
		cycles[x.runID]++
		var n int
		row := db.QueryRowContext(ctx, `SELECT count(*) FROM idempotency WHERE workspace = ? AND principal = ? AND key = ?`,
			ledger.DefaultWorkspace, "run:"+x.runID, "key-of-"+x.permitID)
		if err := row.Scan(&n); err != nil {
			return nil, err
		}
		if n != 1 {
			a.problem("bare: the acknowledged cycle %s is not there", x.permitID)
		}
	}
	for id, n := range cycles {
		var events int
		row := db.QueryRowContext(ctx, `SELECT count(*) FROM events WHERE workspace = ? AND kind = ? AND subject = ?`, ledger.DefaultWorkspace, ledger.KindRun, id)
		if err := row.Scan(&events); err != nil {
			return nil, err
		}
		a.events += events
		if events < n*eventsOfCycle {
			a.problem("bare: %s has %d events for %d acknowledged cycles", id, events, n)
		}
	}
	if len(acks) == 0 {
		a.problem("bare: nothing was acknowledged")
	}
	return &a.audited, nil
}
