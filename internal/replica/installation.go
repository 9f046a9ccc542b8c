package replica

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/app"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/pgtest"
)

// Engines of a ledger, by which [Prepare] knows them.
const (
	SQLite     = app.SQLite
	PostgreSQL = app.PostgreSQL
)

// Installation is a folder with its ledger, and the processes that serve it.
type Installation struct {
	Engine   string
	Dir      string
	Database string // URL on PostgreSQL, else ""
	Origin   string // public, the same at every replica

	shop     *Shop
	replicas []*Replica
}

// Prepare makes an installation with new keys and an empty ledger. Nothing serves it yet.
func Prepare(tb testing.TB, engine string) *Installation {
	tb.Helper()
	in := &Installation{Engine: engine, Dir: filepath.Join(tb.TempDir(), "control"), Origin: "http://" + freeAddr(tb, "localhost")}
	if engine == PostgreSQL {
		in.Database = pgtest.Database(tb, func(context.Context, string) error { return nil })
	}
	must(tb, app.Init(tb.Context(), in.Dir, in.Database))
	return in
}

// Start starts a replica for each of the options, all at once, and returns when every
// one of them serves. On SQLite there is one.
func (in *Installation) Start(tb testing.TB, options ...Options) []*Replica {
	tb.Helper()
	if in.Engine == SQLite && len(in.replicas)+len(options) > 1 {
		tb.Fatal("SQLite has one process")
	}
	var started []*Replica
	for _, o := range options {
		r := &Replica{in: in, tb: tb, Name: "replica-" + strconv.Itoa(len(in.replicas)), log: filepath.Join(tb.TempDir(), "log")}
		if r.Addr = freeAddr(tb, "localhost"); len(in.replicas) == 0 {
			r.Addr = in.Origin[len("http://"):]
		}
		in.replicas = append(in.replicas, r)
		started = append(started, r)
		r.launch(o)
	}
	for _, r := range started {
		r.ready()
	}
	return started
}

// Move moves the clocks of all running processes and of the shop.
func (in *Installation) Move(d time.Duration) {
	for _, r := range in.replicas {
		if !r.ended() {
			r.Move(d)
		}
	}
	if in.shop != nil {
		in.shop.clock.Move(d)
	}
}

// Ledger opens the installation's ledger in the test's process, until the test ends. On
// SQLite no replica may have it.
func (in *Installation) Ledger(tb testing.TB) Ledger {
	tb.Helper()
	var l interface {
		Ledger
		Close() error
	}
	var err error
	if in.Database != "" {
		l, err = postgres.Open(tb.Context(), in.Database, postgres.Options{})
	} else {
		l, err = sqlite.Open(tb.Context(), filepath.Join(in.Dir, "countersign.db"), sqlite.Options{})
	}
	must(tb, err)
	var once sync.Once
	tb.Cleanup(func() { once.Do(func() { must(tb, l.Close()) }) })
	return l
}

// Ledger is what a test reads of a ledger.
type Ledger interface {
	Load(ctx context.Context, key ledger.Key) (ledger.Subject, time.Time, error)
	Find(ctx context.Context, q ledger.Query) ([]ledger.Subject, error)
}

// CutListener ends the session on which a replica hears notifications, as a broken
// connection would, and returns when another one of the same replica listens.
func (in *Installation) CutListener(r *Replica) {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(r.tb.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, in.Database)
	must(r.tb, err)
	defer conn.Close(ctx)
	listening := func() (pid int32) {
		err := conn.QueryRow(ctx, `SELECT pid FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1 AND query LIKE 'LISTEN%'`, r.session()).Scan(&pid)
		if !errors.Is(err, pgx.ErrNoRows) {
			must(r.tb, err)
		}
		return pid
	}
	before := listening()
	if before == 0 {
		r.tb.Fatalf("%s has no session that listens", r.Name)
	}
	_, err = conn.Exec(ctx, `SELECT pg_terminate_backend($1)`, before)
	must(r.tb, err)
	for now := before; now == before || now == 0; now = listening() {
		must(r.tb, ctx.Err())
	}
}

// freeAddr finds a port at which nobody listens, below those that the system gives to
// outgoing connections.
func freeAddr(tb testing.TB, host string) string {
	tb.Helper()
	for range 1000 {
		addr := net.JoinHostPort(host, strconv.Itoa(12000+rand.IntN(20000)))
		if l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", addr); err == nil {
			must(tb, l.Close())
			return addr
		}
	}
	tb.Fatal("no free port")
	return ""
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Each runs a test on both engines.
func Each(t *testing.T, test func(t *testing.T, engine string)) {
	for _, engine := range []string{SQLite, PostgreSQL} {
		t.Run(engine, func(t *testing.T) { test(t, engine) })
	}
}
