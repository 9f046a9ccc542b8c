package gateway_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/pgtest"
	"countersign/internal/supervision/gateway"
)

// engine is a ledger engine under a gateway.
type engine struct {
	name   string
	create func(t testing.TB, dir string) string // returns the location
	open   func(ctx context.Context, location string, clock *ledger.Clock) (openLedger, error)
	// gone returns once the ledger knows that the only process that had it open is
	// dead.
	gone func(t testing.TB, location string)
}

type openLedger interface {
	gateway.Ledger
	Close() error
}

var engines = []engine{
	{
		"sqlite",
		func(t testing.TB, dir string) string {
			path := filepath.Join(dir, "countersign.db")
			must(t, sqlite.Create(t.Context(), path))
			return path
		},
		func(ctx context.Context, path string, clock *ledger.Clock) (openLedger, error) {
			return sqlite.Open(ctx, path, sqlite.Options{Clock: clock})
		},
		func(testing.TB, string) {}, // the folder's lock went with the process
	},
	{
		"postgres",
		func(t testing.TB, _ string) string { return pgtest.Database(t, postgres.Migrate) },
		func(ctx context.Context, url string, clock *ledger.Clock) (openLedger, error) {
			return postgres.Open(ctx, url, postgres.Options{Clock: clock})
		},
		unlocked,
	},
}

// unlocked waits for every advisory lock that a session of the database holds now:
// the server frees them when it notices the closed socket of a killed process.
func unlocked(t testing.TB, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = conn.Exec(ctx, `SELECT pg_advisory_lock_shared((classid::int8 << 32) | objid::int8) FROM pg_locks
		WHERE locktype = 'advisory' AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	must(t, err)
}

func engineNamed(name string) (engine, error) {
	i := slices.IndexFunc(engines, func(e engine) bool { return e.name == name })
	if i < 0 {
		return engine{}, fmt.Errorf("there is no engine %q", name)
	}
	return engines[i], nil
}

// ran holds the names of the tests that each engine went through.
var ran struct {
	sync.Mutex
	names map[string]map[string]bool
}

// onEach runs a test on both engines.
func onEach(t *testing.T, test func(*testing.T, engine)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			ran.Lock()
			if ran.names == nil {
				ran.names = map[string]map[string]bool{}
			}
			if ran.names[e.name] == nil {
				ran.names[e.name] = map[string]bool{}
			}
			ran.names[e.name][strings.TrimSuffix(t.Name(), "/"+e.name)] = true
			ran.Unlock()
			test(t, e)
		})
	}
}

// TestMain runs the tests, or the work of a child when this process is one.
func TestMain(m *testing.M) {
	if task := os.Getenv(childVariable); task != "" {
		os.Exit(runChild(task))
	}
	status := pgtest.Main(m)
	if selected := flag.Lookup("test.run").Value.String(); selected == "" && !maps.Equal(ran.names["sqlite"], ran.names["postgres"]) {
		fmt.Fprintf(os.Stderr, "the engines went through different tests: %v\n", ran.names)
		status = 1
	}
	os.Exit(status)
}
