package app_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/internal/app"
)

// Design section 8: an installation ends within 10 s and without an error while an
// anonymous client holds half a request: a head, a body that is being read, one
// that nobody reads.
func TestEndWithHalfSentRequests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "D")
	must(t, app.Init(t.Context(), dir, ""))
	a, stop := serve(t, app.Config{Dir: dir, Addr: "localhost:0"})
	host := strings.TrimPrefix(a.Origin(), "http://")
	for _, raw := range []string{
		"POST /api/v1/owner/session HTTP/1.1\r\nHost: " + host + "\r\n",
		"POST /api/v1/owner/runs HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + a.Origin() + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"POST /api/v1/owner/session HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + a.Origin() +
			"\r\nX-Halfspan-Owner: 1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", host)
		must(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, raw)
		must(t, err)
		if !strings.Contains(raw, "Expect") {
			continue
		}
		// The server says that it is reading the body, and gets half of it. The
		// connections before this one were accepted before it.
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		if resp.StatusCode != http.StatusContinue {
			t.Fatalf("the body is not read: %d", resp.StatusCode)
		}
		_, err = io.WriteString(conn, `{"secret":`)
		must(t, err)
	}
	began := time.Now()
	must(t, stop())
	if took := time.Since(began); took >= 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
