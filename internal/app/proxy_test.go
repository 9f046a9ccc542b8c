package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/app"
	"countersign/internal/client"
)

func networks(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// The client is the right-most hop that is not a trusted proxy's.
func TestClientOf(t *testing.T) {
	trusted := networks("10.0.0.0/8", "fd00::/8")
	for _, c := range []struct {
		name, want string
		header     []string
	}{
		{"no header", "10.0.0.1", nil},
		{"one hop", "203.0.113.7", []string{"203.0.113.7"}},
		{"what the client wrote stands left", "203.0.113.7", []string{"198.51.100.1, 203.0.113.7"}},
		{"two proxies", "203.0.113.7", []string{"198.51.100.1, 203.0.113.7, 10.0.0.2"}},
		{"two headers are one list", "203.0.113.7", []string{"198.51.100.1", "203.0.113.7,10.0.0.2"}},
		{"a trusted address that the client wrote", "203.0.113.7", []string{"10.9.9.9, 203.0.113.7"}},
		{"everything is trusted", "10.0.0.9", []string{"10.0.0.9, 10.0.0.2"}},
		{"no address ends at the proxy that passed it on", "10.0.0.2", []string{"203.0.113.7, unknown, 10.0.0.2"}},
		{"nothing between commas", "10.0.0.2", []string{"203.0.113.7,, 10.0.0.2"}},
		{"empty", "10.0.0.1", []string{""}},
		{"with a port", "203.0.113.7", []string{"203.0.113.7:4711"}},
		{"IPv6", "2001:db8::1", []string{"2001:db8::1, fd00::2"}},
		{"IPv6 with a port", "2001:db8::1", []string{"[2001:db8::1]:4711"}},
		{"IPv4 as IPv6 is one client", "203.0.113.7", []string{"::ffff:203.0.113.7"}},
	} {
		if got := app.ClientOf("10.0.0.1", c.header, trusted); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// signIns tries wrong secrets with these X-Forwarded-For, one after the other,
// and returns the statuses.
func signIns(t *testing.T, trusted []netip.Prefix, headers ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "D")
	must(t, app.Init(context.Background(), dir, ""))
	a, stop := serve(t, app.Config{Dir: dir, Addr: "127.0.0.1:0", TrustedProxies: trusted})
	defer func() { must(t, stop()) }()
	var statuses []string
	for _, header := range headers {
		r, err := http.NewRequest("POST", a.Origin()+"/api/v1/owner/session", strings.NewReader(`{"secret":"wrong"}`))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", a.Origin())
		r.Header.Set("X-Halfspan-Owner", "1")
		if header != "" {
			r.Header.Set("X-Forwarded-For", header)
		}
		reply, err := client.Send(client.New(), r)
		must(t, err)
		statuses = append(statuses, fmt.Sprint(reply.Status))
	}
	return strings.Join(statuses, " ")
}

// Five wrong secrets a minute are each client's own, whatever it writes into the
// header.
func TestTrustedProxy(t *testing.T) {
	const limited = "401 401 401 401 401 429"
	forged := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6"}
	behind := make([]string, len(forged))
	for i, f := range forged {
		behind[i] = f + ", 203.0.113.7"
	}
	local := networks("127.0.0.0/8")

	if got := signIns(t, nil, forged...); got != limited {
		t.Errorf("no proxy is trusted: %s, want %s", got, limited)
	}
	if got := signIns(t, networks("10.0.0.0/8"), forged...); got != limited {
		t.Errorf("the peer is not the proxy: %s, want %s", got, limited)
	}
	if got := signIns(t, local, behind...); got != limited {
		t.Errorf("forged hops behind a proxy: %s, want %s", got, limited)
	}
	if got, want := signIns(t, local, append(behind, "203.0.113.8", "203.0.113.7", "")...), limited+" 401 429 401"; got != want {
		t.Errorf("another client at the proxy, the first again, the proxy itself: %s, want %s", got, want)
	}
	// Negative control: when every address is taken for a proxy, what the client
	// wrote counts, and a guesser with a new address each time is not stopped.
	if got := signIns(t, networks("0.0.0.0/0"), behind...); strings.Contains(got, "429") {
		t.Errorf("every address is trusted: %s", got)
	}
}

// S-028: plain HTTP in production is refused wherever a proxy that is trusted says that
// the request reached it so, or says nothing of what it passed on; what anybody else
// writes into the header counts for nothing, and a client on this machine needs no TLS.
func TestForwardedProto(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "D")
	must(t, app.Init(context.Background(), dir, ""))
	for _, c := range []struct {
		name    string
		trusted []netip.Prefix
		path    string
		headers []string
		want    int
	}{
		{"a client on this machine", nil, "", nil, 401},
		{"no proxy is trusted", nil, "", []string{"X-Forwarded-Proto", "http"}, 401},
		{"a trusted proxy, https", networks("127.0.0.0/8"), "", []string{"X-Forwarded-Proto", "https", "X-Forwarded-For", "203.0.113.7"}, 401},
		{"a trusted proxy, HTTPS", networks("127.0.0.0/8"), "", []string{"X-Forwarded-Proto", "HTTPS"}, 401},
		{"a trusted proxy, http", networks("127.0.0.0/8"), "", []string{"X-Forwarded-Proto", "http", "X-Forwarded-For", "203.0.113.7"}, 403},
		{"a trusted proxy, http from this machine", networks("127.0.0.0/8"), "", []string{"X-Forwarded-Proto", "http"}, 403},
		{"one hop was plain", networks("127.0.0.0/8"), "", []string{"X-Forwarded-Proto", "https, http"}, 403},
		{"every hop was not", networks("127.0.0.0/8"), "", []string{"X-Forwarded-Proto", "https, https"}, 401},
		{"empty", networks("127.0.0.0/8"), "", []string{"X-Forwarded-Proto", ""}, 403},
		{"a trusted proxy that does not say", networks("127.0.0.0/8"), "", []string{"X-Forwarded-For", "127.0.0.1"}, 403},
		{"not forwarded by the trusted proxy", networks("127.0.0.0/8"), "", nil, 401},
		{"production by its name", networks("127.0.0.0/8"), "/production", []string{"X-Forwarded-Proto", "http"}, 403},
		{"staging", networks("127.0.0.0/8"), "/staging", []string{"X-Forwarded-Proto", "http"}, 401},
	} {
		a, stop := serve(t, app.Config{Dir: dir, Addr: "127.0.0.1:0", TrustedProxies: c.trusted})
		r, err := http.NewRequest("POST", a.Origin()+"/acme/support"+c.path+"/context/doctor", strings.NewReader("{}"))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Set(c.headers[i], c.headers[i+1])
		}
		reply, err := client.Send(client.New(), r)
		must(t, err)
		if reply.Status != c.want || (c.want == 403) != strings.Contains(string(reply.Body), "https_required") {
			t.Errorf("%s: %d %s, want %d", c.name, reply.Status, reply.Body, c.want)
		}
		must(t, stop())
	}
}
