package attack_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"countersign/internal/app"
	"countersign/internal/pgtest"
	"countersign/internal/supervision/attack"
	"countersign/internal/supervision/decide"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func open(d decide.Doors) func(*app.Config) { return func(c *app.Config) { c.Doors = d } }

// every attack of the catalog once. The boundary cases, which have three services, are on
// the one whose transaction takes the fewest steps.
func once() (lines []attack.Line) {
	for _, a := range attack.Catalog() {
		if a.Hosted() {
			continue
		}
		lines = append(lines, attack.Line{ID: a.ID, Service: a.Services[len(a.Services)-1]})
	}
	return lines
}

// let carries attacks out at a new installation with these doors open and returns those
// that were not blocked.
func let(t *testing.T, url string, d decide.Doors, lines []attack.Line) (through []*attack.Result) {
	t.Helper()
	a := serve(t, url, open(d))
	for _, line := range lines {
		r, err := a.Attacks().Run(t.Context(), line.ID, line.Service)
		if err != nil {
			t.Fatalf("%v: %v", line, err)
		}
		if !r.Blocked() {
			through = append(through, r)
		}
	}
	return through
}

// table tells of each shape that was not blocked what it got.
func table(removed string, through []*attack.Result) string {
	var b strings.Builder
	for _, r := range through {
		for _, s := range r.Shapes {
			if !s.Blocked() {
				fmt.Fprintf(&b, "\n%-26s %s %-9s %-22s got %-38s permit %-5t effect %-5t (%s)", removed, r.AttackID, r.Service, s.Name, s.Got, s.Permits > 0, s.Effects > 0, s.Problem)
			}
		}
	}
	return b.String()
}

func ids(through []*attack.Result) (list []string) {
	for _, r := range through {
		list = append(list, r.AttackID)
	}
	return list
}

// naming are the attacks that say that a check refuses them.
func naming(check int64) (list []string) {
	for _, a := range attack.Catalog() {
		if slices.Contains(a.Checks, check) {
			list = append(list, a.ID)
		}
	}
	return list
}

// decisive are the checks that an attack over HTTP can reach; check 7 is behind others
// and has a test of its own.
var decisive = []int64{1, 2, 3, 4, 5, 6, 8, 9, 10, 11}

// removal shows that without one hard check none of the attacks that it is there for is
// blocked any more. When the machine lets through, too, what it calls unlawful, one of them
// ends in a permit and an effect; without checks 2 and 5 there is no entry that a permit
// could name.
func removal(t *testing.T, url string, check int64, lines []attack.Line) {
	t.Helper()
	lines = slices.DeleteFunc(lines, func(l attack.Line) bool { return !slices.Contains(naming(check), l.ID) })
	doors := decide.Doors{Checks: []int64{check}}
	through := let(t, url, doors, lines)
	if len(through) == 0 || len(through) != len(lines) {
		t.Errorf("without check %d these attacks are not blocked: %v, want %v", check, ids(through), lines)
	}
	for _, r := range through {
		if !r.Twin || r.Outcome != attack.OutcomeOpen {
			t.Errorf("%s: %s, %s", r.AttackID, r.Outcome, r.Problem)
		}
	}
	report := table(fmt.Sprintf("check %d", check), through)
	if url == "" {
		doors.Machine = true
		again := let(t, url, doors, lines)
		report += table(fmt.Sprintf("check %d and machine", check), again)
		breach := slices.ContainsFunc(again, func(r *attack.Result) bool { return r.Permits > 0 && r.Effects > 0 })
		if entry := check != 2 && check != 5; breach != entry {
			t.Errorf("without check %d and the machine an attack gets a permit and has an effect: %t, want %t", check, breach, entry)
		}
	}
	t.Log(report)
}

// G-17: every hard check stands between an attack and its permit. Removing any one of
// them lets the attacks through that it is there for. That it lets no other through is
// shown by TestEachCheckAlone.
func TestEachCheckRemoved(t *testing.T) {
	for _, check := range decisive {
		t.Run(fmt.Sprintf("check %d", check), func(t *testing.T) {
			t.Parallel()
			removal(t, "", check, once())
		})
	}
}

// Every attack is blocked, with its own code, by the checks that it names alone: with all
// others removed, and so with any one of them. Those that name none need none.
func TestEachCheckAlone(t *testing.T) {
	groups := map[string][]attack.Line{}
	needed := map[string][]int64{}
	for _, l := range once() {
		checks := attack.Find(l.ID).Checks
		name := fmt.Sprint(checks)
		groups[name], needed[name] = append(groups[name], l), checks
	}
	if len(groups) != len(decisive)+1 {
		t.Errorf("attacks name these checks: %v", needed)
	}
	for name, lines := range groups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var others []int64
			for check := int64(1); check <= 11; check++ {
				if !slices.Contains(needed[name], check) {
					others = append(others, check)
				}
			}
			if through := let(t, "", decide.Doors{Checks: others}, lines); len(through) > 0 {
				t.Error("not blocked:", table(fmt.Sprintf("all but %s", name), through))
			}
		})
	}
}

// The same removal on PostgreSQL, of the check that knows the owner's terms.
func TestCheckRemovedOnPostgres(t *testing.T) {
	t.Parallel()
	removal(t, pgtest.Database(t, func(context.Context, string) error { return nil }), 6, once())
}

// Check 7 is behind two others: a run stops by itself when its grants end, and completes
// with the one use that a commit has; then its reports are refused before any check. With
// that left out check 7 refuses; without it, too, the guardian allows, and the ledger does
// not store a permit that has ended with its grant.
func TestCheckSevenRemoved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		removed string
		doors   decide.Doors
		got     attack.Answer
		blocked bool
	}{
		{"nothing", decide.Doors{}, attack.Answer{Status: 409, Code: "RUN_NOT_READY"}, false},
		{"check 7", decide.Doors{Checks: []int64{7}}, attack.Answer{Status: 409, Code: "RUN_NOT_READY"}, false},
		{"stop and machine", decide.Doors{Ready: true, Machine: true}, attack.Answer{Status: 200, Decision: "PAUSE", Code: "GRANT_EXPIRED"}, true},
		{"check 7, stop and machine", decide.Doors{Ready: true, Machine: true, Checks: []int64{7}}, attack.Answer{Status: 503, Code: "LEDGER_UNAVAILABLE"}, false},
	} {
		r, err := attack.GrantEnded(t.Context(), serve(t, "", open(c.doors)).Attacks())
		must(t, err)
		if *r.Got != c.got || r.Blocked() != c.blocked || r.Permits != 0 || r.Effects != 0 || !r.Twin {
			t.Errorf("without %s: %+v", c.removed, *r)
		}
		t.Log(table(c.removed, []*attack.Result{r}))
	}
}

// An attack without its alteration is its twin, and counts as not blocked: nothing that is
// refused for another reason than the alteration could pass for an attack that was
// blocked.
func TestUnalteredIsNotBlocked(t *testing.T) {
	t.Parallel()
	a := serve(t, "", shop(t, ""))
	r := attack.Unaltered(a.Attacks())
	for _, line := range append(once(), attack.Line{ID: "H01", Service: attack.Merchant}) {
		got, err := r.Run(t.Context(), line.ID, line.Service)
		must(t, err)
		for _, s := range got.Shapes {
			if s.Blocked() || !s.Twin || s.Effects == 0 && !strings.HasPrefix(line.ID, "A13") && line.ID != "A06" {
				t.Errorf("%v %s: %+v", line, s.Name, s)
			}
		}
	}
}
