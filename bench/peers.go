package main

import (
	"context"
	"errors"
	"fmt"

	"countersign/internal/supervision/policy"

	"cel.dev/cel-go/cel"
	"github.com/cedar-policy/cedar-go"
	"github.com/open-policy-agent/opa/v1/rego"
)

// side is one way to decide the rule: from the Go values to a reason, "" for a
// report that passes.
type side struct {
	name  string
	judge func(*material) (string, error)
}

// ours also digests effect and action, which no peer is asked to do.
func ours(m *material) (string, error) {
	return policy.Check(m.state, m.catalog, m.report, m.now).Reason, nil
}

// celRule stops at the first failure, as a hand-written rule would.
const celRule = `
!i.selected ? 'INVALID_SELECTION' :
!(i.observation.id in i.refs) ? 'MISSING_EVIDENCE' :
i.observation.epoch != i.state.epoch || i.observation.revision != i.state.revision || i.now - i.observation.at > 60000 ? 'STALE_STATE' :
!i.found ? 'STALE_TARGET' :
!i.listed || !i.granted || !(i.action.operation in i.grant.operations) || i.entry.operation != i.action.operation ||
  !i.entry.facts.all(f, f.name in i.grant.terms && (i.grant.terms[f.name].rule == 'equals'
    ? f.value == i.grant.terms[f.name].value : f.amount <= i.grant.terms[f.name].amount)) ? 'FORBIDDEN_OPERATION' :
i.now >= i.grant.expires ? 'GRANT_EXPIRED' :
i.grant.used >= i.grant.limit ? 'GRANT_EXHAUSTED' :
i.action.kind != i.entry.kind || i.action.url != i.entry.url || i.action.value != i.entry.value || i.action.args != i.entry.args ? 'ARGUMENT_MISMATCH' :
i.expected.operation != i.entry.operation || i.expected.disclosed != i.entry.disclosed || i.expected.postconditions != i.entry.postconditions ||
  i.expected.proposal != i.entry.proposal || (i.entry.class == 'commit') != (i.expected.proposal != '') ||
  i.entry.class == 'commit' && !(has(i.proposal) && i.proposal.id == i.expected.proposal && i.proposal.revision == i.state.revision &&
    i.now < i.proposal.expires && i.proposal.operation == i.entry.operation && i.proposal.amount == i.entry.amount &&
    i.proposal.destination == i.entry.destination && i.proposal.currency == i.entry.currency) ? 'EFFECT_MISMATCH' :
i.budget.spent + i.budget.reserved + i.entry.fit > i.budget.limit || i.budget.spent + i.budget.reserved + i.entry.fit > i.grant.total ? 'BUDGET_EXCEEDED' :
''`

