package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"countersign/internal/pgtest"
)

// boundary is what G-17 wants of the twelve boundary cases: the code, and the hard check
// of G-09 that refuses. Malformed reports are 400 and leave no check behind.
var boundary = map[string]struct {
	code  string
	check int64
}{
	"B01": {"MALFORMED_PROPOSAL", 0}, "B02": {"MALFORMED_PROPOSAL", 0}, "B03": {"INVALID_SELECTION", 2}, "B04": {"INVALID_SELECTION", 2},
	"B05": {"MALFORMED_PROPOSAL", 0}, "B06": {"MALFORMED_PROPOSAL", 0}, "B07": {"MISSING_EVIDENCE", 3}, "B08": {"STALE_STATE", 4},
	"B09": {"STALE_TARGET", 5}, "B10": {"ARGUMENT_MISMATCH", 8}, "B11": {"EFFECT_MISMATCH", 9}, "B12": {"BUDGET_EXCEEDED", 11},
}

// shapes are the forms of an attack that the contract names beside each other.
var attackShapes = map[string]int{"B04": 2, "B05": 2, "B06": 3, "B08": 2}

// attackLine is a line of attack --json.
type attackLine struct {
	AttackID, Service, Target, DecidedBy, Outcome, Label string
	Problem                                              *string
	Got                                                  struct {
		Status     int
		Decision   *string
		ReasonCode string
	}
	FailedCheck      *struct{ Check int64 }
	Permits, Effects *int64
	TwinPassed       bool
	Blocked          bool
	EvidenceVerified bool
	RunIDs           []string
	Shapes           []struct{ TwinPassed, Blocked bool }
}

// suite runs attack --all and returns the lines of its report and the last one.
func suite(t *testing.T, engine string, args ...string) (lines []attackLine, last string) {
	t.Helper()
	scratch := t.TempDir()
	cmd := program(t, append([]string{"attack", "--all", "--json"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &problems)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v behind (%v)", left, err)
	}
	all := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	var head struct{ Build, Revision, Engine, StartedAt, CatalogDigest, Label string }
	must(t, json.Unmarshal([]byte(all[0]), &head))
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", head.StartedAt); err != nil || head.Build == "" || head.Revision == "" || head.Engine != engine || len(head.CatalogDigest) != 64 ||
		head.Label != "replay (authored); not a live-model safety measurement" {
		t.Errorf("%+v: %v", head, err)
	}
	for _, line := range all[1 : len(all)-1] {
		var l attackLine
		must(t, json.Unmarshal([]byte(line), &l))
		lines = append(lines, l)
	}
	if words := fmt.Sprintf("\n%d of %d blocked, 0 permits, 0 effects\n", len(lines), len(lines)); !strings.HasSuffix(problems.String(), words) {
		t.Errorf("want %q in %s", words, &problems)
	}
	return lines, all[len(all)-1]
}

// blockedLine holds a line against what every line of a suite has to say.
func blockedLine(t *testing.T, l attackLine) {
	t.Helper()
	held := l.Blocked && l.Outcome == "blocked" && l.TwinPassed && l.Permits != nil && *l.Permits == 0 && l.Effects != nil && *l.Effects == 0 && l.Problem == nil && len(l.RunIDs) > 0 && l.EvidenceVerified
	for _, s := range l.Shapes {
		held = held && s.Blocked && s.TwinPassed
	}
	if !held || l.Label != "replay (authored); not a live-model safety measurement" || !slices.Contains([]string{"hard_policy", "runtime", "replay (authored)"}, l.DecidedBy) || (l.Target == "hosted") != (l.AttackID == "H01") {
		t.Errorf("%+v", l)
	}
	want, isBoundary := boundary[l.AttackID]
	if !isBoundary {
		return
	}
	check, status, decision := int64(0), 200, "PAUSE"
	if l.FailedCheck != nil {
		check = l.FailedCheck.Check
	}
	if want.check == 0 {
		status, decision = 400, ""
	}
	got := ""
	if l.Got.Decision != nil {
		got = *l.Got.Decision
	}
	if l.Got.Status != status || got != decision || (l.Got.Decision == nil) != (decision == "") || l.Got.ReasonCode != want.code || check != want.check || l.DecidedBy != "hard_policy" || len(l.Shapes) < max(1, attackShapes[l.AttackID]) {
		t.Errorf("%s on %s: %+v %s, check %d, %d shapes", l.AttackID, l.Service, l.Got, got, check, len(l.Shapes))
	}
}

// The whole suite as a person starts it: 36 lines of boundary cases, 13 others and the
// hosted one, each blocked with the code of the contract, after its twin, without a permit
// and without an effect; a sum, status 0, and nothing left behind but what was asked for:
// the report, and evidence of every run that verifies offline with the keys beside it.
// H-168 H-169
func TestAttackAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	lines, last := suite(t, "sqlite", "--out", dir)
	if last != `{"total":50,"blocked":50,"permits":0,"effects":0}` {
		t.Errorf("sum %s", last)
	}
	count := map[string]int{}
	for _, l := range lines {
		count[l.AttackID+" "+l.Service]++
		count[l.AttackID]++
		blockedLine(t, l)
	}
	for id := range boundary {
		for _, service := range []string{"merchant", "bank", "broker"} {
			if count[id+" "+service] != 1 {
				t.Errorf("%s on %s: %d lines", id, service, count[id+" "+service])
			}
		}
	}
	for i := 1; i <= 13; i++ {
		if id := fmt.Sprintf("A%02d", i); count[id] != 1 {
			t.Errorf("%s: %d lines", id, count[id])
		}
	}
	if len(lines) != 36+13+1 || count["H01 merchant"] != 1 {
		t.Errorf("%d lines, %d of H01", len(lines), count["H01 merchant"])
	}
	keptEvidence(t, dir, lines, last)
}

