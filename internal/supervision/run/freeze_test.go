package run_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
)

// unfreezable says what is wrong with a transition that a freeze would let pass though
// it issues, claims or dispatches, or would hold up though it does not (L-8). Every
// decision that a test of this package stores is held against it, those of the property
// tests too.
func unfreezable(out *decide.Transition) string {
	acts := ""
	for _, d := range out.Drafts {
		data, err := json.Marshal(d.Data)
		if err != nil {
			return err.Error()
		}
		switch {
		case d.Type == "permit.issued", d.Type == "permit.claimed", d.Type == "execution.dispatched",
			d.Type == "hosted.session" && bytes.Contains(data, []byte(`"phase":"dispatched"`)):
			acts = d.Type
		}
	}
	switch {
	case acts != "" && !out.Freezable:
		return acts + " passes a freeze"
	case acts == "" && out.Freezable:
		return "a freeze holds up what issues, claims and dispatches nothing"
	}
	return ""
}

// L-8: what opens a session at a store, issues, claims and dispatches is refused in a
// frozen workspace, and the check that every test here applies notices one that is not.
func TestFreezable(t *testing.T) {
	seen := map[string]bool{}
	look := func(w *world) {
		t.Helper()
		if !w.last.Freezable {
			t.Errorf("%s passes a freeze", w.last.Drafts[0].Type)
		}
		for _, d := range w.last.Drafts {
			seen[d.Type] = true
		}
		for _, freezable := range []bool{true, false} {
			changed := *w.last
			changed.Freezable = freezable
			if got := unfreezable(&changed); (got == "") != freezable {
				t.Errorf("negative control: freezable %t: %q", freezable, got)
			}
		}
	}
	w := blank(t, run.TargetHosted)
	w.create(w.request())
	look(w)
	w.start()
	idle := *w.last
	idle.Freezable = true
	if w.last.Freezable || unfreezable(&idle) == "" {
		t.Error("a decision that dispatches nothing is held up, or nobody notices")
	}
	p := w.permit("item")
	look(w)
	w.claim(p)
	look(w)
	for _, kind := range []string{"hosted.session", "permit.issued", "permit.claimed", "execution.dispatched"} {
		if !seen[kind] {
			t.Errorf("no decision with %s was looked at", kind)
		}
	}
}

// L-8: a run that met a freeze stops for its configuration and loses its unused permit;
// one that does not wait for a report stays as it is.
func TestFreezeStops(t *testing.T) {
	w := begun(t, run.TargetLocal)
	w.permit("item")
	w.do(func(d *decide.Deciding) { d.Freeze() })
	s := w.read()
	if s.Status != run.StatusPaused || s.Stop.ReasonCode != "FROZEN" || s.Stop.Category != "configuration" || s.Stop.Recovery != "retry" || s.Permit != nil || w.last.Freezable {
		t.Errorf("status %s, stop %+v, permit %+v", s.Status, s.Stop, s.Permit)
	}
	w.do(func(d *decide.Deciding) { d.Freeze() })
	if len(w.last.Drafts) != 0 {
		t.Errorf("stopped twice: %v", w.last.Drafts)
	}
	if got := w.denied((*decide.Deciding).Retry); got != "" || w.read().Status != run.StatusReady {
		t.Errorf("retry: %q, status %s", got, w.read().Status)
	}
	w.verify()
}
