package frame

import (
	"cmp"
	"embed"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"countersign/internal/channel/edge"
	"countersign/internal/channel/stream"
	"countersign/internal/identity"
	"countersign/internal/supervision/records"
)

//go:embed template/*.html
var templates embed.FS

// own are the pages that refuse, and the one without a session.
var own = sync.OnceValue(func() Views { return Parse(templates, nil) })

// Frame shows pages to the owner. It is safe for concurrent use once its pages are
// registered.
type Frame struct {
	api    *edge.API
	reader *records.Reader
	owners *identity.Owners
	guard  edge.Guard
	rings  stream.Rings
	more   map[string]file // assets of single pages
	open   []link          // the pages that everybody may see
}

// New makes the frame and adds what is of no page in particular: signing in, the files
// of the layout, whether the workspace is frozen, and what is shown where no page is.
func New(api *edge.API, reader *records.Reader, owners *identity.Owners) *Frame {
	own() // now, so that no visitor finds out that a template is broken
	f := &Frame{api: api, reader: reader, owners: owners, guard: edge.OwnerGuard(api.Origin(), owners.Verify), more: map[string]file{}}
	api.Handle("GET /freeze/mark", http.HandlerFunc(f.mark))
	api.Handle("GET /{$}", http.RedirectHandler("/approvals", http.StatusSeeOther))
	api.Handle("GET /login", http.HandlerFunc(f.login))
	api.Handle("GET /assets/{name}", http.HandlerFunc(f.asset))
	api.Missing(http.HandlerFunc(f.missing))
	return f
}

// Origin is where the pages and the API are reached.
func (f *Frame) Origin() string { return f.api.Origin() }

// Page adds a page for the owner at a path, which may have wildcards. Whoever has no
// session is sent to sign in first; the rules of the owner's API hold here too. h finds
// what the page shows; its template is one of views.
func (f *Frame) Page(path string, views Views, h func(*http.Request) (*Page, error)) {
	f.api.Handle("GET "+path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed, ok := f.signedIn(w, r)
		if !ok {
			return
		}
		shown, err := h(passed)
		if err == nil {
			// Behind the page itself, so that the banner is never older than what it is above.
			shown.Freeze = &standing{}
			shown.Freeze.Freeze, err = f.reader.Freeze(passed.Context())
		}
		if err != nil {
			f.refuse(w, r, err)
			return
		}
		f.show(w, r, http.StatusOK, views, shown)
	}))
}

// link is a page by its name.
type link struct{ Path, Name string }

// Public adds a page that everybody may see: no session of the owner is asked for, and
// neither the owner's pages nor the freeze are shown on it or on its refusals. The owner's
// pages lead to it by its name.
func (f *Frame) Public(path, name string, views Views, h func(*http.Request) (*Page, error)) {
	f.open = append(f.open, link{path, name})
	f.api.Handle("GET "+path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, err := h(r)
		if err != nil {
			p := f.problem(w, r, err)
			f.show(w, r, p.Status, own(), &Page{Template: "refusal", Title: p.Title, Public: path, Data: p})
			return
		}
		shown.Public = path
		f.show(w, r, http.StatusOK, views, shown)
	}))
}

// signedIn lets an owner's request pass. Others are answered here: whoever has no session
// is sent to sign in first.
func (f *Frame) signedIn(w http.ResponseWriter, r *http.Request) (passed *http.Request, ok bool) {
	passed, err := f.guard.Check(r)
	if p, is := errors.AsType[*edge.Problem](err); is && p.ReasonCode == edge.AuthenticationRequired {
		http.Redirect(w, r, "/login?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		return nil, false
	}
	if err != nil {
		f.refuse(w, r, err)
		return nil, false
	}
	return passed, true
}

// refuse shows a refusal as a page.
func (f *Frame) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := f.problem(w, r, err)
	f.show(w, r, p.Status, own(), &Page{Template: "refusal", Title: p.Title, Section: section(r.URL.Path), Data: p})
}

// problem is the refusal for an error, whose headers are set.
func (f *Frame) problem(w http.ResponseWriter, r *http.Request, err error) *edge.Problem {
	p := f.api.Refusal(r, err)
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	return p
}

func (f *Frame) missing(w http.ResponseWriter, r *http.Request) {
	f.show(w, r, http.StatusNotFound, own(), &Page{Template: "missing", Title: "There is no such page", Data: f.api.Absence(r.URL.Path), Section: section(r.URL.Path)})
}

// section is the part of the navigation that a path lies in, so that what is not there
// leads back to where somebody came from.
func section(path string) string {
	if path == "/projects" || strings.HasPrefix(path, "/projects/") {
		return "context"
	}
	return ""
}

// login is the one page without a session.
func (f *Frame) login(w http.ResponseWriter, r *http.Request) {
	f.show(w, r, http.StatusOK, own(), &Page{Template: "login", Title: "Sign in", Data: ownPath(r.URL.Query().Get("next"))})
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

// standing is how the workspace stands with its freeze, as every page shows it.
type standing struct{ records.Freeze }

// Mark is what changes whenever the workspace is frozen or unfrozen.
func (s *standing) Mark() string { return cmp.Or(s.Head, "0") }

// mark tells the page's script whether the workspace was frozen or unfrozen since.
func (f *Frame) mark(w http.ResponseWriter, r *http.Request) {
	passed, ok := f.signedIn(w, r)
	if !ok {
		return
	}
	freeze, err := f.reader.Freeze(passed.Context())
	if err != nil {
		f.api.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, (&standing{freeze}).Mark()) // an error means that the client has left
}
