package asowner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/narrate"
)

// Run are the commands about runs.
type Run struct {
	Create createCommand `cmd:"" help:"Create a run and print its id."`
	Token  tokenCommand  `cmd:"" help:"Issue the run's token for its agent and print it."`
	List   listCommand   `cmd:"" help:"List runs, newest first."`
	Show   showCommand   `cmd:"" help:"Show a run: what it is, what stopped it, what happened."`
	Export exportCommand `cmd:"" help:"Export a run's signed evidence to a file."`
	Retry  retryCommand  `cmd:"" help:"Let a run that stands still try again."`
	Revoke revokeCommand `cmd:"" help:"End a run."`
}

// Help is what kong shows.
func (Run) Help() string {
	return `Each acts as the owner of a running server: it signs in with the owner's secret and signs out. No command
approves anything; that belongs to the owner's page. In a frozen workspace list and show say so.

Example: countersign run list --dir D`
}

// oneRun is the operand of what is about one run.
type oneRun struct {
	ID string `arg:"" name:"id" help:"The run's id."`
	signedIn
}

// Validate is called by kong.
func (c *oneRun) Validate() error {
	const form = "00000000-0000-0000-0000-000000000000"
	shape := strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdef", r) {
			return '0'
		}
		return r
	}, c.ID)
	if shape != form {
		return errors.New("want a run's id in lower case, as `countersign run list` shows it")
	}
	return nil
}

// tell prints a RunView that was answered, with --json as it is, else in words.
func (c *oneRun) tell(s command.Streams, r client.Reply, err error, words func(*narrate.View) error) error {
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printLine(s.Out, r.Body)
	}
	v, err := narrate.Parse(r.Body)
	if err != nil {
		return err
	}
	return words(v)
}

type createCommand struct {
	Body string `required:"" placeholder:"FILE" help:"What to create, as JSON; - reads standard input."`
	signedIn
}

func (createCommand) Help() string {
	return `The body is that of POST /api/v1/owner/runs: service, mode, channel, budgetCents, instruction and more;
countersign openapi describes it. Prints the id, with --json the RunView.

When no answer comes it is unknown whether there is a run: look at the list before you try again.

Example: countersign run create --dir D --body run.json` + ownerStatus
}

// maxBody is a little more than a server takes, in bytes: it is the server that refuses.
const maxBody = 64<<10 + 1

func (c *createCommand) Run(ctx context.Context, s command.Streams) error {
	body, err := readBody(c.Body)
	if err != nil {
		return err
	}
	return c.act(ctx, s, func(o *client.Owner) error {
		id, r, err := o.CreateRun(ctx, json.RawMessage(body))
		if op, ok := errors.AsType[*net.OpError](err); err != nil && r.Status == 0 && !(ok && op.Op == "dial") {
			return fmt.Errorf("it is unknown whether a run was created, look at `countersign run list`: %w", err)
		}
		if err != nil {
			return err
		}
		if c.JSON {
			return printLine(s.Out, r.Body)
		}
		_, err = fmt.Fprintln(s.Out, narrate.Plain(id))
		return err
	})
}

func readBody(name string) ([]byte, error) {
	in := os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, command.Usage("--body: %w", err)
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, maxBody))
	if err != nil {
		return nil, command.Usage("--body %s: %w", name, err)
	}
	var any json.RawMessage
	if err := json.Unmarshal(body, &any); err != nil {
		return nil, command.Usage("--body %s: not JSON: %w", name, err)
	}
	return body, nil
}

type tokenCommand struct{ oneRun }

func (tokenCommand) Help() string {
	return `Prints the token alone to stdout, so that it can go into a file (set umask 077 first), and to stderr how
long it is good. It is shown once; issuing another ends it. With --json: token, expiresAt and origin.

Example: countersign run token 01940e2e-7c00-7000-8000-000000000001 --dir D` + ownerStatus
}

func (c *tokenCommand) Run(ctx context.Context, s command.Streams) error {
	return c.act(ctx, s, func(o *client.Owner) error {
		session, r, err := o.IssueToken(ctx, c.ID)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return printLine(s.Out, r.Body)
		}
		fmt.Fprintf(s.Err, "The token is good at %s until %s.\n", narrate.Plain(session.Origin), narrate.Plain(session.ExpiresAt))
		_, err = fmt.Fprintln(s.Out, narrate.Plain(session.Token))
		return err
	})
}

type listCommand struct {
	Limit  int    `default:"100" placeholder:"N" help:"At most so many of the newest (${default}), 1 to 10000."`
	Reason string `placeholder:"CODE" help:"Only runs that stopped for this, such as FROZEN."`
	signedIn
}

func (listCommand) Help() string {
	return `A line a run: id, status, outcome, service and target, mode, what is spent of the budget, and age. When there
are more than --limit, stderr says so, and in a frozen workspace that it is frozen. With --json a RunView a line.

With --reason the newest 10000 runs are looked at; stderr says when there are older ones.

Example: countersign run list --dir D --limit 20
Example: countersign run list --dir D --reason FROZEN` + ownerStatus
}

// maxListed bounds the runs that one command shows, or looks at.
const maxListed = 10_000

