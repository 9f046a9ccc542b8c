package asowner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/contextturn/project"
	"countersign/internal/narrate"
)

// Client are the commands about who may ask a project for context.
type Client struct {
	Create clientCreate `cmd:"" help:"Create a named client and print its token."`
	List   clientList   `cmd:"" help:"List the clients of a project."`
	Rotate clientRotate `cmd:"" help:"Give a client its next token and print it."`
	Revoke clientRevoke `cmd:"" help:"End a client."`
}

// Help is what kong shows.
func (Client) Help() string {
	return `A client is one component that fetches context, with a token of its own. What it is bound to (project, profile,
environment and turn protocol) never changes: another binding is another client. Each command acts as the owner of a
running server: it signs in with the owner's secret and signs out.

Example: countersign client list --project acme/support --dir D`
}

type clientCreate struct {
	Name    string `required:"" placeholder:"N" help:"What it is called on pages; 1 to 100 characters."`
	Kind    string `default:"custom" enum:"custom,claude-code,mcp,bridge" placeholder:"K" help:"custom, claude-code, mcp or bridge (${default})."`
	Profile string `required:"" placeholder:"P" help:"Documents of other profiles are not handed out; 1 to 40 lowercase letters, digits and hyphens."`
	Env     string `required:"" name:"env" enum:"production,staging" placeholder:"production|staging" help:"The environment that it asks."`
	Turns   string `default:"absent" enum:"required,absent" placeholder:"T" help:"required: every request carries a turn that the client opened (seif.http-turn.v1); absent: none does (${default})."`
	inProject
}

func (clientCreate) Help() string {
	return `Prints the token alone to stdout, so that it can go into a file (set umask 077 first), and to stderr the client's
id and where it asks. The token is shown once; the server keeps its SHA-256 alone. Give it to the component that
fetches context, never to a browser, a prompt, source control or a log. With --json: client and token.

After a lost answer look at client list, revoke the client that nobody has the token of, and create another.

Example: countersign client create --project acme/support --name "My application gateway" --profile support --env production --turns required --dir D` + ownerStatus
}

// Validate is called by kong.
func (c *clientCreate) Validate() error {
	if !project.IsName(c.Name) {
		return errors.New("--name: want 1 to 100 characters that can be seen")
	}
	return isProfile(c.Profile)
}

// isProfile refuses what can be no profile.
func isProfile(s string) error {
	if !project.IsProfile(s) {
		return errors.New("--profile: want 1 to 40 lowercase letters, digits and hyphens")
	}
	return nil
}

func (c *clientCreate) Run(ctx context.Context, s command.Streams) error {
	return c.asked(ctx, s, "project list", func(o *client.Owner) error {
		list, _, err := c.all(ctx, o, c.Project, client.Clients, nil, maxListed)
		if err != nil {
			return err
		}
		known, err := narrate.ParseClients(list)
		if err != nil {
			return err
		}
		body := map[string]string{"name": c.Name, "kind": c.Kind, "profile": c.Profile, "environment": c.Env, "turnProtocol": c.Turns}
		r, err := o.CreateClient(ctx, c.Project.id(), body)
		if err = repeatable(r, err, "look at `countersign client list`"); err != nil {
			return err
		}
		c.compare(s.Err, known)
		return c.token(s, r, func(i narrate.Issued) string {
			return fmt.Sprintf("Client %s. The token follows and is not shown again.\nIt asks %s: SEIF_BASE_URL, with the token as SEIF_CLIENT_TOKEN.", i.Client.ID, c.Project.base(c.origin(), c.Env))
		})
	})
}

// compare tells what may be a slip of the keyboard, which the server cannot know: a profile
// that nobody else has, and the name of another client. Both are bound for good.
func (c *clientCreate) compare(w io.Writer, known []*narrate.Client) {
	var profiles []string
	for _, k := range known {
		if k.Revoked() != "" {
			continue
		}
		if !slices.Contains(profiles, k.Profile) {
			profiles = append(profiles, k.Profile)
		}
		if k.Name == c.Name {
			fmt.Fprintf(w, "Another client has this name: %s. Lists and pages show names; revoke one of them, if this was not meant.\n", narrate.Plain(k.ID))
		}
	}
	if len(profiles) > 0 && !slices.Contains(profiles, c.Profile) {
		slices.Sort(profiles)
		fmt.Fprintf(w, "No other client has the profile %s; there are clients of: %s. Documents for other profiles are not handed out to it; revoke it, if this was not meant.\n", c.Profile, narrate.Plain(strings.Join(profiles, ", ")))
	}
}

