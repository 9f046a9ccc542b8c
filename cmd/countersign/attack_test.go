package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	AttackID, Service, DecidedBy, Problem, Label string
	Got                                          struct {
		Status     int
		Decision   string
		ReasonCode string
	}
	FailedCheck      *struct{ Check int64 }
	Permits, Effects *int64
	TwinPassed       bool
	Blocked          bool
	RunIDs           []string
	Shapes           []struct{ TwinPassed, Blocked bool }
}

// suite runs the whole suite and returns its lines and its last line.
func suite(t *testing.T, args ...string) (lines []attackLine, last string) {
	t.Helper()
	scratch := t.TempDir()
	cmd := program(t, append([]string{"attack", "--all", "--json"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch, "COUNTERSIGN_DATABASE=")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &problems)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v behind (%v)", left, err)
	}
	all := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for _, line := range all[:len(all)-1] {
		var l attackLine
		must(t, json.Unmarshal([]byte(line), &l))
		lines = append(lines, l)
	}
	return lines, all[len(all)-1]
}

// The whole suite as a person starts it, on both engines: 36 lines of boundary cases, 13
// others and the hosted one, each blocked with the code of the contract, after its twin,
// without a permit and without an effect; a sum, status 0, and nothing left behind.
// H-168 H-169
func TestAttackAll(t *testing.T) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			var flags []string
			if engine == "postgres" {
				server, err := pgtest.Start()
				must(t, err)
				t.Cleanup(func() { must(t, server.Stop()) })
				flags = []string{"--database", server.Database(t, func(context.Context, string) error { return nil })}
			}
			lines, last := suite(t, flags...)
			if last != `{"total":50,"blocked":50,"permits":0,"effects":0}` {
				t.Errorf("sum %s", last)
			}
			count := map[string]int{}
			for _, l := range lines {
				count[l.AttackID+" "+l.Service]++
				held := l.Blocked && l.TwinPassed && l.Permits != nil && *l.Permits == 0 && l.Effects != nil && *l.Effects == 0 && l.Problem == "" && len(l.RunIDs) > 0
				for _, s := range l.Shapes {
					held = held && s.Blocked && s.TwinPassed
				}
				if !held || l.Label != "replay (authored); not a live-model safety measurement" || !slices.Contains([]string{"hard_policy", "runtime", "replay (authored)"}, l.DecidedBy) {
					t.Errorf("%+v", l)
				}
				want, isBoundary := boundary[l.AttackID]
				if !isBoundary {
					count["other"]++
					continue
				}
				count["boundary"]++
				check, status, decision := int64(0), 200, "PAUSE"
				if l.FailedCheck != nil {
					check = l.FailedCheck.Check
				}
				if want.check == 0 {
					status, decision = 400, ""
				}
				if l.Got.Status != status || l.Got.Decision != decision || l.Got.ReasonCode != want.code || check != want.check || l.DecidedBy != "hard_policy" || len(l.Shapes) < max(1, attackShapes[l.AttackID]) {
					t.Errorf("%s on %s: %+v, check %d, %d shapes", l.AttackID, l.Service, l.Got, check, len(l.Shapes))
				}
			}
			for id := range boundary {
				for _, service := range []string{"merchant", "bank", "broker"} {
					if count[id+" "+service] != 1 {
						t.Errorf("%s on %s: %d lines", id, service, count[id+" "+service])
					}
				}
			}
			for i := 1; i <= 13; i++ {
				id, n := fmt.Sprintf("A%02d", i), 0
				for _, l := range lines {
					if l.AttackID == id {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%s: %d lines", id, n)
				}
			}
			if count["boundary"] != 36 || count["other"] != 13+1 || count["H01 merchant (hosted)"] != 1 {
				t.Errorf("%d lines of boundary cases and %d others", count["boundary"], count["other"])
			}
		})
	}
}

// One attack for a person, the catalog, and what makes no sense.
func TestAttackCommand(t *testing.T) {
	t.Setenv("COUNTERSIGN_DATABASE", "")
	says(t, program(t, "attack", "B10", "--service", "bank"), statusDone,
		"B10  bank              hard_policy       200 PAUSE ARGUMENT_MISMATCH", "8 arguments", "  blocked\n", `{"total":1,"blocked":1,"permits":0,"effects":0}`, "not a live-model safety measurement")
	list, err := program(t, "attack", "--list", "--json").Output()
	must(t, err)
	ids := []string{}
	for line := range strings.Lines(string(list)) {
		var a struct {
			AttackID, Title, Altered, Twin string
			Expected, Services, DecidedBy  []string
		}
		must(t, json.Unmarshal([]byte(line), &a))
		if ids = append(ids, a.AttackID); a.Title == "" || a.Altered == "" || a.Twin == "" || len(a.Expected) == 0 || len(a.Services) == 0 || len(a.DecidedBy) == 0 {
			t.Errorf("%+v", a)
		}
	}
	if len(ids) != 25+1 || !slices.IsSorted(ids[:12]) || ids[0] != "B01" || ids[12] != "A01" || ids[25] != "H01" {
		t.Errorf("the catalog is %v", ids)
	}
	says(t, program(t, "attack", "--list"), statusDone, "id   services", "B12  merchant, bank, broker", "Budget one cent below the total")
	says(t, program(t, "attack"), statusUsage, "want one of ID, --all and --list")
	says(t, program(t, "attack", "B10", "--all"), statusUsage, "want one of ID, --all and --list")
	says(t, program(t, "attack", "Z1"), statusUsage, "`countersign attack --list`")
	says(t, program(t, "attack", "B10", "--service", "post"), statusUsage, "--service")
	says(t, program(t, "attack", "A06", "--service", "merchant"), statusUsage, "does not apply to merchant")
	says(t, program(t, "attack", "B10", "--database", "mysql://x"), statusUsage, "--database")
	says(t, program(t, "attack", "B10", "--database", "postgres://127.0.0.1:1/none"), statusNotReady, "start PostgreSQL")
	file := filepath.Join(t.TempDir(), "taken")
	must(t, os.WriteFile(file, nil, 0o600))
	cmd := program(t, "attack", "B10", "--service", "bank")
	cmd.Env = append(os.Environ(), "TMPDIR="+file)
	says(t, cmd, statusNotReady)
}

// A database that is not empty is left as it is, whosever it is.
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

// An interrupted suite ends what it serves, removes its folder and says how far it came.
func TestAttackInterrupted(t *testing.T) {
	scratch := t.TempDir()
	cmd := program(t, "attack", "--all", "--json")
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch)
	out, err := cmd.StdoutPipe()
	must(t, err)
	problems := &tail{}
	cmd.Stderr = problems
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	first := make([]byte, 1)
	_, err = out.Read(first)
	must(t, err)
	must(t, cmd.Process.Signal(os.Interrupt))
	_, _ = bytes.NewBuffer(nil).ReadFrom(out)
	exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
	if !ok || exit.ExitCode() != statusDiffers || !strings.Contains(problems.String(), "interrupted after ") {
		t.Errorf("%v: %s", exit, problems)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v behind (%v)", left, err)
	}
}
