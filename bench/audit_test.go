package main

import (
	"context"
	"database/sql"
	"testing"

	"countersign/internal/ledger/sqlite"
)

// TestAudit: an honest ledger has no problems; a cycle that was acknowledged and is
// not there is one, whether its permit or its run is missing.
func TestAudit(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()+"/control"
	must(t, initFolder(ctx, dir, ""))
	acks := cycles(t, ctx, dir, 3)
	for _, c := range []struct {
		name string
		acks []acknowledged
		want bool
	}{
		{"all there", acks, true},
		{"nothing acknowledged", nil, false},
		{"a permit too many", append(acks[:3:3], acknowledged{acks[0].runID, bareID()}), false},
		{"a run too many", append(acks[:3:3], acknowledged{bareID(), acks[0].permitID}), false},
	} {
		found, err := audit(ctx, dir, "", c.acks)
		must(t, err)
		if ok := len(found.problems) == 0; ok != c.want {
			t.Errorf("%s: problems %q", c.name, found.problems)
		}
	}
}

func cycles(t *testing.T, ctx context.Context, dir string, n int) (acks []acknowledged) {
	t.Helper()
	l, err := openLedger(ctx, dir, "", sqlite.Options{})
	must(t, err)
	defer l.Close()
	p, err := openPlane(dir, l)
	must(t, err)
	id, err := p.newRun(ctx)
	must(t, err)
	for range n {
		permit, err := p.cycle(ctx, id, cycled)
		must(t, err)
		acks = append(acks, acknowledged{id, permit})
	}
	return acks
}

// TestAuditFindsDamage: a changed event and a lost one are both seen.
func TestAuditFindsDamage(t *testing.T) {
	for _, damage := range []string{
		`UPDATE events SET data = CAST(replace(CAST(data AS TEXT), '"verified"', '"Verified"') AS BLOB) WHERE type = 'execution.verified';
		 UPDATE events SET signature = replace(signature, substr(signature, 1, 4), 'AAAA') WHERE sequence = 5`,
		`DELETE FROM events WHERE type = 'execution.verified'`,
	} {
		ctx, dir := t.Context(), t.TempDir()+"/control"
		must(t, initFolder(ctx, dir, ""))
		acks := cycles(t, ctx, dir, 2)
		db, err := sql.Open("sqlite", "file:"+ledgerFile(dir))
		must(t, err)
		_, err = db.ExecContext(ctx, damage)
		must(t, err)
		must(t, db.Close())
		found, err := audit(ctx, dir, "", acks)
		must(t, err)
		if len(found.problems) == 0 {
			t.Errorf("not found: %s", damage)
		}
	}
}

// TestVerdict: a number counts with three pairs and no problem, and an aim that is
// reached exactly is met.
func TestVerdict(t *testing.T) {
	three := []float64{3, 1, 2}
	for _, c := range []struct {
		line line
		want string
	}{
		{line{pairs: three, aim: atLeast(2)}, "met"},
		{line{pairs: three, aim: atLeast(2.1)}, "MISSED"},
		{line{pairs: three, aim: atMost(2)}, "met"},
		{line{pairs: three, aim: atMost(1.9)}, "MISSED"},
		{line{pairs: three, aim: atLeast(2), problems: []string{"lost"}}, "does not count"},
		{line{pairs: three[:2], aim: atLeast(1)}, "does not count: 2 of 3 pairs"},
		{line{missing: "nothing"}, "not built"},
	} {
		if got := c.line.verdict(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.line, got, c.want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