func newCEL() (side, error) {
	env, err := cel.NewEnv(cel.Variable("i", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		return side{}, err
	}
	ast, issues := env.Compile(celRule)
	if err := issues.Err(); err != nil {
		return side{}, err
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return side{}, err
	}
	return side{"cel-go", func(m *material) (string, error) {
		value, _, err := program.Eval(map[string]any{"i": m.document()})
		if err != nil {
			return "", err
		}
		reason, ok := value.Value().(string)
		if !ok {
			return "", fmt.Errorf("the rule gave %v", value)
		}
		return reason, nil
	}}, nil
}

// regoRule keeps the order in an else chain.
const regoRule = `package countersign

fits(f) if {
	t := input.grant.terms[f.name]
	t.rule == "equals"
	f.value == t.value
}

fits(f) if {
	t := input.grant.terms[f.name]
	t.rule == "atMost"
	f.amount <= t.amount
}

admitted if {
	every f in input.entry.facts { fits(f) }
}

current if {
	input.observation.epoch == input.state.epoch
	input.observation.revision == input.state.revision
	input.now - input.observation.at <= 60000
}

permitted if {
	input.listed
	input.action.operation in input.grant.operations
	input.entry.operation == input.action.operation
	admitted
}

same if {
	input.action.kind == input.entry.kind
	input.action.url == input.entry.url
	input.action.value == input.entry.value
	input.action.args == input.entry.args
}

promised if {
	input.expected.operation == input.entry.operation
	input.expected.disclosed == input.entry.disclosed
	input.expected.postconditions == input.entry.postconditions
	input.expected.proposal == input.entry.proposal
}

prepared if {
	input.entry.class == "commit"
	input.proposal.id == input.expected.proposal
	input.proposal.revision == input.state.revision
	input.now < input.proposal.expires
	input.proposal.operation == input.entry.operation
	input.proposal.amount == input.entry.amount
	input.proposal.destination == input.entry.destination
	input.proposal.currency == input.entry.currency
}

prepared if {
	input.entry.class != "commit"
	input.expected.proposal == ""
}

fitting if {
	total := input.budget.spent + input.budget.reserved + input.entry.fit
	total <= input.budget.limit
	total <= input.grant.total
}

default reason := ""

reason := "INVALID_SELECTION" if { not input.selected }
else := "MISSING_EVIDENCE" if { not input.observation.id in input.refs }
else := "STALE_STATE" if { not current }
else := "STALE_TARGET" if { not input.found }
else := "FORBIDDEN_OPERATION" if { not permitted }
else := "GRANT_EXPIRED" if { input.now >= input.grant.expires }
else := "GRANT_EXHAUSTED" if { input.grant.used >= input.grant.limit }
else := "ARGUMENT_MISMATCH" if { not same }
else := "EFFECT_MISMATCH" if { not promised }
else := "EFFECT_MISMATCH" if { not prepared }
else := "BUDGET_EXCEEDED" if { not fitting }
`

func newOPA(ctx context.Context) (side, error) {
	query, err := rego.New(rego.Query("data.countersign.reason"), rego.Module("countersign.rego", regoRule)).PrepareForEval(ctx)
	if err != nil {
		return side{}, err
	}
	return side{"OPA", func(m *material) (string, error) {
		results, err := query.Eval(ctx, rego.EvalInput(m.document()))
		if err != nil {
			return "", err
		}
		if len(results) != 1 || len(results[0].Expressions) != 1 {
			return "", errors.New("the rule gave no answer")
		}
		reason, ok := results[0].Expressions[0].Value.(string)
		if !ok {
			return "", errors.New("the rule gave no text")
		}
		return reason, nil
	}}, nil
}

// cedarRule has one forbid for each reason, in the order of the reasons below.
// Cedar has no loop over records, so the merchant's five terms are spelled out,
// and its lists are sets.
const cedarRule = `
permit (principal, action, resource);
forbid (principal, action, resource) when { !context.selected };
forbid (principal, action, resource) when { !context.refs.contains(context.observation.id) };
forbid (principal, action, resource) when {
  context.observation.epoch != context.state.epoch || context.observation.revision != context.state.revision ||
  context.now - context.observation.at > 60000 };
forbid (principal, action, resource) when { context.selected && !(context has entry) };
forbid (principal, action, resource) when { context.selected && (
  !context.listed || !(context has grant) || !context.grant.operations.contains(context.operation.id) ||
  context has entry && (context.entry.operation != context.operation.id ||
    context.entry.facts has origin && !(context.grant.terms has origin && context.entry.facts.origin == context.grant.terms.origin) ||
    context.entry.facts has productId && !(context.grant.terms has productId && context.entry.facts.productId == context.grant.terms.productId) ||
    context.entry.facts has quantity && !(context.grant.terms has quantity && context.entry.facts.quantity <= context.grant.terms.quantity) ||
    context.entry.facts has addressRef && !(context.grant.terms has addressRef && context.entry.facts.addressRef == context.grant.terms.addressRef) ||
    context.entry.facts has totalCents && !(context.grant.terms has totalCents && context.entry.facts.totalCents <= context.grant.terms.totalCents))) };
forbid (principal, action, resource) when { context has grant && context.now >= context.grant.expires };
forbid (principal, action, resource) when { context has grant && context.grant.used >= context.grant.limit };
forbid (principal, action, resource) when { context has entry && (
  context.operation.kind != context.entry.kind || context.operation.url != context.entry.url ||
  context.operation.value != context.entry.value || context.operation.args != context.entry.args) };
forbid (principal, action, resource) when { context has entry && (
  context.expected.operation != context.entry.operation || context.expected.disclosed != context.entry.disclosed ||
  context.expected.postconditions != context.entry.postconditions || context.expected.proposal != context.entry.proposal ||
  (context.entry.class == "commit") != (context.expected.proposal != "") ||
  context.entry.class == "commit" && !(context has proposal && context.proposal.id == context.expected.proposal &&
    context.proposal.revision == context.state.revision && context.now < context.proposal.expires &&
    context.proposal.operation == context.entry.operation && context.proposal.amount == context.entry.amount &&
    context.proposal.destination == context.entry.destination && context.proposal.currency == context.entry.currency)) };
forbid (principal, action, resource) when { context has entry && context has grant && (
  context.budget.spent + context.budget.reserved + context.entry.fit > context.budget.limit ||
  context.budget.spent + context.budget.reserved + context.entry.fit > context.grant.total) };
`

// cedarReasons belong to policy1, policy2 and so on; policy0 is the permit.
var cedarReasons = []string{
	"INVALID_SELECTION", "MISSING_EVIDENCE", "STALE_STATE", "STALE_TARGET", "FORBIDDEN_OPERATION", "GRANT_EXPIRED", "GRANT_EXHAUSTED",
	"ARGUMENT_MISMATCH", "EFFECT_MISMATCH", "BUDGET_EXCEEDED",
}

func newCedar() (side, error) {
	policies, err := cedar.NewPolicySetFromBytes("countersign.cedar", []byte(cedarRule))
	if err != nil {
		return side{}, err
	}
	places := map[cedar.PolicyID]int{}
	for i := range cedarReasons {
		places[cedar.PolicyID(fmt.Sprintf("policy%d", i+1))] = i
	}
	agent, act, control := cedar.NewEntityUID("Agent", "agent"), cedar.NewEntityUID("Action", "propose"), cedar.NewEntityUID("Control", submit)
	return side{"cedar-go", func(m *material) (string, error) {
		decision, diagnostic := cedar.Authorize(policies, cedar.EntityMap{}, cedar.Request{Principal: agent, Action: act, Resource: control, Context: m.record()})
		if len(diagnostic.Errors) > 0 {
			return "", errors.New(diagnostic.Errors[0].Message)
		}
		if decision == cedar.Allow {
			return "", nil
		}
		first := len(cedarReasons)
		for _, r := range diagnostic.Reasons {
			if place, ok := places[r.PolicyID]; ok {
				first = min(first, place)
			}
		}
		if first == len(cedarReasons) {
			return "", errors.New("denied without a reason")
		}
		return cedarReasons[first], nil
	}}, nil
}

// record is the input as Cedar takes it.
func (m *material) record() cedar.Record {
	f, o := m.facts(), m.state.Observation
	d := cedar.RecordMap{
		"now": cedar.Long(m.now), "selected": cedar.Boolean(f.selected != nil), "refs": set(m.report.Justification.EvidenceRefs), "listed": cedar.Boolean(f.listed),
		"observation": cedar.NewRecord(cedar.RecordMap{
			"id": cedar.String(o.ID), "epoch": cedar.Long(o.DocumentEpoch), "revision": cedar.Long(o.StateRevision), "at": cedar.Long(o.CapturedAt),
		}),
		"state": cedar.NewRecord(cedar.RecordMap{"epoch": cedar.Long(m.state.DocumentEpoch), "revision": cedar.Long(m.state.StateRevision)}),
		"budget": cedar.NewRecord(cedar.RecordMap{
			"limit": cedar.Long(m.state.Budget.Limit), "spent": cedar.Long(m.state.Budget.Spent), "reserved": cedar.Long(m.state.Budget.Reserved),
		}),
	}
	if a := f.selected; a != nil {
		d["operation"] = cedar.NewRecord(cedar.RecordMap{
			"id": cedar.String(a.OperationID), "kind": cedar.String(a.Kind), "url": cedar.String(orEmpty(a.URL)), "value": cedar.String(orEmpty(a.Value)),
			"args": cedar.String(a.Args),
		})
		x := &m.report.ExpectedEffect
		d["expected"] = cedar.NewRecord(cedar.RecordMap{
			"operation": cedar.String(x.OperationID), "disclosed": set(x.DisclosedFields), "postconditions": set(x.Postconditions),
			"proposal": cedar.String(f.transactionIDs[0]),
		})
	}
	if e := f.entry; e != nil {
		said := cedar.RecordMap{}
		for _, x := range e.Facts {
			said[cedar.String(x.Name)] = term(x.Name, x.Value)
		}
		d["entry"] = cedar.NewRecord(cedar.RecordMap{
			"kind": cedar.String(e.Kind), "operation": cedar.String(e.OperationID), "url": cedar.String(orEmpty(e.URL)), "value": cedar.String(orEmpty(e.Value)),
			"args": cedar.String(e.Args), "class": cedar.String(e.Effect.Class), "disclosed": set(e.Effect.DisclosedFields),
			"postconditions": set(e.Effect.Postconditions), "proposal": cedar.String(f.transactionIDs[1]), "amount": cedar.Long(f.amount), "fit": cedar.Long(f.fit),
			"destination": cedar.String(orEmpty(e.Destination)), "currency": cedar.String(orEmpty(e.Currency)), "facts": cedar.NewRecord(said),
		})
	}
	if f.grant >= 0 {
		g := &m.state.Grants[f.grant]
		limit, used := m.uses(f)
		terms := cedar.RecordMap{}
		for _, c := range g.Constraints {
			terms[cedar.String(c.Name)] = term(c.Name, c.Value)
		}
		d["grant"] = cedar.NewRecord(cedar.RecordMap{
			"operations": set(g.Operations), "expires": cedar.Long(g.ExpiresAt), "limit": cedar.Long(limit), "used": cedar.Long(used),
			"total": cedar.Long(g.MaxTotalCents), "terms": cedar.NewRecord(terms),
		})
	}
	if p := m.state.Proposal; p != nil {
		d["proposal"] = cedar.NewRecord(cedar.RecordMap{
			"id": cedar.String(p.ID), "revision": cedar.Long(p.StateRevision), "expires": cedar.Long(p.ExpiresAt), "operation": cedar.String(p.OperationID),
			"amount": cedar.Long(p.AmountCents), "destination": cedar.String(p.Destination), "currency": cedar.String(p.Currency),
		})
	}
	return cedar.NewRecord(d)
}

// term is a fact or a constraint; the two that are compared by size are numbers.
func term(name, value string) cedar.Value {
	if name == "quantity" || name == "totalCents" {
		return cedar.Long(amountOf(value))
	}
	return cedar.String(value)
}

func set(words []string) cedar.Set {
	values := make([]cedar.Value, len(words))
	for i, w := range words {
		values[i] = cedar.String(w)
	}
	return cedar.NewSet(values...)
}
