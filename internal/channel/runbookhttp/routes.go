package runbookhttp

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"countersign/internal/authority"
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
	s := &service{api, p}
	edge.Register(api, getOperation(), s.get)
	edge.Register(api, evidenceOperation(), s.evidence)
	registerPost(api, s.post)
}

type service struct {
	api   *edge.API
	plane Plane
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

// SessionOf returns the value of the session's cookie, and nothing when there is more than
// one: another port of the same host can plant a second.
func SessionOf(r *http.Request) string {
	if c := r.CookiesNamed(CookieName); len(c) == 1 {
		return c[0].Value
	}
	return ""
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
	answer, err := s.plane.Do(ctx, SessionOf(r), addressOf(r.RemoteAddr), q.request(), q.FormNonce)
	if answer != nil && answer.Cookie != "" {
		http.SetCookie(w, s.cookie(answer.Cookie))
	}
	switch {
	case err == nil:
		edge.SendJSON(w, http.StatusOK, answered(q.Operation, answer))
	case answer == nil || answer.Snapshot == nil:
		return refusal(err)
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
	snapshot, err := s.plane.Snapshot(ctx, SessionOf(in.request))
	if err != nil {
		return nil, refusal(err)
	}
	return &snapshotOutput{shown(snapshot)}, nil
}

func (s *service) evidence(ctx context.Context, in *reading) (*exportOutput, error) {
	ctx, cancel := patient(ctx)
	defer cancel()
	if err := s.admit(in.request); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	found, err := s.plane.Export(ctx, SessionOf(in.request), &b)
	if err != nil {
		return nil, refusal(err)
	}
	if !found {
		return nil, edge.Refuse(authority.NotFound, "The browser has no incident session: one begins with the first request that is sent by POST.")
	}
	return &exportOutput{"application/json", `attachment; filename="evidence-incident.json"`, b.Bytes()}, nil
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
