package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A line is one ratio of the table. Want is what design.md calls the aim.
type line struct {
	row      int
	name     string
	pairs    []float64 // one ratio a pair; empty when the row is not built
	aim      aim
	note     string   // the absolute figures and the floors beside them
	problems []string // why the number does not count
	missing  string   // why there is no number
}

// aim is a bound on a ratio: at least or at most.
type aim struct {
	atMost bool
	bound  float64
}

func atLeast(x float64) aim { return aim{false, x} }
func atMost(x float64) aim  { return aim{true, x} }

func (a aim) String() string {
	if a == (aim{}) {
		return "-"
	}
	if a.atMost {
		return fmt.Sprintf("<= %.4g", a.bound)
	}
	return fmt.Sprintf(">= %.4g", a.bound)
}

func (a aim) met(x float64) bool {
	if a.atMost {
		return x <= a.bound
	}
	return x >= a.bound
}

// verdict is what a reader has to know first.
func (l *line) verdict() string {
	switch {
	case l.missing != "":
		return "not built"
	case len(l.problems) > 0:
		return "does not count"
	case len(l.pairs) < minPairs:
		return fmt.Sprintf("does not count: %d of %d pairs", len(l.pairs), minPairs)
	case l.aim.met(median(l.pairs)):
		return "met"
	}
	return "MISSED"
}

// minPairs is how many pairs a median needs to count.
const minPairs = 3

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// printTable writes every line, and under it why a number does not count.
func printTable(w io.Writer, lines []line) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "#\tratio\tmedian\tof pairs\taim\tverdict")
	for i := range lines {
		l := &lines[i]
		middle, spread := "-", "-"
		if len(l.pairs) > 0 {
			middle = fmt.Sprintf("%.3g", median(l.pairs))
			spread = fmt.Sprintf("%.3g .. %.3g (%d)", slices.Min(l.pairs), slices.Max(l.pairs), len(l.pairs))
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", l.row, l.name, middle, spread, l.aim, l.verdict())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteByte('\n')
	for i := range lines {
		l := &lines[i]
		for _, s := range append([]string{l.note, l.missing}, l.problems...) {
			if s != "" {
				fmt.Fprintf(&b, "%d  %s: %s\n", l.row, l.name, s)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
