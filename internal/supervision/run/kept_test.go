package run_test

import (
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
)

// TestDecisionHandsOverWhatItKept: the texts and the observation of a decision can be
// had from it, and none that is not its own.
func TestDecisionHandsOverWhatItKept(t *testing.T) {
	w := begun(t, run.TargetLocal)
	s := w.read()
	d := decide.Begin(s, w.now, w.fresh(), true, decide.Doors{})
	if text, ok := d.Text(s.Instruction); ok || text != "" || d.Observed() != nil {
		t.Errorf("before anything was decided: %q, %v, %+v", text, ok, d.Observed())
	}
	review, denial := d.Propose(w.report("item"), w.catalog)
	if denial != nil {
		t.Fatal(denial)
	}
	d.Judge(review, allow)
	said := *d.State().Decision.Explanation
	if text, ok := d.Text(said); !ok || text != allow.Explanation {
		t.Errorf("explanation %q, %t, want %q", text, ok, allow.Explanation)
	}
	out, err := d.Done()
	if err != nil || len(out.Texts) < 3 {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, kept := range out.Texts {
		if text, ok := d.Text(kept.Commit()); !ok || text != kept.Text {
			t.Errorf("%q is handed over as %q, %t", kept.Text, text, ok)
		}
	}
	if text, ok := d.Text(evidence.Commitment{Text: strings.Repeat("0", 64), Length: 1}); ok || text != "" {
		t.Errorf("a text of nobody: %q, %t", text, ok)
	}
	if d.Observed() != nil {
		t.Error("an observation was recorded by a report")
	}
	w = begun(t, run.TargetLocal)
	n := len(w.events)
	w.do(func(d *decide.Deciding) {
		w.observed(d)
		want := d.State().Observation.ID
		if o := d.Observed(); o == nil || o.ObservationID != want {
			t.Errorf("observed %+v, want %s", o, want)
		}
		d.Measure(run.Metrics{})
		if o := d.Observed(); o == nil || o.ObservationID != want {
			t.Errorf("with another event behind it: %+v", o)
		}
	})
	w.emitted(n, "observation.recorded", "metrics")
}
