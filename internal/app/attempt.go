package app

import (
	"context"
	"fmt"

	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
)

// attemptContexts opens context turns for managed attempts (G-39).
type attemptContexts struct{ perimeter *perimeter.Perimeter }

// Open opens a turn of the client for an attempt of the run.
func (c attemptContexts) Open(ctx context.Context, client, runID string) (string, error) {
	by, err := c.caller(ctx, client)
	if err != nil {
		return "", err
	}
	started, err := c.perimeter.StartFor(ctx, by, runID)
	if err != nil {
		return "", err
	}
	return started.Turn.ID, nil
}

// Ask asks compass.
func (c attemptContexts) Ask(ctx context.Context, client, turnID, task string) (string, error) {
	by, err := c.caller(ctx, client)
	if err != nil {
		return "", err
	}
	answer, err := c.perimeter.Call(ctx, by, turnID, tools.Request{Tool: turn.Compass, Task: &task})
	if err != nil {
		return "", err
	}
	compass, ok := answer.Result.(*tools.CompassAnswer)
	if !ok {
		return "", fmt.Errorf("app: compass answered a %T", answer.Result)
	}
	return compass.Text, nil
}

// Complete reports how the technical call ended.
func (c attemptContexts) Complete(ctx context.Context, client, turn, key, status string) error {
	by, err := c.caller(ctx, client)
	if err != nil {
		return err
	}
	_, err = c.perimeter.Complete(ctx, by, turn, key, status, nil)
	return err
}

// caller is the client, if it still takes part in the turn protocol.
func (c attemptContexts) caller(ctx context.Context, client string) (*perimeter.Caller, error) {
	by, err := c.perimeter.CallerOf(ctx, client)
	if err == nil && (by.Client.Revoked() || !by.Required()) {
		return nil, fmt.Errorf("app: the context client %s is revoked, or has no turn protocol", client)
	}
	return by, err
}
