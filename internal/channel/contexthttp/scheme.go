package contexthttp

import (
	"context"
	"net"
	"net/http"
	"net/netip"
)

type forwardedKey struct{}

// Forwarded notes what a trusted proxy says about how a request reached it: over TLS
// or not. It is for whoever knows which proxies are trusted; a header alone counts for
// nothing here.
func Forwarded(ctx context.Context, tls bool) context.Context {
	return context.WithValue(ctx, forwardedKey{}, tls)
}

// secure reports whether the request came over HTTPS or from this machine (L-17). A
// trusted proxy's word stands over what can be seen here, which is only the last hop.
func secure(r *http.Request) bool {
	if tls, said := r.Context().Value(forwardedKey{}).(bool); said {
		return tls
	}
	return r.TLS != nil || loopback(r.RemoteAddr)
}

func loopback(peer string) bool {
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
