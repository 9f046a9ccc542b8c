package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// requirementsFile lists what the three protocols demand. Its head says how it is read.
const requirementsFile = "docs/requirements.txt"

// requirement is one line of the list.
type requirement struct {
	id, mark, title string
	open            string // why no test has to show it; empty where it is declared complete
}

var (
	requirementLine = regexp.MustCompile(`^([HRS]-\d{3}) (MUST|LIMIT|HONESTY-BOUNDARY|FUTURE) ([^\[\]]+?)(?: \[open: ([^\[\]]+)\])?$`)
	totalLine       = regexp.MustCompile(`^total ([HRS]) (\d+): (\d+) MUST, (\d+) LIMIT, (\d+) HONESTY-BOUNDARY, (\d+) FUTURE$`)

	marks = []string{"MUST", "LIMIT", "HONESTY-BOUNDARY", "FUTURE"}
)

// protocols by the letter of their requirements.
var protocols = []struct{ letter, name string }{{"H", "Halfspan"}, {"R", "Runbook Relay"}, {"S", "SEIF"}}

// readRequirements reads the list. It fails where the list is not the one that its
// totals describe: numbers from 001 without a gap, each mark as often as said.
func readRequirements(file string) (list []requirement, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	totals := make(map[string]string)
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if match := totalLine.FindStringSubmatch(line); match != nil && totals[match[1]] == "" {
			totals[match[1]] = line
			continue
		}
		match := requirementLine.FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Errorf("%s:%d: unreadable line %q", file, i+1, line)
		}
		r := requirement{id: match[1], mark: match[2], title: match[3], open: match[4]}
		if r.mark == "FUTURE" && r.open == "" {
			r.open = "future of the protocol"
		}
		list = append(list, r)
	}
	for _, p := range protocols {
		count := make(map[string]int)
		n := 0
		for _, r := range list {
			if !strings.HasPrefix(r.id, p.letter) {
				continue
			}
			n++
			if want := fmt.Sprintf("%s-%03d", p.letter, n); r.id != want {
				return nil, fmt.Errorf("%s: %s stands where %s is expected", file, r.id, want)
			}
			count[r.mark]++
		}
		var each []string
		for _, mark := range marks {
			each = append(each, fmt.Sprintf("%d %s", count[mark], mark))
		}
		if got := fmt.Sprintf("total %s %d: %s", p.letter, n, strings.Join(each, ", ")); got != totals[p.letter] {
			return nil, fmt.Errorf("%s: its head says %q, its lines give %q", file, totals[p.letter], got)
		}
	}
	return list, nil
}

// claims are the list and the tests that say what of it they show.
type claims struct {
	list  []requirement
	tests map[string][]testID // by id
}

// readClaims reads the list and the tests below root. It fails before a test runs when a comment
// cannot be counted, or when no test names something that is declared complete.
func readClaims(root, module string) (claims, error) {
	list, err := readRequirements(requirementsFile)
	if err != nil {
		return claims{}, err
	}
	named, found, err := namedIDs(root, module)
	if err != nil {
		return claims{}, err
	}
	c := claims{list, make(map[string][]testID)}
	known := func(id string) bool {
		return slices.ContainsFunc(list, func(r requirement) bool { return r.id == id })
	}
	for _, n := range named {
		for _, id := range n.ids {
			if !known(id) {
				found = append(found, fmt.Sprintf("%s: %s is not in %s", n.at, id, requirementsFile))
			} else if n.test.test != "" {
				c.tests[id] = append(c.tests[id], n.test)
			}
		}
	}
	for _, r := range list {
		if r.mandatory() && len(c.tests[r.id]) == 0 {
			found = append(found, fmt.Sprintf("%s %s, %s: no test names it", r.id, r.mark, r.title))
		}
	}
	return c, findings(found)
}

// mandatory reports whether a test must show a requirement.
func (r requirement) mandatory() bool {
	return r.open == "" && (r.mark == "MUST" || r.mark == "LIMIT")
}

// outcomes are the results of one run: pass, fail or skip.
type outcomes map[testID]string

// of returns what became of a test, its subtests included: one that is skipped or
// fails below it makes it no passed test.
func (o outcomes) of(id testID) string {
	outcome := o[id]
	switch outcome {
	case "":
		return "did not run"
	case "pass":
		for other, outcome := range o {
			if other.pkg == id.pkg && strings.HasPrefix(other.test, id.test+"/") && outcome != "pass" {
				return outcome + " below it"
			}
		}
	}
	return outcome
}

