package app_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/pgtest"
	"countersign/internal/supervision/gateway"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(rotateVariable); task != "" {
		os.Exit(rotateChild(task))
	}
	if task := os.Getenv(verifyVariable); task != "" {
		os.Exit(verifyChild(task))
	}
	os.Exit(pgtest.Main(m))
}

// unmigrated gives a PostgreSQL database without a ledger.
func unmigrated(t *testing.T) string {
	return pgtest.Database(t, func(context.Context, string) error { return nil })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve opens the installation and serves it until the returned function, which
// is called once, or the test's end.
func serve(t *testing.T, c app.Config) (*app.App, func() error) {
	t.Helper()
	a, err := app.Open(context.Background(), c)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- errors.Join(a.Serve(ctx), a.Close()) }()
	stopped := false
	stop := func() error {
		stopped = true
		cancel()
		return <-served
	}
	t.Cleanup(func() {
		if !stopped {
			must(t, stop())
		}
	})
	return a, stop
}

func signedIn(t *testing.T, origin, dir string) *client.Owner {
	t.Helper()
	secret, err := keys.ReadSecret(filepath.Join(dir, "owner.secret"))
	must(t, err)
	owner := &client.Owner{Origin: origin, HTTP: client.New()}
	_, err = owner.SignIn(context.Background(), secret)
	must(t, err)
	return owner
}

var localRun = map[string]string{"service": "merchant", "target": "local", "channel": "http", "mode": "bounded", "budgetCents": "13700", "instruction": "Buy one keyboard."}

// engines runs a test on SQLite and on PostgreSQL.
func engines(t *testing.T, f func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { f(t, "") })
	t.Run("postgres", func(t *testing.T) { f(t, unmigrated(t)) })
}

// An installation is initialized once, serves, stops cleanly, and knows its runs
// after the next start, on another port too.
func TestServe(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
		must(t, app.Init(ctx, dir, url))
		if err := app.Init(ctx, dir, url); !errors.Is(err, keys.ErrExists) {
			t.Fatalf("a second init: %v, want ErrExists", err)
		}
		a, stop := serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url})
		for _, path := range []string{"/healthz", "/readyz"} {
			resp, err := http.Get(a.Origin() + path)
			must(t, err)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %d, want 200", path, resp.StatusCode)
			}
		}
		owner := signedIn(t, a.Origin(), dir)
		id, _, err := owner.CreateRun(ctx, localRun)
		must(t, err)
		session, _, err := owner.IssueToken(ctx, id)
		must(t, err)
		agent := client.Consumer{Origin: session.Origin, Token: session.Token, HTTP: client.New()}
		if r, err := agent.Get(ctx, "/api/v1/observation"); err != nil || r.Status != http.StatusOK {
			t.Errorf("observe: %d %s, %v", r.Status, r.Reason, err)
		}
		hosted := map[string]string{}
		for name, value := range localRun {
			hosted[name] = value
		}
		hosted["target"] = "hosted"
		if _, r, err := owner.CreateRun(ctx, hosted); err == nil || r.Status != http.StatusServiceUnavailable || r.Reason != "HOSTED_UNREACHABLE" {
			t.Errorf("a hosted run without a store: %d %s, want 503 HOSTED_UNREACHABLE", r.Status, r.Reason)
		}
		must(t, stop())

		a, _ = serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url})
		if r, err := signedIn(t, a.Origin(), dir).Export(ctx, id); err != nil || r.Status != http.StatusOK {
			t.Errorf("the run after a restart: %d %s, %v", r.Status, r.Reason, err)
		}
	})
}

