package replica

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"countersign/internal/client"
	"countersign/internal/keys"
)

// SignIn opens an owner's session. The session ends as any does, after twelve hours; a
// client.Owner is safe for concurrent use once it is signed in.
func (in *Installation) SignIn(tb testing.TB, h *http.Client) *client.Owner {
	tb.Helper()
	secret, err := keys.ReadSecret(filepath.Join(in.Dir, "owner.secret"))
	must(tb, err)
	owner := &client.Owner{Origin: in.Origin, HTTP: h}
	_, err = owner.SignIn(tb.Context(), secret)
	must(tb, err)
	return owner
}

// budgets are what the terms of a run without terms cost.
var budgets = map[string]string{"merchant": "13700", "bank": "5000", "broker": "10000"}

// Run is the body that creates a run of a service (merchant, bank or broker) at a target
// (local or hosted) in a mode (bounded or exact), on the terms that a run without terms
// has and with exactly the budget that they take.
func Run(service, target, mode string) map[string]string {
	return map[string]string{
		"service": service, "target": target, "channel": "http", "mode": mode, "budgetCents": budgets[service],
		"instruction": "Do what the terms of the " + service + " say.",
	}
}

// Steps lead a run of [Run] to its end, by entry or operation. The last one commits.
var Steps = map[string][]string{
	"merchant": {"merchant.catalog", "product:fieldwork-keyboard", "add:fieldwork-keyboard:1", "checkout:addr_home", "merchant.checkout.submit"},
	"bank":     {"bank.accounts", "transfer:acct_checking:payee_utility", "bank.transfer.submit"},
	"broker":   {"broker.account", "quote:SYNA", "order:SYNA:buy:2:5000", "broker.order.submit"},
}

// Agent is an agent's end of one run. It is not safe for concurrent use.
type Agent struct {
	RunID, Token string
	consumer     client.Consumer
}

// NewAgent issues the token of a run and ends the former one.
func NewAgent(ctx context.Context, owner *client.Owner, runID string, h *http.Client) (*Agent, error) {
	s, _, err := owner.IssueToken(ctx, runID)
	if err != nil {
		return nil, err
	}
	return &Agent{runID, s.Token, client.Consumer{Origin: owner.Origin, Token: s.Token, HTTP: h}}, nil
}

// Entry is a control of a catalog, as far as a report names it.
type Entry struct {
	EntryID     string          `json:"entryId"`
	Kind        string          `json:"kind"`
	OperationID string          `json:"operationId"`
	TargetRef   string          `json:"targetRef"`
	Args        json.RawMessage `json:"args"`
	Label       string          `json:"label"`
	Effect      struct {
		DisclosedFields       []string `json:"disclosedFields"`
		Postconditions        []string `json:"postconditions"`
		TransactionProposalID *string  `json:"transactionProposalId"`
	} `json:"effect"`
}

// Observation is the current catalog.
type Observation struct {
	client.Reply  `json:"-"`
	ObservationID string
	Catalog       []Entry
}

// Entry finds an entry by its id or its operation.
func (o *Observation) Entry(name string) (Entry, bool) {
	for _, e := range o.Catalog {
		if e.EntryID == name || e.OperationID == name {
			return e, true
		}
	}
	return Entry{}, false
}

// Turn is the answer to a report.
type Turn struct {
	client.Reply `json:"-"`
	TurnID       string
	Decision     struct{ Decision, ReasonCode string }
	Permit       *struct {
		PermitID, Token string
		Action          json.RawMessage
	}
}

// Done is the answer to an operation. Receipt holds the bytes as they came.
type Done struct {
	client.Reply `json:"-"`
	ExecutionID  string
	State        string
	Receipt      json.RawMessage
}

// Once sends one request under the run's token, whatever comes.
func (a *Agent) Once(ctx context.Context, method, path string, body []byte, headers map[string]string) (client.Reply, error) {
	return a.consumer.Once(ctx, method, path, body, headers)
}

// Observe asks for the current observation. Like the other methods it sends once; an
// answer with another status than 200 has the Reply alone.
func (a *Agent) Observe(ctx context.Context) (o Observation, err error) {
	o.Reply, err = a.Once(ctx, "GET", "/api/v1/observation", nil, nil)
	return o, read(o.Reply, err, &o)
}

// Report proposes an entry of an observation.
func (a *Agent) Report(ctx context.Context, o *Observation, e Entry) (t Turn, err error) {
	type object map[string]any
	body, err := json.Marshal(object{
		"goalRestatement": "Do what the terms say.",
		"candidates": []object{{
			"id": "c1", "action": object{"kind": e.Kind, "operationId": e.OperationID, "targetRef": e.TargetRef, "args": e.Args},
			"purpose": e.Label, "disposition": "proposed", "rejectionReason": nil,
		}},
		"selectedCandidateId": "c1",
		"justification":       object{"summary": "The next step.", "evidenceRefs": []string{o.ObservationID}},
		"expectedEffect": object{
			"operationId": e.OperationID, "transactionProposalId": e.Effect.TransactionProposalID,
			"disclosedFields": e.Effect.DisclosedFields, "postconditions": e.Effect.Postconditions,
		},
		"uncertainties": []string{},
	})
	if err != nil {
		return t, err
	}
	t.Reply, err = a.Once(ctx, "POST", "/api/v1/turns", body, nil)
	return t, read(t.Reply, err, &t)
}

// Decision asks for the newest decision.
func (a *Agent) Decision(ctx context.Context) (t Turn, err error) {
	t.Reply, err = a.Once(ctx, "GET", "/api/v1/decision", nil, nil)
	return t, read(t.Reply, err, &t)
}

// NewKey makes an idempotency key.
func NewKey() string { return "op-" + rand.Text() }

// Execute sends the action of a permit under a key.
func (a *Agent) Execute(ctx context.Context, token string, action json.RawMessage, key string) (d Done, err error) {
	body, err := json.Marshal(map[string]json.RawMessage{"action": action})
	if err != nil {
		return d, err
	}
	d.Reply, err = a.Once(ctx, "POST", "/api/v1/operation", body, map[string]string{"X-Step-Permit": token, "X-Idempotency-Key": key})
	return d, read(d.Reply, err, &d)
}

// Do observes, reports the step and executes it. It is an error when any of the three is
// not answered with 200, the report is not allowed, or the execution is not verified.
func (a *Agent) Do(ctx context.Context, step string) (Done, error) {
	t, err := a.Permit(ctx, step)
	if err != nil {
		return Done{}, err
	}
	d, err := a.Execute(ctx, t.Permit.Token, t.Permit.Action, NewKey())
	if err == nil && d.State != "verified" {
		err = fmt.Errorf("%s: %s %s", step, d.State, d.Got())
	}
	return d, err
}

// Permit observes, reports the step and returns the decision, which has a permit.
func (a *Agent) Permit(ctx context.Context, step string) (Turn, error) {
	o, err := a.Observe(ctx)
	if err != nil {
		return Turn{}, err
	}
	e, ok := o.Entry(step)
	if !ok {
		return Turn{}, fmt.Errorf("the catalog has no %s, observation: %s", step, o.Got())
	}
	t, err := a.Report(ctx, &o, e)
	if err == nil && t.Permit == nil {
		err = fmt.Errorf("%s: %s %s, %s", step, t.Decision.Decision, t.Decision.ReasonCode, t.Got())
	}
	return t, err
}

// read reads the answer that a request is there for.
func read(r client.Reply, err error, into any) error {
	if err != nil || r.Status != http.StatusOK {
		return err
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("the answer is unreadable: %w", err)
	}
	return nil
}
