package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"countersign/internal/pgtest"
)

// What operate.md shows for a backup is taken while runs go on, and what it shows to
// restore ends with every run of the backup verified by a head that was kept before. A
// head from after the backup shows what the restored ledger lacks.
func TestShownBackup(t *testing.T) {
	blocks := shownBlocks(t, "Backup and restore")
	if len(blocks) != 5 {
		t.Fatalf("%d blocks", len(blocks))
	}
	t.Run("sqlite", func(t *testing.T) {
		backedUp(t, pastedShell(t), blocks[0], blocks[1], blocks[4])
	})
	t.Run("postgres", func(t *testing.T) {
		server, err := pgtest.Start()
		must(t, err)
		t.Cleanup(func() { must(t, server.Stop()) })
		empty := func() string {
			return "'" + server.Database(t, func(context.Context, string) error { return nil }) + "'"
		}
		first := empty()
		backedUp(t, pastedShell(t,
			"init --dir control", "init --dir control --database "+first,
			"serve --dir control", "serve --dir control --database "+first,
			"postgres://countersign@db/countersign", first, "postgres://countersign@db/restored", empty(),
			"pg_dump ", server.Bin("pg_dump")+" ", "pg_restore ", server.Bin("pg_restore")+" ",
		), blocks[2], blocks[3], blocks[4])
	})
}

func backedUp(t *testing.T, paste func(string) (string, error), backup, restore, check string) {
	t.Helper()
	out, err := paste(strings.Join([]string{
		shownBlocks(t, "Start an installation")[0], `SERVE=$!`,
		shownBlocks(t, "Create a run and hand it to an agent")[0],
		`LATE=$(./countersign run create --dir control --body run.json)`,
		`( while [ ! -e stop ]; do
			ID=$(./countersign run create --dir control --body run.json) && ./countersign run token $ID --dir control > live && ./countersign agent --token-file live > /dev/null || exit 1
		done ) & LIVE=$!`,
		`events() { ./countersign run list --dir control --limit 10000 --json | jq -s 'map(.timeline | length) | add'; }`,
		`more() { N=$(events); until [ $(events) -gt $N ]; do kill -0 $LIVE || exit 1; done; }`,
		`more`,
		backup,
		`more`, `echo they went on meanwhile`,
		`./countersign run token $LATE --dir control > late`,
		`HEAD=$(./countersign run export $LATE --dir control --out late.json)`,
		`touch stop; wait $LIVE; kill $SERVE; wait $SERVE; mv control lost`,
		restore, `SERVE=$!`,
		check, `echo the last verify ends with $?`,
		`echo $(wc -l < heads) heads, $(ls evidence | wc -l) exports, $(./countersign run list --dir restored --json | jq -s 'map(select(.status == "revoked")) | length > 0')`,
		`./countersign verify evidence/$LATE.json --key backup/keys/evidence.pub --head $HEAD; echo a newer head ends with $?`,
		`./countersign verify evidence/$LATE.json late.json --key backup/keys/evidence.pub | grep FORK`,
		`kill $SERVE; wait $SERVE`,
	}, "\n"))
	if err != nil {
		t.Errorf("the session ends with %v", err)
	}
	_, result, found := strings.Cut(out, "they went on meanwhile\n")
	if !found {
		t.Fatalf("nothing went on while the backup was taken\n%s", out)
	}
	verified, _, _ := strings.Cut(result, "the last verify ends with 0\n")
	holds := strings.Count(verified, "VERIFIED  every check holds")
	_, counts, _ := strings.Cut(result, "the last verify ends with 0\n")
	counts, _, _ = strings.Cut(counts, "\n")
	var heads, exports int
	var revoked bool
	if n, err := fmt.Sscanf(counts, "%d heads, %d exports, %t", &heads, &exports, &revoked); n != 3 || heads < 3 || exports != heads || holds != heads || !revoked {
		t.Errorf("%d of %q verify (%v)\n%s", holds, counts, err, out)
	}
	for _, want := range []string{"known head           FAILED", "a newer head ends with 1\n", "FORK  two histories"} {
		if !strings.Contains(result, want) {
			t.Errorf("want %q in\n%s", want, result)
		}
	}
}

// What operate.md shows to rotate keys lets new runs buy at a store that trusts the
// control plane's list; what is exported from then on verifies with the new list, of old
// runs too.
func TestShownRotation(t *testing.T) {
	rotate := shownBlocks(t, "Rotate a key")
	if len(rotate) != 1 {
		t.Fatalf("%d blocks", len(rotate))
	}
	start, run := shownBlocks(t, "Start an installation")[0], shownBlocks(t, "Create a run and hand it to an agent")
	_, serve, _ := strings.Cut(start, "./countersign serve")
	out, err := pastedShell(t)(strings.Join([]string{
		start, `SERVE=$!`, run[0], run[1], `BEFORE=$RUN; mv evidence.json before.json`, `cp control/keys/evidence.pub former.pub`,
		`kill $SERVE; wait $SERVE`, rotate[0], "./countersign serve" + serve, run[0], run[1],
		`./countersign verify before.json --key control/keys/evidence.pub > /dev/null; echo before: $?`,
		`./countersign run export $BEFORE --dir control --out again.json; ./countersign verify again.json --key control/keys/evidence.pub; echo again: $?`,
		`./countersign verify evidence.json --key control/keys/evidence.pub --store-key shop/keys/receipt.pub; echo behind: $?`,
		`./countersign verify evidence.json --key former.pub > /dev/null; echo former: $?`,
	}, "\n"))
	if err != nil {
		t.Errorf("the session ends with %v", err)
	}
	// The newest key of the list signs an export; one from before is made anew.
	for _, want := range []string{"The evidence key is", "The dispatch key is", "before: 1\n", "again: 0\n", "behind: 0\n", "former: 1\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}
