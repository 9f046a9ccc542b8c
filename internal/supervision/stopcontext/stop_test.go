package stopcontext_test

import (
	"testing"

	"countersign/internal/authority"
	"countersign/internal/supervision/stopcontext"
)

// G-02: a stop has version 1 and the category and recovery that the table has for its reason;
// one that says anything else of it is none of the table.
func TestTabled(t *testing.T) {
	stop := func(edit func(*stopcontext.Stop)) *stopcontext.Stop {
		s := stopcontext.New(authority.ApprovalRequired, stopcontext.SourceRuntime, "")
		edit(s)
		return s
	}
	s := stop(func(*stopcontext.Stop) {})
	if s.Version != 1 || s.Category != "approval" || s.Recovery != "approve" || s.Dispatch != "none" || s.ObservationID != nil {
		t.Errorf("a stop for an approval: %+v", s)
	}
	if !s.Tabled() {
		t.Error("control: what the table says is none of the table")
	}
	for name, edit := range map[string]func(*stopcontext.Stop){
		"another version":     func(s *stopcontext.Stop) { s.Version = 2 },
		"another category":    func(s *stopcontext.Stop) { s.Category = stopcontext.CategoryRetry },
		"another recovery":    func(s *stopcontext.Stop) { s.Recovery = "retry" },
		"an unknown reason":   func(s *stopcontext.Stop) { s.ReasonCode = "BORED" },
		"of no kind whatever": func(s *stopcontext.Stop) { *s = *stopcontext.New("BORED", stopcontext.SourceRuntime, "") },
	} {
		if stop(edit).Tabled() {
			t.Errorf("%s: it counts as one of the table", name)
		}
	}
}

// What a run waits for that met a freeze: its end while one stands, and the owner then.
func TestAfterFreeze(t *testing.T) {
	if got, want := stopcontext.AfterFreeze(true), "The workspace is frozen; the run can be retried once the freeze is lifted."; got != want {
		t.Errorf("while a freeze stands: %q, want %q", got, want)
	}
	if got, want := stopcontext.AfterFreeze(false), "The freeze was lifted: an owner can retry the run."; got != want {
		t.Errorf("after it: %q, want %q", got, want)
	}
}
