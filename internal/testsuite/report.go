package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json (see go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

type testID struct{ pkg, test string }

type result struct {
	started time.Time
	output  strings.Builder
	hits    []hit
	outcome string // pass, fail or skip; empty while it runs
	took    float64
}

// report reads the events of one go test -json. It prints go test's closing
// line of every package as it comes, and the output of what failed.
type report struct {
	out   io.Writer
	tests map[testID]*result
	loose map[string]*strings.Builder // output of a package outside its tests
	ended map[string]string           // outcome of every package
}

func newReport(out io.Writer) *report {
	return &report{
		out:   out,
		tests: make(map[testID]*result),
		loose: make(map[string]*strings.Builder),
		ended: make(map[string]string),
	}
}

// line takes one line of output. What is no event is let through.
func (r *report) line(line []byte) {
	var e event
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(r.out, "%s\n", line)
		return
	}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Test != "":
		r.test(e)
	case e.Package != "":
		r.pkg(e)
	}
}

func (r *report) test(e event) {
	id := testID{e.Package, e.Test}
	t := r.tests[id]
	if t == nil {
		t = &result{started: time.Now()}
		r.tests[id] = t
	}
	switch e.Action {
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			t.output.WriteString(e.Output)
		}
		if h, ok := parseHit(e.Output); ok {
			t.hits = append(t.hits, h)
		}
	case "pass", "fail", "skip":
		t.outcome, t.took = e.Action, e.Elapsed
		switch e.Action {
		case "fail":
			fmt.Fprint(r.out, t.output.String())
			t.output.Reset()
		case "pass":
			t.output.Reset()
		}
	}
}

var (
	closing  = regexp.MustCompile(`^(ok  \t|FAIL\t|\?   \t)`)
	coverage = regexp.MustCompile(`\s*coverage: .*`)
)

func (r *report) pkg(e event) {
	loose := r.loose[e.Package]
	if loose == nil {
		loose = new(strings.Builder)
		r.loose[e.Package] = loose
	}
	switch e.Action {
	case "output":
		output := coverage.ReplaceAllString(strings.TrimSuffix(e.Output, "\n"), "")
		switch {
		case closing.MatchString(output):
			fmt.Fprintln(r.out, output)
		case !slices.Contains([]string{"", "PASS", "FAIL", e.Package}, strings.TrimSpace(output)):
			fmt.Fprintln(loose, output)
		}
	case "pass", "skip":
		r.ended[e.Package] = e.Action
		loose.Reset()
	case "fail":
		r.ended[e.Package] = e.Action
		fmt.Fprint(r.out, loose.String())
		loose.Reset()
		for _, id := range r.running(e.Package) {
			fmt.Fprintf(r.out, "did not end: %s\n%s", id.test, r.tests[id].output.String())
			r.tests[id].outcome = "fail"
		}
	}
}

// running returns the tests that have not ended, of one package or of all.
func (r *report) running(pkg string) (ids []testID) {
	for id, t := range r.tests {
		if t.outcome == "" && (pkg == "" || id.pkg == pkg) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b testID) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	return ids
}

// progress says what has been running for at least a while.
func (r *report) progress(while time.Duration) {
	for _, id := range r.running("") {
		if r.hasSubtests(id) {
			continue
		}
		if took := time.Since(r.tests[id].started); took >= while {
			fmt.Fprintf(r.out, "  still running after %s: %s %s\n", minutes(took), id.pkg, id.test)
		}
	}
}

func (r *report) hasSubtests(id testID) bool {
	for other := range r.tests {
		if other.pkg == id.pkg && strings.HasPrefix(other.test, id.test+"/") {
			return true
		}
	}
	return false
}

