package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"countersign/evidence"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/stream"
	"countersign/internal/identity"
	"countersign/internal/supervision/records"
)

// Config is what the pages read from.
type Config struct {
	Reader *records.Reader
	Owners *identity.Owners
	Keys   evidence.Keys // the verification keys, oldest first
}

// Register adds the pages.
func Register(api *edge.API, c Config) {
	layouts() // now, so that no visitor finds out that a template is broken
	s := &site{Config: c, api: api, guard: edge.OwnerGuard(api.Origin(), c.Owners.Verify)}
	page := func(pattern string, h func(*http.Request) (*page, error)) { api.Handle("GET "+pattern, s.forOwner(h)) }
	page("/approvals", s.approvals)
	page("/runs", s.runs)
	page("/runs/{id}", s.run)
	page("/limits", s.limits)
	page("/freeze", s.freeze)
	api.Handle("GET /freeze/mark", http.HandlerFunc(s.mark))
	api.Handle("GET /{$}", http.RedirectHandler("/approvals", http.StatusSeeOther))
	api.Handle("GET /login", http.HandlerFunc(s.login))
	api.Handle("GET /assets/{name}", http.HandlerFunc(s.asset))
	api.Missing(http.HandlerFunc(s.missing))
	s.registerLive(api)
}

type site struct {
	Config
	api   *edge.API
	guard edge.Guard
	lists stream.Rings
}

// forOwner answers with a page for the owner, who is sent to sign in first. The
// rules of the owner's API hold here too.
func (s *site) forOwner(h func(*http.Request) (*page, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed, ok := s.signedIn(w, r)
		if !ok {
			return
		}
		shown, err := h(passed)
		if err == nil {
			// Behind the page itself, so that the banner is never older than what it is above.
			shown.Freeze = &standing{}
			shown.Freeze.Freeze, err = s.Reader.Freeze(passed.Context())
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		s.show(w, r, http.StatusOK, shown)
	})
}

// signedIn lets an owner's request pass. Others are answered here: whoever has no session
// is sent to sign in first.
func (s *site) signedIn(w http.ResponseWriter, r *http.Request) (passed *http.Request, ok bool) {
	passed, err := s.guard.Check(r)
	if p, is := errors.AsType[*edge.Problem](err); is && p.ReasonCode == edge.AuthenticationRequired {
		http.Redirect(w, r, "/login?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		return nil, false
	}
	if err != nil {
		s.refuse(w, r, err)
		return nil, false
	}
	return passed, true
}

// refuse shows a refusal as a page.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := s.api.Refusal(r, err)
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	s.show(w, r, p.Status, &page{Template: "refusal", Title: p.Title, Data: p})
}

func (s *site) missing(w http.ResponseWriter, r *http.Request) {
	s.show(w, r, http.StatusNotFound, &page{Template: "missing", Title: "There is no such page"})
}

// login is the one page without a session.
func (s *site) login(w http.ResponseWriter, r *http.Request) {
	s.show(w, r, http.StatusOK, &page{Template: "login", Title: "Sign in", Data: ownPath(r.URL.Query().Get("next"))})
}

// ownPath returns where to go after signing in: a path of this site, nothing that a
// browser could take for another.
func ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\t\r\n") {
		return "/approvals"
	}
	return next
}