// keptEvidence checks the folder of --out as an auditor would.
func keptEvidence(t *testing.T, dir string, lines []attackLine, last string) {
	t.Helper()
	report, err := os.ReadFile(filepath.Join(dir, "report.jsonl"))
	must(t, err)
	if n := bytes.Count(report, []byte("\n")); n != 1+len(lines)+1 || !bytes.HasSuffix(report, []byte("\n"+last+"\n")) || !bytes.HasPrefix(report, []byte(`{"build":`)) {
		t.Errorf("the report has %d lines and ends with %s", n, report[max(0, len(report)-100):])
	}
	verify := func(name, key string) *verifyCommand {
		return &verifyCommand{Files: []string{filepath.Join(dir, name)}, Keys: []string{key}, StoreKey: filepath.Join(dir, "receipt.pub")}
	}
	key := filepath.Join(dir, "evidence.pub")
	expected, some := []string{"evidence.pub", "receipt.pub", "report.jsonl"}, ""
	for _, l := range lines {
		for _, id := range l.RunIDs {
			some = fmt.Sprintf("%s-%s-%s.json", l.AttackID, l.Service, id)
			expected = append(expected, some)
			if err := verify(some, key).Run(streams{Out: io.Discard, Err: io.Discard}); err != nil {
				t.Errorf("%s: %v", some, err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	if slices.Sort(expected); !slices.Equal(found, expected) {
		t.Errorf("the folder holds %v, want %v", found, expected)
	}
	says(t, program(t, "verify", filepath.Join(dir, some), "--key", key, "--store-key", filepath.Join(dir, "receipt.pub")), statusDone)
	// Control: with another installation's key nothing of it verifies.
	other := filepath.Join(t.TempDir(), "other")
	says(t, program(t, "init", "--dir", other), statusDone)
	if err := verify(some, filepath.Join(other, "keys", "evidence.pub")).Run(streams{Out: io.Discard, Err: io.Discard}); !errors.Is(err, errDiffers) {
		t.Errorf("with another key: %v", err)
	}
}

// The suite on PostgreSQL, of the service whose attacks are of all kinds. What differs
// between the engines does not differ between the services.
func TestAttackOnPostgres(t *testing.T) {
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop()) })
	lines, last := suite(t, "postgres", "--service", "bank", "--database", server.Database(t, func(context.Context, string) error { return nil }))
	if last != `{"total":17,"blocked":17,"permits":0,"effects":0}` || len(lines) != 12+5 {
		t.Errorf("%d lines, sum %s", len(lines), last)
	}
	for _, l := range lines {
		blockedLine(t, l)
	}
}

// One attack for a person, the catalog, and what makes no sense.
func TestAttackCommand(t *testing.T) {
	out := says(t, program(t, "attack", "A01"), statusDone,
		"A01 Forged permit                         broker   hard_policy       blocked 400 MALFORMED_PROPOSAL; 403 PERMIT_MISMATCH\n", "\ncatalog        ", ", revision ",
		"\n1 of 1 blocked, 0 permits, 0 effects\n", `{"total":1,"blocked":1,"permits":0,"effects":0}`, "not a live-model safety measurement")
	out += says(t, program(t, "attack", "B10", "--service", "bank"), statusDone,
		"B10 Altered argument                      bank     hard_policy (8)   blocked 200 PAUSE ARGUMENT_MISMATCH\n")
	out += says(t, program(t, "attack", "--list"), statusDone, "id  title ", "B12 Budget one cent below the total       all three BUDGET_EXCEEDED ", "H01 Price changed after approval (hosted) merchant ")
	for line := range strings.Lines(out) {
		if len(line) > 127 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	list, err := program(t, "attack", "--list", "--json").Output()
	must(t, err)
	ids := []string{}
	for line := range strings.Lines(string(list)) {
		var a struct {
			AttackID, Title, Altered, Twin, Target string
			Expected, Services, DecidedBy          []string
		}
		must(t, json.Unmarshal([]byte(line), &a))
		if ids = append(ids, a.AttackID); a.Title == "" || a.Target == "" || a.Altered == "" || a.Twin == "" || len(a.Expected) == 0 || len(a.Services) == 0 || len(a.DecidedBy) == 0 {
			t.Errorf("%+v", a)
		}
	}
	if len(ids) != 25+1 || !slices.IsSorted(ids[:12]) || ids[0] != "B01" || ids[12] != "A01" || ids[25] != "H01" {
		t.Errorf("the catalog is %v", ids)
	}
	says(t, program(t, "attack"), statusUsage, "want one of ID, --all and --list")
	says(t, program(t, "attack", "B10", "--all"), statusUsage, "want one of ID, --all and --list")
	says(t, program(t, "attack", "Z1"), statusUsage, "`countersign attack --list`")
	says(t, program(t, "attack", "B10", "--service", "post"), statusUsage, "--service")
	says(t, program(t, "attack", "A06", "--service", "merchant"), statusUsage, "A06 applies to bank only")
	says(t, program(t, "attack", "--list", "--out", "x"), statusUsage, "--list carries nothing out")
	says(t, program(t, "attack", "B10", "--out", t.TempDir()), statusUsage, "give a new folder")
	says(t, program(t, "attack", "B10", "--out", filepath.Join(t.TempDir(), "no", "x")), statusUsage, "give a new folder in one that exists")
	says(t, program(t, "attack", "B10", "--database", "postgres://u:p@127.0.0.1:1/none"), statusUsage, "PGPASSWORD")
	says(t, program(t, "attack", "B10", "--database", "mysql://x"), statusUsage, "--database")
	kept := filepath.Join(t.TempDir(), "kept")
	says(t, program(t, "attack", "B10", "--out", kept, "--database", "postgres://127.0.0.1:1/none"), statusNotReady, "start PostgreSQL")
	if _, err := os.Lstat(kept); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what has not begun keeps a folder: %v", err)
	}
	file := filepath.Join(t.TempDir(), "taken")
	must(t, os.WriteFile(file, nil, 0o600))
	cmd := program(t, "attack", "B10", "--service", "bank")
	cmd.Env = append(os.Environ(), "TMPDIR="+file)
	says(t, cmd, statusNotReady, "set TMPDIR to a folder that exists")
}

// A database that is not empty is left as it is, whosever it is, and one that only
// COUNTERSIGN_DATABASE names too: an installation may be about to be made in it.
func TestAttackedDatabaseIsEmpty(t *testing.T) {
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop()) })
	t.Setenv("COUNTERSIGN_DATABASE", "")
	url := server.Database(t, func(context.Context, string) error { return nil })
	db, err := sql.Open("pgx", url)
	must(t, err)
	defer db.Close()
	tables := func() (n int) {
		t.Helper()
		must(t, db.QueryRow(`SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`).Scan(&n))
		return n
	}
	t.Setenv("COUNTERSIGN_DATABASE", url)
	says(t, program(t, "attack", "B10", "--service", "bank"), statusDone, "SQLite in a temporary folder", `{"total":1,"blocked":1,"permits":0,"effects":0}`)
	if n := tables(); n != 0 {
		t.Errorf("the database of the variable has %d tables", n)
	}
	t.Setenv("COUNTERSIGN_DATABASE", "")
	attack := func() *exec.Cmd { return program(t, "attack", "B10", "--service", "bank", "--database", url) }
	says(t, attack(), statusDone, "PostgreSQL", `{"total":1,"blocked":1,"permits":0,"effects":0}`)
	var events int
	must(t, db.QueryRow(`SELECT count(*) FROM events`).Scan(&events))
	if events == 0 {
		t.Error("the attack left nothing in the database that it was given")
	}
	initialized := tables()
	says(t, attack(), statusNotReady, "is not empty; give --database an empty one")
	var after int
	must(t, db.QueryRow(`SELECT count(*) FROM events`).Scan(&after))
	if after != events || tables() != initialized {
		t.Errorf("an initialized database went from %d to %d events", events, after)
	}
	url = server.Database(t, func(context.Context, string) error { return nil })
	other, err := sql.Open("pgx", url)
	must(t, err)
	defer other.Close()
	_, err = other.Exec(`CREATE SCHEMA shop; CREATE TABLE shop.orders (id INTEGER)`)
	must(t, err)
	db = other
	says(t, attack(), statusNotReady, "is not empty; give --database an empty one")
	if n := tables(); n != 1 {
		t.Errorf("another program's database has %d tables", n)
	}
}