// shown returns by id the tests that name it and passed.
func (c claims) shown(run outcomes) map[string][]testID {
	passed := make(map[string][]testID)
	for id, tests := range c.tests {
		for _, test := range tests {
			if run.of(test) == "pass" {
				passed[id] = append(passed[id], test)
			}
		}
	}
	return passed
}

// gate fails when something that is declared complete is shown by no test that passed.
func (c claims) gate(run outcomes) error {
	passed := c.shown(run)
	var found []string
	if len(passed) == 0 {
		found = append(found, "no test that passed names a requirement")
	}
	for _, r := range c.list {
		if !r.mandatory() || len(passed[r.id]) > 0 {
			continue
		}
		why := []string{"no test names it"}
		if len(c.tests[r.id]) > 0 {
			why = nil
		}
		for _, test := range c.tests[r.id] {
			why = append(why, fmt.Sprintf("%s: %s", test, run.of(test)))
		}
		slices.Sort(why)
		found = append(found, fmt.Sprintf("%s %s, %s: %s", r.id, r.mark, r.title, strings.Join(why, "; ")))
	}
	return findings(found)
}

func (id testID) String() string { return id.pkg + " " + id.test }

// print prints every requirement with the tests that show it, or the reason why it is open.
func (c claims) print(out io.Writer, run outcomes) {
	passed := c.shown(run)
	fmt.Fprintln(out, "covered:")
	for _, r := range c.list {
		if len(passed[r.id]) > 0 && r.open == "" {
			fmt.Fprintf(out, "  %s %s, %s: %s\n", r.id, r.mark, r.title, join(passed[r.id]))
		}
	}
	fmt.Fprintln(out, "open:")
	for _, r := range c.list {
		switch {
		case r.open != "" && len(passed[r.id]) > 0:
			fmt.Fprintf(out, "  %s %s, %s: %s; in part: %s\n", r.id, r.mark, r.title, r.open, join(passed[r.id]))
		case r.open != "":
			fmt.Fprintf(out, "  %s %s, %s: %s\n", r.id, r.mark, r.title, r.open)
		case len(passed[r.id]) == 0:
			fmt.Fprintf(out, "  %s %s, %s: shown by no test\n", r.id, r.mark, r.title)
		}
	}
	c.totals(out, run)
}

func join(tests []testID) string {
	var names []string
	for _, test := range tests {
		names = append(names, test.String())
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// totals prints how much of each protocol is covered, by mark, and how much is open, by reason.
func (c claims) totals(out io.Writer, run outcomes) {
	passed := c.shown(run)
	fmt.Fprintln(out, "requirements covered by tests that passed:")
	for _, p := range protocols {
		var each []string
		for _, mark := range marks {
			all, covered := 0, 0
			for _, r := range c.list {
				if strings.HasPrefix(r.id, p.letter) && r.mark == mark {
					all++
					if r.open == "" && len(passed[r.id]) > 0 {
						covered++
					}
				}
			}
			each = append(each, fmt.Sprintf("%s %d of %d", mark, covered, all))
		}
		fmt.Fprintf(out, "  %s: %s\n", p.name, strings.Join(each, ", "))
	}
	count := make(map[string]int)
	var reasons []string
	for _, r := range c.list {
		if r.open == "" {
			continue
		}
		if count[r.open]++; count[r.open] == 1 {
			reasons = append(reasons, r.open)
		}
	}
	for _, reason := range reasons {
		fmt.Fprintf(out, "  open: %d %s\n", count[reason], reason)
	}
}

// requirements prints what is covered and what is open by the results of the last
// test if they are of this very tree, else by those of a new one.
func requirements(ctx context.Context, out io.Writer) error {
	c, err := readClaims(".", "countersign")
	if err != nil {
		return err
	}
	run, err := keptOutcomes(resultsFile, ".")
	if errors.Is(err, errNotKept) {
		fmt.Fprintf(out, "%v: running the tests\n", err)
		if err := test(ctx, out); err != nil {
			return err
		}
		run, err = keptOutcomes(resultsFile, ".")
	}
	if err != nil {
		return err
	}
	c.print(out, run)
	return c.gate(run)
}
