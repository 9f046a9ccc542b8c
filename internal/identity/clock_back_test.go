package identity

import (
	"testing"
	"time"
)

// TestClockSetBack: wrong secrets from what is now the future lock nobody out; the
// limit is five in a minute (1.8), whatever the clock does.
func TestClockSetBack(t *testing.T) {
	var f failures
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	wrong, right := func() bool { return false }, func() bool { return true }
	var none check
	for range MaxWrong {
		if err := f.try(at, "a", wrong, none); err != ErrUnauthenticated {
			t.Fatal(err)
		}
	}
	if err := f.try(at, "a", right, none); err == nil {
		t.Fatal("the sixth attempt in a minute was taken")
	}
	if err := f.try(at.Add(-24*time.Hour), "a", right, none); err != nil {
		t.Errorf("a day back: %v", err)
	}
}
