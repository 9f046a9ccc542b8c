package projects

import (
	"context"
	"net/url"

	"countersign/internal/console/frame"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
)

const (
	// maxClients is how many clients of a project are looked at. It is a page's bound, not
	// a project's.
	maxClients = 100
	shownGaps  = 10
)

// environment is one of a project's with what it hands out.
type environment struct {
	Project string // HANDLE/SLUG
	Name    string
	Base    string            // address that applications are given
	Current *project.BuildRef // nil: nothing is published
	Draft   bool
	Build   *project.BuildRef // the newest Build, beside a draft
}

// counts is how many clients a project has; what is revoked is counted apart.
type counts struct {
	Named, Required, Shared     int // Required of those Named take part in the turn protocol
	NamedRevoked, SharedRevoked int
	More                        bool // there are more than were looked at
}

// None reports whether there is no client and never was one.
func (n counts) None() bool { return n.Named+n.Shared+n.NamedRevoked+n.SharedRevoked == 0 }

// listed is a project in the list.
type listed struct {
	perimeter.ProjectView
	In      []environment
	Clients counts
}

// Path is what the project is called in addresses.
func (l *listed) Path() string { return l.Handle + "/" + l.Slug }

// projects is the list of projects.
func (s *site) projects(ctx context.Context, _, _ string, _ url.Values) (*frame.Page, error) {
	all, err := s.Perimeter.Projects(ctx)
	if err != nil {
		return nil, err
	}
	list := []listed{}
	for _, p := range all {
		of, next, err := s.Perimeter.Clients(ctx, p.ID, "", maxClients)
		if err != nil {
			return nil, err
		}
		list = append(list, listed{p, s.environments(&p), count(of, next != "")})
	}
	return &frame.Page{Template: "projects", Title: "Context", Data: list}, nil
}

func count(list []perimeter.ClientView, more bool) counts {
	n := counts{More: more}
	for _, c := range list {
		switch shared := c.Kind == project.Shared; {
		case c.RevokedAt != nil && shared:
			n.SharedRevoked++
		case c.RevokedAt != nil:
			n.NamedRevoked++
		case shared:
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

// base is the address that applications of an environment are given.
func (s *site) base(p *perimeter.ProjectView, environment string) string {
	base := s.origin + "/" + p.Handle + "/" + p.Slug
	if environment == project.Staging {
		base += "/" + project.Staging
	}
	return base
}

func (s *site) environments(p *perimeter.ProjectView) []environment {
	state := project.Project{Handle: p.Handle, Slug: p.Slug, Environments: p.Environments}
	var list []environment
	for _, name := range []string{project.Production, project.Staging} {
		e := environment{Project: p.Handle + "/" + p.Slug, Name: name, Base: s.base(p, name), Current: state.Current(name)}
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
	In       []environment
	Clients  []perimeter.ClientView
	Count    counts
	Gaps     []gap
	MoreGaps bool
	Evidence exported
}

// overview is what a project hands out, to whom, and what was said to be missing.
func (s *site) overview(ctx context.Context, id, _ string, _ url.Values) (*frame.Page, error) {
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	d := overviewData{head: head{p, "overview"}, In: s.environments(&p), Evidence: s.evidence(&p, "", p.ID, p.Head)}
	list, next, err := s.Perimeter.Clients(ctx, id, "", maxClients)
	if err != nil {
		return nil, err
	}
	d.Clients, d.Count = list, count(list, next != "")
	gaps, next, err := s.Perimeter.Gaps(ctx, id, "", shownGaps)
	if err != nil {
		return nil, err
	}
	d.Gaps, d.MoreGaps = s.withEvidence(&p, gaps), next != ""
	return &frame.Page{Template: "project", Title: p.Handle + "/" + p.Slug, Data: d}, nil
}

// exported is the signed evidence of one chain: where it is, and what it is checked with.
type exported struct {
	Path, ID, Head, KeyID string
}

// evidence is the evidence at a path below a project's in the API.
func (s *site) evidence(p *perimeter.ProjectView, below, id, head string) exported {
	return exported{Path: "/api/projects/" + p.ID + below + "/evidence", ID: id, Head: head, KeyID: s.keyID()}
}
