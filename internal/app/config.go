package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"countersign/internal/channel/edge"
	"countersign/internal/ledger"
	"countersign/internal/supervision/attack"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
)

// Config is what an installation is opened with.
type Config struct {
	Dir      string         // folder that Init made
	Addr     string         // host:port to listen on; port 0 picks a free one
	Origin   string         // public origin; "": scheme, host and port that it listens on
	Database string         // PostgreSQL URL; "": SQLite in Dir
	Store    *gateway.Store // the hosted store; nil: target hosted is off
	TLSCert  string         // PEM files, both or neither
	TLSKey   string
	// TrustedProxies are the networks of the proxies in front; only what they say
	// in X-Forwarded-For and X-Forwarded-Proto is believed.
	TrustedProxies []netip.Prefix
	MetricsAddr    string        // host:port of GET /metrics, on a listener of its own; "": none
	Freeze         string        // freezes the workspace for this reason before anything is answered, unless it is frozen; "": it stays as it is
	Incident       bool          // serves the incident workflow, which is used without signing in
	AttackedStore  attack.Store  // the hosted store, when attacks may change it; nil: they may not
	Log            *slog.Logger  // nil: nothing is logged
	Clock          *ledger.Clock // nil: the system's

	// Doors, Without and the faults are for tests; no flag and no variable reaches
	// them.
	Doors   decide.Doors
	Without string // a check of the HTTP API that is left out
	Fault   func(point string)
	// ContextFault is asked at points of a context call; its error ends the call there.
	ContextFault func(point string) error
	Unrecorded   bool // context is handed out although its record was not stored
	// IncidentFault is asked at points of a request to the incident workflow; its error ends
	// the request there. IncidentPartial lets an execution fail in part.
	IncidentFault   func(point string) error
	IncidentPartial func() bool
	IncidentWithout string // a guard of the incident workflow that is left out

	EngineFault func(point string) error // of the ledger's engine
	Unlocked    bool                     // PostgreSQL: commits do not take the freeze lock
	Unpolled    bool                     // PostgreSQL: watched subjects are not polled
	anyKeys     bool                     // the ledger's fingerprints are not compared
	patience    time.Duration            // with a guardian, a store and an executor; 0: the product's
	// swap puts something else in place of a dependency that is wired as an interface.
	swap func(wired reflect.Type, dependency any) any
}

// swapped is the dependency, or what a test puts in its place.
func swapped[T any](c Config, dependency T) T {
	if c.swap == nil {
		return dependency
	}
	return c.swap(reflect.TypeFor[T](), dependency).(T)
}

// ConfigError says that an installation cannot be served as configured.
type ConfigError struct{ Reason string }

func (e *ConfigError) Error() string { return e.Reason }

func refuse(format string, args ...any) error { return &ConfigError{fmt.Sprintf(format, args...)} }

// checkTLS reads the certificate now, so that a wrong file is not found out by
// the first visitor.
func (c *Config) checkTLS() error {
	if c.TLSCert == "" && c.TLSKey == "" {
		return nil
	}
	if c.TLSCert == "" || c.TLSKey == "" {
		return refuse("--tls-cert and --tls-key belong together")
	}
	if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
		return refuse("--tls-cert and --tls-key: %v", err)
	}
	return nil
}

// Listen listens at addr and returns the public origin with the listener: the
// given one, or where it listens. It refuses what other machines can reach
// unless the origin is https. scheme is that of an origin that is not given.
func Listen(addr, origin, scheme string) (net.Listener, string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !isPort(port) {
		return nil, "", refuse("--addr: want HOST:PORT, such as localhost:8420, with a port from 0 to 65535")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, "", fmt.Errorf("--addr %s: %w", addr, err)
	}
	if origin == "" {
		origin = originOf(scheme, host, l.Addr().(*net.TCPAddr).Port)
	}
	u, err := edge.ParseOrigin(origin)
	switch {
	case err != nil:
		err = refuse("--origin: want an origin such as http://localhost:8420 or https://host, in lower case and without a path")
	case u.Scheme != "https" && !l.Addr().(*net.TCPAddr).IP.IsLoopback():
		err = refuse("--addr %s can be reached from other machines; that needs an https --origin", addr)
	default:
		return l, origin, nil
	}
	return nil, "", errors.Join(err, l.Close())
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// originOf spells an origin without the scheme's default port, as browsers do.
func originOf(scheme, host string, port int) string {
	if port == map[string]int{"http": 80, "https": 443}[scheme] {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return scheme + "://" + host
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// apart refuses a store under our own host name: cookies ignore ports, so each
// would be sent the other's.
func (c *Config) apart(origin string) error {
	if c.Store == nil {
		return nil
	}
	own, err := edge.ParseOrigin(origin)
	if err != nil {
		return err
	}
	store, err := edge.ParseOrigin(c.Store.Origin)
	if err != nil {
		return refuse("--store-origin: want an origin such as http://127.0.0.1:8421")
	}
	if store.Hostname() == own.Hostname() {
		return refuse("the store and the control plane are both at %s; give them different host names, such as 127.0.0.1 and localhost", store.Hostname())
	}
	return nil
}

// scheme is what it speaks itself.
func (c *Config) scheme() string {
	if c.TLSCert != "" {
		return "https"
	}
	return "http"
}
