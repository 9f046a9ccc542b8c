package projects

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/console/frame"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/traces"
)

// Perimeter is what the pages read.
type Perimeter interface {
	Projects(context.Context) ([]perimeter.ProjectView, error)
	Project(ctx context.Context, id string) (perimeter.ProjectView, error)
	Clients(ctx context.Context, projectID, before string, limit int) (list []perimeter.ClientView, next string, err error)
	Client(ctx context.Context, projectID, clientID string) (perimeter.ClientView, error)
	Turns(context.Context, traces.TurnQuery) (list []traces.TurnView, next string, err error)
	Turn(ctx context.Context, projectID, turnID string) (*traces.TurnDetail, error)
	Interactions(context.Context, traces.InteractionQuery) (list []traces.InteractionView, next string, err error)
	Interaction(ctx context.Context, projectID, id string) (*traces.InteractionDetail, error)
	Gaps(ctx context.Context, projectID, before string, limit int) (list []traces.GapView, next string, err error)
}

// Config is what the pages read from.
type Config struct {
	Perimeter Perimeter
	Keys      evidence.Keys // the verification keys, oldest first
}

//go:embed template/*.html
var templates embed.FS

var views = sync.OnceValue(func() frame.Views { return frame.Parse(templates, words) })

// livePath streams that a page has changed; it is asked for as the parameter "of".
const livePath = "/projects/live"

// shown is one of the pages: its path, the query parameters that it takes, and what finds
// what it shows. id is that of the project and one that of what a page is about.
type shown struct {
	path  string
	takes parameters
	find  func(s *site, ctx context.Context, id, one string, q url.Values) (*frame.Page, error)
}

var pages = []shown{
	{"/projects", nil, (*site).projects},
	{"/projects/{id}", nil, (*site).overview},
	{"/projects/{id}/clients", parameters{"before": project.IsClientID}, (*site).clients},
	{"/projects/{id}/clients/{one}", nil, (*site).client},
	{"/projects/{id}/gaps", parameters{"before": project.IsGapID}, (*site).gaps},
	{"/projects/{id}/traces", parameters{"client": project.IsClientID, "status": isStatus, "before": isTurn}, (*site).turns},
	{"/projects/{id}/traces/{one}", nil, (*site).turn},
	{"/projects/{id}/recorder", parameters{"client": project.IsClientID, "turn": isTurn, "before": isInteraction}, (*site).recorder},
	{"/projects/{id}/recorder/{one}", nil, (*site).interaction},
}

// Register adds the pages.
func Register(f *frame.Frame, c Config) {
	s := &site{c, f.Origin()}
	for _, p := range pages {
		f.Page(p.path, views(), func(r *http.Request) (*frame.Page, error) {
			p, err := s.page(r.Context(), r.URL)
			if err == nil {
				p.Section, p.Live = "context", livePath+"?"+url.Values{"of": {r.URL.RequestURI()}}.Encode()
			}
			return p, err
		})
	}
	f.Live("watch-projects", livePath, s.look)
}

type site struct {
	Config
	origin string // of this server
}

// page finds what is shown at an address.
func (s *site) page(ctx context.Context, address *url.URL) (*frame.Page, error) {
	for _, p := range pages {
		if id, one, ok := p.at(address.Path); ok {
			q, err := p.takes.read(address.RawQuery)
			if err != nil {
				return nil, err
			}
			return p.find(s, ctx, id, one, q)
		}
	}
	return nil, &authority.Denial{Reason: authority.NotFound, Detail: "There is no such page."}
}

// at reports whether the page is at a path, and what its wildcards stand for there.
func (p *shown) at(path string) (id, one string, ok bool) {
	want, got := strings.Split(p.path, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return "", "", false
	}
	for i, segment := range want {
		switch segment {
		case "{id}":
			id = got[i]
		case "{one}":
			one = got[i]
		case got[i]:
		default:
			return "", "", false
		}
	}
	return id, one, true
}

// look sums up what a page shows: it is current as long as that stays the same.
func (s *site) look(ctx context.Context, of string) (sum [sha256.Size]byte, err error) {
	address, err := url.ParseRequestURI(of)
	if err != nil || !strings.HasPrefix(address.Path, "/projects") {
		return sum, &authority.Denial{Reason: authority.InvalidRequest, Detail: "query.of: not a page of a project"}
	}
	p, err := s.page(ctx, address)
	if err != nil {
		return sum, err
	}
	data, err := json.Marshal(p.Data)
	return sha256.Sum256(data), err
}

// keyID names the key that signs now.
func (s *site) keyID() string { return evidence.KeyID(s.Keys[len(s.Keys)-1].Public) }
