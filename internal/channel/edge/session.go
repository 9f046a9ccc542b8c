package edge

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/evidence"
	"countersign/internal/identity"
)

type signIn struct {
	remote string
	Body   struct {
		Secret string `json:"secret" minLength:"1" maxLength:"200" doc:"The line in owner.secret." example:"the line in owner.secret"`
	}
}

// Resolve notes the peer, by which wrong secrets are counted.
func (s *signIn) Resolve(ctx huma.Context) []error {
	host, _, err := net.SplitHostPort(ctx.RemoteAddr())
	if err != nil {
		host = ctx.RemoteAddr()
	}
	s.remote = host
	return nil
}

type signedIn struct {
	SetCookie http.Cookie `header:"Set-Cookie" doc:"The session cookie."`
	Body      struct {
		ExpiresAt string `json:"expiresAt" format:"date-time" doc:"The session is good before this time." example:"2026-11-30T12:00:00.000Z"`
	}
}

type signedOut struct {
	SetCookie http.Cookie `header:"Set-Cookie" doc:"Removes the session cookie."`
}

// RegisterSessions adds signing in and out at [SessionPath] (G-20).
func RegisterSessions(a *API, owners *identity.Owners) {
	var told Seldom
	Register(a, Operation{
		Operation: huma.Operation{
			OperationID: "sign-in", Method: http.MethodPost, Path: SessionPath, Tags: []string{"owner"},
			Summary:     "Sign in as the owner",
			Description: "Exchanges the owner secret for a session cookie of 12 hours. After five wrong ones in a minute from one address, or a hundred from all, each further wrong one is 429; the right one is always taken.",
		},
		Reasons: []string{RateLimited},
	}, func(ctx context.Context, in *signIn) (*signedIn, error) {
		cookie, session, err := owners.SignIn(ctx, in.Body.Secret, in.remote)
		limited, isLimited := errors.AsType[*identity.RateLimitError](err)
		switch {
		case errors.Is(err, identity.ErrUnauthenticated):
			// At most as many as are counted: five in a minute from one address.
			a.log.WarnContext(ctx, "an owner secret was refused", "remote", in.remote)
			return nil, Refuse(AuthenticationRequired, "The secret is not the owner's.").With("WWW-Authenticate", ownerChallenge)
		case isLimited:
			if told.Now(time.Now()) {
				a.log.WarnContext(ctx, "sign-in is limited after too many refused owner secrets", "remote", in.remote, "again", limited.RetryAfter.Round(time.Second).String())
			}
			return nil, err
		case err != nil:
			return nil, err
		}
		out := &signedIn{SetCookie: a.cookie(cookie, int(identity.SessionLife.Seconds()))}
		out.Body.ExpiresAt = evidence.FormatTime(session.ExpiresAt)
		return out, nil
	})
	Register(a, Operation{
		Operation: huma.Operation{
			OperationID: "sign-out", Method: http.MethodDelete, Path: SessionPath, Tags: []string{"owner"},
			Summary: "End the owner session",
		},
	}, func(ctx context.Context, _ *struct{}) (*signedOut, error) {
		session, _ := SessionFrom(ctx)
		if err := owners.SignOut(ctx, session); err != nil {
			return nil, err
		}
		return &signedOut{a.cookie("", -1)}, nil
	})
}

// Seldom says yes once a second, so that who knocks without end does not fill the
// log. It is safe for concurrent use; the zero value is ready.
type Seldom struct{ last atomic.Int64 } // Unix seconds

// Now reports whether it is the first time that it is asked in t's second.
func (s *Seldom) Now(t time.Time) bool { return s.last.Swap(t.Unix()) != t.Unix() }

// cookie makes the session cookie; a negative age removes it.
func (a *API) cookie(value string, age int) http.Cookie {
	return http.Cookie{
		Name: OwnerCookie, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: a.origin.Scheme == "https",
	}
}
