package projects

import (
	"context"
	"net/url"

	"countersign/internal/console/frame"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/traces"
)

type gapsData struct {
	head
	Gaps []gap
	pager
}

// gap is a reported gap with its evidence.
type gap struct {
	traces.GapView
	Evidence exported
}

func (s *site) withEvidence(p *perimeter.ProjectView, list []traces.GapView) (gaps []gap) {
	for _, g := range list {
		gaps = append(gaps, gap{g, s.evidence(p, "/gaps/"+g.ID, g.ID, g.Head)})
	}
	return gaps
}

// gaps is everything that was said to be missing, with the evidence of each.
func (s *site) gaps(ctx context.Context, id, _ string, q url.Values) (*frame.Page, error) {
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	list, next, err := s.Perimeter.Gaps(ctx, id, q.Get("before"), pageSize)
	if err != nil {
		return nil, err
	}
	d := gapsData{head{p, "gaps"}, s.withEvidence(&p, list), turnPages(q, next, "/projects/"+id+"/gaps")}
	return &frame.Page{Template: "gaps", Title: "Gaps of " + p.Handle + "/" + p.Slug, Data: d}, nil
}
