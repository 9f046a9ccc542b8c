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
	// Err says why there is no turn, or no context, or neither; nil when there are both. Each
	// part is an *[Error].
	Err error
}

// Run starts a turn, fetches the context of the task, calls the model, and reports how
// that ended. It returns what call returns. call decides what to do without a turn or without
// context, which it finds in [Context].Err.
//
// An error of call is reported as cancelled when ctx has ended, else as failed. A panic is
// reported as failed and goes on. Trouble with the report is told to [Config].Told. When ctx
// ends before call is begun, Run does not begin it and returns ctx's cause.
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
	tools := c.Tools
	turn, err := c.Start(ctx, o)
	switch {
	case err == nil:
		at.Turn, tools = turn, turn.Tools
	case !hasReason(err, "turn_protocol_not_enabled", "named_client_required"):
		// A client of the turn protocol gets no context without a turn.
		at.Err = err
		return at
	default:
		at.Err = err
	}
	compass, err := tools.Compass(ctx, task)
	at.Compass, at.Err = compass, errors.Join(at.Err, err)
	return at
}

// close reports how a call ended.
func (c *Client) close(ctx context.Context, t *Turn, s Status) {
	if t == nil {
		return
	}
	_, err := t.Complete(ctx, s, "")
	if e, ok := errors.AsType[*Error](err); ok && !e.Temporary() && c.dropsTold {
		return
	}
	if err != nil {
		c.told(fmt.Errorf("the turn %s is not reported as %s: %w", t.ID, s, err))
	}
}
