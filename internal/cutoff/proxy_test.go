package cutoff

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
)

// cut is what happens to requests of one name, the last part of their path. The zero
// cut does nothing.
type cut struct {
	name   string
	behind bool // the server answers, and nobody hears of it; else the server hears nothing
	once   bool // else every time, until it is mended
}

// proxy stands between a client and the server, and serves files to a page, so that
// the page's requests have its own origin.
type proxy struct {
	*httptest.Server
	t      *testing.T
	target string // origin of the server

	mu     sync.Mutex
	cut    cut
	passed map[string]int // requests that got to the server, by name
	cuts   int
}

func newProxy(t *testing.T, target string) *proxy {
	p := &proxy{t: t, target: target, passed: map[string]int{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// set makes the proxy cut so, and count from nothing.
func (p *proxy) set(c cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.passed, p.cuts = c, map[string]int{}, 0
}

// mend lets everything through.
func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut{}
}

// counted is how many requests of a name got through, and how many of any were cut.
func (p *proxy) counted(name string) (passed, cuts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed[name], p.cuts
}

// files that a page loads.
var files = map[string]string{
	"page.html": "testdata/page.html", "play.js": "testdata/play.js", "contextclient.js": "../../contextclient/js/contextclient.js",
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, ok := strings.CutPrefix(r.URL.Path, "/-/"); ok {
		http.ServeFile(w, r, files[name])
		return
	}
	name := path.Base(r.URL.Path)
	p.mu.Lock()
	here := p.cut.name == name
	behind := p.cut.behind
	if here {
		p.cuts++
		if p.cut.once {
			p.cut = cut{}
		}
	}
	if !here || behind {
		p.passed[name]++
	}
	p.mu.Unlock()
	if here && !behind {
		panic(http.ErrAbortHandler)
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.target+r.URL.Path, r.Body)
	if err != nil {
		p.t.Error(err)
		return
	}
	out.Header = r.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		p.t.Error(err)
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	if here { // the answer is there, whole
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			p.t.Error(err)
		}
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
}
