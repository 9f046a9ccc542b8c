package guardian_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/authority"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/run"
)

// published is a world whose policy has version 1 at dawn.
func published(t testing.TB) *world {
	w := newWorld(t)
	if reason := w.draft(policy()); reason != "" {
		t.Fatal(reason)
	}
	w.verify(1)
	if reason := w.publish(1); reason != "" {
		t.Fatal(reason)
	}
	return w
}

// The lifecycle of G-22 with the limits of H-208 and H-211, at and around each.
func TestLifecycle(t *testing.T) {
	w := newWorld(t)
	is := func(what, want string) {
		t.Helper()
		if got := w.state().At(w.now); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	denied := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	denied("draft", w.draft(policy()), "")
	is("drafted", "draft")
	denied("publish a draft", w.publish(1), "GUARDIAN_NOT_VERIFIED")
	w.verify(1, failing("permit.none"))
	is("after a failed verification", "draft")
	denied("publish what has failed", w.publish(1), "GUARDIAN_NOT_VERIFIED")
	w.verify(1)
	is("verified", "verified")
	verified := w.now
	w.now = verified.Add(time.Hour - time.Millisecond)
	is("just below an hour", "verified")
	w.now = verified.Add(time.Hour)
	is("an hour later", "draft")
	denied("publish an hour later", w.publish(1), "GUARDIAN_NOT_VERIFIED")
	w.now = verified.Add(time.Hour - time.Millisecond)
	denied("publish just below an hour", w.publish(1), "")
	is("published", "published")
	first := w.now
	w.now = first.Add(24*time.Hour - time.Millisecond)
	is("just below 24 hours", "published")
	if p, denial := w.state().Bindable(w.now); denial != nil || p.Version != 1 {
		t.Errorf("bindable: %+v, %v", p, denial)
	}
	w.now = first.Add(24 * time.Hour)
	is("24 hours later", "degraded")
	if _, denial := w.state().Bindable(w.now); denial == nil || denial.Reason != "GUARDIAN_DEGRADED" {
		t.Errorf("24 hours later: %v, want GUARDIAN_DEGRADED", denial)
	}
	w.verify(1)
	is("verified again, not published", "degraded")
	denied("publish again", w.publish(1), "")
	is("published again", "published")
	if v := w.state().Published.Version; v != 2 {
		t.Errorf("version %d, want 2", v)
	}
	w.lawful()
}

// A policy that was never published binds nothing.
func TestNotPublished(t *testing.T) {
	w := newWorld(t)
	w.draft(policy())
	w.verify(1)
	if _, denial := w.state().Bindable(w.now); denial == nil || denial.Reason != "GUARDIAN_NOT_PUBLISHED" {
		t.Errorf("%v, want GUARDIAN_NOT_PUBLISHED", denial)
	}
}

// An edit counts from the current revision alone, leaves what is published as it is, and
// needs a verification of its own (H-201, H-208, H-210).
func TestEdit(t *testing.T) {
	w := published(t)
	other := policy(func(p *guardian.Policy) { p.BudgetCents = 1 })
	if reason := w.edit(2, other); reason != "REVISION_CONFLICT" {
		t.Errorf("edit from a revision that is not there: %q", reason)
	}
	if reason := w.edit(1, other); reason != "" {
		t.Fatalf("edit: %s", reason)
	}
	if reason := w.edit(1, policy()); reason != "REVISION_CONFLICT" {
		t.Errorf("the second edit from one revision: %q, want REVISION_CONFLICT", reason)
	}
	s := w.state()
	if s.Revision != 2 || s.Draft.BudgetCents != 1 || s.Published.Policy.BudgetCents != 13700 || s.Published.Revision != 1 {
		t.Errorf("state after the edit: %+v", s)
	}
	if reason := w.publish(1); reason != "REVISION_CONFLICT" {
		t.Errorf("publish the former revision: %q", reason)
	}
	if reason := w.publish(2); reason != "GUARDIAN_NOT_VERIFIED" {
		t.Errorf("publish the edit on the former verification: %q", reason)
	}
	if _, reason := w.start(1); reason != "REVISION_CONFLICT" {
		t.Errorf("verify the former revision: %q", reason)
	}
	w.lawful()
}

// A verification counts whole or not at all: one at a time, ended by an edit, given up
// after a minute.
func TestVerification(t *testing.T) {
	t.Run("one at a time", func(t *testing.T) {
		w := newWorld(t)
		w.draft(policy())
		first, _ := w.start(1)
		if !w.state().Verifying(w.now) {
			t.Error("no verification is under way")
		}
		w.now = dawn.Add(time.Minute - time.Millisecond)
		if _, reason := w.start(1); reason != "IN_PROGRESS" {
			t.Errorf("a second one below a minute: %q, want IN_PROGRESS", reason)
		}
		w.now = dawn.Add(time.Minute)
		if reason := w.complete(first, passed(policy(), w.now)); reason != "REVISION_CONFLICT" {
			t.Errorf("the first after a minute: %q", reason)
		}
		second, reason := w.start(1)
		if reason != "" {
			t.Fatalf("a second one after a minute: %s", reason)
		}
		if reason := w.complete(first, passed(policy(), w.now)); reason != "REVISION_CONFLICT" {
			t.Errorf("the first while the second is under way: %q", reason)
		}
		if reason := w.complete(second, passed(policy(), w.now)); reason != "" {
			t.Errorf("the second: %q", reason)
		}
		if reason := w.complete(second, passed(policy(), w.now)); reason != "REVISION_CONFLICT" {
			t.Errorf("the second for the second time: %q", reason)
		}
		w.lawful()
	})
	t.Run("an edit ends it", func(t *testing.T) {
		w := newWorld(t)
		w.draft(policy())
		id, _ := w.start(1)
		w.edit(1, policy())
		if w.state().Verifying(w.now) {
			t.Error("it is still under way")
		}
		if reason := w.complete(id, passed(policy(), w.now)); reason != "REVISION_CONFLICT" {
			t.Errorf("complete: %q, want REVISION_CONFLICT", reason)
		}
		if v := w.state().Verification; v != nil {
			t.Errorf("a verification was left: %+v", v)
		}
		w.lawful()
	})
	t.Run("times are inside it", func(t *testing.T) {
		w := newWorld(t)
		w.draft(policy())
		id, _ := w.start(1)
		tests := passed(policy(), dawn.Add(-time.Hour))
		tests[0].At = dawn.Add(time.Hour) // of a clock that goes otherwise
		w.now = dawn.Add(time.Second)
		if reason := w.complete(id, tests); reason != "" {
			t.Fatal(reason)
		}
		w.lawful()
	})
	// H-204, H-206: every single test that has not passed fails the whole, except that
	// native WebMCP is not measured.
	for _, test := range passed(policy(), dawn) {
		t.Run("without "+test.Name, func(t *testing.T) {
			w := newWorld(t)
			w.draft(policy())
			w.verify(1, failing(test.Name))
			if w.state().Verification.Passed {
				t.Error("it has passed")
			}
			if reason := w.publish(1); reason != "GUARDIAN_NOT_VERIFIED" {
				t.Errorf("publish: %q", reason)
			}
			w.lawful()
		})
	}
}

// What this build has no adapter for stays a draft (H-212), and so does another
// provider.
func TestNotBuilt(t *testing.T) {
	for name, f := range map[string]func(*guardian.Policy){
		"custom":     func(p *guardian.Policy) { p.Service = "custom" },
		"staging":    func(p *guardian.Policy) { p.Environment = "staging" },
		"production": func(p *guardian.Policy) { p.Environment = "production" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if reason := w.draft(policy(f)); reason != "" {
				t.Fatalf("draft: %s", reason)
			}
			if _, reason := w.start(1); reason != "NOT_IMPLEMENTED" {
				t.Errorf("verify: %q", reason)
			}
			if reason := w.publish(1); reason != "NOT_IMPLEMENTED" {
				t.Errorf("publish: %q", reason)
			}
		})
	}
	w := newWorld(t)
	if reason := w.draft(policy(func(p *guardian.Policy) { p.Provider = "openai" })); reason != "NOT_IMPLEMENTED" {
		t.Errorf("provider openai: %q", reason)
	}
	w.draft(policy())
	if reason := w.edit(1, policy(func(p *guardian.Policy) { p.Provider = "openai" })); reason != "NOT_IMPLEMENTED" {
		t.Errorf("edit to provider openai: %q", reason)
	}
}

