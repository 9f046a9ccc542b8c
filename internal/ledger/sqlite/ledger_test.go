package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"countersign/internal/ledger/ledgertest"
)

var backend = ledgertest.Backend{
	Name:       "sqlite",
	Points:     Points,
	Durable:    DurablePoints,
	Migrations: MigrationNames(),
	Replicas:   1,
	Writers:    1,
	Create: func(t testing.TB) string {
		path := filepath.Join(t.TempDir(), "countersign.db")
		if err := Create(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		return path
	},
	Open: func(ctx context.Context, path string, o ledgertest.Options) (ledgertest.Engine, error) {
		l, err := Open(ctx, path, Options(o))
		if err != nil {
			return nil, err
		}
		return l, nil
	},
	Rows: rows,
}

func rows(t testing.TB, path string) map[string]int64 {
	db, err := sql.Open("sqlite", readerDSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	counts := make(map[string]int64)
	for _, table := range []string{"subjects", "attributes", "events", "idempotency", "spent_permits", "credentials", "texts", "blobs", "sealed", "fingerprints", "probe"} {
		var n int64
		if err := db.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		counts[table] = n
	}
	return counts
}

func TestMain(m *testing.M) { ledgertest.Main(m, backend) }

func TestLedger(t *testing.T) { ledgertest.Run(t, backend) }
