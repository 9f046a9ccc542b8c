package projects

import (
	"context"
	"net/url"
	"slices"

	"countersign/internal/authority"
	"countersign/internal/console/frame"
	"countersign/internal/contextturn/traces"
	"countersign/internal/contextturn/turn"
)

// pageSize is how many turns, and how many interactions, a page has.
const pageSize = 50

// states in the order of the protocol's text.
var states = []string{turn.Open, turn.WithDelivery, turn.WithoutDelivery, turn.Expired, turn.ReportedCanceled, turn.ReportedFailed}

// choice is a link that narrows a list.
type choice struct {
	Word, Path string
	Chosen     bool
}

type turnsData struct {
	head
	Turns         []traces.TurnView
	States        []choice
	Clients       []choice
	MoreClients   bool
	Client        string // chosen, in words
	Filtered      bool
	Next          string // path of the next page, "" on the last one
	Newest        string // path of the first page, "" on it
	NoneIsEnabled bool   // no client takes part in the turn protocol
}

// turns is the Context Traces of a project, newest first.
func (s *site) turns(ctx context.Context, id string, q url.Values) (*frame.Page, error) {
	query := traces.TurnQuery{Project: id, Client: q.Get("client"), Status: q.Get("status"), Before: q.Get("before"), Limit: pageSize}
	if query.Status != "" && !slices.Contains(states, query.Status) {
		return nil, &authority.Denial{Reason: authority.InvalidRequest, Detail: "query.status: not a state of a turn"}
	}
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	list, next, err := s.Perimeter.Turns(ctx, query)
	if err != nil {
		return nil, err
	}
	of, more, err := s.clients(ctx, id)
	if err != nil {
		return nil, err
	}
	path := func(client, status, before string) string {
		v := url.Values{}
		for name, value := range map[string]string{"client": client, "status": status, "before": before} {
			if value != "" {
				v.Set(name, value)
			}
		}
		if len(v) == 0 {
			return "/projects/" + id + "/traces"
		}
		return "/projects/" + id + "/traces?" + v.Encode()
	}
	d := turnsData{head: head{p, "traces"}, Turns: list, MoreClients: more, Filtered: query.Client != "" || query.Status != "", NoneIsEnabled: count(of, more).Required == 0 && !more}
	d.States = []choice{{"all", path(query.Client, "", ""), query.Status == ""}}
	for _, state := range states {
		d.States = append(d.States, choice{stateWords[state], path(query.Client, state, ""), query.Status == state})
	}
	d.Clients = []choice{{"all", path("", query.Status, ""), query.Client == ""}}
	d.Client = query.Client
	for _, c := range of {
		if c.TurnProtocol == "required" || c.ID == query.Client {
			d.Clients = append(d.Clients, choice{c.Name + ", " + c.Environment, path(c.ID, query.Status, ""), query.Client == c.ID})
		}
		if c.ID == query.Client {
			d.Client = c.Name
		}
	}
	if next != "" {
		d.Next = path(query.Client, query.Status, next)
	}
	if query.Before != "" {
		d.Newest = path(query.Client, query.Status, "")
	}
	return &frame.Page{Template: "traces", Title: "Context Traces of " + p.Handle + "/" + p.Slug, Data: d}, nil
}

type turnData struct {
	head
	*traces.TurnDetail
	Missing []string // what this turn has no line of, in words
	KeyID   string
}

// turn is one turn: a line for each event, and what no line is there of.
func (s *site) turn(ctx context.Context, id, turnID string) (*frame.Page, error) {
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := s.Perimeter.Turn(ctx, id, turnID)
	if err != nil {
		return nil, err
	}
	d := turnData{head: head{p, "traces"}, TurnDetail: t, Missing: missing(&t.TurnView), KeyID: s.keyID()}
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
