package contexthttp

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/identity"
)

// gate is a route with what stands before it.
type gate struct {
	p     Perimeter
	route route
	form  *form
	told  *refusals
}

// patience bounds the work for one request.
const patience = 20 * time.Second

// serve answers one request, and tells the operator of one that is at the wrong address. A
// client that hangs up, or only ends its side of the connection, ends no work: what it
// asked for is decided and stored as for everybody.
func (g *gate) serve(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	r = r.WithContext(ctx)
	by, err := g.answer(w, r)
	if err != nil {
		g.told.tell(r, by, err)
	}
	return err
}

// answer answers one request; see the package comment for the order. It returns whom the
// token names, as far as that came to be known.
func (g *gate) answer(w http.ResponseWriter, r *http.Request) (*perimeter.Caller, error) {
	environment, err := environmentOf(r)
	if err != nil {
		return nil, err
	}
	if environment == project.Production && !secure(r) {
		return nil, edge.Refuse(turn.HTTPSRequired, "")
	}
	raw, cut := edge.ReadBody(w, r, g.route.limit, edge.BodyReasons{Type: turn.ContentType, Size: turn.TooLarge, Malformed: turn.BodyInvalid})
	if p, refused := errors.AsType[*edge.Problem](cut); cut != nil && (!refused || p.ReasonCode != turn.BodyInvalid) {
		return nil, cut // a body that did not arrive whole is looked at in its turn
	}
	by, err := g.caller(r)
	if err != nil {
		return by, err
	}
	if err := g.admit(by, environment, r); err != nil {
		return by, err
	}
	if cut != nil {
		return by, cut
	}
	s, err := g.form.read(raw, r.URL.RawQuery)
	if err != nil {
		return by, err
	}
	q := &request{by: by, said: *s}
	if g.route.keyed {
		if q.key, err = key(r.Header); err != nil {
			return by, err
		}
	}
	if q.turn, err = g.turnOf(by, r); err != nil {
		return by, err
	}
	a, err := g.route.act(r.Context(), g.p, q)
	if err != nil {
		return by, inProtocol(err)
	}
	if a.replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	edge.SendJSON(w, a.status, a.body)
	return by, nil
}

// environmentOf is the environment that the path names.
func environmentOf(r *http.Request) (string, error) {
	switch e := r.PathValue("environment"); e {
	case "", project.Production:
		return project.Production, nil
	case project.Staging:
		return e, nil
	}
	return "", edge.Refuse(authority.NotFound, "")
}

// tokenForm is what RFC 6750 allows, within a bound.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9\-._~+/]{1,200}=*$`)

const challenge = `Bearer realm="countersign context"`

// caller is whom the token of a request names.
func (g *gate) caller(r *http.Request) (*perimeter.Caller, error) {
	token, found := edge.Bearer(r)
	if !found || !tokenForm.MatchString(token) {
		return nil, edge.Refuse(turn.TokenMissing, "").With("WWW-Authenticate", challenge)
	}
	by, err := g.p.Authenticate(r.Context(), token)
	return by, inProtocol(err)
}

// inProtocol gives refusals for a token the protocol's code, wherever it is that the token
// has turned out to be good no more.
func inProtocol(err error) error {
	if errors.Is(err, identity.ErrUnauthenticated) || authority.Denied(err, turn.TokenInvalid) {
		return edge.Refuse(turn.TokenInvalid, "").With("WWW-Authenticate", challenge+`, error="invalid_token"`)
	}
	if d, denied := errors.AsType[*authority.Denial](err); denied && next[d.Reason] != "" && d.Detail != "" {
		return edge.Refuse(d.Reason, d.Detail+" "+next[d.Reason])
	}
	return err
}

// next is the advice of the perimeter's reasons. A denial tells what happened; what to do
// then is said behind it, as where a refusal has no detail of its own.
var next = func() map[string]string {
	advice := map[string]string{}
	for _, r := range edge.Reasons() {
		if strings.ToLower(r.Code) == r.Code {
			advice[r.Code] = r.Next
		}
	}
	return advice
}()

// admit refuses a client that may not do that here.
func (g *gate) admit(by *perimeter.Caller, environment string, r *http.Request) error {
	turns := g.route.who == turnClient || g.route.who == anyClient && len(r.Header[turnHeader]) > 0
	switch {
	case !by.Serves(r.PathValue("handle"), r.PathValue("project")):
		return edge.Refuse(turn.ProjectNotFound, "")
	case g.route.who == bridgeClient && by.Client.Kind != project.Bridge:
		return edge.Refuse(turn.BridgeClientRequired, "")
	case turns && by.Shared():
		return edge.Refuse(turn.NamedClientRequired, "")
	case turns && !by.Required():
		return edge.Refuse(turn.TurnProtocolNotEnabled, "")
	case by.Client.Environment != environment:
		return edge.Refuse(turn.EnvironmentMismatch, "")
	}
	if profiles := r.Header[profileHeader]; len(profiles) > 1 || len(profiles) == 1 && profiles[0] != by.Client.Profile {
		return edge.Refuse(turn.ProfileMismatch, "")
	}
	return nil
}

// nobodys is the form of a turn id that no turn has.
const nobodys = "trn_"

// turnOf is the turn that a request is about. What a path names that cannot be one is
// asked for as one that is not there: what its key was used for before comes first.
func (g *gate) turnOf(by *perimeter.Caller, r *http.Request) (string, error) {
	if g.route.who != anyClient {
		id := r.PathValue("id")
		if id != "" && !turn.IsID(nobodys, id) {
			id = nobodys
		}
		return id, nil
	}
	if !by.Required() {
		return "", nil
	}
	ids := r.Header[turnHeader]
	switch {
	case len(ids) == 0:
		return "", edge.Refuse(turn.TurnRequired, "")
	case len(ids) > 1 || !turn.IsID(nobodys, ids[0]):
		return "", edge.Refuse(turn.TurnIDInvalid, "")
	}
	return ids[0], nil
}
