package asowner

import (
	"context"
	"errors"
	"fmt"
	"net"

	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/narrate"
)

// Freeze is the command that freezes the workspace.
type Freeze struct {
	Reason string `required:"" placeholder:"TEXT" help:"Why; 1 to 500 characters, kept in the evidence."`
	signedIn
}

// Help is what kong shows.
func (Freeze) Help() string {
	return `From then on nothing in the workspace is issued, claimed or dispatched, at every server of this ledger. What was
dispatched before cannot be called back; a line for each execution without an outcome says which run it is of.
Runs that ask for something meanwhile stop with FROZEN. In a workspace that is frozen already nothing changes:
the standing freeze is shown. With --json the answer of POST /api/v1/owner/freeze.

After a lost answer give the same command again.

Example: countersign freeze --dir D --reason agent-astray` + ownerStatus
}

// Run carries the command out.
func (c *Freeze) Run(ctx context.Context, s command.Streams) error {
	return c.act(ctx, s, func(o *client.Owner) error { return c.stands(s)(o.Freeze(ctx, c.Reason)) })
}

// Unfreeze is the command that lifts the freeze.
type Unfreeze struct {
	Reason string `required:"" placeholder:"TEXT" help:"Why; 1 to 500 characters, kept in the evidence."`
	Epoch  int64  `placeholder:"N" help:"Lift freeze N only; when another one has come since, that stays."`
	signedIn
}

// Help is what kong shows.
func (Unfreeze) Help() string {
	return `Lifts the standing freeze. Runs that it has stopped go on when their owner retries them, on their page. In a
workspace that is not frozen nothing changes. With --json the answer of POST /api/v1/owner/unfreeze.

Example: countersign unfreeze --dir D --reason agent-revoked` + ownerStatus
}

// Run carries the command out.
func (c *Unfreeze) Run(ctx context.Context, s command.Streams) error {
	if c.Epoch < 0 {
		return command.Usage("--epoch: want the number of a freeze")
	}
	return c.act(ctx, s, func(o *client.Owner) error { return c.stands(s)(o.Unfreeze(ctx, c.Reason, c.Epoch)) })
}

// stands tells how the workspace stands.
func (c *signedIn) stands(s command.Streams) func(client.Reply, error) error {
	return func(r client.Reply, err error) error {
		op, ok := errors.AsType[*net.OpError](err)
		switch {
		case err != nil && r.Status == 0 && !(ok && op.Op == "dial"):
			return fmt.Errorf("it is unknown whether that was done, give the same command again: %w", err)
		case err != nil:
			return err
		case c.JSON:
			return printLine(s.Out, r.Body)
		}
		return narrate.Freeze(s.Out, r.Body)
	}
}