// badPolicies break one member each.
var badPolicies = map[string]func(*guardian.Policy){
	"name":        func(p *guardian.Policy) { p.Name = strings.Repeat("n", 81) },
	"service":     func(p *guardian.Policy) { p.Service = "shop" },
	"environment": func(p *guardian.Policy) { p.Environment = "moon" },
	"mode":        func(p *guardian.Policy) { p.Mode = "free" },
	"budgetCents": func(p *guardian.Policy) { p.BudgetCents = -1 },
	"provider":    func(p *guardian.Policy) { p.Provider = "oracle" },
	"operations":  func(p *guardian.Policy) { p.Operations = []string{"a", "a"} },
	"channels":    func(p *guardian.Policy) { p.Channels = []string{"http", "smoke"} },
}

func TestBadPolicy(t *testing.T) {
	more := map[string]func(*guardian.Policy){
		"no name":           func(p *guardian.Policy) { p.Name = "" },
		"a line in a name":  func(p *guardian.Policy) { p.Name = "a\nb" },
		"no operations":     func(p *guardian.Policy) { p.Operations = nil },
		"33 operations":     func(p *guardian.Policy) { p.Operations = numbered(33) },
		"a long operation":  func(p *guardian.Policy) { p.Operations = []string{strings.Repeat("o", 65)} },
		"no channels":       func(p *guardian.Policy) { p.Channels = nil },
		"one channel twice": func(p *guardian.Policy) { p.Channels = []string{"http", "http"} },
	}
	for _, list := range []map[string]func(*guardian.Policy){badPolicies, more} {
		for name, f := range list {
			w := newWorld(t)
			if reason := w.draft(policy(f)); reason != "INVALID_REQUEST" {
				t.Errorf("draft with another %s: %q", name, reason)
			}
			w.draft(policy())
			if reason := w.edit(1, policy(f)); reason != "INVALID_REQUEST" {
				t.Errorf("edit with another %s: %q", name, reason)
			}
		}
	}
	for name, f := range map[string]func(*guardian.Policy){
		"32 operations":     func(p *guardian.Policy) { p.Operations = numbered(32) },
		"no budget":         func(p *guardian.Policy) { p.BudgetCents = 0 },
		"a name with space": func(p *guardian.Policy) { p.Name = "Look around" },
	} {
		if reason := newWorld(t).draft(policy(f)); reason != "" {
			t.Errorf("%s: %s", name, reason)
		}
	}
}

