package projects

import (
	"context"
	"net/url"

	"countersign/internal/console/frame"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/traces"
)

// latest is how many interactions the page of a client has.
const latest = 10

type clientsData struct {
	head
	Clients []perimeter.ClientView
	pager
}

// clients is every client of a project, revoked ones too.
func (s *site) clients(ctx context.Context, id, _ string, q url.Values) (*frame.Page, error) {
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	list, next, err := s.Perimeter.Clients(ctx, id, q.Get("before"), pageSize)
	if err != nil {
		return nil, err
	}
	d := clientsData{head{p, "clients"}, list, turnPages(q, next, "/projects/"+id+"/clients")}
	return &frame.Page{Template: "clients", Title: "Clients of " + p.Handle + "/" + p.Slug, Data: d}, nil
}

type clientData struct {
	head
	Client   perimeter.ClientView
	Base     string // address that it is given
	List     []traces.InteractionView
	More     bool
	Evidence exported
}

// client is one client: what it is bound to, what it asked last, and its evidence.
func (s *site) client(ctx context.Context, id, clientID string, _ url.Values) (*frame.Page, error) {
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	c, err := s.Perimeter.Client(ctx, id, clientID)
	if err != nil {
		return nil, err
	}
	list, next, err := s.Perimeter.Interactions(ctx, traces.InteractionQuery{Project: id, Client: clientID, Limit: latest})
	if err != nil {
		return nil, err
	}
	d := clientData{head{p, "client"}, c, s.base(&p, c.Environment), list, next != "", s.evidence(&p, "/mcp/clients/"+c.ID, c.ID, c.Head)}
	return &frame.Page{Template: "client", Title: "Client " + c.Name, Data: d}, nil
}
