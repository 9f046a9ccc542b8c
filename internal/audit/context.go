package audit

import (
	"fmt"

	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
)

// chooseContext is choose for the kinds of the context perimeter. It reports whether the
// kind is one of them.
func (m *machine) chooseContext(kind string) bool {
	switch kind {
	case turn.Kind:
		r := turn.NewReplay()
		m.replay, m.status = r, func() string { return r.State().Status }
		m.says = func() string { return turnSays(r.State()) }
		m.boundary = []string{turn.HonestyPerimeter, turn.HonestyDelivery, turn.HonestyObservation, turn.HonestyReported, turn.HonestyNotObserved}
	case turn.KindInteraction:
		r := turn.NewInteractionReplay()
		m.replay, m.says = r, func() string { return callSays(&r.State().Of) }
		m.boundary = []string{turn.HonestyPerimeter, turn.HonestyDelivery}
	case turn.KindBridge:
		r := turn.NewReceiptReplay()
		m.replay, m.says = r, func() string { return fmt.Sprintf("a bridge reported one %s", r.State().Of.Seen.Kind) }
		m.boundary = []string{turn.HonestyBridge}
	case project.Kind:
		r := project.NewReplay()
		m.replay, m.says = r, func() string { return projectSays(r.State()) }
	case project.KindClient:
		r := project.NewClientReplay()
		m.replay, m.status = r, func() string { return clientStatus(r.State()) }
		m.says = func() string { return clientSays(r.State()) }
	case project.KindGap:
		r := project.NewGapReplay()
		m.replay, m.says = r, func() string { return gapSays(r.State()) }
		m.boundary = []string{"A gap is what a client reported to be missing. Whether it was missing is not checked."}
	default:
		return false
	}
	return true
}

func turnSays(s *turn.State) string {
	return fmt.Sprintf("the turn is %s with %s, %s and %s. %s", s.Status,
		count(s.Deliveries, "context delivery", "context deliveries"), count(s.Observations, "observation", "observations"), count(s.LateReports, "late report", "late reports"), turn.Sentence(s.Status))
}

func callSays(i *turn.Interaction) string {
	if !i.Call.Delivers() {
		return fmt.Sprintf("the interaction is a call of %s outside a turn, which handed out nothing", i.Call.Tool)
	}
	of := project.Selection(*i.Call.Build)
	return fmt.Sprintf("the interaction is a call of %s outside a turn, which handed out %s of %s", i.Call.Tool, count(int64(len(i.Call.Items)), "item", "items"), selected(&of))
}

func projectSays(p *project.Project) string {
	return fmt.Sprintf("the project %s/%s has selected %s and %s", p.Handle, p.Slug, selectedIn(p, project.Production), selectedIn(p, project.Staging))
}

func selectedIn(p *project.Project, environment string) string {
	if s := p.Selection(environment); s != nil {
		return selected(s)
	}
	return "nothing in " + environment
}

func selected(s *project.Selection) string {
	if s.Draft {
		return "a draft in " + s.Environment
	}
	return fmt.Sprintf("Build %d in %s", s.Number, s.Environment)
}

func clientStatus(c *project.Client) string {
	if c.Revoked() {
		return "revoked"
	}
	return "active"
}

func clientSays(c *project.Client) string {
	says := fmt.Sprintf("the client is of kind %s in %s, its turn protocol %s, its token of generation %d", c.Kind, c.Environment, c.TurnProtocol, c.Generation)
	if c.Revoked() {
		says += fmt.Sprintf("; it is revoked since %s", c.RevokedAt)
	}
	return says
}

func gapSays(g *project.Gap) string {
	about, of := "a task", "while nothing was selected in "+g.Environment
	if g.Ref != nil {
		about = "a ref"
	}
	if g.Build != nil {
		of = "of " + selected(g.Build)
	}
	return fmt.Sprintf("a client reported a gap for %s %s", about, of)
}

func count(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
