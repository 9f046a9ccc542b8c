package perimeter

import (
	"context"
	"slices"
	"strings"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/traces"
	"countersign/internal/ledger"
)

// maxProjects bounds how many projects a workspace has.
const maxProjects = 1000

// CreateProject opens the project at handle and slug. session is the hash that names the
// owner's session, here and in everything else that an owner does.
func (p *Perimeter) CreateProject(ctx context.Context, handle, slug, session string) (ProjectView, error) {
	var out ProjectView
	known, err := p.Projects(ctx)
	if err != nil {
		return out, err
	}
	if len(known) >= maxProjects {
		return out, denied(authority.WorkspaceLimit, "The workspace has its 1,000 projects.")
	}
	err = p.decide(ctx, func() (*ledger.Change, error) {
		subject, s, now, err := p.projectOrNone(ctx, project.ProjectID(handle, slug))
		if err != nil {
			return nil, err
		}
		d := project.Begin(s, now, ledger.Seed())
		if denial := d.Open(p.subject(), handle, slug, session); denial != nil {
			return nil, denial
		}
		w, err := p.writeProject(subject, s, d)
		if err != nil {
			return nil, err
		}
		out = viewProject(after(w), s)
		return &ledger.Change{Writes: []ledger.Write{w}}, nil
	})
	return out, err
}

func (p *Perimeter) projectOrNone(ctx context.Context, id string) (ledger.Subject, *project.Project, evidence.Time, error) {
	subject, s, now, err := p.ProjectState(ctx, id)
	if authority.Denied(err, authority.NotFound) {
		return ledger.NewSubject(p.Key(project.Kind, id)), &project.Project{}, now, nil
	}
	return subject, s, now, err
}

func (p *Perimeter) writeProject(subject ledger.Subject, s *project.Project, d *project.Deciding) (ledger.Write, error) {
	t, err := d.Done()
	if err != nil {
		return ledger.Write{}, err
	}
	return p.write(subject, s, d.Now(), t.Drafts, t.Texts, nil)
}

// Project returns a project.
func (p *Perimeter) Project(ctx context.Context, id string) (ProjectView, error) {
	subject, s, _, err := p.ProjectState(ctx, id)
	if err != nil {
		return ProjectView{}, err
	}
	return viewProject(subject, s), nil
}

// FindProject returns the project at handle and slug.
func (p *Perimeter) FindProject(ctx context.Context, handle, slug string) (ProjectView, error) {
	return p.Project(ctx, project.ProjectID(handle, slug))
}

// Projects returns all projects by handle and slug.
func (p *Perimeter) Projects(ctx context.Context) ([]ProjectView, error) {
	list := []ProjectView{}
	for before := ""; ; {
		page, err := p.Ledger.Find(ctx, ledger.Query{Workspace: p.Workspace, Kind: project.Kind, Before: before, Limit: traces.PageSize})
		if err != nil {
			return nil, unavailable(err)
		}
		for _, subject := range page {
			s, err := project.Decode(subject.State)
			if err != nil {
				return nil, err
			}
			list = append(list, viewProject(subject, s))
		}
		if len(page) < traces.PageSize {
			break
		}
		before = page[len(page)-1].ID
	}
	slices.SortFunc(list, func(a, b ProjectView) int { return strings.Compare(a.Handle+"/"+a.Slug, b.Handle+"/"+b.Slug) })
	return list, nil
}