func numbered(n int) (list []string) {
	for i := range n {
		list = append(list, "merchant.o"+string(rune('A'+i)))
	}
	return list
}

// A run is covered by exactly what the policy says (H-214, H-216); a local service's
// policy is none for a hosted target.
func TestCovers(t *testing.T) {
	p := policy(func(p *guardian.Policy) { p.Channels = []string{"http", "mcp"} })
	b := p.Binding(policyID, 3)
	if b.GuardianID != policyID || b.PolicyVersion != 3 || b.Service != "merchant" || b.Environment != "local" || b.Mode != "bounded" || b.BudgetCents != 13700 ||
		b.Provider != "replay" || !slices.Equal(b.Operations, p.Operations) || !slices.Equal(b.Channels, p.Channels) {
		t.Errorf("binding: %+v", b)
	}
	config := run.Config{Service: "merchant", Target: "local", Channel: "mcp", Mode: "bounded", Interrogator: "replay"}
	if denial := guardian.Covers(b, config, 13700); denial != nil {
		t.Errorf("the policy's own: %v", denial)
	}
	for name, f := range map[string]func(*run.Config){
		"service":      func(c *run.Config) { c.Service = "bank" },
		"channel":      func(c *run.Config) { c.Channel = "browser" },
		"target":       func(c *run.Config) { c.Target = "hosted" },
		"mode":         func(c *run.Config) { c.Mode = "exact" },
		"interrogator": func(c *run.Config) { c.Interrogator = "openai" },
	} {
		c := config
		f(&c)
		if denial := guardian.Covers(b, c, 13700); denial == nil || denial.Reason != "GUARDIAN_MISMATCH" || !strings.HasSuffix(denial.Detail, "about "+name+".") {
			t.Errorf("another %s: %v", name, denial)
		}
	}
	if denial := guardian.Covers(b, config, 13699); denial == nil || denial.Reason != "GUARDIAN_MISMATCH" {
		t.Errorf("another budget: %v", denial)
	}
}

