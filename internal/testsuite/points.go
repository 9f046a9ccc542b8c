package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pointList is a list of fail points: below this test a process is killed at each.
type pointList struct {
	name string
	testID
}

// pointLists are the crash tests, by engine.
var pointLists = []pointList{
	{"ledger on SQLite", testID{"countersign/internal/ledger/sqlite", "TestLedger/KillAtEveryPoint"}},
	{"ledger on PostgreSQL", testID{"countersign/internal/ledger/postgres", "TestLedger/KillAtEveryPoint"}},
	{"action cycle on SQLite", testID{"countersign/internal/supervision/gateway", "TestKilledControlPlane/sqlite"}},
	{"action cycle on PostgreSQL", testID{"countersign/internal/supervision/gateway", "TestKilledControlPlane/postgres"}},
	{"server with clients on SQLite", testID{"countersign/internal/replica", "TestKilledServer/sqlite"}},
	{"server with clients on PostgreSQL", testID{"countersign/internal/replica", "TestKilledServer/postgres"}},
	{"rotation of the evidence key on SQLite", testID{"countersign/internal/app", "TestRotateKilled/sqlite/evidence"}},
	{"rotation of the dispatch key on SQLite", testID{"countersign/internal/app", "TestRotateKilled/sqlite/dispatch"}},
	{"rotation of the evidence key on PostgreSQL", testID{"countersign/internal/app", "TestRotateKilled/postgres/evidence"}},
	{"rotation of the dispatch key on PostgreSQL", testID{"countersign/internal/app", "TestRotateKilled/postgres/dispatch"}},
}

// hit is a fail point at which a process was killed, with its place in its list.
type hit struct {
	point     string
	place, of int
}

// hitLine is how a crash test logs that it has killed a process at a fail point.
// The output of a test that passes is dropped but for these lines.
var hitLine = regexp.MustCompile(`^\s+\S+\.go:\d+: fail point "([^"]+)" hit, (\d+) of (\d+)\b`)

func parseHit(output string) (hit, bool) {
	match := hitLine.FindStringSubmatch(output)
	if match == nil {
		return hit{}, false
	}
	place, err := strconv.Atoi(match[2])
	of, ofErr := strconv.Atoi(match[3])
	return hit{match[1], place, of}, err == nil && ofErr == nil && 1 <= place && place <= of
}

// hits returns what was hit below a test, in the order of the list.
func (r *report) hits(list pointList) (hits []hit) {
	for id, t := range r.tests {
		if list.holds(id) {
			hits = append(hits, t.hits...)
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return a.place - b.place })
	return hits
}

func (l pointList) holds(id testID) bool {
	return id.pkg == l.pkg && (id.test == l.test || strings.HasPrefix(id.test, l.test+"/"))
}

// printPoints prints for each list how many of its points were hit, and which.
func (r *report) printPoints(lists []pointList) {
	fmt.Fprintln(r.out, "processes killed at fail points:")
	for _, list := range lists {
		names := []string{}
		of := 0
		for _, h := range r.hits(list) {
			of = max(of, h.of)
			if !slices.Contains(names, h.point) {
				names = append(names, h.point)
			}
		}
		fmt.Fprintf(r.out, "  %s: %d of %d: %s\n", list.name, len(names), of, strings.Join(names, ", "))
	}
}

// unhit names the lists of which not every point was printed.
func (r *report) unhit(lists []pointList) (found []string) {
	for _, list := range lists {
		places, names := map[int]string{}, map[string]bool{}
		of := 0
		for _, h := range r.hits(list) {
			if of != 0 && h.of != of {
				found = append(found, fmt.Sprintf("%s %s prints %d and %d fail points", list.pkg, list.test, min(of, h.of), max(of, h.of)))
			}
			of = max(of, h.of)
			places[h.place], names[h.point] = h.point, true
		}
		switch {
		case of == 0:
			found = append(found, fmt.Sprintf("%s %s printed no fail point", list.pkg, list.test))
		case len(places) < of || len(names) < of:
			found = append(found, fmt.Sprintf("%s %s: %d of %d fail points were hit", list.pkg, list.test, min(len(places), len(names)), of))
		}
	}
	for id, t := range r.tests {
		if len(t.hits) > 0 && !slices.ContainsFunc(lists, func(l pointList) bool { return l.holds(id) }) {
			found = append(found, fmt.Sprintf("%s %s prints fail points and is not listed in internal/testsuite/points.go", id.pkg, id.test))
		}
	}
	return found
}
