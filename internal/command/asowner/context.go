package asowner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/narrate"
)

// Context are the commands about what a project hands out, and what was recorded of it.
type Context struct {
	Publish      publishCommand      `cmd:"" help:"Publish a folder of documents as a Build."`
	Turns        turnsCommand        `cmd:"" help:"List context turns, newest first."`
	Interactions interactionsCommand `cmd:"" help:"List interactions, newest first: calls of the context tools and bridge receipts."`
	Gaps         gapsCommand         `cmd:"" help:"List what clients reported as missing."`
	Show         contextShow         `cmd:"" help:"Show a turn, an interaction or a gap."`
	Export       contextExport       `cmd:"" help:"Export signed evidence to a file."`
}

// Help is what kong shows.
func (Context) Help() string {
	return `What was recorded is what passed through this server's HTTP context gateway, and no more: turns, interactions and
gaps say what was handed to a response or reported by a client, not what a model read or did. Each command acts as
the owner of a running server: it signs in with the owner's secret and signs out.

Example: countersign context publish docs --project acme/support --env production --dir D`
}

// listed is what lists of a project's records have in common.
type listed struct {
	Limit int `default:"100" placeholder:"N" help:"At most so many of the newest (${default}), 1 to 10000."`
	inProject
}

// list shows a list of the project's. note is said to people beside it.
func (c *listed) list(ctx context.Context, s command.Streams, what client.OfProject, query url.Values, note string, table func([]json.RawMessage) error) error {
	if c.Limit < 1 || c.Limit > maxListed {
		return command.Usage("--limit: want 1 to %d", maxListed)
	}
	return c.asked(ctx, s, "project list", func(o *client.Owner) error {
		list, more, err := c.all(ctx, o, c.Project, what, query, c.Limit)
		if err != nil {
			return err
		}
		if more {
			fmt.Fprintf(s.Err, "These are %d; there are more: --limit.\n", len(list))
		}
		if note != "" && !c.JSON {
			fmt.Fprintln(s.Err, note)
		}
		return c.rows(s, list, func() error { return table(list) })
	})
}

type turnsCommand struct {
	Client string `placeholder:"ID" help:"Only those of this client."`
	Status string `placeholder:"STATUS" help:"Only those that have this status now, such as EXPIRED_OR_INCOMPLETE."`
	listed
}

func (turnsCommand) Help() string {
	return `A line a turn: id, status, how many deliveries, observations and context calls, environment, age and client. A
delivery was handed to an HTTP response; an observation is what a hook reported before a tool was to run. What a
status means and what it does not is told by context show. With --json a turn a line.

Statuses: ` + "OPEN, COMPLETED_WITH_CONTEXT_DELIVERY, COMPLETED_WITHOUT_CONTEXT_DELIVERY, EXPIRED_OR_INCOMPLETE,\nREPORTED_CANCELLED, REPORTED_FAILED." + `

Example: countersign context turns --project acme/support --status OPEN --dir D` + ownerStatus
}

func (c *turnsCommand) Run(ctx context.Context, s command.Streams) error {
	query := url.Values{}
	if c.Client != "" {
		if !project.IsClientID(c.Client) {
			return command.Usage("--client: want a client's id, as `countersign client list` shows it")
		}
		query.Set("client", c.Client)
	}
	if c.Status != "" {
		if turn.Sentence(c.Status) == "" {
			return command.Usage("--status: want a status such as OPEN; `countersign context turns --help` lists them")
		}
		query.Set("status", c.Status)
	}
	return c.list(ctx, s, client.Turns, query, turn.HonestyAbsent, func(list []json.RawMessage) error {
		turns, err := narrate.ParseContextTurns(list)
		if err != nil {
			return err
		}
		return narrate.ContextTurns(s.Out, turns, time.Now())
	})
}

type interactionsCommand struct {
	Turn string `placeholder:"ID" help:"Only those of this turn."`
	listed
}

func (interactionsCommand) Help() string {
	return `A line an interaction: id, turn, environment, age, client, and what it was. With --json an interaction a line; what
was asked and answered is in context show.

Example: countersign context interactions --project acme/support --turn trn_01940e2e7c0070008000000000000001 --dir D` + ownerStatus
}

func (c *interactionsCommand) Run(ctx context.Context, s command.Streams) error {
	query := url.Values{}
	if c.Turn != "" {
		if !turn.IsID("trn_", c.Turn) {
			return command.Usage("--turn: want a turn's id, as `countersign context turns` shows it")
		}
		query.Set("turn", c.Turn)
	}
	return c.list(ctx, s, client.Interactions, query, turn.HonestyDelivery, func(list []json.RawMessage) error {
		interactions, err := narrate.ParseInteractions(list)
		if err != nil {
			return err
		}
		return narrate.Interactions(s.Out, interactions, time.Now())
	})
}

type gapsCommand struct{ listed }

func (gapsCommand) Help() string {
	return `A line a gap: id, environment, age, who reported it first, and what is missing. The same gap reported again is one.
With --json a gap a line.

Example: countersign context gaps --project acme/support --dir D` + ownerStatus
}

func (c *gapsCommand) Run(ctx context.Context, s command.Streams) error {
	return c.list(ctx, s, client.Gaps, nil, "", func(list []json.RawMessage) error {
		gaps, err := narrate.ParseGaps(list)
		if err != nil {
			return err
		}
		return narrate.Gaps(s.Out, gaps, time.Now())
	})
}

