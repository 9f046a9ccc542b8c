package edge_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"countersign/internal/channel/edge"
)

// A browser that asks for what is not there is shown a page. Programs, other methods,
// guarded paths and paths with a route get the refusal that they got before.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, pages := range []bool{true, false} {
		api, err := edge.New(edge.Config{Origin: "http://localhost:8420", Title: "t", Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		api.Guard("/guarded/", edge.Guard{Check: func(r *http.Request) (*http.Request, error) { return r, nil }})
		api.Handle("GET /here", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		api.Handle("POST /there", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		if pages {
			api.Missing(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		}
		const html = "text/html,application/xhtml+xml,*/*;q=0.8"
		for _, c := range []struct {
			method, path, accept string
			status               int
			page                 bool
		}{
			{"GET", "/nothing", html, 404, true}, {"HEAD", "/nothing", html, 404, true},
			{"GET", "/nothing", "application/json", 404, false}, {"GET", "/nothing", "*/*", 404, false}, {"GET", "/nothing", "", 404, false},
			{"POST", "/nothing", html, 404, false}, {"GET", "/guarded/nothing", html, 404, false}, {"GET", "/guarded", html, 404, false},
			{"GET", "//nothing", html, 404, false}, {"GET", "/here", html, 200, false}, {"GET", "/there", html, 405, false},
		} {
			r := httptest.NewRequest(c.method, "http://localhost:8420"+c.path, nil)
			r.Header.Set("Accept", c.accept)
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			want := c.status
			if c.page && pages {
				want = http.StatusTeapot
			}
			if w.Code != want {
				t.Errorf("%s %s for %q, pages %t: %d, want %d", c.method, c.path, c.accept, pages, w.Code, want)
			}
		}
	}
}
