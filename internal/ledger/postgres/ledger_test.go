package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"countersign/internal/ledger"
	"countersign/internal/ledger/ledgertest"
	"countersign/internal/pgtest"
)

var backend = ledgertest.Backend{
	Name:       "postgres",
	Points:     Points,
	Durable:    DurablePoints,
	Migrations: MigrationNames(),
	Replicas:   3,
	Writers:    directWriters,
	Create:     func(t testing.TB) string { return pgtest.Database(t, Migrate) },
	Open: func(ctx context.Context, url string, o ledgertest.Options) (ledgertest.Engine, error) {
		l, err := Open(ctx, url, Options{Clock: o.Clock, BatchLimit: o.BatchLimit, QueueSize: o.QueueSize, Fault: o.Fault, AfterCommit: o.AfterCommit})
		if err != nil {
			return nil, err
		}
		return l, nil
	},
	DiskFull: refusal("53100"), // disk_full
	IOError:  refusal("58030"), // io_error
	Divides:  true,
	Moments:  moments,
	Gone:     gone,
	Rows:     rows,
}

// refusal is an error that the server raises while it writes the large value.
func refusal(sqlstate string) ledgertest.Refusal {
	begin := func(ctx context.Context, _ ledgertest.Engine, url string, subject ledger.Key) (mend func() error, err error) {
		mend = func() error { return execute(ctx, url, `DROP FUNCTION refuse CASCADE`) }
		return mend, execute(ctx, url, fmt.Sprintf(`
			CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN RAISE SQLSTATE '%s' USING MESSAGE = 'the storage refuses'; END $$;
			CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON sealed FOR EACH ROW
			WHEN (NEW.subject = '%s' AND octet_length(NEW.bytes) >= 60000) EXECUTE FUNCTION refuse()`, sqlstate, subject.ID))
	}
	return ledgertest.Refusal{Error: sqlstate, Begin: begin}
}

// execute runs statements in a session of their own.
func execute(ctx context.Context, url, sql string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// gone returns when the database has no session of the ledger's.
func gone(t testing.TB, url string) {
	t.Helper()
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for left := 1; left > 0; {
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'countersign'`).Scan(&left); err != nil {
			t.Fatalf("sessions of a killed process, %d at last: %v", left, err)
		}
	}
}

func rows(t testing.TB, url string) map[string]int64 {
	conn := connect(t, url)
	counts := make(map[string]int64)
	for _, table := range []string{"subjects", "attributes", "events", "idempotency", "spent_permits", "credentials", "texts", "blobs", "sealed", "fingerprints", "probe"} {
		var n int64
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		counts[table] = n
	}
	return counts
}

// connect opens a session behind the engine's back.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// tests ends the server that the tests of this package share.
type tests struct{ m *testing.M }

func (t tests) Run() int { return pgtest.Main(t.m) }

func TestMain(m *testing.M) { ledgertest.Main(tests{m}, backend) }

func TestLedger(t *testing.T) { ledgertest.Run(t, backend) }
