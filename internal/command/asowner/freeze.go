package asowner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/narrate"
)

// Freeze is the command that freezes the workspace, and shows how it stands.
type Freeze struct {
	Reason *string `placeholder:"TEXT" help:"Freeze, and why; 1 to 500 characters, kept in the evidence. Without it nothing is frozen."`
	Wait   bool    `help:"In a frozen workspace wait until nothing is in flight, 30 seconds at most."`
	Export string  `placeholder:"FILE" help:"Export the signed evidence of all freezes to a new file, and freeze nothing."`
	signedIn

	atMost time.Duration // that --wait waits; 0: waitAtMost
}

// Help is what kong shows.
func (Freeze) Help() string {
	return `With --reason nothing in the workspace is issued, claimed or dispatched from then on, at every server of this
ledger. What was dispatched before cannot be called back; a line for each execution without an outcome says which
run it is of: in flight while its outcome is waited for, which is ten seconds at most, then unconfirmed. Runs that
ask for something meanwhile stop with FROZEN. In a workspace that is frozen already nothing changes: the standing
freeze is shown. With --json the answer of POST /api/v1/owner/freeze.

After a lost answer give the same command again.

Without --reason it shows how the workspace stands, frozen or not, and changes nothing. With --json the answer of
GET /api/v1/owner/freeze, whose member "frozen" is for scripts: the status is 0 either way.

With --wait it shows, or with --json prints in one more line, how the workspace stands when nothing is in flight
any more. The status then is 0 when nothing has been left without an outcome, and 1 when something is unconfirmed or
still in flight, or the workspace is not frozen.

With --export it writes the evidence (0600) and prints its head, as run export does.

While no server runs nothing is dispatched by this installation, and nothing can be frozen: start the server with
serve --freeze TEXT.

Example: countersign freeze --dir D --reason "An agent orders what nobody asked for" --wait
Example: countersign freeze --dir D
Example: countersign freeze --dir D --export workspace.json` + ownerStatus
}

// Run carries the command out.
func (c *Freeze) Run(ctx context.Context, s command.Streams) error {
	if c.Export != "" {
		if c.Reason != nil || c.Wait {
			return command.Usage("--export goes with neither --reason nor --wait: it only exports")
		}
		return c.export(ctx, s)
	}
	c.patience = cmp.Or(c.patience, signInFor)
	err := c.act(ctx, s, func(o *client.Owner) error {
		var before *narrate.Standing
		var err error
		if c.Reason != nil {
			r, answered := o.Freeze(ctx, *c.Reason)
			before, err = c.told(s, r, repeatable(r, answered, "give the same command again"), (*narrate.Standing).Answer)
		} else {
			r, answered := o.FreezeState(ctx)
			before, err = c.told(s, r, answered, (*narrate.Standing).State)
		}
		if err == nil && before.IsFrozen() && !c.JSON {
			fmt.Fprintf(s.Err, "Lift it: countersign unfreeze%s --epoch %d --reason TEXT\nThe page: %s/freeze\n", c.again(), before.Epoch, c.origin())
		}
		if err == nil && c.Wait {
			err = c.wait(ctx, s, o, before)
		}
		return err
	})
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("%w. `countersign serve --freeze TEXT` starts it frozen, before it answers anybody", err)
	}
	return err
}

// signInFor is for how long freezing and unfreezing try to sign in at a server whose ledger
// stores nothing at the moment; the freeze itself is then tried by the server for as long.
const signInFor = 20 * time.Second

// What was dispatched has its outcome, or is unconfirmed, when its attempt has had its ten
// seconds and a round of the server has found it; the rest is for slow machines.
const (
	waitAtMost = 30 * time.Second
	waitStep   = 200 * time.Millisecond
)

// wait waits until nothing is in flight any more in the workspace, which stood so before.
func (c *Freeze) wait(ctx context.Context, s command.Streams, o *client.Owner, stands *narrate.Standing) error {
	epoch := stands.Epoch
	end := time.After(cmp.Or(c.atMost, waitAtMost))
	waits := func() bool {
		inFlight, _ := stands.Open()
		return stands.IsFrozen() && stands.Epoch == epoch && inFlight > 0
	}
	for over := false; waits() && !over; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			over = true
		case <-time.After(waitStep):
		}
		r, err := o.FreezeState(ctx)
		if err != nil {
			return err
		}
		if stands, err = narrate.ParseStanding(r.Body); err != nil {
			return err
		}
	}
	r, err := o.FreezeState(ctx)
	if stands, err = c.told(s, r, err, (*narrate.Standing).State); err != nil {
		return err
	}
	inFlight, unconfirmed := stands.Open()
	switch {
	case !stands.IsFrozen():
		return command.Differs("the workspace is not frozen: what is in flight may be followed by more")
	case stands.Epoch != epoch:
		return command.Differs("freeze %d was lifted meanwhile, and freeze %d stands; give `countersign freeze --wait` again", epoch, stands.Epoch)
	case inFlight > 0:
		return command.Differs("%d still in flight after %v; give `countersign freeze --wait` again", inFlight, waitAtMost)
	case unconfirmed > 0:
		return command.Differs("unconfirmed: %d; have each looked up on the page of its run", unconfirmed)
	}
	return nil
}

