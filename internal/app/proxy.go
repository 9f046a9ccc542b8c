package app

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"countersign/internal/channel/contexthttp"
)

// behindProxies gives next the address of the client in place of that of the
// proxy that forwarded the request, and notes whether that came over TLS.
// X-Forwarded-For and X-Forwarded-Proto count only when the peer is in a trusted
// network: anybody else may have made them up. They are read here and nowhere else.
func behindProxies(next http.Handler, trusted []netip.Prefix) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer, ok := parseAddr(r.RemoteAddr); ok && within(trusted, peer) {
			hops, proto := r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"]
			ctx := r.Context()
			if len(hops)+len(proto) > 0 {
				ctx = contexthttp.Forwarded(ctx, saysHTTPS(proto) || len(proto) == 0 && r.TLS != nil)
			}
			r = r.WithContext(ctx)
			r.RemoteAddr = net.JoinHostPort(clientOf(peer, hops, trusted).String(), "0")
		}
		next.ServeHTTP(w, r)
	})
}

// clientOf goes back the way that a request came, hop by hop from the peer, and
// returns the first address that is not a trusted proxy's: whatever stands left of
// it, that client may have written. An entry that is no address ends the way at
// the proxy that passed it on.
func clientOf(peer netip.Addr, forwardedFor []string, trusted []netip.Prefix) netip.Addr {
	client := peer
	for _, entry := range slices.Backward(strings.Split(strings.Join(forwardedFor, ","), ",")) {
		hop, ok := parseAddr(strings.TrimSpace(entry))
		if !ok {
			break
		}
		client = hop
		if !within(trusted, hop) {
			break
		}
	}
	return client
}

// saysHTTPS reports whether X-Forwarded-Proto says https, of every hop when it names
// several.
func saysHTTPS(proto []string) bool {
	return len(proto) > 0 && !slices.ContainsFunc(strings.Split(strings.Join(proto, ","), ","), func(hop string) bool {
		return !strings.EqualFold(strings.TrimSpace(hop), "https")
	})
}

// parseAddr reads an address with or without a port. One client has one spelling.
func parseAddr(s string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap().WithZone(""), err == nil
}

func within(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}
