package contexthttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A client that has sent everything and ends its side of the connection is answered like
// any other, and a body that ends too early is refused in its turn: neither is taken for a
// ledger that does not answer.
func TestHalfClosed(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		token := h.required()
		for _, c := range []struct {
			project, body string
			length        int
			want          string
		}{
			{"acme/support", "{}", 2, "201"},
			{"acme/support", "{", 2, "400 body_invalid"},
			{"acme/nowhere", "{", 2, "404 project_not_found"},
		} {
			conn, err := net.Dial("tcp", h.addr)
			must(t, err)
			fmt.Fprintf(conn, "POST /%s/context/turns/start HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nIdempotency-Key: half-closed-%s-%d\r\nContent-Length: %d\r\n\r\n%s",
				c.project, strings.TrimPrefix(h.origin, "http://"), token, strings.ReplaceAll(c.project, "/", "-"), len(c.body), c.length, c.body)
			must(t, conn.(*net.TCPConn).CloseWrite())
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			must(t, err)
			body, err := io.ReadAll(response.Body)
			must(t, err)
			conn.Close()
			if got := fmt.Sprint(response.StatusCode); !strings.HasPrefix(c.want, got) || !strings.Contains(string(body), strings.TrimSpace(strings.TrimPrefix(c.want, got))) {
				t.Errorf("%s %q: %s %s, want %s", c.project, c.body, got, body, c.want)
			}
		}
	})
}
