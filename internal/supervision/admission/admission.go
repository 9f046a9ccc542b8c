// Package admission says what a request to create a run amounts to, before anything is
// decided: which guardian policy the run is bound to, what the request leaves to that
// policy or to the protocol's defaults, and what this build does not do.
package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/money"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/run"
)

// Request is the body of POST /runs with its defaults filled in, save what may come
// from a policy.
type Request struct {
	Config      run.Config
	Budget      money.Cents
	Instruction string
	Terms       json.RawMessage // nil: the fixture's
	// GuardianID is the policy that the run is bound to (H-213), "": none. What
	// Config.Mode and Config.Interrogator leave empty then comes from the policy, and the
	// budget if BudgetUnset.
	GuardianID  string
	BudgetUnset bool
	// Verify is the policy that a synthetic run is made to verify; nil for every other run.
	Verify *run.Binding
}

// Admitted is a request together with the policy that it rests on.
type Admitted struct {
	Request
	Binding *run.Binding  // nil: none
	Guard   *ledger.Guard // on the policy as it was read; nil: it rests on none
	Until   time.Time     // when the policy is degraded; zero: never
}

// Policies reads guardian policies: the state, the guard of a decision that leans on it,
// and the time that it was read at.
type Policies interface {
	Policy(ctx context.Context, id string) (*guardian.State, ledger.Guard, evidence.Time, error)
}

// Bind snapshots the published policy (H-213) and fills in what the request leaves open.
// A request that the policy does not cover is denied.
func Bind(ctx context.Context, policies Policies, r Request) (Admitted, error) {
	a := Admitted{Request: r, Binding: r.Verify}
	if r.GuardianID == "" {
		a.Config.Mode, a.Config.Interrogator = cmp.Or(r.Config.Mode, run.ModeExact), cmp.Or(r.Config.Interrogator, "replay")
		if r.BudgetUnset {
			return a, &authority.Denial{Reason: authority.InvalidRequest, Detail: "body.budgetCents: want cents as a decimal string; only a guardian policy stands in for it"}
		}
		return a, nil
	}
	policy, guard, now, err := policies.Policy(ctx, r.GuardianID)
	if err != nil {
		return a, err
	}
	published, denial := policy.Bindable(now)
	if denial != nil {
		return a, denial
	}
	a.Binding, a.Guard, a.Until = published.Policy.Binding(r.GuardianID, published.Version), &guard, published.DegradedAt().Time()
	a.Config.Mode, a.Config.Interrogator = cmp.Or(r.Config.Mode, a.Binding.Mode), cmp.Or(r.Config.Interrogator, a.Binding.Provider)
	if r.BudgetUnset {
		a.Budget = a.Binding.BudgetCents
	}
	if denial := guardian.Covers(a.Binding, a.Config, a.Budget); denial != nil {
		return a, denial
	}
	return a, nil
}

// Built are the parts of this build that a run may name.
type Built struct {
	Services []string // with a local service
	Hosted   []string // of these, with a hosted one too
}

// Deny denies what this build does not do: every such value by its name, with what to
// send in its place. Some of them are the protocol's defaults.
func (b Built) Deny(c run.Config) *authority.Denial {
	known := slices.Contains(b.Services, c.Service)
	var missing, instead []string
	for _, m := range []struct {
		built       bool
		name, value string
		instead     string // JSON
		standard    bool   // the value stands for an absent member
	}{
		{known, "service", c.Service, fmt.Sprintf("%q", b.Services[0]), false},
		{!known || c.Target != run.TargetHosted || slices.Contains(b.Hosted, c.Service), "target", c.Target, `"local"`, false},
		{c.Channel == "http", "channel", c.Channel, `"http"`, c.Channel == "browser"},
		{c.ExecutionMode == "replay", "executionMode", c.ExecutionMode, `"replay"`, false},
		{c.Executor == "replay", "executor", c.Executor, `"replay"`, false},
		{c.Interrogator == "replay", "interrogator", c.Interrogator, `"replay"`, false},
		{!c.ReasoningEvidence, "reasoningEvidence", "true", "false", false},
	} {
		if m.built {
			continue
		}
		what := fmt.Sprintf("%s %q", m.name, m.value)
		if m.standard {
			what += " (the default)"
		}
		missing, instead = append(missing, what), append(instead, fmt.Sprintf("%q: %s", m.name, m.instead))
	}
	if len(missing) == 0 {
		return nil
	}
	return &authority.Denial{Reason: authority.NotImplemented, Detail: "Not built: " + strings.Join(missing, ", ") + ". Send " + strings.Join(instead, ", ") + "."}
}
