package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"countersign/internal/ledger"
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
	DiskFull: ledgertest.Refusal{Error: "database or disk is full", Begin: fillDisk},
	IOError:  ledgertest.Refusal{Error: "disk I/O error", Begin: breakDisk},
	Rows:     rows,
}

// mended says that a refusal ends with the writer's connection.
func mended() error { return nil }

// fillDisk lets the writer's connection use no more pages than there are.
func fillDisk(_ context.Context, e ledgertest.Engine, _ string, _ ledger.Key) (mend func() error, err error) {
	_, _, err = e.(*Ledger).writer.tx.number("", `PRAGMA max_page_count = 1`)
	return mended, err
}

// breakDisk puts descriptors that cannot write in the place of those of the WAL,
// so that the kernel refuses every write to it. No connection works meanwhile.
func breakDisk(_ context.Context, _ ledgertest.Engine, path string, _ ledger.Key) (mend func() error, err error) {
	file, err := os.Open(path + "-wal")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var wal, other syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &wal); err != nil {
		return nil, err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, err
	}
	for fd := range int(min(limit.Cur, 1<<16)) {
		if fd == int(file.Fd()) || syscall.Fstat(fd, &other) != nil || other.Dev != wal.Dev || other.Ino != wal.Ino {
			continue
		}
		if err := dup2(int(file.Fd()), fd); err != nil {
			return nil, err
		}
	}
	return mended, nil
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
