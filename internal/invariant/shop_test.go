package invariant_test

import (
	"database/sql"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/app"
	"countersign/internal/supervision/gateway"
	"countersign/store"
)

// A shop is the real store behind a listener that can be out of order.
type shop struct {
	t        testing.TB
	dir      string
	where    gateway.Store
	real     http.Handler
	listener net.Listener // nil: nobody listens
	end      func()
	lost     atomic.Value // string: requests whose path begins so get no answer, "" for none
	deaf     atomic.Bool  // and are not even handed on
}

// openShop opens a shop that trusts the dispatch keys of the file trust.
func openShop(t testing.TB, trust string, clock func() time.Time) *shop {
	t.Helper()
	s := &shop{t: t, dir: filepath.Join(t.TempDir(), "shop")}
	s.lost.Store("")
	must(t, store.Create(s.dir))
	s.listen("127.0.0.1:0")
	s.where.Origin = "http://" + s.listener.Addr().String()
	opened, err := store.Open(s.dir, store.Options{Origin: s.where.Origin, TrustFile: trust, Clock: clock, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	s.where.Keys = []dispatch.TrustedKey{opened.ReceiptKey()}
	s.real = opened.Handler()
	s.serve()
	t.Cleanup(func() {
		s.end()
		must(t, opened.Close())
	})
	return s
}

func (s *shop) listen(addr string) {
	s.t.Helper()
	l, err := net.Listen("tcp", addr)
	must(s.t, err)
	s.listener = l
}

// serve serves the shop at its address until end is called.
func (s *shop) serve() {
	if s.listener == nil {
		s.listen(strings.TrimPrefix(s.where.Origin, "http://"))
	}
	server, served := &http.Server{Handler: s}, make(chan error, 1)
	listener := s.listener
	go func() { served <- server.Serve(listener) }()
	s.end = func() {
		s.listener = nil
		must(s.t, server.Close())
		<-served
	}
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path := s.lost.Load().(string); path == "" || !strings.HasPrefix(r.URL.Path, path) {
		s.real.ServeHTTP(w, r)
		return
	}
	if !s.deaf.Load() {
		s.real.ServeHTTP(nowhere{http.Header{}}, r)
	}
	panic(http.ErrAbortHandler) // the connection ends without an answer
}

// nowhere is where an answer goes that gets lost.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// loses lets answers to requests of the path get lost; deaf says that they are not even
// handed on. "" ends that.
func (s *shop) loses(path string, deaf bool) {
	s.deaf.Store(deaf)
	s.lost.Store(path)
}

// orders counts the orders in the shop's own ledger.
func (s *shop) orders() (n int) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "store.db")+"?mode=ro")
	must(s.t, err)
	defer db.Close()
	must(s.t, db.QueryRow(`SELECT count(*) FROM orders`).Scan(&n))
	return n
}

// atShop gives an installation a shop that goes by its clock.
func atShop(t testing.TB, s **shop) func(*app.Config) {
	return func(c *app.Config) {
		*s = openShop(t, filepath.Join(c.Dir, "keys", "dispatch.pub"), c.Clock.Now)
		c.Store = &(*s).where
	}
}

// openHosted opens an installation with a shop.
func openHosted(t testing.TB, database string) (h *house, s *shop) {
	t.Helper()
	h = openHouse(t, database, atShop(t, &s))
	return h, s
}

// closed does something while nobody listens at the shop's address.
func (s *shop) closed(f func()) {
	s.t.Helper()
	s.end()
	f()
	s.serve()
}