// summary prints the counts, the skipped tests and the n slowest tests. Of a
// test with subtests only these are listed.
func (r *report) summary(n int) {
	parents := make(map[testID]bool)
	for id := range r.tests {
		for i, c := range id.test {
			if c == '/' {
				parents[testID{id.pkg, id.test[:i]}] = true
			}
		}
	}
	count := make(map[string]int)
	packages := make(map[string]bool)
	var slowest []testID
	for id, t := range r.tests {
		count[t.outcome]++
		packages[id.pkg] = true
		if !parents[id] {
			slowest = append(slowest, id)
		}
	}
	slices.SortFunc(slowest, func(a, b testID) int {
		return cmp.Or(cmp.Compare(r.tests[b].took, r.tests[a].took), cmp.Compare(a.test, b.test))
	})
	fmt.Fprintf(r.out, "%d tests in %d packages: %d passed, %d failed, %d skipped\n",
		len(r.tests), len(packages), count["pass"], count["fail"], count["skip"])
	for id, t := range r.tests {
		if t.outcome == "skip" {
			fmt.Fprintf(r.out, "  skipped: %s %s: %s\n", id.pkg, id.test, reason(t.output.String()))
		}
	}
	fmt.Fprintln(r.out, "slowest tests:")
	for _, id := range slowest[:min(n, len(slowest))] {
		fmt.Fprintf(r.out, "  %7.2fs  %s %s\n", r.tests[id].took, id.pkg, id.test)
	}
}

var logged = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason returns what a skipped test said, empty when it said nothing.
func reason(output string) string {
	var said []string
	for _, match := range logged.FindAllStringSubmatch(output, -1) {
		if text := strings.TrimSpace(match[1]); text != "" {
			said = append(said, text)
		}
	}
	return strings.Join(said, "; ")
}

// twins are two packages that run the same subtests below one test. Below the
// subtests in own each has a list of its own, of which something must run.
type twins struct {
	pkgs [2]string
	test string
	own  []string
}

// gate returns what must not be in a report that go test itself is happy with.
func (r *report) gate(pairs []twins, targets []target, points []pointList) (found []string) {
	ran := 0
	for id, t := range r.tests {
		switch {
		case t.outcome == "pass" || t.outcome == "fail":
			ran++
		case t.outcome == "":
			found = append(found, fmt.Sprintf("%s %s did not end", id.pkg, id.test))
		case reason(t.output.String()) == "":
			found = append(found, fmt.Sprintf("%s %s was skipped without a reason", id.pkg, id.test))
		}
	}
	if ran == 0 {
		found = append(found, "no test ran")
	}
	for _, pair := range pairs {
		found = append(found, r.compare(pair)...)
	}
	for _, t := range targets {
		if len(r.below(t.pkg, t.name)) == 0 {
			found = append(found, fmt.Sprintf("%s %s ran no seed", t.pkg, t.name))
		}
	}
	found = append(found, r.unhit(points)...)
	slices.Sort(found)
	return found
}

// compare names the subtests that did not run on both sides of a pair.
func (r *report) compare(pair twins) (found []string) {
	a, b := pair.pkgs[0], pair.pkgs[1]
	ran := make(map[string][]string)
	for _, pkg := range pair.pkgs {
		for _, name := range r.below(pkg, pair.test) {
			for _, own := range pair.own {
				if strings.HasPrefix(name, pair.test+"/"+own+"/") {
					name = pair.test + "/" + own + "/..."
				}
			}
			if !slices.Contains(ran[pkg], name) {
				ran[pkg] = append(ran[pkg], name)
			}
		}
		if len(ran[pkg]) == 0 {
			found = append(found, fmt.Sprintf("%s ran nothing below %s", pkg, pair.test))
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, side := range []struct{ here, there string }{{a, b}, {b, a}} {
		for _, name := range ran[side.here] {
			if !slices.Contains(ran[side.there], name) {
				found = append(found, fmt.Sprintf("%s ran on %s and not on %s", name, side.here, side.there))
			}
		}
	}
	return found
}

// below returns the names of the subtests that ran below a test. A skipped one
// did not run.
func (r *report) below(pkg, test string) []string {
	names := make(map[string]bool)
	for id, t := range r.tests {
		if id.pkg == pkg && strings.HasPrefix(id.test, test+"/") && t.outcome != "skip" {
			names[id.test] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