var reasonCode = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

func (c *listCommand) Run(ctx context.Context, s command.Streams) error {
	if c.Limit < 1 || c.Limit > maxListed {
		return command.Usage("--limit: want 1 to %d", maxListed)
	}
	if c.Reason != "" && !reasonCode.MatchString(c.Reason) {
		return command.Usage("--reason: want a reason code such as FROZEN; api/reasons.md lists them")
	}
	return c.act(ctx, s, func(o *client.Owner) error {
		c.warnFrozen(ctx, s, o)
		var views []*narrate.View
		most, found, full := c.Limit, 0, false
		if c.Reason != "" {
			most = maxListed
		}
		more, err := o.EachRun(ctx, most, func(raw json.RawMessage) (bool, error) {
			v, err := narrate.Parse(raw)
			if err != nil || c.Reason != "" && (v.Stop == nil || v.Stop.ReasonCode != c.Reason) {
				return true, err
			}
			if full = found == c.Limit; full {
				return false, nil
			}
			found++
			if c.JSON {
				return true, printLine(s.Out, raw)
			}
			v.Timeline = nil // a list shows nothing of it
			views = append(views, v)
			return true, nil
		})
		switch {
		case err != nil:
			return err
		case full, more && c.Reason == "":
			fmt.Fprintf(s.Err, "These are the newest %d runs; there are more: --limit.\n", found)
		case more:
			fmt.Fprintf(s.Err, "Looked at the newest %d runs; there are older ones.\n", maxListed)
		}
		if c.JSON {
			return nil
		}
		return narrate.List(s.Out, views, time.Now())
	})
}

type showCommand struct{ oneRun }

func (showCommand) Help() string {
	return `Shows instruction, terms, budget and grants, why the run stands still and what to do about it, and its timeline:
a line an event with sequence and time, by turns. [...] is the provenance of a verdict, as it was recorded. What
you read is the server's word; the evidence, verified, is the proof. With --json the RunView. In a frozen workspace
stderr says that it is.

Example: countersign run show 01940e2e-7c00-7000-8000-000000000001 --dir D` + ownerStatus
}

func (c *showCommand) Run(ctx context.Context, s command.Streams) error {
	return c.act(ctx, s, func(o *client.Owner) error {
		c.warnFrozen(ctx, s, o)
		r, err := o.Run(ctx, c.ID)
		return c.tell(s, r, err, func(v *narrate.View) error { return narrate.Show(s.Out, v, c.origin(), time.Now()) })
	})
}

type exportCommand struct {
	Out string `required:"" placeholder:"FILE" help:"File to make; one that exists is left alone."`
	oneRun
}

func (exportCommand) Help() string {
	return `Writes the evidence as it stands now to a new file (0600: it holds the run's texts) and prints its head as
SEQ:HASH. Keep the head elsewhere: verify --head finds with it a chain that was cut or rewritten later. With
--json: runId, file, bytes and head.

Example: countersign run export 01940e2e-7c00-7000-8000-000000000001 --dir D --out evidence.json` + ownerStatus
}

func (c *exportCommand) Run(ctx context.Context, s command.Streams) error {
	if err := free(c.Out, "--out"); err != nil {
		return err
	}
	return c.act(ctx, s, func(o *client.Owner) error {
		r, err := o.Export(ctx, c.ID)
		if err != nil {
			return err
		}
		return c.keep(s, saved{"--out", c.Out, "run", c.ID}, r.Body)
	})
}

type retryCommand struct{ oneRun }

func (retryCommand) Help() string {
	return `For a run that stands still for a cause that has passed or been mended, such as a freeze that was lifted. Nothing
is dispatched and no grant changes: the run is ready, and its next report rests on a fresh observation. What needs a
decision, an approval or a clarification is refused here; that is for its page. Prints status and outcome, with
--json the RunView.

Example: countersign run retry 01940e2e-7c00-7000-8000-000000000001 --dir D` + ownerStatus
}

func (c *retryCommand) Run(ctx context.Context, s command.Streams) error {
	return c.act(ctx, s, func(o *client.Owner) error {
		r, err := o.Retry(ctx, c.ID)
		return c.outcome(s, r, err)
	})
}

// outcome prints how a run stands.
func (c *oneRun) outcome(s command.Streams, r client.Reply, err error) error {
	return c.tell(s, r, err, func(v *narrate.View) error {
		_, err := fmt.Fprintf(s.Out, "%s, outcome %s\n", narrate.Plain(v.Status), narrate.Plain(v.Outcome))
		return err
	})
}

type revokeCommand struct{ oneRun }

func (revokeCommand) Help() string {
	return `Ends the run with its unused permit and its grant; its token only reads what was. What was sent already cannot
be undone. Revoking again changes nothing. Prints status and outcome, with --json the RunView.

Example: countersign run revoke 01940e2e-7c00-7000-8000-000000000001 --dir D` + ownerStatus
}

func (c *revokeCommand) Run(ctx context.Context, s command.Streams) error {
	return c.act(ctx, s, func(o *client.Owner) error {
		r, err := o.Revoke(ctx, c.ID)
		return c.outcome(s, r, err)
	})
}
