package projects

import (
	"context"
	"net/url"

	"countersign/internal/console/frame"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/traces"
	"countersign/internal/contextturn/turn"
)

// pageSize is how many turns, and how many interactions, a page has.
const pageSize = 50

// statuses in the order of the protocol's text.
var statuses = []string{turn.Open, turn.WithDelivery, turn.WithoutDelivery, turn.Expired, turn.ReportedCanceled, turn.ReportedFailed}

// pager leads to the other pages of a list.
type pager struct {
	Next   string // path of the next page, "" on the last one
	Newest string // path of the first page, "" on it
}

// turnPages makes the links of a list at a path, which keep what narrows it.
func turnPages(q url.Values, next, path string) (p pager) {
	narrowed := []string{"client", q.Get("client"), "status", q.Get("status"), "turn", q.Get("turn")}
	if next != "" {
		p.Next = address(path, append(narrowed, "before", next)...)
	}
	if q.Get("before") != "" {
		p.Newest = address(path, narrowed...)
	}
	return p
}

// choice is a link that narrows a list.
type choice struct {
	Word, Path string
	Chosen     bool
}

// narrowing is the choice of a client.
type narrowing struct {
	Choices []choice
	Chosen  string // in words; "" is all
	More    bool   // there are more clients than are listed
	All     string // path of the list of clients
}

// narrow offers the clients that fit, and the one that is chosen in any case. It also
// returns all that were looked at.
func (s *site) narrow(ctx context.Context, id, chosen string, fits func(perimeter.ClientView) bool, path func(client string) string) (n narrowing, all counts, err error) {
	list, next, err := s.Perimeter.Clients(ctx, id, "", maxClients)
	if err != nil {
		return n, all, err
	}
	n = narrowing{Choices: []choice{{"all", path(""), chosen == ""}}, Chosen: chosen, More: next != "", All: "/projects/" + id + "/clients"}
	for _, c := range list {
		if c.ID == chosen {
			n.Chosen = c.Name
		} else if !fits(c) {
			continue
		}
		n.Choices = append(n.Choices, choice{c.Name + ", " + c.Environment, path(c.ID), c.ID == chosen})
	}
	return n, count(list, n.More), nil
}

type turnsData struct {
	head
	Turns         []traces.TurnView
	Statuses      []choice
	Clients       narrowing
	Filtered      bool
	NoneIsEnabled bool // no client takes part in the turn protocol
	pager
}

// turns is the Context Traces of a project, newest first.
func (s *site) turns(ctx context.Context, id, _ string, q url.Values) (*frame.Page, error) {
	query := traces.TurnQuery{Project: id, Client: q.Get("client"), Status: q.Get("status"), Before: q.Get("before"), Limit: pageSize}
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	list, next, err := s.Perimeter.Turns(ctx, query)
	if err != nil {
		return nil, err
	}
	path := "/projects/" + id + "/traces"
	clients, all, err := s.narrow(ctx, id, query.Client, func(c perimeter.ClientView) bool { return c.TurnProtocol == project.Required }, func(client string) string {
		return address(path, "client", client, "status", query.Status)
	})
	if err != nil {
		return nil, err
	}
	d := turnsData{
		head: head{p, "traces"}, Turns: list, Clients: clients, Filtered: query.Client != "" || query.Status != "",
		NoneIsEnabled: all.Required == 0 && !all.More, pager: turnPages(q, next, path),
	}
	d.Statuses = []choice{{"all", address(path, "client", query.Client), query.Status == ""}}
	for _, status := range statuses {
		d.Statuses = append(d.Statuses, choice{statusWords[status], address(path, "client", query.Client, "status", status), query.Status == status})
	}
	return &frame.Page{Template: "traces", Title: "Context Traces of " + p.Handle + "/" + p.Slug, Data: d}, nil
}

type turnData struct {
	head
	*traces.TurnDetail
	Missing  []string // what this turn has no line of, in words
	Evidence exported
}

// turn is one turn: a line for each event, and what no line is there of.
func (s *site) turn(ctx context.Context, id, turnID string, _ url.Values) (*frame.Page, error) {
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := s.Perimeter.Turn(ctx, id, turnID)
	if err != nil {
		return nil, err
	}
	d := turnData{head: head{p, "traces"}, TurnDetail: t, Missing: missing(&t.TurnView), Evidence: s.evidence(&p, "/turns/"+t.ID, t.ID, t.Head)}
	return &frame.Page{Template: "turn", Title: "Turn " + frame.Short(turnID), Data: d}, nil
}

// missing says what a turn has no line of.
func missing(t *traces.TurnView) (list []string) {
	if t.Deliveries == 0 {
		list = append(list, "No context delivery was observed through this perimeter during the turn.")
	}
	switch t.Status {
	case turn.Open:
		list = append(list, "No completion was observed yet.")
	case turn.Expired:
		list = append(list, "No completion was observed before the end of the turn.")
	}
	return append(list, turn.HonestyNotObserved)
}
