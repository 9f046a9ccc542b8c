package projects

import (
	"context"

	"countersign/internal/console/frame"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/traces"
)

const (
	// maxClients is how many clients of a project are looked at. It is a page's bound, not
	// a project's.
	maxClients = 100
	shownGaps  = 20
)

// environment is one of a project's with what it hands out.
type environment struct {
	Project string // HANDLE/SLUG
	Name    string
	Current *project.BuildRef // nil: nothing is published
	Draft   bool
	Build   *project.BuildRef // the newest Build, beside a draft
}

// clients counts the clients of a project.
type clients struct {
	Named, Shared, Required, Revoked int
	More                             bool // there are more than were looked at
}

// listed is a project in the list.
type listed struct {
	perimeter.ProjectView
	In      []environment
	Clients clients
}

// Path is what the project is called in addresses.
func (l *listed) Path() string { return l.Handle + "/" + l.Slug }

// projects is the list of projects.
func (s *site) projects(ctx context.Context) (*frame.Page, error) {
	all, err := s.Perimeter.Projects(ctx)
	if err != nil {
		return nil, err
	}
	list := []listed{}
	for _, p := range all {
		of, more, err := s.clients(ctx, p.ID)
		if err != nil {
			return nil, err
		}
		list = append(list, listed{p, environments(&p), count(of, more)})
	}
	return &frame.Page{Template: "projects", Title: "Context", Data: list}, nil
}

func (s *site) clients(ctx context.Context, id string) (list []perimeter.ClientView, more bool, err error) {
	list, next, err := s.Perimeter.Clients(ctx, id, "", maxClients)
	return list, next != "", err
}

func count(list []perimeter.ClientView, more bool) clients {
	n := clients{More: more}
	for _, c := range list {
		switch {
		case c.RevokedAt != nil:
			n.Revoked++
		case c.Kind == project.Shared:
			n.Shared++
		default:
			n.Named++
			if c.TurnProtocol == project.Required {
				n.Required++
			}
		}
	}
	return n
}

func environments(p *perimeter.ProjectView) []environment {
	state := project.Project{Handle: p.Handle, Slug: p.Slug, Environments: p.Environments}
	var list []environment
	for _, name := range []string{project.Production, project.Staging} {
		e := environment{Project: p.Handle + "/" + p.Slug, Name: name, Current: state.Current(name)}
		if of := state.Environment(name); of.Selected == project.SelectedDraft {
			e.Draft, e.Build = true, of.Build
		}
		list = append(list, e)
	}
	return list
}

// head is what the pages of one project begin with.
type head struct {
	Project perimeter.ProjectView
	Tab     string
}

type overviewData struct {
	head
	In      []environment
	Clients []perimeter.ClientView
	Count   clients
	Gaps    []traces.GapView
	Older   bool // there are more gaps
	KeyID   string
}

// overview is what a project hands out, to whom, and what was said to be missing.
func (s *site) overview(ctx context.Context, id string) (*frame.Page, error) {
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	d := overviewData{head: head{p, "overview"}, In: environments(&p), KeyID: s.keyID()}
	var more bool
	if d.Clients, more, err = s.clients(ctx, id); err != nil {
		return nil, err
	}
	d.Count = count(d.Clients, more)
	gaps, next, err := s.Perimeter.Gaps(ctx, id, "", shownGaps)
	if err != nil {
		return nil, err
	}
	d.Gaps, d.Older = gaps, next != ""
	return &frame.Page{Template: "project", Title: p.Handle + "/" + p.Slug, Data: d}, nil
}
