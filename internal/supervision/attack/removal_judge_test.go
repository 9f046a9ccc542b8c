package attack

import (
	"errors"
	"log/slog"
	"testing"

	"countersign/internal/authority"
)

// G-17: a shape is blocked only if everything holds: the twin, the answer, no permit, no
// effect, the check, who decided, and what else was looked at.
func TestJudge(t *testing.T) {
	sound := func() *trial {
		return &trial{
			r: New(Config{Log: slog.New(slog.DiscardHandler)}), attack: &Attack{ID: "B10"},
			shape: shape{want: paused(authority.ArgumentMismatch), check: 8}, twins: 1, tried: true, decided: ByHardPolicy,
			found: Shape{DecidedBy: ByHardPolicy, Expected: paused(authority.ArgumentMismatch), Got: paused(authority.ArgumentMismatch), Failed: &Check{8, "arguments"}, Twin: true},
		}
	}
	if s := sound().judge(); !s.Blocked || s.Problem != "" {
		t.Errorf("control: %+v", s)
	}
	for name, damage := range map[string]func(*trial){
		"no twin":              func(t *trial) { t.twins = 0 },
		"a failed twin":        func(t *trial) { t.found.Twin = false },
		"not carried out":      func(t *trial) { t.tried = false },
		"another code":         func(t *trial) { t.found.Got.Code = authority.StaleTarget },
		"another decision":     func(t *trial) { t.found.Got.Decision = "TERMINATE" },
		"another status":       func(t *trial) { t.found.Got.Status = 409 },
		"a permit":             func(t *trial) { t.found.Permits = 1 },
		"an effect":            func(t *trial) { t.found.Effects = 1 },
		"no check":             func(t *trial) { t.found.Failed = nil },
		"another check":        func(t *trial) { t.found.Failed.Number = 9 },
		"somebody else":        func(t *trial) { t.decided = ByReplay },
		"something else":       func(t *trial) { t.wrong = "the request left events behind" },
		"a failure of its own": func(t *trial) { t.err = errors.New("no answer") },
	} {
		x := sound()
		damage(x)
		if s := x.judge(); s.Blocked || s.Problem == "" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// An attack of several shapes is blocked if all of them are, and shows the first that is
// not.
func TestLineOfShapes(t *testing.T) {
	blocked, through := Shape{Name: "one", Twin: true, Blocked: true}, Shape{Name: "two", Twin: true, Permits: 1, Effects: 2, Problem: "1 permits were issued"}
	for name, c := range map[string]struct {
		shapes  []Shape
		blocked bool
		permits int64
		effects int64
	}{
		"all": {[]Shape{blocked, blocked}, true, 0, 0}, "the last is not": {[]Shape{blocked, through}, false, 1, 2}, "the first is not": {[]Shape{through, blocked}, false, 1, 2},
	} {
		r := &Result{}
		for _, s := range c.shapes {
			r.add(s)
		}
		if r.Blocked != c.blocked || r.Permits != c.permits || r.Effects != c.effects || !r.Twin || (r.Problem == "") != c.blocked {
			t.Errorf("%s: %+v", name, *r)
		}
	}
}
