package main

import (
	"bytes"
	"slices"
	"testing"
)

// A test that is needed and of which nothing ran is found out: not there, without subtests,
// all of them skipped, or all failed. One that passed is enough.
func TestNeeds(t *testing.T) {
	module(t, map[string]string{"a/a_test.go": tests("a", `func TestSome(t *testing.T) {
	t.Run("passed", func(t *testing.T) {})
	t.Run("skipped", func(t *testing.T) { t.Skip("not here") })
}
func TestSkipped(t *testing.T) { t.Run("all", func(t *testing.T) { t.Skip("not here") }) }
func TestWhole(t *testing.T) { t.Skip("not here") }
func TestBare(t *testing.T) {}
func TestFailed(t *testing.T) { t.Run("one", func(t *testing.T) { t.Fail() }) }`)})
	r := newReport(new(bytes.Buffer))
	if err := goTest(t.Context(), r, nil, "-count=1", "./a"); err == nil {
		t.Fatal("control: a test failed")
	}
	for name, lacks := range map[string]bool{"TestSome": false, "TestSkipped": true, "TestWhole": true, "TestBare": true, "TestFailed": true, "TestGone": true} {
		var want []string
		if lacks {
			want = []string{"m/a: nothing passed below " + name + ", so nothing shows it"}
		}
		if found := r.lacks([]need{{testID{"m/a", name}, "it"}}); !slices.Equal(found, want) {
			t.Errorf("%s: found %q, want %q", name, found, want)
		}
	}
	if !slices.ContainsFunc(needs, func(n need) bool { return n.test == "TestIncidentNative" }) {
		t.Error("a run without a native tool would pass")
	}
}
