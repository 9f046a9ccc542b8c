package contexthttp

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"countersign/internal/channel/edge"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
)

// refusals tells the operator of requests that were refused for what somebody has set up:
// a token that opens nothing any more, one at the path of another project or environment,
// a proxy that does not say how a request came. Of each reason at most one line a second
// is written. What is wrong in a body is between the client and its answer.
type refusals struct {
	log  *slog.Logger
	last map[string]*edge.Seldom // by reason; fixed when it is made
	now  func() time.Time
}

func newRefusals(log *slog.Logger) *refusals {
	r := &refusals{log: log, last: map[string]*edge.Seldom{}, now: time.Now}
	for _, reason := range []string{
		turn.HTTPSRequired, turn.TokenMissing, turn.TokenInvalid, turn.ProjectNotFound, turn.NamedClientRequired, turn.BridgeClientRequired,
		turn.TurnProtocolNotEnabled, turn.EnvironmentMismatch, turn.ProfileMismatch,
	} {
		r.last[reason] = &edge.Seldom{}
	}
	return r
}

// tell writes a line for err. Nothing that a client sends is in it but a path that could be
// a project's; by is nil while it is not known who asks.
func (r *refusals) tell(q *http.Request, by *perimeter.Caller, err error) {
	p, refused := errors.AsType[*edge.Problem](err)
	if !refused || r.last[p.ReasonCode] == nil || !r.last[p.ReasonCode].Now(r.now()) {
		return
	}
	about := []any{"reason", p.ReasonCode}
	if handle, slug := q.PathValue("handle"), q.PathValue("project"); project.IsSlug(handle) && project.IsSlug(slug) {
		about = append(about, "project", handle+"/"+slug)
	}
	if environment, err := environmentOf(q); err == nil {
		about = append(about, "environment", environment)
	}
	if by != nil {
		about = append(about, "client", by.Client.ID)
	}
	remote, _, err := net.SplitHostPort(q.RemoteAddr)
	if err != nil {
		remote = q.RemoteAddr
	}
	r.log.WarnContext(q.Context(), "a request for context was refused", append(about, "remote", remote)...)
}
