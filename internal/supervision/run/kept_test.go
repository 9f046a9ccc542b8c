package run_test

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/supervision/chain"
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

// TestMatter: a guardian judges what the checks saw, with the owner's clarifications
// and the grants as they are (H-040, G-10).
func TestMatter(t *testing.T) {
	w := clarified(t)
	s := w.read()
	d := decide.Begin(s, w.now, w.fresh(), true, decide.Doors{})
	r := w.report("item")
	review, denial := d.Propose(r, w.catalog)
	if denial != nil {
		t.Fatal(denial)
	}
	seen := newest[run.Observed](w)
	m := d.Matter(r, review, seen, func(c evidence.Commitment) (string, error) { return c.Text, nil })
	if m.Service != "shop" || m.Instruction != s.Instruction || len(m.Clarifications) != 1 || m.Clarifications[0] != s.Clarifications[0] || string(m.Terms) != string(s.Terms) ||
		len(m.Grants) != 1 || m.Grants[0].ID != s.Grants[0].ID || len(m.Workflow) != 4 || m.Position != "read" || m.Observation != seen || m.Report != r || len(m.Review.Findings) != 10 {
		t.Errorf("matter %+v", m)
	}
	if text, err := m.Text(s.Instruction); err != nil || text != s.Instruction.Text {
		t.Errorf("text %q, %v", text, err)
	}
}

// TestTextsAmongTheTerms: a free text of the terms is in the chain as a commitment only.
func TestTextsAmongTheTerms(t *testing.T) {
	w := blank(t, run.TargetLocal)
	r := w.request()
	r.TermTexts = map[string]string{"memo": "of May", "note": "twice"}
	w.create(r)
	var terms map[string]any
	if err := json.Unmarshal(w.read().Terms, &terms); err != nil {
		t.Fatal(err)
	}
	for name, text := range r.TermTexts {
		commitment, _ := terms[name].(map[string]any)
		if commitment["length"] != float64(len(text)) || strings.Contains(string(w.events[0].Data), text) {
			t.Errorf("%s stands in the terms as %v", name, terms[name])
		}
		if i := slices.IndexFunc(w.texts, func(kept evidence.Text) bool { return kept.Text == text }); i < 0 || w.texts[i].Commitment != commitment["text"] {
			t.Errorf("%s is not kept beside the chain", name)
		}
	}
	if terms["addressRef"] != "addr_home" || len(terms) != 4 {
		t.Errorf("terms %v", terms)
	}
	w.start()
	w.verify()
	defer func() {
		reason := recover()
		if _, fault := reason.(runtime.Error); reason == nil || fault {
			t.Errorf("terms that are no object end in %v, want what is wrong with them", reason)
		}
	}()
	r.Terms = json.RawMessage(`[]`)
	d := decide.Begin(nil, w.now, w.fresh(), true, decide.Doors{})
	plain := r
	plain.TermTexts = nil
	if d.Create(plain); string(d.State().Terms) != "[]" {
		t.Errorf("terms without free text became %s", d.State().Terms)
	}
	decide.Begin(nil, w.now, w.fresh(), true, decide.Doors{}).Create(r)
}

// TestNothingReplayed: a replay that was fed nothing knows nothing and accuses nobody.
func TestNothingReplayed(t *testing.T) {
	if r := (&chain.Replay{}); r.Known() || r.Unlawful() != nil {
		t.Errorf("known %v, unlawful %v", r.Known(), r.Unlawful())
	}
}
