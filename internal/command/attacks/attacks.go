// Package attacks is the command that carries the attack suite out. It needs no running
// server: it serves a control plane of its own, with a ledger in a temporary folder or in
// an empty PostgreSQL database, on a loopback listener, and a store where one is attacked.
package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	command.Database
	JSON bool `name:"json" help:"Print one JSON object a line, and nothing else."`
}

// Help says what is measured, and what is not.
func (Command) Help() string {
	return `Attacks a control plane of its own over HTTP, as an agent and an owner would: its ledger is in a temporary
folder that is removed afterwards, or with --database in an empty PostgreSQL database, which keeps what was
done there. A database that is initialized is never touched. No server has to run.

Every attack begins with its benign twin: the same requests without the one alteration, which must be allowed
and take effect. Then exactly one thing differs. A line is blocked if the twin passed, the answer has the
expected status and code, no permit was issued, nothing happened in the service's own ledger, and the evidence
of every run verifies.

--all prints a line for each attack and service and then {"total", "blocked", "permits", "effects"}. The reports
and the guardian's verdicts are authored: nothing of this measures how a live model behaves.

Example: countersign attack --all
Example: countersign attack B10 --service bank --json

Status 0: every line is blocked, without a permit and without an effect. 1: one is not. 2: wrong usage, or no
such attack. 3: not ready, such as a database that is not empty.`
}

// Run carries out what the flags say.
func (c *Command) Run(ctx context.Context, s command.Streams) error {
	lines, err := c.lines()
	if err != nil {
		return err
	}
	if c.List {
		return c.list(s.Out)
	}
	url, err := c.Address()
	if err != nil {
		return err
	}
	b, err := open(ctx, url, c.Database, lines, s.Err)
	if err != nil {
		return err
	}
	err = c.carryOut(ctx, b, lines, s)
	if closing := b.close(); err == nil {
		err = closing
	}
	return err
}

// lines are the attacks that are asked for, each on each service.
func (c *Command) lines() (lines []attack.Line, err error) {
	switch n := count(c.ID != "", c.All, c.List); {
	case n != 1:
		return nil, command.Usage("attack: want one of ID, --all and --list")
	case c.ID != "" && attack.Find(c.ID) == nil:
		return nil, command.Usage("attack: there is no attack %q; `countersign attack --list` prints the catalog", c.ID)
	case !slices.Contains([]string{"", attack.Merchant, attack.Bank, attack.Broker}, c.Service):
		return nil, command.Usage("--service: want merchant, bank or broker")
	}
	for _, l := range attack.Lines() {
		if (c.ID == "" || l.ID == c.ID) && (c.Service == "" || l.Service == c.Service || l.Service == attack.Hosted && c.Service == attack.Merchant) {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return nil, command.Usage("attack: %s does not apply to %s", c.ID, c.Service)
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

// list prints the catalog.
func (c *Command) list(w io.Writer) error {
	if !c.JSON {
		fmt.Fprintf(w, "%-4s %-22s %-36s %-52s %s\n", "id", "services", "decided by", "expected", "title")
	}
	for _, a := range attack.Catalog() {
		switch {
		case c.Service != "" && !slices.Contains(a.Services, c.Service):
		case c.JSON:
			if err := object(w, a); err != nil {
				return err
			}
		default:
			fmt.Fprintf(w, "%-4s %-22s %-36s %-52s %s\n", a.ID, strings.Join(a.Services, ", "), strings.Join(a.DecidedBy, ", "), strings.Join(a.Expected, ", "), a.Title)
		}
	}
	return nil
}

// carryOut plays the lines and prints each as it ends.
func (c *Command) carryOut(ctx context.Context, b *bench, lines []attack.Line, s command.Streams) error {
	fmt.Fprintf(s.Err, "control plane  %s, %s\n%s\n\n", b.plane.Origin(), b.where, attack.Label)
	if !c.JSON {
		fmt.Fprintf(s.Out, rowForm, "id", "service", "decided by", "expected", "got", "check", "permits", "effects", "result")
	}
	var sum attack.Summary
	for _, l := range lines {
		r, err := b.play(ctx, l)
		if ctx.Err() != nil {
			return command.Differs("attack: interrupted after %d of %d lines", sum.Total, len(lines))
		}
		if err != nil {
			return fmt.Errorf("attack %s on %s: %w", l.ID, l.Service, err)
		}
		sum.Add(r)
		if c.JSON {
			err = object(s.Out, r)
		} else {
			err = row(s.Out, r)
		}
		if err != nil {
			return err
		}
	}
	if err := object(s.Out, sum); err != nil {
		return err
	}
	if !sum.Held() {
		return command.ErrDiffers
	}
	return nil
}

const rowForm = "%-4s %-17s %-17s %-32s %-32s %-13s %7v %7v  %s\n"

// row prints a line for a person.
func row(w io.Writer, r *attack.Result) error {
	check, result := "-", "blocked"
	if r.Failed != nil {
		check = fmt.Sprintf("%d %s", r.Failed.Number, r.Failed.Name)
	}
	if n := len(r.Shapes); n > 1 {
		result = fmt.Sprintf("blocked in all %d shapes", n)
	}
	if !r.Blocked {
		result = "NOT BLOCKED: " + r.Problem
	}
	_, err := fmt.Fprintf(w, rowForm, r.AttackID, r.Service, r.DecidedBy, r.Expected, r.Got, check, r.Permits, r.Effects, result)
	return err
}

// object prints one JSON object as a line.
func object(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(raw, '\n'))
	}
	return err
}
