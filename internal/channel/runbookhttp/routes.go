package runbookhttp

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"countersign/internal/channel/edge"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// Path is where the incident is read (GET) and asked of (POST).
const Path = "/api/v1/incident"

// CookieName is the name of the session's cookie.
const CookieName = "countersign_incident"

// MaxBody is the largest body of a request, in bytes.
const MaxBody = 16 << 10

// off is said where the workflow is not served.
const off = "The incident workflow is off here. It is there when the server was started with --incident: countersign serve --dir DIR --incident."

// patience bounds the work for one request.
const patience = 20 * time.Second

// Plane is what the routes ask; *control.Plane is one.
type Plane interface {
	Snapshot(ctx context.Context, cookie string) (*control.Snapshot, error)
	Do(ctx context.Context, cookie, remote string, r incident.Request, nonce string) (*control.Answer, error)
	Export(ctx context.Context, cookie string, w io.Writer) (found bool, err error)
}

// Register adds the routes. Without a plane the paths are left empty: what is asked there
// is not found, which says how to have it, and no token is asked for first.
func Register(api *edge.API, p Plane) {
	api.Guard(Path+"/", edge.Guard{Check: func(r *http.Request) (*http.Request, error) { return r, nil }})
	if p == nil {
		for _, path := range []string{Path, "/incident"} {
			api.Absent(path, off)
		}
		return
	}
	s := &service{api: api, plane: p, exports: make(chan struct{}, MaxExports)}
	edge.Register(api, getOperation(), s.get)
	edge.RegisterRaw(api, evidenceOperation(), s.evidence)
	registerPost(api, s.post)
}

type service struct {
	api     *edge.API
	plane   Plane
	exports chan struct{} // one for each export that is being sent
	crowded edge.Seldom   // see [service.refusal]
}

// patient lets a request be answered whose client has hung up or only ended its side of
// the connection: what it asked for is decided and stored as for everybody.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// admit keeps requests of other sites out.
func (s *service) admit(r *http.Request) error {
	if p := edge.SameOrigin(r, s.api.Origin()); p != nil {
		return edge.Refuse(incident.OriginRejected, p.Detail+" "+next(incident.OriginRejected))
	}
	return nil
}

// SessionOf returns the value of the session's cookie, "" without one. More than one is
// refused: another port or path of the same host can plant a second, and which of them is the
// browser's cannot be told. To take none would begin a session with every request.
func SessionOf(r *http.Request) (string, error) {
	switch c := r.CookiesNamed(CookieName); len(c) {
	case 0:
		return "", nil
	case 1:
		return c[0].Value, nil
	default:
		return "", edge.Refuse(incident.InvalidRequest, "The request has the session's cookie more than once. Something else on this host, on another port or path, may have set one: remove the cookies named "+
			CookieName+" of this host in the browser, or send the one of the session alone.").AtPlace("header.Cookie", CookieName+" is there more than once")
	}
}

// cookie makes the session's cookie.
func (s *service) cookie(value string) *http.Cookie {
	return &http.Cookie{
		Name: CookieName, Value: value, Path: "/", MaxAge: int(incident.SessionLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: strings.HasPrefix(s.api.Origin(), "https:"),
	}
}

// addressOf is by what new sessions of a peer are counted: its address, of IPv6 the network
// of 64 bits, since one host has all of it.
func addressOf(peer string) string {
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		host = peer
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

// post decides one request.
func (s *service) post(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := patient(r.Context())
	defer cancel()
	if err := s.admit(r); err != nil {
		return err
	}
	raw, err := edge.ReadBody(w, r, MaxBody, edge.BodyReasons{Type: incident.ContentTypeRejected, Size: edge.BodyTooLarge, Malformed: incident.InvalidJSON})
	if err != nil {
		return err
	}
	q, err := read(raw, r.URL.RawQuery)
	if err != nil {
		return err
	}
	session, err := SessionOf(r)
	if err != nil {
		return err
	}
	answer, err := s.plane.Do(ctx, session, addressOf(r.RemoteAddr), q.request(), q.FormNonce)
	if answer != nil && answer.Cookie != "" {
		http.SetCookie(w, s.cookie(answer.Cookie))
	}
	switch {
	case err == nil:
		edge.SendJSON(w, http.StatusOK, answered(q.Operation, answer))
	case answer == nil || answer.Snapshot == nil:
		return s.refusal(ctx, err)
	default:
		p := s.api.Refusal(r, refusal(err))
		edge.SendRefusal(w, p, DecidedProblem{*p, event(answer.Receipt), shown(answer.Snapshot)})
	}
	return nil
}

func (s *service) get(ctx context.Context, in *reading) (*snapshotOutput, error) {
	ctx, cancel := patient(ctx)
	defer cancel()
	if err := s.admit(in.request); err != nil {
		return nil, err
	}
	session, err := SessionOf(in.request)
	if err != nil {
		return nil, err
	}
	snapshot, err := s.plane.Snapshot(ctx, session)
	if err != nil {
		return nil, s.refusal(ctx, err)
	}
	return &snapshotOutput{shown(snapshot)}, nil
}

// unknownParameters names the query parameters of a request that takes none.
func unknownParameters(query string) []string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return []string{"query"}
	}
	names := []string{}
	for name := range values {
		names = append(names, "query."+name)
	}
	return names
}
