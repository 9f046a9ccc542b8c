package contextclient

import (
	"context"
	"errors"
	"fmt"
)

// Context is what a model's call starts from.
type Context struct {
	// Turn is the turn that the call happens in; nil when there is none.
	Turn *Turn
	// Compass is the context of the task; zero when there is none.
	Compass
	// Problems say why there is no turn, or no context, or neither; empty when there are both.
	// Each is an *[Error], and was told to [Config].OnTrouble.
	Problems []error
}

// Run starts a turn, fetches the context of the task, calls the model, and reports how
// that ended. It returns what call returns. call decides what to do without a turn or without
// context, which it finds in [Context].Problems.
//
// An error of call is reported as cancelled when ctx has ended, else as failed. A panic is
// reported as failed and goes on. Trouble with the start, the context and the report is told to
// [Config].OnTrouble; a client without the opt-in, which has context and never a turn, is told so
// once. When ctx ends before call is begun, Run does not begin it and returns ctx's cause.
//
// A server that hangs delays call by StartWithin of the [Config] when it takes no start, and else
// by one request's bound; the return of Run by one request's bound more. A transport or an outbox that
// panics or does not come back, and an OnTrouble that does, change nothing of what Run returns:
// each step goes on without them, two seconds after its bound at the latest, and each OnTrouble after one.
func (c *Client) Run(ctx context.Context, task string, call func(context.Context, Context) error) error {
	return c.RunWith(ctx, StartOptions{}, task, call)
}

// RunWith is [Client.Run] with what its start says.
func (c *Client) RunWith(ctx context.Context, o StartOptions, task string, call func(context.Context, Context) error) error {
	at := c.prepare(ctx, o, task)
	if ctx.Err() != nil {
		c.close(ctx, at.Turn, Cancelled)
		return context.Cause(ctx)
	}
	returned := false
	defer func() {
		if !returned { // a panic, which goes on when this is done
			c.close(ctx, at.Turn, Failed)
		}
	}()
	err := call(ctx, at)
	returned = true
	switch {
	case err == nil:
		c.close(ctx, at.Turn, Completed)
	case ctx.Err() != nil:
		c.close(ctx, at.Turn, Cancelled)
	default:
		c.close(ctx, at.Turn, Failed)
	}
	return err
}

func (c *Client) prepare(ctx context.Context, o StartOptions, task string) (at Context) {
	missing := func(what string, err error) {
		at.Problems = append(at.Problems, err)
		if ctx.Err() == nil { // else call is not begun
			c.onTrouble(fmt.Errorf("the model is called without %s: %w", what, err))
		}
	}
	tools := c.Tools
	turn, err := c.startApart(ctx, o)
	switch {
	case err == nil:
		at.Turn, tools = turn, turn.Tools
	case !hasReason(err, "turn_protocol_not_enabled", "named_client_required"):
		// A client of the turn protocol gets no context without a turn.
		missing("a turn and without context", err)
		return at
	default:
		at.Problems = append(at.Problems, err)
		c.withoutTurns.Do(func() { c.onTrouble(fmt.Errorf("this client's calls have context and no turn: %w", err)) })
	}
	if at.Compass, err = c.compassApart(ctx, tools, task); err != nil {
		missing("context", err)
	}
	return at
}

// close reports how a call ended.
func (c *Client) close(ctx context.Context, t *Turn, s Status) {
	if t == nil {
		return
	}
	_, err := bounded(c, c.http.Timeout+grace, func() (Receipt, error) { return t.Complete(ctx, s, "") })
	e, answered := errors.AsType[*Error](err)
	switch {
	case err == nil, answered && e.final() && c.dropsTold:
	case errors.Is(err, ErrQueued) && c.outbox.InMemory():
		c.onTrouble(fmt.Errorf("the turn %s is not reported as %s yet, and is not unless Deliver, Flush or Close sends it before the process ends: %w", t.ID, s, err))
	default:
		c.onTrouble(fmt.Errorf("the turn %s is not reported as %s: %w", t.ID, s, err))
	}
}
