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
	"countersign/internal/contextturn/traces"
)

// Perimeter is what the pages read.
type Perimeter interface {
	Projects(context.Context) ([]perimeter.ProjectView, error)
	Project(ctx context.Context, id string) (perimeter.ProjectView, error)
	Clients(ctx context.Context, projectID, before string, limit int) (list []perimeter.ClientView, next string, err error)
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

// Register adds the pages.
func Register(f *frame.Frame, c Config) {
	s := &site{c}
	for _, path := range []string{
		"/projects", "/projects/{id}", "/projects/{id}/traces", "/projects/{id}/traces/{one}", "/projects/{id}/recorder", "/projects/{id}/recorder/{one}",
	} {
		f.Page(path, views(), func(r *http.Request) (*frame.Page, error) {
			p, err := s.page(r.Context(), r.URL)
			if err == nil {
				p.Section, p.Live = "context", livePath+"?"+url.Values{"of": {r.URL.RequestURI()}}.Encode()
			}
			return p, err
		})
	}
	f.Live("watch-projects", livePath, s.look)
}

type site struct{ Config }

// page finds what is shown at an address.
func (s *site) page(ctx context.Context, address *url.URL) (*frame.Page, error) {
	parts := strings.Split(strings.TrimPrefix(address.Path, "/projects"), "/")[1:]
	q := address.Query()
	switch {
	case len(parts) == 0:
		return s.projects(ctx)
	case len(parts) == 1:
		return s.overview(ctx, parts[0])
	case parts[1] == "traces" && len(parts) == 2:
		return s.turns(ctx, parts[0], q)
	case parts[1] == "traces":
		return s.turn(ctx, parts[0], parts[2])
	case parts[1] == "recorder" && len(parts) == 2:
		return s.recorder(ctx, parts[0], q)
	case parts[1] == "recorder":
		return s.interaction(ctx, parts[0], parts[2])
	}
	return nil, &authority.Denial{Reason: authority.NotFound, Detail: "There is no such page."}
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
	shown, err := json.Marshal(p.Data)
	return sha256.Sum256(shown), err
}

// keyID names the key that signs now.
func (s *site) keyID() string { return evidence.KeyID(s.Keys[len(s.Keys)-1].Public) }
