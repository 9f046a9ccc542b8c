package ledgertest

import (
	"slices"
	"testing"
)

// What a check reports is kept and fails nothing; FailNow ends it, and its
// cleanups run last first.
func TestRecord(t *testing.T) {
	var order []string
	if got := record(t, func(t testing.TB) {
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() { order = append(order, "last") })
		t.Log("not a report")
		order = append(order, "check")
	}); len(got) != 0 {
		t.Errorf("a check that passes reports %q", got)
	}
	if want := []string{"check", "last", "first"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	got := record(t, func(t testing.TB) {
		t.Cleanup(func() { t.Errorf("%d in a cleanup", 3) })
		t.Error("1 and on")
		if !t.Failed() {
			t.Error("the check does not know that it has failed")
		}
		t.Fatalf("%d and out", 2)
		t.Error("behind Fatal")
	})
	if want := []string{"1 and on\n", "2 and out", "3 in a cleanup"}; !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
}
