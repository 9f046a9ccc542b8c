package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/money"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// material is what hard checks 2 to 11 are asked about: a run as a real purchase
// left it just before its commit, the catalog of its observation, and a report.
type material struct {
	state   *run.State
	catalog []propose.Entry
	report  *propose.Report
	now     evidence.Time
}

// submit is the entry that the rule is asked about: every check applies to it.
const submit = "merchant.checkout.submit"

// beforeSubmit buys up to the commit and takes the material there.
func beforeSubmit(ctx context.Context, dir string) (*material, error) {
	dir = filepath.Join(dir, "rule")
	if err := initFolder(ctx, dir, ""); err != nil {
		return nil, err
	}
	l, err := openLedger(ctx, dir, "", sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	p, err := openPlane(dir, l)
	if err != nil {
		return nil, err
	}
	id, err := p.newRun(ctx)
	if err != nil {
		return nil, err
	}
	for _, entry := range []string{"merchant.catalog", "product:fieldwork-keyboard", "add:fieldwork-keyboard:1", "checkout:addr_home"} {
		if _, err := p.cycle(ctx, id, entry); err != nil {
			return nil, err
		}
	}
	view, err := p.View(ctx, id)
	if err != nil {
		return nil, err
	}
	if view.State.Observation == nil || view.State.Proposal == nil {
		return nil, errors.New("the run has nothing to submit")
	}
	m := &material{state: view.State, catalog: view.Observation.Catalog, now: view.State.Observation.CapturedAt.Add(time.Second)}
	m.report, err = reportOn(m.catalog, m.state.Observation.ID, submit)
	return m, err
}

// copy is the same material in memory of its own.
func (m *material) copy() (*material, error) {
	c := &material{now: m.now}
	return c, errors.Join(
		canon.Unmarshal(canon.MustMarshal(m.state), &c.state),
		canon.Unmarshal(canon.MustMarshal(m.catalog), &c.catalog),
		canon.Unmarshal(canon.MustMarshal(m.report), &c.report),
	)
}

func (m *material) action() *propose.Action { return &m.report.Candidates[0].Action }

// asked is one question with the answer that requirements.md gives to it.
type asked struct {
	name, reason string
	with         func(*material)
}

// questions are a faultless report and one that breaks each check alone. All four
// sides have to give these answers, else no time of theirs is compared.
var questions = []asked{
	{"faultless", "", func(*material) {}},
	{"selection", "INVALID_SELECTION", func(m *material) { m.report.SelectedCandidateID = "another" }},
	{"evidence", "MISSING_EVIDENCE", func(m *material) { m.report.Justification.EvidenceRefs = []string{m.state.ID} }},
	{"state", "STALE_STATE", func(m *material) {
		m.now = m.state.Observation.CapturedAt.Add(policy.MaxObservationAge + time.Millisecond)
	}},
	{"target", "STALE_TARGET", func(m *material) { m.action().TargetRef = "tgt_foreign" }},
	{"operation", "FORBIDDEN_OPERATION", func(m *material) { m.state.Grants[0].Operations = []string{"merchant.catalog"} }},
	{"terms", "FORBIDDEN_OPERATION", func(m *material) { m.setConstraint("addressRef", "addr_office") }},
	{"total of the terms", "FORBIDDEN_OPERATION", func(m *material) { m.setConstraint("totalCents", "13699") }},
	{"grant's life", "GRANT_EXPIRED", func(m *material) { m.state.Grants[0].ExpiresAt = m.now }},
	{"grant's uses", "GRANT_EXHAUSTED", func(m *material) {
		g := m.state.Grants[0]
		m.state.Used = map[string]authority.Usage{g.ID: {submit: g.MaxUses[submit]}}
	}},
	{"arguments", "ARGUMENT_MISMATCH", func(m *material) { m.action().Args = json.RawMessage(`{"amountCents":"13701"}`) }},
	{"effect", "EFFECT_MISMATCH", func(m *material) { m.report.ExpectedEffect.DisclosedFields = []string{"card"} }},
	{"proposal", "EFFECT_MISMATCH", func(m *material) { m.report.ExpectedEffect.TransactionProposalID = nil }},
	{"proposal's life", "EFFECT_MISMATCH", func(m *material) { m.state.Proposal.ExpiresAt = m.now }},
	{"budget", "BUDGET_EXCEEDED", func(m *material) { m.state.Budget.Spent = 1 }},
}

func (m *material) setConstraint(name, value string) {
	for i := range m.state.Grants[0].Constraints {
		if c := &m.state.Grants[0].Constraints[i]; c.Name == name {
			c.Value = value
		}
	}
}

// facts are the plain values that the rule compares, picked from the same Go
// values that our checks read. Only values are picked: every comparison is the
// policy's. Finding the entry and the grant by their key is on this side for all
// peers, since none of them has to search what its caller can index.
type facts struct {
	selected       *propose.Action
	entry          *propose.Entry
	grant          int // index, -1 without one
	listed         bool
	amount, fit    money.Cents
	transactionIDs [2]string // named by the report, offered by the entry; "" for none
}

func (m *material) facts() facts {
	f := facts{grant: -1}
	s := m.report.Selected()
	if s == nil {
		return f
	}
	f.selected = &s.Action
	for i := range m.catalog {
		e := &m.catalog[i]
		if e.TargetRef == s.Action.TargetRef {
			f.entry, f.amount, f.fit = e, e.Amount(), e.Fit()
		}
		f.listed = f.listed || e.OperationID == s.Action.OperationID
	}
	for i := range m.state.Grants {
		if m.state.Grants[i].Covers(s.Action.OperationID) {
			f.grant = i
		}
	}
	f.transactionIDs[0] = orEmpty(m.report.ExpectedEffect.TransactionProposalID)
	if f.entry != nil {
		f.transactionIDs[1] = orEmpty(f.entry.Effect.TransactionProposalID)
	}
	return f
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// unlimited stands for an operation that the grant does not count.
const unlimited = int64(1) << 53

func (m *material) uses(f facts) (limit, used int64) {
	g := &m.state.Grants[f.grant]
	limit, counted := g.MaxUses[f.selected.OperationID]
	if !counted {
		limit = unlimited
	}
	return limit, m.state.Used[g.ID][f.selected.OperationID]
}

// amountOf reads a decimal string; what is none is compared as text only.
func amountOf(s string) int64 {
	n, err := money.Parse(s)
	if err != nil {
		return 0
	}
	return int64(n)
}

// document is the input as CEL and Rego take it.
func (m *material) document() map[string]any {
	f, o := m.facts(), m.state.Observation
	refs := make([]any, len(m.report.Justification.EvidenceRefs))
	for i, r := range m.report.Justification.EvidenceRefs {
		refs[i] = r
	}
	d := map[string]any{
		"now": int64(m.now), "selected": f.selected != nil, "refs": refs, "listed": f.listed, "granted": f.grant >= 0, "found": f.entry != nil,
		"observation": map[string]any{"id": o.ID, "epoch": o.DocumentEpoch, "revision": o.StateRevision, "at": int64(o.CapturedAt)},
		"state":       map[string]any{"epoch": m.state.DocumentEpoch, "revision": m.state.StateRevision},
		"budget": map[string]any{
			"limit": int64(m.state.Budget.Limit), "spent": int64(m.state.Budget.Spent), "reserved": int64(m.state.Budget.Reserved),
		},
	}
	if a := f.selected; a != nil {
		d["action"] = map[string]any{"kind": a.Kind, "operation": a.OperationID, "url": orEmpty(a.URL), "value": orEmpty(a.Value), "args": string(a.Args)}
		x := &m.report.ExpectedEffect
		d["expected"] = map[string]any{
			"operation": x.OperationID, "disclosed": list(x.DisclosedFields), "postconditions": list(x.Postconditions), "proposal": f.transactionIDs[0],
		}
	}
	if e := f.entry; e != nil {
		said := make([]any, len(e.Facts))
		for i, x := range e.Facts {
			said[i] = map[string]any{"name": x.Name, "value": x.Value, "amount": amountOf(x.Value)}
		}
		d["entry"] = map[string]any{
			"kind": e.Kind, "operation": e.OperationID, "url": orEmpty(e.URL), "value": orEmpty(e.Value), "args": string(e.Args),
			"class": e.Effect.Class, "disclosed": list(e.Effect.DisclosedFields), "postconditions": list(e.Effect.Postconditions),
			"proposal": f.transactionIDs[1], "amount": int64(f.amount), "fit": int64(f.fit), "destination": orEmpty(e.Destination),
			"currency": orEmpty(e.Currency), "facts": said,
		}
	}
	if f.grant >= 0 {
		g := &m.state.Grants[f.grant]
		limit, used := m.uses(f)
		terms := make(map[string]any, len(g.Constraints))
		for _, c := range g.Constraints {
			terms[c.Name] = map[string]any{"rule": c.Rule, "value": c.Value, "amount": amountOf(c.Value)}
		}
		d["grant"] = map[string]any{
			"operations": list(g.Operations), "expires": int64(g.ExpiresAt), "limit": limit, "used": used, "total": int64(g.MaxTotalCents), "terms": terms,
		}
	}
	if p := m.state.Proposal; p != nil {
		d["proposal"] = map[string]any{
			"id": p.ID, "revision": p.StateRevision, "expires": int64(p.ExpiresAt), "operation": p.OperationID, "amount": int64(p.AmountCents),
			"destination": p.Destination, "currency": p.Currency,
		}
	}
	return d
}

func list(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

// agree asks every question of one side.
func agree(m *material, name string, judge func(*material) (string, error)) error {
	for _, q := range questions {
		c, err := m.copy()
		if err != nil {
			return err
		}
		q.with(c)
		got, err := judge(c)
		if err != nil {
			return fmt.Errorf("%s on %s: %w", name, q.name, err)
		}
		if got != q.reason {
			return fmt.Errorf("%s on %s: reason %q, want %q", name, q.name, got, q.reason)
		}
	}
	return nil
}