type clientList struct {
	inProject
}

func (clientList) Help() string {
	return `A line a client: id, kind, profile, environment, turn protocol, the generation of its token, age and name. The shared
client of an environment is the one behind project token. Revoked clients stay in the list. With --json a client a
line.

Example: countersign client list --project acme/support --dir D` + ownerStatus
}

func (c *clientList) Run(ctx context.Context, s command.Streams) error {
	return c.asked(ctx, s, "project list", func(o *client.Owner) error {
		list, more, err := c.all(ctx, o, c.Project, client.Clients, nil, maxListed)
		if err != nil {
			return err
		}
		if more {
			fmt.Fprintf(s.Err, "These are the newest %d; there are older ones.\n", len(list))
		}
		return c.rows(s, list, func() error {
			clients, err := narrate.ParseClients(list)
			if err != nil {
				return err
			}
			return narrate.Clients(s.Out, clients, time.Now())
		})
	})
}

// all reads the newest of a list of a project, at most that many.
func (c *signedIn) all(ctx context.Context, o *client.Owner, of projectPath, what client.OfProject, query url.Values, most int) (list []json.RawMessage, more bool, err error) {
	more, err = o.Each(ctx, of.id(), what, query, most, func(raw json.RawMessage) (bool, error) {
		list = append(list, raw)
		return true, nil
	})
	return list, more, err
}

// theClient is the operand of what is about one client.
type theClient struct {
	ID string `arg:"" name:"id" help:"The client's id."`
	inProject
}

// Validate is called by kong.
func (c *theClient) Validate() error {
	if !project.IsClientID(c.ID) {
		return errors.New("want a client's id, as `countersign client list` shows it")
	}
	return nil
}

type clientRotate struct{ theClient }

func (clientRotate) Help() string {
	return `Prints the next token alone to stdout, as client create does; the former one opens nothing from then on, and turns
that are open go on with the new one. After a lost answer give the command again. With --json: client and token.

Example: countersign client rotate cli_01940e2e7c0070008000000000000001 --project acme/support --dir D` + ownerStatus
}

func (c *clientRotate) Run(ctx context.Context, s command.Streams) error {
	return c.asked(ctx, s, "client list", func(o *client.Owner) error {
		r, err := o.RotateClient(ctx, c.Project.id(), c.ID)
		if err = repeatable(r, err, "give the command again"); err != nil {
			return err
		}
		return c.token(s, r, func(i narrate.Issued) string {
			return fmt.Sprintf("Client %s has its token of generation %d. It follows and is not shown again; the former one opens nothing any more.", i.Client.ID, i.Client.Generation)
		})
	})
}

type clientRevoke struct{ theClient }

func (clientRevoke) Help() string {
	return `Ends the client for good: its token opens nothing any more, and it gets no other. What was recorded of it stays, and
its open turns run out. Revoking again changes nothing. Prints when it was revoked, with --json the client.

The shared client of an environment (shr_…) is the only one that it ever has: once it is revoked, project token issues
none for that environment any more. To end a shared token alone, issue the next one.

Example: countersign client revoke cli_01940e2e7c0070008000000000000001 --project acme/support --dir D` + ownerStatus
}

func (c *clientRevoke) Run(ctx context.Context, s command.Streams) error {
	return c.asked(ctx, s, "client list", func(o *client.Owner) error {
		r, err := o.RevokeClient(ctx, c.Project.id(), c.ID)
		if err = repeatable(r, err, "give the command again"); err != nil {
			return err
		}
		if c.JSON {
			return printLine(s.Out, r.Body)
		}
		revoked, err := narrate.ParseClients([]json.RawMessage{r.Body})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.Out, "revoked at %s\n", revoked[0].Revoked())
		return err
	})
}