// A suite that is told to end, or that nobody listens to any more, ends what it serves,
// removes its folder with the keys in it and says how far it came. That is no check that
// failed.
func TestAttackInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*exec.Cmd, io.Closer) error
		says string
	}{
		"Ctrl-C":      {func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(os.Interrupt) }, "interrupted after "},
		"SIGTERM":     {func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGTERM) }, "interrupted after "},
		"SIGHUP":      {func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGHUP) }, "interrupted after "},
		"broken pipe": {func(_ *exec.Cmd, out io.Closer) error { return out.Close() }, "countersign: "},
	} {
		t.Run(name, func(t *testing.T) {
			scratch := t.TempDir()
			cmd := program(t, "attack", "--all", "--json")
			cmd.Env = append(os.Environ(), "TMPDIR="+scratch)
			out, err := cmd.StdoutPipe()
			must(t, err)
			problems := &tail{}
			cmd.Stderr = problems
			must(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			_, err = out.Read(make([]byte, 1))
			must(t, err)
			must(t, c.end(cmd, out))
			_, _ = io.Copy(io.Discard, out) // it is closed in one case
			exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
			if !ok || exit.ExitCode() != statusNotReady || !strings.Contains(problems.String(), c.says) || !strings.Contains(problems.String(), " blocked, 0 permits, 0 effects\n") {
				t.Errorf("%v: %s", exit, problems)
			}
			if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
				t.Errorf("it leaves %v behind (%v)", left, err)
			}
		})
	}
}

// Control: under nohup, which has SIGHUP ignored, a command outlives its terminal.
func TestHangUpIgnored(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	cmd := program(t, "attack", "B10")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	first := make([]byte, 1)
	_, err = out.Read(first)
	must(t, err)
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	rest, err := io.ReadAll(out)
	must(t, err)
	if err := cmd.Wait(); err != nil || !strings.HasSuffix(string(rest), `{"total":3,"blocked":3,"permits":0,"effects":0}`+"\n") {
		t.Errorf("%v: %s", err, rest)
	}
}