// The label of a run's binding says how its policy stands now (G-22).
func TestLabel(t *testing.T) {
	w := published(t)
	first := w.state().Published.Policy.Binding(policyID, 1)
	label := func(b *run.Binding, want string) {
		t.Helper()
		if got := w.state().Label(b, w.now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	label(first, "current")
	label(w.state().Draft.Binding(policyID, 0), "under_verification")
	w.now = w.now.Add(24 * time.Hour)
	label(first, "degraded")
	w.verify(1)
	w.publish(1)
	label(first, "superseded")
	draft := newWorld(t)
	draft.draft(policy())
	if got := draft.state().Label(first, draft.now); got != "under_verification" {
		t.Errorf("a policy without a version: %s", got)
	}
}

// A state of another machine is refused.
func TestDecode(t *testing.T) {
	w := published(t)
	raw := []byte(strings.Replace(string(w.raw), `"machine":1`, `"machine":2`, 1))
	if _, err := guardian.DecodeState(raw); err == nil {
		t.Error("a state of machine 2 was read")
	}
	for _, raw := range []string{"", "{", `{"x":1}`, `{"machine":1,"x":1}`, `{"machine":1,"id":7}`} {
		if _, err := guardian.DecodeState([]byte(raw)); err == nil {
			t.Errorf("%q was read as a state", raw)
		}
		if _, err := guardian.DecodeInventory([]byte(raw)); err == nil {
			t.Errorf("%q was read as an inventory", raw)
		}
	}
}

// A chain has an end: what would begin something new is denied before it, and what was
// begun can still be ended.
func TestFullChain(t *testing.T) {
	w := newWorld(t)
	w.draft(policy())
	s := w.state()
	s.Events = guardian.MaxEvents - 2
	begin := func() *guardian.Deciding { return guardian.Begin(s, w.now, w.seed()) }
	if _, denial := begin().Start(1); denial != nil {
		t.Fatalf("with room for two: %v", denial)
	}
	id := s.Running.ID
	for name, denial := range map[string]*authority.Denial{
		"edit": begin().Edit(1, policy()),
	} {
		if denial == nil || denial.Reason != "WORKSPACE_LIMIT" {
			t.Errorf("%s with room for one: %v", name, denial)
		}
	}
	d := begin()
	if denial := d.Complete(id, nil, passed(policy(), w.now)); denial != nil {
		t.Errorf("the end of the verification: %v", denial)
	}
	if _, err := d.Done(); err != nil {
		t.Error(err)
	}
	if _, denial := begin().Start(1); denial == nil || denial.Reason != "WORKSPACE_LIMIT" {
		t.Errorf("start in a full chain: %v", denial)
	}
	if denial := begin().Publish(1); denial == nil || denial.Reason != "WORKSPACE_LIMIT" {
		t.Errorf("publish in a full chain: %v", denial)
	}
}

// A decision that breaks a rule is not handed over.
func TestUnlawfulDecision(t *testing.T) {
	w := published(t)
	d := guardian.Begin(w.state(), w.now, w.seed())
	if denial := d.Draft(subject(policyID), policy()); denial != nil {
		t.Fatal(denial)
	}
	if out, err := d.Done(); err == nil {
		t.Errorf("a policy was drafted twice: %+v", out)
	}
}

// NotAfter keeps a commit that waited too long from counting: a publication behind the
// hour, the end of a verification behind its minute.
func TestNotAfter(t *testing.T) {
	w := newWorld(t)
	w.draft(policy())
	id, _ := w.start(1)
	end := guardian.Begin(w.state(), w.now, w.seed())
	if denial := end.Complete(id, nil, passed(policy(), w.now)); denial != nil {
		t.Fatal(denial)
	}
	if out, err := end.Done(); err != nil || out.NotAfter != dawn.Add(time.Minute) {
		t.Errorf("the end of a verification: %+v, %v", out, err)
	}
	w.complete(id, passed(policy(), w.now))
	publication := guardian.Begin(w.state(), w.now, w.seed())
	if denial := publication.Publish(1); denial != nil {
		t.Fatal(denial)
	}
	if out, err := publication.Done(); err != nil || out.NotAfter != dawn.Add(time.Hour) {
		t.Errorf("a publication: %+v, %v", out, err)
	}
}

// Time never goes back in a chain, whatever the clock says.
func TestFloor(t *testing.T) {
	w := published(t)
	w.now = dawn.Add(-time.Hour)
	if reason := w.edit(1, policy()); reason != "" {
		t.Fatal(reason)
	}
	if at := w.events[len(w.events)-1].Timestamp; at != dawn.String() {
		t.Errorf("edited at %s, want %s", at, dawn)
	}
	w.lawful()
}
