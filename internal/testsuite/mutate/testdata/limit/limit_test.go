package limit

import "testing"

func TestFits(t *testing.T) {
	for amount, want := range map[int]bool{-1: false, 0: true, 9: true, 10: true, 11: false} {
		if got := Fits(amount, 10); got != want {
			t.Errorf("Fits(%d, 10) = %v, want %v", amount, got, want)
		}
	}
}

func TestLate(t *testing.T) {
	if Late(1, 10) || !Late(11, 10) {
		t.Error("Late is wrong away from the limit")
	}
}

func TestExpired(t *testing.T) {
	if Expired(9, 10) || !Expired(10, 10) || !Expired(11, 10) {
		t.Error("Expired is wrong")
	}
}

func TestFindings(t *testing.T) {
	if len(Findings("x", true, true)) != 0 || len(Findings("x", false, true)) != 1 || len(Findings("x", true, false)) != 1 {
		t.Error("wrong findings")
	}
}

func TestWait(t *testing.T) {
	if Wait(3) != 0 {
		t.Error("Wait(3) is not 0")
	}
}
