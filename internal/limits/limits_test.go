package limits_test

import (
	"fmt"
	"slices"
	"testing"

	"countersign/internal/limits"
)

// G-40: every line that the requirements mark FUTURE is listed, once, with a sentence
// and the one status; nothing else is.
func TestEveryFutureLine(t *testing.T) {
	var want []string
	for letter, numbers := range map[string][]int{
		"H": {149, 150, 179, 180, 181, 182, 212, 231, 232, 233, 234},
		"R": {57, 58, 59, 60, 68, 69, 86, 87, 88, 89, 90},
		"S": {11},
	} {
		for _, n := range numbers {
			want = append(want, fmt.Sprintf("%s-%03d", letter, n))
		}
	}
	var got []string
	for _, l := range limits.All() {
		got = append(got, l.ID)
		if l.Text == "" || l.Status != "not_implemented" {
			t.Errorf("%s: text %q, status %q", l.ID, l.Text, l.Status)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("listed are %v, want %v", got, want)
	}
	n := 0
	for _, g := range limits.ByProtocol() {
		n += len(g.Lines)
		if g.Protocol == "" || len(g.Lines) == 0 {
			t.Errorf("group %q has %d lines", g.Protocol, len(g.Lines))
		}
	}
	if n != len(want) {
		t.Errorf("the groups hold %d lines, want %d", n, len(want))
	}
}
