package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Env names the variable that lends an existing server.
const Env = "COUNTERSIGN_TEST_POSTGRES"

// template is the migrated database that the others are copies of.
const template = "countersign_template"

// shared is the one server of a test process.
var shared struct {
	sync.Mutex
	server *Server
}

// Main runs the tests of a package and then ends the shared server. It returns
// the exit status.
func Main(m *testing.M) int {
	status := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return status
	}
	if err := shared.server.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// Database returns the URL of a fresh database on the shared server, made by
// migrate. All tests of a package use the same migrate: it runs once, on a
// template. The test fails when there is no server.
func Database(tb testing.TB, migrate func(ctx context.Context, url string) error) string {
	tb.Helper()
	return onShared(tb, func(s *Server) (string, error) { return s.database(tb.Context(), migrate) })
}

// Empty returns the URL of a fresh database without a schema.
func Empty(tb testing.TB) string {
	tb.Helper()
	return onShared(tb, func(s *Server) (string, error) { return s.copy(tb.Context(), "template0") })
}

// onShared makes a database on the shared server, which starts at its first use.
func onShared(tb testing.TB, create func(*Server) (string, error)) string {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s, err := open()
		if err != nil {
			tb.Fatal(err)
		}
		shared.server = s
	}
	u, err := create(shared.server)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// Database returns the URL of a fresh database on this server, made by migrate.
func (s *Server) Database(tb testing.TB, migrate func(ctx context.Context, url string) error) string {
	tb.Helper()
	u, err := s.database(tb.Context(), migrate)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// open borrows the server of the environment or starts one.
func open() (*Server, error) {
	lent := os.Getenv(Env)
	if lent == "" {
		return Start()
	}
	u, err := url.Parse(lent)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("pgtest: %s is not a postgres:// URL", Env)
	}
	return &Server{url: lent}, nil
}

// name makes the database names of processes that share a lent server differ.
func (s *Server) name(suffix string) string {
	if s.url == "" {
		return template + suffix
	}
	return template + "_" + strconv.Itoa(os.Getpid()) + suffix
}

func (s *Server) database(ctx context.Context, migrate func(context.Context, string) error) (string, error) {
	if !s.ready {
		if err := s.admin(ctx, "CREATE DATABASE "+s.name("")+" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"); err != nil {
			return "", err
		}
		if err := migrate(ctx, s.URL(s.name(""))); err != nil {
			return "", err
		}
		s.ready = true
	}
	return s.copy(ctx, s.name(""))
}

// copy makes a database from a template.
func (s *Server) copy(ctx context.Context, template string) (string, error) {
	s.number++
	name := s.name("_" + strconv.Itoa(s.number))
	if err := s.admin(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		return "", err
	}
	return s.URL(name), nil
}

// admin runs a statement outside the databases under test.
func (s *Server) admin(ctx context.Context, sql string) (err error) {
	u := s.url
	if u == "" {
		u = s.URL("postgres")
	}
	conn, err := pgx.Connect(ctx, u)
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.Background())) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("pgtest: %s: %w", sql, err)
	}
	return nil
}

// close ends a private server, or drops what was made on a lent one.
func (s *Server) close() error {
	if s.url == "" {
		return s.Stop()
	}
	var errs []error
	for n := range s.number {
		errs = append(errs, s.admin(context.Background(), "DROP DATABASE IF EXISTS "+s.name("_"+strconv.Itoa(n+1))+" WITH (FORCE)"))
	}
	errs = append(errs, s.admin(context.Background(), "DROP DATABASE IF EXISTS "+s.name("")+" WITH (FORCE)"))
	return errors.Join(errs...)
}
