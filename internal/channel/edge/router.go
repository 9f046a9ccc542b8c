package edge

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"countersign/internal/authority"
	"countersign/internal/channel/bounds"
)

// Guard decides who gets past a prefix of paths.
type Guard struct {
	// Reasons are the codes it refuses with; operations under it document them.
	Reasons []string
	// Check returns the request to go on with, which may carry who is asking in
	// its context, or the refusal.
	Check func(*http.Request) (*http.Request, error)
}

type guarded struct {
	prefix string
	guard  Guard
}

// Guard puts a guard before every path that begins with prefix, which ends in a
// slash. Of several the longest prefix guards, alone.
func (a *API) Guard(prefix string, g Guard) {
	if !strings.HasSuffix(prefix, "/") {
		panic("edge: the prefix of a guard ends in a slash")
	}
	if a.without == checkOwner && (prefix == OwnerPrefix || prefix == ProjectsPrefix) {
		g.Check = func(r *http.Request) (*http.Request, error) { return r, nil } // not the guard of a shorter prefix either
	}
	a.guards = append(a.guards, guarded{prefix, g})
	slices.SortFunc(a.guards, func(x, y guarded) int { return cmp.Compare(len(y.prefix), len(x.prefix)) })
}

// guardOf returns the guard of a path. The prefix without its slash is guarded too.
func (a *API) guardOf(path string) (Guard, bool) {
	for _, g := range a.guards {
		if strings.HasPrefix(path+"/", g.prefix) {
			return g.guard, true
		}
	}
	return Guard{}, false
}

// ServeHTTP serves a request; see the package comment for the order.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := a.exchanges.Enter(w, r.ContentLength != 0)
	defer a.exchanges.Leave(t)
	defer func() {
		if v := recover(); v != nil {
			a.recovered(t, r, v)
		}
	}()
	a.setHeaders(t.Header())
	if a.serveHealth(t, r) {
		return
	}
	if !strings.EqualFold(r.Host, a.origin.Host) {
		a.Fail(t, r, Refuse(OriginRejected, "The Host header is not that of the configured origin, "+a.Origin()+"."))
		return
	}
	if g, found := a.guardOf(r.URL.Path); found {
		passed, err := g.Check(r)
		if err != nil {
			a.Fail(t, r, err)
			return
		}
		r = passed
	}
	if a.without == checkRoute || a.routed(t, r) {
		a.mux.ServeHTTP(t, r)
	}
	if t.Then != nil {
		t.Then()
	}
}

// setHeaders sets what every answer carries. Pages replace what they need to.
func (a *API) setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	if a.origin.Scheme == "https" {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// routed reports whether the request has a route, and answers when it has none.
func (a *API) routed(w http.ResponseWriter, r *http.Request) bool {
	if !isClean(r.URL.EscapedPath()) {
		// The mux would redirect, and a redirected POST is a second request.
		a.Fail(w, r, Refuse(authority.NotFound, ""))
		return false
	}
	h, pattern := a.mux.Handler(r)
	if pattern != "" {
		return true
	}
	none := &discard{header: http.Header{}}
	h.ServeHTTP(none, r)
	allow := none.header.Get("Allow")
	_, guarded := a.guardOf(r.URL.Path)
	switch {
	case allow == "" && a.missing != nil && !guarded && wantsPage(r):
		a.missing.ServeHTTP(w, r)
	case allow == "":
		a.Fail(w, r, Refuse(authority.NotFound, a.Absence(r.URL.Path)))
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", allow+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	default:
		a.Fail(w, r, Refuse(MethodNotAllowed, "").With("Allow", allow+", OPTIONS"))
	}
	return false
}

// wantsPage reports whether a person is asking: a browser that goes somewhere names
// text/html, programs do not.
func wantsPage(r *http.Request) bool {
	return reads(r) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

func isClean(p string) bool {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean == p
}

// recovered answers 500 for a handler that panicked. When the answer has begun
// the connection is cut, so that half an answer is not taken for a whole one.
func (a *API) recovered(t *bounds.Exchange, r *http.Request, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	// The value may quote anything; errors of the runtime and of this package do not.
	what := fmt.Sprintf("%T", v)
	if err, ok := v.(error); ok {
		if _, ours := v.(runtime.Error); ours || strings.HasPrefix(err.Error(), "edge: ") {
			what = err.Error()
		}
	}
	a.log.ErrorContext(r.Context(), "handler panicked", "route", a.routeOf(r), "panic", what, "stack", string(debug.Stack()))
	if t.Began() {
		panic(http.ErrAbortHandler)
	}
	t.Header().Del("Content-Length")
	Refuse(Internal, "").write(t)
}

// routeOf names a request's route for the log; paths are what clients write. A
// request that its guard refused was not routed, and has a route all the same.
func (a *API) routeOf(r *http.Request) string {
	if r.Pattern != "" {
		return r.Pattern
	}
	if isClean(r.URL.EscapedPath()) {
		if _, pattern := a.mux.Handler(r); pattern != "" {
			return pattern
		}
	}
	return r.Method + " (no route)"
}

// discard keeps the headers of an answer that is not sent.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
