package admission_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/admission"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/run"
)

var dawn = evidence.TimeOf(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC))

// shelf holds one policy.
type shelf struct {
	state *guardian.State
	now   evidence.Time
}

var errGone = errors.New("the ledger is gone")

func (s shelf) Policy(_ context.Context, id string) (*guardian.State, ledger.Guard, evidence.Time, error) {
	if id != "policy" {
		return nil, ledger.Guard{}, 0, errGone
	}
	return s.state, ledger.Guard{Key: ledger.Key{Workspace: "default", Kind: "guardian", ID: id}, Revision: 7}, s.now, nil
}

func published() *guardian.State {
	p := guardian.Policy{
		Name: "Purchases", Service: "merchant", Environment: "local", Mode: "bounded", BudgetCents: 13700, Provider: "replay",
		Operations: []string{"merchant.catalog"}, Channels: []string{"http"},
	}
	return &guardian.State{Revision: 1, Draft: p, Published: &guardian.Published{Version: 3, Revision: 1, PublishedAt: dawn, Policy: p}}
}

func request(edits ...func(*admission.Request)) admission.Request {
	r := admission.Request{Config: run.Config{Service: "merchant", Target: "local", Channel: "http"}, GuardianID: "policy", BudgetUnset: true}
	for _, f := range edits {
		f(&r)
	}
	return r
}

// What a request leaves open comes from its policy, and the decision rests on that
// policy until it is degraded (H-213, H-214).
func TestBind(t *testing.T) {
	a, err := admission.Bind(t.Context(), shelf{published(), dawn}, request())
	if err != nil {
		t.Fatal(err)
	}
	if a.Config.Mode != "bounded" || a.Config.Interrogator != "replay" || a.Budget != 13700 {
		t.Errorf("admitted %+v, budget %s", a.Config, a.Budget)
	}
	if a.Binding == nil || a.Binding.PolicyVersion != 3 || a.Guard == nil || a.Guard.Revision != 7 || !a.Until.Equal(dawn.Time().Add(24*time.Hour)) {
		t.Errorf("binding %+v, guard %+v, until %s", a.Binding, a.Guard, a.Until)
	}
}

// Without a policy the protocol's defaults hold, and a budget is needed (H-117, H-092, H-218).
func TestUnbound(t *testing.T) {
	free := func(r *admission.Request) { r.GuardianID = "" }
	a, err := admission.Bind(t.Context(), shelf{}, request(free, func(r *admission.Request) { r.BudgetUnset, r.Budget = false, 5 }))
	if err != nil || a.Config.Mode != "exact" || a.Config.Interrogator != "replay" || a.Budget != 5 || a.Binding != nil || a.Guard != nil {
		t.Errorf("%+v, %v", a, err)
	}
	denied(t, shelf{}, request(free), authority.InvalidRequest)
	verified := &run.Binding{GuardianID: "policy"}
	a, err = admission.Bind(t.Context(), shelf{}, request(free, func(r *admission.Request) { r.BudgetUnset, r.Verify = false, verified }))
	if err != nil || a.Binding != verified || a.Guard != nil {
		t.Errorf("a run of a verification: %+v, %v", a, err)
	}
}

func denied(t *testing.T, s shelf, r admission.Request, reason string) {
	t.Helper()
	_, err := admission.Bind(t.Context(), s, r)
	if d, ok := errors.AsType[*authority.Denial](err); !ok || d.Reason != reason {
		t.Errorf("%v, want %s", err, reason)
	}
}

func TestNotBound(t *testing.T) {
	denied(t, shelf{published(), dawn.Add(24 * time.Hour)}, request(), authority.GuardianDegraded)
	denied(t, shelf{&guardian.State{Revision: 1}, dawn}, request(), authority.GuardianNotPublished)
	denied(t, shelf{published(), dawn}, request(func(r *admission.Request) { r.Config.Mode = "exact" }), authority.GuardianMismatch)
	denied(t, shelf{published(), dawn}, request(func(r *admission.Request) { r.BudgetUnset = false }), authority.GuardianMismatch)
	if _, err := admission.Bind(t.Context(), shelf{}, request(func(r *admission.Request) { r.GuardianID = "other" })); !errors.Is(err, errGone) {
		t.Errorf("%v, want the reader's own error", err)
	}
}

// What is not built is named, each with what to send instead; what stands for an absent
// member says so (L-1).
func TestDeny(t *testing.T) {
	built := admission.Built{Services: []string{"merchant", "bank"}, Hosted: []string{"merchant"}}
	good := run.Config{Service: "merchant", Target: "hosted", Channel: "http", Mode: "bounded", ExecutionMode: "replay", Executor: "replay", Interrogator: "replay"}
	if d := built.Deny(good); d != nil {
		t.Errorf("what is built: %v", d)
	}
	for want, f := range map[string]func(*run.Config){
		`service "shop". Send "service": "merchant".`:                      func(c *run.Config) { c.Service = "shop" },
		`target "hosted". Send "target": "local".`:                         func(c *run.Config) { c.Service = "bank" },
		`channel "browser" (the default). Send "channel": "http".`:         func(c *run.Config) { c.Channel = "browser" },
		`channel "mcp". Send "channel": "http".`:                           func(c *run.Config) { c.Channel = "mcp" },
		`executionMode "live". Send "executionMode": "replay".`:            func(c *run.Config) { c.ExecutionMode = "live" },
		`executor "openai". Send "executor": "replay".`:                    func(c *run.Config) { c.Executor = "openai" },
		`interrogator "openai". Send "interrogator": "replay".`:            func(c *run.Config) { c.Interrogator = "openai" },
		`reasoningEvidence "true". Send "reasoningEvidence": false.`:       func(c *run.Config) { c.ReasoningEvidence = true },
		`channel "mcp", executor "openai". Send "channel": "http", "execu`: func(c *run.Config) { c.Channel, c.Executor = "mcp", "openai" },
	} {
		c := good
		f(&c)
		if d := built.Deny(c); d == nil || d.Reason != authority.NotImplemented || !strings.HasPrefix(d.Detail, "Not built: "+want) {
			t.Errorf("%v, want %s", d, want)
		}
	}
}
