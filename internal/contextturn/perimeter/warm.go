package perimeter

import (
	"context"

	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
)

// Warm opens what the environments of all projects have selected, one after the other and
// while there is room, so that the first call after a start need not wait for it. What
// cannot be opened is logged; a call for it will say so.
func (p *Perimeter) Warm(ctx context.Context) {
	list, err := p.Projects(ctx)
	if err != nil {
		p.Log.Warn("Builds are not opened ahead", "error", err)
		return
	}
	for _, v := range list {
		s := project.Project{Environments: v.Environments}
		for _, environment := range []string{project.Production, project.Staging} {
			selected := s.Selection(environment)
			if selected == nil {
				continue
			}
			if ctx.Err() != nil || p.shelf.Full() {
				return
			}
			b, err := p.shelf.Await(ctx, selected.Digest)
			if err != nil {
				p.Log.Warn("a Build cannot be opened", "project", v.ID, "environment", environment, "digest", selected.Digest, "error", err)
				continue
			}
			b.Done()
		}
	}
}

// open opens the Build of a manifest from the ledger.
func (p *Perimeter) open(ctx context.Context, digest string) (*tools.Build, error) {
	m, err := p.manifest(ctx, digest)
	if err != nil {
		return nil, err
	}
	return tools.Open(ctx, m, func(ctx context.Context, hashes []string) ([][]byte, error) { return p.documents(ctx, hashes) })
}
