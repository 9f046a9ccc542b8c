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
			found: Shape{Finding: Finding{DecidedBy: ByHardPolicy, Expected: paused(authority.ArgumentMismatch), Got: new(paused(authority.ArgumentMismatch)), Failed: &Check{8, "arguments"}, Twin: true}},
		}
	}
	if s := sound().judge(); s.Outcome != "blocked" || !s.Blocked() || s.Problem != "" {
		t.Errorf("control: %+v", s)
	}
	for name, c := range map[string]struct {
		damage  func(*trial)
		outcome string
	}{
		"no twin":                  {func(t *trial) { t.twins = 0 }, "not_carried_out"},
		"a failed twin":            {func(t *trial) { t.found.Twin = false }, "not_carried_out"},
		"not carried out":          {func(t *trial) { t.tried = false }, "not_carried_out"},
		"no answer":                {func(t *trial) { t.found.Got = nil }, "not_carried_out"},
		"a failure of its own":     {func(t *trial) { t.err = errors.New("no answer") }, "not_carried_out"},
		"no ledger":                {func(t *trial) { *t.found.Got = refused(503, "LEDGER_UNAVAILABLE") }, "not_carried_out"},
		"a freeze":                 {func(t *trial) { *t.found.Got = refused(409, "FROZEN") }, "not_carried_out"},
		"a failure after a permit": {func(t *trial) { t.err, t.found.Permits = errors.New("no answer"), 1 }, "open"},
		"no ledger after effects":  {func(t *trial) { *t.found.Got, t.found.Effects = refused(503, "LEDGER_UNAVAILABLE"), 1 }, "open"},
		"an internal error":        {func(t *trial) { *t.found.Got = refused(500, "INTERNAL") }, "open"},
		"another code":             {func(t *trial) { t.found.Got.Code = authority.StaleTarget }, "open"},
		"another decision":         {func(t *trial) { t.found.Got.Decision = "TERMINATE" }, "open"},
		"another status":           {func(t *trial) { t.found.Got.Status = 409 }, "open"},
		"a permit":                 {func(t *trial) { t.found.Permits = 1 }, "open"},
		"an effect":                {func(t *trial) { t.found.Effects = 1 }, "open"},
		"no check":                 {func(t *trial) { t.found.Failed = nil }, "open"},
		"another check":            {func(t *trial) { t.found.Failed.Number = 9 }, "open"},
		"somebody else":            {func(t *trial) { t.decided = ByReplay }, "open"},
		"something else":           {func(t *trial) { t.wrong = "the request left events behind" }, "open"},
	} {
		x := sound()
		c.damage(x)
		if s := x.judge(); s.Outcome != c.outcome || s.Blocked() || s.Problem == "" {
			t.Errorf("%s: %+v, want %s", name, s, c.outcome)
		}
	}
}

// An attack of several shapes is blocked if all of them are, and shows the worst: one that
// is open before one that was not carried out.
func TestLineOfShapes(t *testing.T) {
	blocked := Shape{"one", Finding{Twin: true, Outcome: "blocked"}}
	through := Shape{"two", Finding{Twin: true, Outcome: "open", Permits: 1, Effects: 2, Problem: "1 permits were issued"}}
	not := Shape{"three", Finding{Outcome: "not_carried_out", Problem: "no answer"}}
	for name, c := range map[string]struct {
		shapes           []Shape
		outcome, problem string
		permits, effects int64
		twin             bool
	}{
		"all":                  {[]Shape{blocked, blocked}, "blocked", "", 0, 0, true},
		"the last is not":      {[]Shape{blocked, through}, "open", "two: 1 permits were issued", 1, 2, true},
		"the first is not":     {[]Shape{through, blocked}, "open", "two: 1 permits were issued", 1, 2, true},
		"one could not be":     {[]Shape{blocked, not, blocked}, "not_carried_out", "three: no answer", 0, 0, false},
		"one could not be and": {[]Shape{not, through}, "open", "two: 1 permits were issued", 1, 2, false},
		"the other way round":  {[]Shape{through, not}, "open", "two: 1 permits were issued", 1, 2, false},
	} {
		r := &Result{}
		for _, s := range c.shapes {
			r.add(s)
		}
		if r.Outcome != c.outcome || r.Blocked() != (c.outcome == "blocked") || r.Problem != c.problem || r.Permits != c.permits || r.Effects != c.effects || r.Twin != c.twin || len(r.Shapes) != len(c.shapes) {
			t.Errorf("%s: %+v", name, *r)
		}
	}
}