// listOf is the list that an id belongs to, "" for what is none.
func listOf(id string) client.OfProject {
	switch {
	case turn.IsID("trn_", id):
		return client.Turns
	case turn.IsID("int_", id), turn.IsID("brg_", id):
		return client.Interactions
	case project.IsClientID(id):
		return client.Clients
	case project.IsGapID(id):
		return client.Gaps
	}
	return ""
}

type contextShow struct {
	ID string `arg:"" name:"id" help:"The id of a turn, an interaction or a gap."`
	inProject
}

func (contextShow) Help() string {
	return `Of a turn: its status and what that means, a line for each thing that was recorded, with the class of its evidence in
brackets, and what that shows and what it does not. Of an interaction: what was asked, and what was handed to the HTTP
response, cut to 2000 characters each. Of a gap: what is missing. With --json all of it, as the server answers it.

Example: countersign context show trn_01940e2e7c0070008000000000000001 --project acme/support --dir D` + ownerStatus
}

// Validate is called by kong.
func (c *contextShow) Validate() error {
	if of := listOf(c.ID); of == "" || of == client.Clients {
		return errors.New("want the id of a turn, an interaction or a gap, as `countersign context turns`, `interactions` and `gaps` show it")
	}
	return nil
}

func (c *contextShow) Run(ctx context.Context, s command.Streams) error {
	of := listOf(c.ID)
	return c.asked(ctx, s, "context "+string(of), func(o *client.Owner) error {
		if of == client.Gaps {
			return c.gap(ctx, s, o)
		}
		r, err := o.One(ctx, c.Project.id(), of, c.ID)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return printLine(s.Out, r.Body)
		case of == client.Turns:
			t, err := narrate.ParseContextTurn(r.Body)
			if err != nil {
				return err
			}
			var boundaries []narrate.Boundary
			for _, b := range turn.Boundaries(t.Deliveries, t.Observations, t.Reported != nil || t.LateReports > 0) {
				boundaries = append(boundaries, narrate.Boundary(b))
			}
			return narrate.ShowContextTurn(s.Out, t, boundaries)
		}
		i, err := narrate.ParseInteraction(r.Body)
		if err != nil {
			return err
		}
		return narrate.ShowInteraction(s.Out, i)
	})
}

// gap shows one gap, which is found in the list: a gap has no route of its own.
func (c *contextShow) gap(ctx context.Context, s command.Streams, o *client.Owner) error {
	found := false
	_, err := o.Each(ctx, c.Project.id(), client.Gaps, nil, math.MaxInt, func(raw json.RawMessage) (bool, error) {
		gaps, err := narrate.ParseGaps([]json.RawMessage{raw})
		if err != nil || gaps[0].ID != c.ID {
			return true, err
		}
		found = true
		if c.JSON {
			return false, printLine(s.Out, raw)
		}
		return false, narrate.ShowGap(s.Out, gaps[0])
	})
	if err == nil && !found {
		err = command.Usage("there is no such gap in %s; `countersign context gaps` shows what there is", c.Project)
	}
	return err
}

type contextExport struct {
	ID  string `arg:"" optional:"" name:"id" help:"The id of a turn, a client, a gap, a bridge receipt, an interaction outside a turn, or the project. Without it: the project."`
	Out string `required:"" placeholder:"FILE" help:"File to make; one that exists is left alone."`
	inProject
}

func (contextExport) Help() string {
	return `Writes the evidence as it stands now to a new file (0600: it holds what was asked and answered) and prints its head as
SEQ:HASH. Keep the head elsewhere: verify --head finds with it a chain that was cut or rewritten later. What was
called during a turn is in the turn's evidence. With --json: file, id, bytes and head.

Example: countersign context export trn_01940e2e7c0070008000000000000001 --project acme/support --out turn.json --dir D` + ownerStatus
}

// Validate is called by kong.
func (c *contextExport) Validate() error {
	switch {
	case project.IsProjectID(c.ID) && c.ID != c.Project.id():
		return fmt.Errorf("this is not the id of the project %s; give --project that one's handle and slug", c.Project)
	case c.ID != "" && listOf(c.ID) == "" && !project.IsProjectID(c.ID):
		return errors.New("want the id of a turn, a client, a gap, a bridge receipt, an interaction or the project")
	}
	return nil
}

func (c *contextExport) Run(ctx context.Context, s command.Streams) error {
	if err := free(c.Out, "--out"); err != nil {
		return err
	}
	of := listOf(c.ID)
	lists := "project list"
	if of != "" {
		lists = strings.Replace("context "+string(of), "context clients", "client list", 1)
	}
	return c.asked(ctx, s, lists, func(o *client.Owner) error {
		to := saved{flag: "--out", file: c.Out, kind: project.Kind, id: c.Project.id()}
		if of == "" {
			r, err := o.ExportProject(ctx, c.Project.id())
			if err != nil {
				return err
			}
			return c.keep(s, to, r.Body)
		}
		r, err := o.ExportOf(ctx, c.Project.id(), of, c.ID)
		if err != nil {
			return err
		}
		to.id, to.kind = c.ID, map[string]string{"trn": turn.Kind, "int": turn.KindInteraction, "brg": turn.KindBridge, "cli": project.KindClient, "shr": project.KindClient, "gap": project.KindGap}[c.ID[:3]]
		return c.keep(s, to, r.Body)
	})
}