// Two replicas share a database and one copy of the folder; other keys do not get
// in.
func TestReplicas(t *testing.T) {
	ctx, url := context.Background(), unmigrated(t)
	dir, other := filepath.Join(t.TempDir(), "D"), filepath.Join(t.TempDir(), "E")
	must(t, app.Init(ctx, dir, url))
	a, _ := serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url})
	b, _ := serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url})
	id, _, err := signedIn(t, a.Origin(), dir).CreateRun(ctx, localRun)
	must(t, err)
	if r, err := signedIn(t, b.Origin(), dir).Export(ctx, id); err != nil || r.Status != http.StatusOK {
		t.Errorf("the run at the other replica: %d %s, %v", r.Status, r.Reason, err)
	}
	must(t, keys.Init(other))
	if a, err := app.Open(ctx, app.Config{Dir: other, Addr: "localhost:0", Database: url}); err == nil || !strings.Contains(err.Error(), "key is not the one") {
		if a != nil {
			a.Close()
		}
		t.Errorf("keys of another installation: %v, want a refusal", err)
	}
	// Negative control: nothing else keeps them out. Their owner exports the run.
	c, _ := serve(t, app.WithAnyKeys(app.Config{Dir: other, Addr: "localhost:0", Database: url}))
	if r, err := signedIn(t, c.Origin(), other).Export(ctx, id); err != nil || r.Status != http.StatusOK {
		t.Errorf("control: the run under other keys: %d %s, %v", r.Status, r.Reason, err)
	}
}

// unrecorded takes the record of its migrations from a ledger; back returns it.
func unrecorded(t *testing.T, dir, url string) (back func()) {
	t.Helper()
	engine, name := "pgx", url
	if url == "" {
		engine, name = "sqlite", filepath.Join(dir, "countersign.db")
	}
	do := func(statements ...string) {
		t.Helper()
		db, err := sql.Open(engine, name)
		must(t, err)
		defer db.Close()
		for _, s := range statements {
			_, err = db.Exec(s)
			must(t, err)
		}
	}
	do(`CREATE TABLE kept AS SELECT * FROM migrations`, `DELETE FROM migrations`)
	return func() { do(`INSERT INTO migrations SELECT * FROM kept`, `DROP TABLE kept`) }
}

// A ledger that does not say that every migration was applied is not served.
func TestRecordOfMigrations(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
		must(t, app.Init(ctx, dir, url))
		c := app.Config{Dir: dir, Addr: "localhost:0", Database: url}
		back := unrecorded(t, dir, url)
		if a, err := app.Open(ctx, c); !errors.Is(err, ledger.ErrPending) || !strings.Contains(err.Error(), "countersign migrate") {
			t.Errorf("without the record: %v, %v, want ErrPending, naming the command", a, err)
		}
		// Negative control: the same ledger is served when its record says so. It is the
		// record that refuses it and nothing that the tables lack.
		back()
		a, err := app.Open(ctx, c)
		must(t, err)
		must(t, a.Close())
	})
}

// Pending migrations are refused until an operator applies them.
func TestPendingMigrations(t *testing.T) {
	pending := func(t *testing.T, dir, url string, want error) {
		t.Helper()
		ctx := context.Background()
		c := app.Config{Dir: dir, Addr: "localhost:0", Database: url}
		if _, err := app.Open(ctx, c); !errors.Is(err, want) || !strings.Contains(err.Error(), "countersign migrate") {
			t.Fatalf("%v, want %v, naming the command", err, want)
		}
		_, err := app.Migrate(ctx, dir, url)
		must(t, err)
		a, err := app.Open(ctx, c)
		must(t, err)
		must(t, a.Close())
	}
	t.Run("sqlite", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "D")
		must(t, keys.Init(dir))
		// A file of a program that knew no migration yet.
		db, err := sql.Open("sqlite", filepath.Join(dir, "countersign.db"))
		must(t, err)
		_, err = db.Exec(`CREATE TABLE migrations (number INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied INTEGER NOT NULL) STRICT`)
		must(t, err)
		must(t, db.Close())
		pending(t, dir, "", sqlite.ErrPending)
	})
}

