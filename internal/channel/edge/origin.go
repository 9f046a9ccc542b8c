package edge

import (
	"context"
	"errors"
	"net/http"

	"countersign/internal/identity"
)

// OwnerPrefix is where the owner's routes begin.
const OwnerPrefix = "/api/v1/owner/"

// ProjectsPrefix is where the owner's routes about projects begin. [ProjectsGuard]
// stands before them.
const ProjectsPrefix = "/api/projects/"

// SessionPath is where the owner signs in (POST) and out (DELETE).
const SessionPath = OwnerPrefix + "session"

// OwnerCookie is the name of the session cookie.
const OwnerCookie = "countersign_owner"

// ownerHeader and its value are what no form and no link of another site can send.
const ownerHeader = "X-Halfspan-Owner"

// ownerChallenge is the WWW-Authenticate of a 401 (RFC 9110 wants one).
const ownerChallenge = `Cookie realm="countersign owner", cookie-name=` + OwnerCookie

// OwnerGuard keeps the owner's rules in the order of G-20: an Authorization
// header is refused before the cookie is looked at (403); then the session (401);
// then Origin, Sec-Fetch-Site and x-halfspan-owner (403). HEAD counts as GET.
// Signing in needs no session, and everything else.
//
// verify returns the session of a cookie or identity.ErrUnauthenticated. The
// session is in the request's context, see [SessionFrom].
func OwnerGuard(origin string, verify func(ctx context.Context, cookie string) (identity.Session, error)) Guard {
	check := func(r *http.Request) (*http.Request, error) {
		r, err := ownerRules(r, origin, verify)
		if v := r.Header[ownerHeader]; err == nil && !reads(r) && (len(v) != 1 || v[0] != "1") {
			err = Refuse(OwnerHeaderRequired, "")
		}
		return r, err
	}
	return Guard{[]string{BearerOnOwnerRoute, AuthenticationRequired, OriginRejected, OwnerHeaderRequired}, check}
}

// ProjectsGuard is [OwnerGuard] without x-halfspan-owner, which the protocol of these
// routes does not know. That no other site sends what it lets in rests on the exact
// Origin, on Sec-Fetch-Site, on the cookie, which is SameSite=Strict, and on a body that
// has to be application/json.
func ProjectsGuard(origin string, verify func(ctx context.Context, cookie string) (identity.Session, error)) Guard {
	check := func(r *http.Request) (*http.Request, error) { return ownerRules(r, origin, verify) }
	return Guard{[]string{BearerOnOwnerRoute, AuthenticationRequired, OriginRejected}, check}
}

// ownerRules are those of every route of the owner. The request is never nil.
func ownerRules(r *http.Request, origin string, verify func(ctx context.Context, cookie string) (identity.Session, error)) (*http.Request, error) {
	if len(r.Header["Authorization"]) > 0 {
		return r, Refuse(BearerOnOwnerRoute, "")
	}
	if r.Method != http.MethodPost || r.URL.Path != SessionPath {
		session, err := verify(r.Context(), ownerCookie(r))
		if errors.Is(err, identity.ErrUnauthenticated) {
			return r, unauthenticatedOwner()
		}
		if err != nil {
			return r, err
		}
		r = r.WithContext(context.WithValue(r.Context(), sessionKey{}, session))
	}
	if p := SameOrigin(r, origin); p != nil {
		return r, p
	}
	return r, nil
}

func unauthenticatedOwner() error {
	return Refuse(AuthenticationRequired, "").With("WWW-Authenticate", ownerChallenge)
}

// ownerCookie returns the value of the session cookie, and nothing when there is
// more than one: another port of the same host can plant a second.
func ownerCookie(r *http.Request) string {
	if c := r.CookiesNamed(OwnerCookie); len(c) == 1 {
		return c[0].Value
	}
	return ""
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// SameOrigin refuses a request that does not come from the origin itself: one that changes
// something has to name it in Origin, and no other site may have sent it.
func SameOrigin(r *http.Request, origin string) *Problem {
	given := r.Header["Origin"]
	if len(given) == 0 && !reads(r) {
		return Refuse(OriginRejected, "The request has no Origin header.")
	}
	if len(given) > 1 || len(given) == 1 && given[0] != origin {
		return Refuse(OriginRejected, "The Origin header is not the configured origin, "+origin+".")
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return Refuse(OriginRejected, "The request comes from another site.")
		}
	}
	return nil
}

type sessionKey struct{}

// SessionFrom returns the owner session that [OwnerGuard] or [ProjectsGuard] let in.
func SessionFrom(ctx context.Context) (identity.Session, bool) {
	s, ok := ctx.Value(sessionKey{}).(identity.Session)
	return s, ok
}
