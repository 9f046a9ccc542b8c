// Package attacks is the command that carries the attack suite out. It needs no running
// server: it serves a control plane of its own, with a ledger in a temporary folder or in
// an empty PostgreSQL database, on a loopback listener, and a store where one is attacked.
package attacks

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"countersign/internal/command"
	"countersign/internal/supervision/attack"
)

// Command is `countersign attack`.
type Command struct {
	ID      string `arg:"" optional:"" help:"One attack of the catalog, such as B10."`
	All     bool   `help:"The whole suite."`
	List    bool   `help:"Print the catalog and carry nothing out."`
	Service string `placeholder:"S" help:"Only on this service: merchant, bank or broker."`
	// Database has no variable: COUNTERSIGN_DATABASE may name a database that an
	// installation is about to be made in.
	Database string `placeholder:"URL" help:"URL of an empty PostgreSQL database for the ledger, which is kept. COUNTERSIGN_DATABASE does not count here. A password belongs in PGPASSWORD or ~/.pgpass."`
	Out      string `placeholder:"DIR" help:"A new folder to keep the report, the evidence and the public keys in."`
	JSON     bool   `name:"json" help:"Print one JSON object a line, and nothing else."`
}

// Help says what is measured, and what is not.
func (Command) Help() string {
	return `Attacks a control plane of its own over HTTP, as an agent and an owner would: its ledger is in a temporary
folder that is removed afterwards, or with --database in an empty PostgreSQL database, which keeps what was
done there. A database that is initialized is never touched. No server has to run.

Every attack begins with its benign twin: the same requests without the one alteration, which must be allowed
and take effect. Then exactly one thing differs. A line is blocked if the twin passed, the answer has the
expected status and code, no permit was issued, nothing happened in the service's own ledger, and the evidence
of every run verifies. It is open if one of these fails, and not carried out if the twin, or the installation,
failed: that shows nothing about the attack.

--all prints a line for each attack and service and then {"total", "blocked", "permits", "effects"}. The reports
and the guardian's verdicts are authored: nothing of this measures how a live model behaves. With --json the
first object says which build answered, on which engine, when, and to which catalog. "hard_policy (8)" is
hard check 8, by the evidence.

--out DIR keeps what an auditor needs to check it offline: report.jsonl, which is what --json prints; the
evidence of each run as ATTACK-SERVICE-RUN.json; evidence.pub, and receipt.pub of the store where there is one,
which are verify's --key and --store-key. Without it the keys and, in the temporary folder, the evidence are gone
with the end; what a database keeps nobody can read out or verify then.

Example: countersign attack --all --out DIR
Example: countersign attack B10 --service bank --json

Status 0: every line is blocked, without a permit and without an effect. 1: one is open. 2: wrong usage, or no
such attack. 3: none is open and some could not be carried out, not ready (such as a database that is not
empty), or interrupted.`
}

// Run carries out what the flags say.
func (c *Command) Run(ctx context.Context, s command.Streams) (err error) {
	lines, err := c.lines()
	if err != nil {
		return err
	}
	if c.List {
		return c.list(s.Out)
	}
	if err := c.checkDatabase(); err != nil {
		return err
	}
	k, err := newKeep(c.Out)
	if err != nil {
		return err
	}
	b, err := open(ctx, c.Database, lines, k, s.Err)
	if err != nil {
		return errors.Join(err, k.discard())
	}
	defer func() { err = errors.Join(err, k.close()) }()
	err = c.carryOut(ctx, b, lines, s)
	if closing := b.close(); err == nil {
		err = closing
	}
	return err
}

// checkDatabase is about a URL that a command line may hold: every process of the machine
// can read it.
func (c *Command) checkDatabase() error {
	u, err := url.Parse(c.Database)
	if c.Database != "" && err == nil {
		if _, secret := u.User.Password(); secret || u.Query().Has("password") {
			return command.Usage("--database: no password on the command line; use PGPASSWORD or ~/.pgpass")
		}
	}
	_, err = command.Database{Database: c.Database}.Address()
	return err
}

// lines are the attacks that are asked for, each on each service.
func (c *Command) lines() (lines []attack.Line, err error) {
	switch n := count(c.ID != "", c.All, c.List); {
	case n != 1:
		return nil, command.Usage("attack: want one of ID, --all and --list")
	case c.List && (c.Database != "" || c.Out != ""):
		return nil, command.Usage("attack: --list carries nothing out; leave --database and --out away")
	case c.ID != "" && attack.Find(c.ID) == nil:
		return nil, command.Usage("attack: there is no attack %q; `countersign attack --list` prints the catalog", c.ID)
	case !slices.Contains([]string{"", attack.Merchant, attack.Bank, attack.Broker}, c.Service):
		return nil, command.Usage("--service: want merchant, bank or broker")
	}
	for _, l := range attack.Lines() {
		if (c.ID == "" || l.ID == c.ID) && (c.Service == "" || l.Service == c.Service) {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return nil, command.Usage("attack: %s", attack.Find(c.ID).Elsewhere())
	}
	return lines, nil
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// carryOut plays the lines and prints each as it ends. However it ends, the sum so far is
// told.
func (c *Command) carryOut(ctx context.Context, b *bench, lines []attack.Line, s command.Streams) error {
	p := &printer{Streams: s, json: c.JSON, keep: b.keep}
	if err := p.begin(b); err != nil {
		return err
	}
	var sum attack.Summary
	err := func() error {
		for _, l := range lines {
			r, verified, err := b.play(ctx, l)
			if ctx.Err() != nil {
				return &interruptedError{sum.Total, len(lines)}
			}
			if err != nil {
				return fmt.Errorf("attack %s on %s: %w", l.ID, l.Service, err)
			}
			sum.Add(r)
			if err := p.line(r, verified); err != nil {
				return err
			}
		}
		return nil
	}()
	fmt.Fprintln(s.Err, inWords(&sum))
	if err == nil {
		err = p.sum(&sum)
	}
	_, interrupted := errors.AsType[*interruptedError](err)
	switch {
	case interrupted:
		return err
	case err != nil && sum.Open > 0:
		return command.Differs("%w", err)
	case err != nil:
		return err
	case sum.Open > 0:
		return command.ErrDiffers
	case !sum.Held():
		return fmt.Errorf("attack: %d of %d lines could not be carried out, and show nothing", sum.NotCarriedOut, sum.Total)
	}
	return nil
}

// interruptedError ends a suite in the middle. It is no check that failed.
type interruptedError struct{ done, of int }

func (e *interruptedError) Error() string {
	return fmt.Sprintf("attack: interrupted after %d of %d lines", e.done, e.of)
}

// inWords is a sum for a person.
func inWords(s *attack.Summary) string {
	parts := []string{fmt.Sprintf("%d of %d blocked", s.Blocked, s.Total)}
	if s.Open > 0 {
		parts = append(parts, fmt.Sprintf("%d open", s.Open))
	}
	if s.NotCarriedOut > 0 {
		parts = append(parts, fmt.Sprintf("%d not carried out", s.NotCarriedOut))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d permits", s.Permits), fmt.Sprintf("%d effects", s.Effects)), ", ")
}
