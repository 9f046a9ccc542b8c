package identity

import (
	"testing"
	"time"
)

// TestClockSetBack: wrong secrets from what is now the future hold no other up; the
// limit is five in a minute (1.8), whatever the clock does.
func TestClockSetBack(t *testing.T) {
	var f failures
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	var none check
	for range MaxWrong {
		if err := f.count(at, "a", none); err != ErrUnauthenticated {
			t.Fatal(err)
		}
	}
	if _, limited := f.count(at, "a", none).(*RateLimitError); !limited {
		t.Fatal("the sixth wrong secret in a minute was not limited")
	}
	if err := f.count(at.Add(-24*time.Hour), "a", none); err != ErrUnauthenticated {
		t.Errorf("a day back: %v", err)
	}
}
