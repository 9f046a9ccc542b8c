package asowner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/contextturn/project"
	"countersign/internal/narrate"
)

// Project are the commands about projects of the context perimeter.
type Project struct {
	Create projectCreate `cmd:"" help:"Create a project."`
	List   projectList   `cmd:"" help:"List projects."`
	Show   projectShow   `cmd:"" help:"Show a project: what each environment hands out, and to whom."`
	Token  projectToken  `cmd:"" help:"Issue the shared token of an environment and print it."`
}

// Help is what kong shows.
func (Project) Help() string {
	return `A project is what applications are handed context from, at ORIGIN/H/S/context/ for production and at
ORIGIN/H/S/staging/context/ for staging. It is named by its handle and slug, H/S. Each command acts as the owner of a
running server: it signs in with the owner's secret and signs out.

Example: countersign project create acme/support --dir D`
}

// projectPath names a project on a command line.
type projectPath struct{ handle, slug string }

// UnmarshalText reads HANDLE/SLUG.
func (p *projectPath) UnmarshalText(text []byte) error {
	handle, slug, two := strings.Cut(string(text), "/")
	switch {
	case !two || !project.IsSlug(handle) || !project.IsSlug(slug):
		return errors.New("want HANDLE/SLUG such as acme/support: each at most 40 lowercase letters, digits and single hyphens between them")
	case !project.IsHandle(handle):
		return fmt.Errorf("the handle %s is reserved for paths of the server; take another", handle)
	}
	p.handle, p.slug = handle, slug
	return nil
}

func (p projectPath) String() string { return p.handle + "/" + p.slug }

func (p projectPath) id() string { return project.ProjectID(p.handle, p.slug) }

// base is where applications find the context of an environment.
func (p projectPath) base(origin, environment string) string {
	base := origin + "/" + p.String()
	if environment == project.Staging {
		base += "/" + project.Staging
	}
	return base
}

// theProject is the operand of what is about one project.
type theProject struct {
	Project projectPath `arg:"" name:"H/S" help:"The project: its handle and slug."`
	signedIn
}

// inProject is the flag of what is about something of a project.
type inProject struct {
	Project projectPath `required:"" placeholder:"H/S" help:"The project: its handle and slug."`
	signedIn
}

// asked signs in for something of a project, as act does.
func (c *signedIn) asked(ctx context.Context, s command.Streams, lists string, do func(*client.Owner) error) error {
	c.lists = lists
	return c.act(ctx, s, do)
}

type projectCreate struct{ theProject }

func (projectCreate) Help() string {
	return `Prints the id. A handle or slug has at most 40 lowercase letters, digits and single hyphens between them. With --json
the answer of POST /api/projects.

Handles that the server needs for paths of its own, or may need, are refused: ` + strings.Join(project.Reserved, ", ") + `.

After a lost answer look at project list before you try again.

Example: countersign project create acme/support --dir D` + ownerStatus
}

func (c *projectCreate) Run(ctx context.Context, s command.Streams) error {
	return c.asked(ctx, s, "project list", func(o *client.Owner) error {
		r, err := o.CreateProject(ctx, c.Project.handle, c.Project.slug)
		if err = repeatable(r, err, "look at `countersign project list`"); err != nil {
			return err
		}
		if c.JSON {
			return printLine(s.Out, r.Body)
		}
		p, err := narrate.ParseProject(r.Body)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Err, "Next: countersign context publish DIR --project %s --env production%s\n", c.Project, c.again())
		_, err = fmt.Fprintln(s.Out, narrate.Plain(p.ID))
		return err
	})
}

type projectList struct{ signedIn }

func (projectList) Help() string {
	return `A line a project: handle and slug, what production and staging hand out, and age. With --json a project a line.

Example: countersign project list --dir D` + ownerStatus
}

func (c *projectList) Run(ctx context.Context, s command.Streams) error {
	return c.act(ctx, s, func(o *client.Owner) error {
		list, err := o.Projects(ctx)
		if err != nil {
			return err
		}
		return c.rows(s, list, func() error {
			projects, err := narrate.ParseProjects(list)
			if err != nil {
				return err
			}
			return narrate.Projects(s.Out, projects, time.Now())
		})
	})
}

// rows prints a list, with --json a member a line as it is, else as a table.
func (c *signedIn) rows(s command.Streams, list []json.RawMessage, table func() error) error {
	if !c.JSON {
		return table()
	}
	for _, raw := range list {
		if err := printLine(s.Out, raw); err != nil {
			return err
		}
	}
	return nil
}

type projectShow struct{ theProject }

func (projectShow) Help() string {
	return `Shows what each environment hands out and where, the project's page, and the head of its signed evidence. Its clients are
listed by client list. With --json the answer of GET /api/projects/ID.

Example: countersign project show acme/support --dir D` + ownerStatus
}

func (c *projectShow) Run(ctx context.Context, s command.Streams) error {
	return c.asked(ctx, s, "project list", func(o *client.Owner) error {
		r, err := o.Project(ctx, c.Project.id())
		switch {
		case err != nil:
			return err
		case c.JSON:
			return printLine(s.Out, r.Body)
		}
		p, err := narrate.ParseProject(r.Body)
		if err != nil {
			return err
		}
		return narrate.ShowProject(s.Out, p, c.origin(), time.Now())
	})
}

type projectToken struct {
	Env     string `required:"" name:"env" enum:"production,staging" placeholder:"production|staging" help:"The environment that it reads."`
	Profile string `required:"" placeholder:"P" help:"Its profile: 1 to 40 lowercase letters, digits and hyphens. It is fixed with the first token."`
	theProject
}

func (projectToken) Help() string {
	return `Prints the token alone to stdout, so that it can go into a file (set umask 077 first). It is shown once; issuing
another ends it, and after client revoke of the shared client there is none any more. Whoever has it may read context. It names no single invoker, so that it opens no turns: an
application gets a client of its own with client create. With --json: clientId and token.

Example: countersign project token acme/support --env staging --profile support --dir D` + ownerStatus
}

// Validate is called by kong.
func (c *projectToken) Validate() error { return isProfile(c.Profile) }

func (c *projectToken) Run(ctx context.Context, s command.Streams) error {
	return c.asked(ctx, s, "project list", func(o *client.Owner) error {
		r, err := o.SharedToken(ctx, c.Project.id(), map[string]string{"environment": c.Env, "profile": c.Profile})
		if err = repeatable(r, err, "give the command again, which ends a token that was issued"); err != nil {
			return err
		}
		return c.token(s, r, func(narrate.Issued) string {
			return fmt.Sprintf("It reads %s. An earlier shared token of %s, if there was one, opens nothing any more.", c.Project.base(c.origin(), c.Env), c.Env)
		})
	})
}

// token prints the token of an answer alone, and what there is to say of it to stderr.
func (c *signedIn) token(s command.Streams, r client.Reply, about func(narrate.Issued) string) error {
	if c.JSON {
		return printLine(s.Out, r.Body)
	}
	issued, err := narrate.ParseIssued(r.Body)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Err, about(issued))
	_, err = fmt.Fprintln(s.Out, issued.Token)
	return err
}
