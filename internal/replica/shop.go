package replica

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"countersign/dispatch"
	"countersign/internal/ledger"
	"countersign/store"
)

// Shop is the hosted store of an installation: the real one, behind its own database, in
// the test's process.
type Shop struct {
	Origin string
	Dir    string
	Key    dispatch.TrustedKey // of its receipts

	keys   string // receipt.pub
	clock  ledger.Clock
	around atomic.Pointer[func(http.Handler) http.Handler]
	store  *store.Store
	server *http.Server
	rows   *sql.DB
}

// OpenShop makes the installation's store and serves it. Replicas that are started
// afterwards know it.
func (in *Installation) OpenShop(tb testing.TB) *Shop {
	tb.Helper()
	s := &Shop{Dir: filepath.Join(tb.TempDir(), "store")}
	must(tb, store.Create(s.Dir))
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", freeAddr(tb, "127.0.0.1"))
	must(tb, err)
	s.Origin = "http://" + l.Addr().String()
	trust := filepath.Join(in.Dir, "keys", "dispatch.pub")
	s.store, err = store.Open(s.Dir, store.Options{Origin: s.Origin, TrustFile: trust, Clock: s.clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(tb, err)
	text, err := os.ReadFile(filepath.Join(s.Dir, "keys", "receipt.pub"))
	must(tb, err)
	s.keys, s.Key = string(text), s.store.ReceiptKey()
	s.rows, err = sql.Open("sqlite", "file:"+filepath.Join(s.Dir, "store.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	must(tb, err)
	s.Around(nil)
	s.server = &http.Server{Handler: s}
	go s.server.Serve(l)
	in.shop = s
	tb.Cleanup(func() { must(tb, s.Close()) })
	return s
}

// Around puts a handler in front of the store, in place of the one before; nil: none.
func (s *Shop) Around(f func(http.Handler) http.Handler) {
	if f == nil {
		f = func(next http.Handler) http.Handler { return next }
	}
	s.around.Store(&f)
}

func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.around.Load())(s.store.Handler()).ServeHTTP(w, r)
}

// Close ends the store.
func (s *Shop) Close() error { return errors.Join(s.server.Close(), s.rows.Close(), s.store.Close()) }

// Order is one order in the store's own database.
type Order struct {
	ID          string
	Session     string
	ExecutionID string // jti of the dispatch permit that it came with
	TotalCents  int64
}

// Orders returns all orders of the store.
func (s *Shop) Orders(ctx context.Context) ([]Order, error) {
	return list(ctx, s.rows, `SELECT order_id, sid, jti, total_cents FROM orders ORDER BY order_id`,
		func(o *Order) []any { return []any{&o.ID, &o.Session, &o.ExecutionID, &o.TotalCents} })
}

// Spent is one dispatch permit in the store's own database, with the receipt that the
// store has signed about it.
type Spent struct {
	ExecutionID string // jti
	PermitID    string // pid, for a session the run's id
	Session     string
	BodyHash    string // bh: what the permit was for
	Result      string // applied, refused or closed
	Receipt     string // JWS
}

// Spent returns all permits that the store takes no more.
func (s *Shop) Spent(ctx context.Context) ([]Spent, error) {
	return list(ctx, s.rows, `SELECT jti, pid, sid, bh, result, receipt FROM dispatch_ledger ORDER BY jti`,
		func(p *Spent) []any {
			return []any{&p.ExecutionID, &p.PermitID, &p.Session, &p.BodyHash, &p.Result, &p.Receipt}
		})
}

func list[T any](ctx context.Context, db *sql.DB, query string, columns func(*T) []any) (all []T, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one T
		if err := rows.Scan(columns(&one)...); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
