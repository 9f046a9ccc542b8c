package managed

import (
	"context"
	"time"

	"countersign/internal/authority"
	"countersign/internal/supervision/ask"
	"countersign/internal/supervision/run"
)

// Contexts opens context turns for attempts (G-39), on behalf of a named client that its
// run was created with. It is safe for concurrent use.
type Contexts interface {
	// Open opens a turn of the client for the run and returns its id.
	Open(ctx context.Context, client, runID string) (turn string, err error)
	// Ask asks for the context of a task during the turn, and returns its text.
	Ask(ctx context.Context, client, turn, task string) (text string, err error)
	// Complete reports how the technical call ended: ContextCompleted, ContextCancelled
	// or ContextFailed. The same key again is the same report.
	Complete(ctx context.Context, client, turn, key, status string) error
}

// What is reported of an attempt's technical call. It is no statement about its proposal.
const (
	ContextCompleted = "completed"
	ContextCancelled = "cancelled" // the owner has revoked the run
	ContextFailed    = "failed"    // the executor gave no answer, or not in time
)

// contextPatience bounds what an attempt waits for its context, and for the end of its
// turn.
const contextPatience = 5 * time.Second

// InContext returns Steps whose attempts are made in context turns, where a run names a
// context client.
func (m *Steps) InContext(c Contexts) *Steps {
	informed := *m
	informed.contexts = c
	return &informed
}

// enter opens the attempt's context turn and asks for the context of the run's
// instruction, before the executor is asked. A turn that cannot be opened is left absent,
// and the attempt goes on without (S-085).
func (x *attempt) enter() {
	if x.client == nil || x.contexts == nil {
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, min(contextPatience, x.patience))
	defer cancel()
	client := *x.client
	turn, err := ask.Within(ctx, 0, func(ctx context.Context) (string, error) { return x.contexts.Open(ctx, client, x.runID) })
	if err != nil || !run.IsContextTurn(turn) {
		x.log.Warn("an attempt has no context turn", "run", x.runID, "attempt", x.ID, "client", client, "error", err)
		return
	}
	x.turn = turn
	task := x.briefing.Instruction
	text, err := ask.Within(ctx, 0, func(ctx context.Context) (string, error) { return x.contexts.Ask(ctx, client, turn, task) })
	if err != nil {
		x.log.Warn("an attempt has no context", "run", x.runID, "attempt", x.ID, "turn", turn, "error", err)
		return
	}
	x.briefing.Context = text
}

// leave completes the attempt's context turn, once its technical call has returned and
// what came of it is decided. A turn that cannot be completed expires: nothing is inferred.
func (x *attempt) leave(said answer) {
	if x.turn == "" {
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, min(contextPatience, x.patience))
	defer cancel()
	status := ContextCompleted
	if said.reason == authority.ProviderTimeout || said.reason == authority.ProviderError {
		status = ContextFailed
	}
	if c, err := x.gateway.Load(ctx, x.runID); err == nil && c.State.Status == run.StatusRevoked {
		status = ContextCancelled
	}
	client, turn, key := *x.client, x.turn, x.ID
	_, err := ask.Within(ctx, 0, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, x.contexts.Complete(ctx, client, turn, key, status)
	})
	if err != nil {
		x.log.Warn("a context turn is not completed", "run", x.runID, "attempt", x.ID, "turn", turn, "error", err)
	}
}