func (c *Freeze) export(ctx context.Context, s command.Streams) error {
	if err := free(c.Export, "--export"); err != nil {
		return err
	}
	return c.act(ctx, s, func(o *client.Owner) error {
		r, err := o.ExportFreezes(ctx)
		if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Reason == "NOT_FOUND" {
			return command.Differs("the workspace was never frozen: there is no evidence of a freeze, and nothing was written")
		}
		if err != nil {
			return err
		}
		return c.keep(s, saved{"--export", c.Export, "workspace", ""}, r.Body)
	})
}

// Unfreeze is the command that lifts the freeze.
type Unfreeze struct {
	Reason string `required:"" placeholder:"TEXT" help:"Why; 1 to 500 characters, kept in the evidence."`
	Epoch  int64  `placeholder:"N" help:"Lift freeze N only; when another one has come since, that stays. Default: the newest when the command begins."`
	signedIn
}

// Help is what kong shows.
func (Unfreeze) Help() string {
	return `Lifts the standing freeze. Runs that it has stopped go on when their owner retries them, on their page or with
run retry. In a workspace that is not frozen nothing changes. What has no outcome is shown as by freeze: that may be
older than the freeze, and lifting it resolves none of it. With --json the answer of POST /api/v1/owner/unfreeze, or
of GET /api/v1/owner/freeze when the workspace was never frozen.

After a lost answer give the command again with --epoch, as it says then: without it the second one would lift a
freeze that has come meanwhile.

Example: countersign unfreeze --dir D --epoch 1 --reason "The agent is revoked"` + ownerStatus
}

// Run carries the command out.
func (c *Unfreeze) Run(ctx context.Context, s command.Streams) error {
	if c.Epoch < 0 {
		return command.Usage("--epoch: want the number of a freeze")
	}
	c.patience = cmp.Or(c.patience, signInFor)
	return c.act(ctx, s, func(o *client.Owner) error {
		epoch := c.Epoch
		if epoch == 0 {
			r, err := o.FreezeState(ctx)
			if err != nil {
				return err
			}
			stands, err := narrate.ParseStanding(r.Body)
			if err != nil {
				return err
			}
			if epoch = stands.Epoch; epoch == 0 { // a request without one would lift a freeze that comes now
				_, err = c.told(s, r, nil, (*narrate.Standing).State)
				return err
			}
		}
		r, err := o.Unfreeze(ctx, c.Reason, epoch)
		if r.Status >= http.StatusInternalServerError {
			fmt.Fprintf(s.Err, "Give it again for the same freeze: countersign unfreeze%s --epoch %d --reason TEXT\n", c.again(), epoch)
		}
		stands, err := c.told(s, r, repeatable(r, err, fmt.Sprintf("give it again with --epoch %d", epoch)), (*narrate.Standing).Answer)
		if err == nil && stands.Changed && !c.JSON {
			again := c.again()
			fmt.Fprintf(s.Err, "What it has stopped: countersign run list%s --reason FROZEN; each goes on by: countersign run retry ID%s\n", again, again)
		}
		return err
	})
}

// repeatable says of an answer that did not come how the command may be given again.
func repeatable(r client.Reply, err error, how string) error {
	if op, ok := errors.AsType[*net.OpError](err); err != nil && r.Status == 0 && !(ok && op.Op == "dial") {
		return fmt.Errorf("it is unknown whether that was done, %s: %w", how, err)
	}
	return err
}

// told prints how the workspace stands: with --json the answer, else in words.
func (c *signedIn) told(s command.Streams, r client.Reply, err error, words func(*narrate.Standing, io.Writer, string) error) (*narrate.Standing, error) {
	if err != nil {
		return nil, err
	}
	stands, err := narrate.ParseStanding(r.Body)
	if err != nil {
		return nil, err
	}
	if c.JSON {
		return stands, printLine(s.Out, r.Body)
	}
	return stands, words(stands, s.Out, c.origin())
}

// warnFrozen says to a person who looks at runs that the workspace is frozen.
func (c *signedIn) warnFrozen(ctx context.Context, s command.Streams, o *client.Owner) {
	if c.JSON {
		return
	}
	r, err := o.FreezeState(ctx)
	var stands *narrate.Standing
	if err == nil {
		stands, err = narrate.ParseStanding(r.Body)
	}
	switch {
	case err != nil:
		fmt.Fprintln(s.Err, "It could not be read whether the workspace is frozen:", err)
	case stands.IsFrozen():
		fmt.Fprintf(s.Err, "The workspace is frozen: %s\nLift it: countersign unfreeze%s --epoch %d --reason TEXT\n", stands.Freeze(), c.again(), stands.Epoch)
	}
}
