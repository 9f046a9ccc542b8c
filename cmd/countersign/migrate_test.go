package main

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"countersign/internal/pgtest"
)

// A ledger of an older program is refused by serve, which names the command that
// brings it up to date; that says what it applied, and one of a newer program is left
// as it is.
func TestMigrateOlderLedger(t *testing.T) {
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop()) })
	for _, engine := range []string{"sqlite", "pgx"} {
		t.Run(engine, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("COUNTERSIGN_DATABASE", "")
			place, flags := "D/countersign.db", []string(nil)
			if engine == "pgx" {
				place = server.Database(t, func(context.Context, string) error { return nil })
				flags = []string{"--database", place}
			}
			with := func(args ...string) []string { return append(args, flags...) }
			says(t, program(t, with("init", "--dir", "D")...), statusDone)
			edit := func(statements ...string) {
				t.Helper()
				db, err := sql.Open(engine, place)
				must(t, err)
				defer db.Close()
				for _, s := range statements {
					_, err := db.Exec(s)
					must(t, err)
				}
			}
			edit(`DROP TABLE former_keys`, `DELETE FROM migrations WHERE number = 2`)
			advice := "`countersign migrate --dir D`"
			if engine == "pgx" {
				advice = "`countersign migrate --dir D --database " + place + "`"
			}
			says(t, program(t, with("serve", "--dir", "D", "--addr", "localhost:0")...), statusNotReady, "pending migrations", advice)
			says(t, program(t, with("key", "rotate", "--dir", "D")...), statusNotReady, advice)
			says(t, program(t, with("migrate", "--dir", "D")...), statusDone, "applied 0002_former_keys\nThe ledger is up to date.\n")
			says(t, program(t, with("migrate", "--dir", "D")...), statusDone, "nothing to apply\n")
			edit(`INSERT INTO migrations (number, name, checksum, applied) VALUES (99, '0099_later', 'x', 0)`)
			says(t, program(t, with("migrate", "--dir", "D")...), statusNotReady, "migrated by a newer program; use that one: 0099_later")
			says(t, program(t, with("serve", "--dir", "D", "--addr", "localhost:0")...), statusNotReady, "newer program")
		})
	}
}