func TestOpenRefuses(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
	must(t, app.Init(ctx, dir, ""))
	for _, c := range []struct {
		name string
		app.Config
		want string
	}{
		{"every address", app.Config{Addr: "0.0.0.0:0"}, "https"},
		{"every address by default", app.Config{Addr: ":0"}, "https"},
		{"every address of IPv6", app.Config{Addr: "[::]:0"}, "https"},
		{"every address for a http origin", app.Config{Addr: "0.0.0.0:0", Origin: "http://example.com"}, "https"},
		{"no port", app.Config{Addr: "localhost"}, "HOST:PORT"},
		{"an origin with a path", app.Config{Addr: "localhost:0", Origin: "http://localhost/x"}, "without a path"},
		{"an origin in capitals", app.Config{Addr: "localhost:0", Origin: "http://Localhost"}, "lower case"},
		{"the default port spelled out", app.Config{Addr: "localhost:0", Origin: "https://localhost:443"}, "origin"},
		{"half a certificate", app.Config{Addr: "localhost:0", TLSCert: "x"}, "belong together"},
		{"a store under the same host name", app.Config{Addr: "localhost:0", Store: &gateway.Store{Origin: "http://localhost:1"}}, "different host names"},
		{"a store without an origin", app.Config{Addr: "localhost:0", Store: &gateway.Store{Origin: "127.0.0.1"}}, "--store-origin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.Dir = dir
			a, err := app.Open(ctx, c.Config)
			if err == nil {
				a.Close()
				t.Fatal("opened")
			}
			if _, ok := errors.AsType[*app.ConfigError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want a configuration error with %q", err, c.want)
			}
		})
	}
	// A refusal leaves nothing open: the folder can be served afterwards.
	a, err := app.Open(ctx, app.Config{Dir: dir, Addr: "0.0.0.0:0", Origin: "https://example.com"})
	must(t, err)
	if a.Origin() != "https://example.com" {
		t.Errorf("origin %s", a.Origin())
	}
	if _, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:0"}); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("a second server on the folder: %v, want ErrLocked", err)
	}
	must(t, a.Close())
}

// A port that is taken, an absent folder and a lost ledger are not there.
func TestOpenMisses(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
	if _, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:0"}); !errors.Is(err, keys.ErrNotInitialized) {
		t.Errorf("no folder: %v", err)
	}
	must(t, app.Init(ctx, dir, ""))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	if _, err := app.Open(ctx, app.Config{Dir: dir, Addr: taken.Addr().String()}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a taken port: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, "countersign.db")))
	if _, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:0"}); err == nil || !strings.Contains(err.Error(), "countersign.db") {
		t.Errorf("no ledger: %v", err)
	}
}

// Requests that run when the server is told to stop are answered, streams end.
func TestStop(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
	must(t, app.Init(ctx, dir, ""))
	a, stop := serve(t, app.Config{Dir: dir, Addr: "localhost:0"})
	secret, err := keys.ReadSecret(filepath.Join(dir, "owner.secret"))
	must(t, err)
	owner := client.Owner{Origin: a.Origin(), HTTP: client.New()}
	r, err := owner.SignIn(ctx, secret)
	must(t, err)
	id, _, err := owner.CreateRun(ctx, localRun)
	must(t, err)
	request, err := http.NewRequest("GET", a.Origin()+"/api/v1/owner/runs/"+id+"/events", nil)
	must(t, err)
	request.AddCookie(r.Cookies[0])
	stream, err := client.New().Do(request)
	must(t, err)
	defer stream.Body.Close()
	start := time.Now()
	must(t, stop())
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("stopping took %s, at most 10 s are allowed", took)
	}
	if b, err := io.ReadAll(stream.Body); err != nil || !strings.Contains(string(b), "event: run.created") {
		t.Errorf("the stream: %q, %v", b, err)
	}
}

// The clock is the configuration's: a token ends with its grant when it is moved.
func TestClock(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
		must(t, app.Init(ctx, dir, url))
		clock := new(ledger.Clock)
		a, _ := serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url, Clock: clock})
		owner := signedIn(t, a.Origin(), dir)
		id, _, err := owner.CreateRun(ctx, localRun)
		must(t, err)
		session, _, err := owner.IssueToken(ctx, id)
		must(t, err)
		agent := client.Consumer{Origin: session.Origin, Token: session.Token, HTTP: client.New()}
		for _, c := range []struct {
			move time.Duration
			want int
		}{{0, http.StatusOK}, {time.Hour, http.StatusUnauthorized}} {
			clock.Move(c.move)
			if r, err := agent.Get(ctx, "/api/v1/capabilities"); err != nil || r.Status != c.want {
				t.Errorf("after %s: %d, %v, want %d", c.move, r.Status, err, c.want)
			}
		}
	})
}
