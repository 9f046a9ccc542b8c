package run_test

import (
	"strings"
	"testing"
	"time"

	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
)

// The ids of context turns and of their clients, and nothing that looks like one.
func TestContextIDs(t *testing.T) {
	for _, one := range []struct {
		prefix string
		is     func(string) bool
	}{{"trn_", run.IsContextTurn}, {"cli_", run.IsContextClient}} {
		digits := "0123456789abcdef0123456789abcdef"
		if !one.is(one.prefix + digits) {
			t.Errorf("%s%s is none", one.prefix, digits)
		}
		for _, bad := range []string{
			"", one.prefix, digits, one.prefix + digits[1:], one.prefix + digits + "0", "int_" + digits, strings.ToUpper(one.prefix) + digits,
			one.prefix + digits[:31] + "g", one.prefix + "G" + digits[1:], one.prefix + digits[:15] + "A" + digits[16:], one.prefix + digits[:15] + "-" + digits[16:],
			" " + one.prefix + digits, one.prefix + digits + "\n",
		} {
			if one.is(bad) {
				t.Errorf("%q is one", bad)
			}
		}
	}
}

// L-10: what says that a context turn is open is not stored once that turn has ended; what
// says only that it was reported waits for nothing. Neither outlives the permit.
func TestContextTurnLimitsTheCommit(t *testing.T) {
	w := ready(run.TargetLocal)(t)
	for _, c := range []struct {
		name        string
		class       string
		until, want time.Duration
	}{
		{"observed, ending soon", run.ClassObserved, 10 * time.Second, 10 * time.Second},
		{"observed, ending later than the permit", run.ClassObserved, time.Minute, 30 * time.Second},
		{"reported", run.ClassReported, 10 * time.Second, 30 * time.Second},
		{"none", "", 10 * time.Second, 30 * time.Second},
	} {
		var turn *run.ContextTurn
		if c.class != "" {
			turn = &run.ContextTurn{ID: contextTurn, Class: c.class}
		}
		out, err := w.attempt(func(d *decide.Deciding) {
			d.InContext(turn, d.Now().Add(c.until))
			review, denial := d.Propose(w.report("item"), w.offered(d))
			if denial != nil || review.Reason != "" {
				t.Fatal(denial, review.Reason)
			}
			d.Judge(review, allow)
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := out.NotAfter.Time().Sub(w.now.Time()); got != c.want {
			t.Errorf("%s: to be stored within %s, want %s", c.name, got, c.want)
		}
		if p := newestProposed(out); (p.ContextTurn == nil) != (turn == nil) || turn != nil && *p.ContextTurn != *turn || out.State.Turn.ContextTurn != p.ContextTurn {
			t.Errorf("%s: evidence has %v", c.name, p.ContextTurn)
		}
	}
}

func newestProposed(out *decide.Transition) *run.Proposed {
	for _, draft := range out.Drafts {
		if p, ok := draft.Data.(*run.Proposed); ok {
			return p
		}
	}
	return &run.Proposed{}
}
