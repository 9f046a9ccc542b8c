package edge

import "net/http"

// serveHealth answers /healthz (the process serves) and /readyz (it can do its
// work) and reports whether the request was one. Both say one word, come before
// the Host check, since probes ask by address, and need no credential; so /readyz,
// which commits, asks at most once a second for everybody.
func (a *API) serveHealth(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz", "/readyz":
	default:
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		a.Fail(w, r, Refuse(MethodNotAllowed, "").With("Allow", "GET, HEAD"))
		return true
	}
	status, word := http.StatusOK, "ok\n"
	if r.URL.Path == "/readyz" {
		if a.ready.Ready(r.Context()) != nil {
			status, word = http.StatusServiceUnavailable, "not ready\n"
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(word))
	return true
}
