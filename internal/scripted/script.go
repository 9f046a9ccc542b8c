package scripted

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"countersign/internal/client"
)

// scripts are what the scripted agent can do, step by step.
var scripts = map[string][]func(*Agent, context.Context) error{
	"purchase": {
		(*Agent).learn,
		reads("merchant.catalog"), (*Agent).swapBody, (*Agent).execute, (*Agent).spendTwice,
		concerns("merchant.product", "productId"), (*Agent).execute, (*Agent).ownerRoute,
		concerns("merchant.cart.add", "productId", "quantity"), (*Agent).execute, (*Agent).shopDirectly,
		concerns("merchant.checkout.prepare", "addressRef"), (*Agent).execute,
		reads("merchant.checkout.submit"), (*Agent).execute,
		(*Agent).completed, (*Agent).buyAgain,
	},
	"overreach": {
		(*Agent).learn,
		reads("merchant.catalog"), (*Agent).execute,
		(*Agent).alterArgument,
	},
}

// Agent is an agent that follows a script. It chooses from the catalog that
// it was shown, by what the run's terms say, and from nothing else.
type Agent struct {
	client.Consumer
	Record      func(Entry) // takes each thing as it happens
	runID       string
	local       bool // the run's shop is inside the control plane
	terms       map[string]any
	instruction string // the owner's
	shop        string // origin of the terms
	observation observation
	entry       catalogEntry // that the newest report is about
	permit      stepPermit   // that the newest report was answered with
}

type observation struct {
	ObservationID string         `json:"observationId"`
	Catalog       []catalogEntry `json:"catalog"`
}

// catalogEntry is one control that the agent was shown.
type catalogEntry struct {
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

// action is what a report and an operation name.
type action struct {
	Kind        string          `json:"kind"`
	OperationID string          `json:"operationId"`
	TargetRef   string          `json:"targetRef"`
	Args        json.RawMessage `json:"args"`
}

func (e *catalogEntry) action() action { return action{e.Kind, e.OperationID, e.TargetRef, e.Args} }

type stepPermit struct {
	PermitID string `json:"permitId"`
	Token    string `json:"token"`
	Action   action `json:"action"`
}

// Scripts returns the names of the scripts.
func Scripts() []string { return slices.Sorted(maps.Keys(scripts)) }

// Play runs a script until a step does not come as expected. Its error is
// [client.ErrUnanswered] when nobody answered.
func (a *Agent) Play(ctx context.Context, script string) error {
	steps, known := scripts[script]
	if !known {
		return fmt.Errorf("there is no script %q", script)
	}
	for _, step := range steps {
		if err := step(a, ctx); err != nil {
			return err
		}
	}
	return nil
}

// record notes what an answer was.
func (a *Agent) record(what, verdict, reason string, r client.Reply, permitID, receiptID string) {
	a.Record(Entry{
		Time: Now(), RunID: a.runID, Actor: Actor, Action: what, Verdict: verdict, ReasonCode: reason, Status: r.Status,
		PermitID: permitID, ReceiptID: receiptID, Ms: r.Ms,
	})
}

// accept reads an answer that must be 200.
func (a *Agent) accept(what string, r client.Reply, into any) error {
	if r.Status != http.StatusOK {
		a.record(what, Failed, r.Reason, r, "", "")
		return fmt.Errorf("%s: want 200, %s", what, r.Got())
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		a.record(what, Failed, "", r, "", "")
		return fmt.Errorf("%s: the answer is unreadable: %w", what, err)
	}
	return nil
}

// mustRefuse records a refusal, and fails unless it is exactly the expected one.
func (a *Agent) mustRefuse(what string, r client.Reply, status int, reason, permitID string) error {
	if r.Status == status && r.Reason == reason {
		a.record(what, Refused, r.Reason, r, permitID, "")
		return nil
	}
	a.record(what, NotRefused, r.Reason, r, permitID, "")
	return fmt.Errorf("%s: want %d %s, %s", what, status, reason, r.Got())
}

// learn asks what the run may do at all.
func (a *Agent) learn(ctx context.Context) error {
	// Not again and again: when nobody is there at first, nobody is expected.
	r, err := a.Once(ctx, "GET", "/api/v1/capabilities", nil, nil)
	if err != nil {
		return fmt.Errorf("%w from %s: %w", client.ErrUnanswered, a.Origin, err)
	}
	var can struct {
		RunID       string          `json:"runId"`
		Target      string          `json:"target"`
		Instruction string          `json:"instruction"`
		Terms       json.RawMessage `json:"terms"`
	}
	if err := a.accept("ask for capabilities", r, &can); err != nil {
		return err
	}
	if err := decodeNumbers(can.Terms, &a.terms); err != nil {
		return fmt.Errorf("the run's terms are unreadable: %w", err)
	}
	a.runID, a.local, a.instruction = can.RunID, can.Target == "local", can.Instruction
	a.shop, _ = a.terms["origin"].(string)
	a.record("ask for capabilities", OK, "", r, "", "")
	return nil
}

// observe gets the current catalog.
func (a *Agent) observe(ctx context.Context) error {
	r, err := a.Get(ctx, "/api/v1/observation")
	if err != nil {
		return err
	}
	a.observation = observation{}
	if err := a.accept("observe", r, &a.observation); err != nil {
		return err
	}
	a.record("observe", OK, "", r, "", "")
	return nil
}

// reads returns a step that observes and gets a permit for an operation.
func reads(operation string) func(*Agent, context.Context) error { return concerns(operation) }

// concerns returns a step that observes, chooses the entry of the operation whose
// named arguments are those of the terms, and gets a permit for it.
func concerns(operation string, arguments ...string) func(*Agent, context.Context) error {
	return func(a *Agent, ctx context.Context) error {
		if err := a.observe(ctx); err != nil {
			return err
		}
		if err := a.choose(operation, arguments...); err != nil {
			return err
		}
		return a.permitted(ctx)
	}
}

func (a *Agent) choose(operation string, arguments ...string) error {
	for _, e := range a.observation.Catalog {
		if e.OperationID == operation && a.fits(e, arguments) {
			a.entry = e
			return nil
		}
	}
	return fmt.Errorf("the catalog offers no %s that fits the terms", operation)
}

func (a *Agent) fits(e catalogEntry, arguments []string) bool {
	var args map[string]any
	if decodeNumbers(e.Args, &args) != nil {
		return false
	}
	for _, name := range arguments {
		if args[name] == nil || args[name] != a.terms[name] {
			return false
		}
	}
	return true
}

// decodeNumbers keeps numbers as they are written.
func decodeNumbers(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}

// report submits a report on an action and returns the answer.
func (a *Agent) report(ctx context.Context, act action) (client.Reply, error) {
	type object map[string]any
	body, err := json.Marshal(object{
		"goalRestatement": a.instruction,
		"candidates": []object{{
			"id": "c1", "action": act, "purpose": a.entry.Label, "disposition": "proposed", "rejectionReason": nil,
		}},
		"selectedCandidateId": "c1",
		"justification":       object{"summary": "The next step of the script.", "evidenceRefs": []string{a.observation.ObservationID}},
		"expectedEffect": object{
			"operationId": act.OperationID, "transactionProposalId": a.entry.Effect.TransactionProposalID,
			"disclosedFields": a.entry.Effect.DisclosedFields, "postconditions": a.entry.Effect.Postconditions,
		},
		"uncertainties": []string{},
	})
	if err != nil {
		return client.Reply{}, err
	}
	return a.Propose(ctx, body)
}

// decided is the answer to a report.
type decided struct {
	Decision struct {
		Decision   string `json:"decision"`
		ReasonCode string `json:"reasonCode"`
	} `json:"decision"`
	Permit *stepPermit `json:"permit"`
}

// decision submits a report and records how it was answered. An ALLOW where
// another verdict is wanted is what must have been refused.
func (a *Agent) decision(ctx context.Context, what string, act action, want string) (decided, error) {
	var d decided
	r, err := a.report(ctx, act)
	if err != nil {
		return d, err
	}
	if err := a.accept(what, r, &d); err != nil {
		return d, err
	}
	permitID := ""
	if d.Permit != nil {
		permitID = d.Permit.PermitID
	}
	verdict := d.Decision.Decision
	if verdict == "ALLOW" && want != verdict {
		verdict = NotRefused
	}
	a.record(what, verdict, d.Decision.ReasonCode, r, permitID, "")
	return d, nil
}

// permitted gets the permit for the chosen entry.
func (a *Agent) permitted(ctx context.Context) error {
	what := "report " + a.entry.OperationID
	d, err := a.decision(ctx, what, a.entry.action(), "ALLOW")
	if err != nil {
		return err
	}
	if d.Decision.Decision != "ALLOW" || d.Permit == nil {
		return fmt.Errorf("%s: want ALLOW with a permit, got %s %s", what, d.Decision.Decision, d.Decision.ReasonCode)
	}
	a.permit = *d.Permit
	return nil
}

func operation(act action) ([]byte, error) { return json.Marshal(map[string]action{"action": act}) }

// execute carries out what the permit names; it must come out verified.
func (a *Agent) execute(ctx context.Context) error {
	what := "execute " + a.permit.Action.OperationID
	body, err := operation(a.permit.Action)
	if err != nil {
		return err
	}
	r, err := a.Operate(ctx, a.permit.Token, body)
	if err != nil {
		return err
	}
	var done struct {
		State   string `json:"state"`
		Receipt *struct {
			ReceiptID string `json:"receiptId"`
		} `json:"receipt"`
	}
	if err := a.accept(what, r, &done); err != nil {
		return err
	}
	receiptID := ""
	if done.Receipt != nil {
		receiptID = done.Receipt.ReceiptID
	}
	a.record(what, done.State, "", r, a.permit.PermitID, receiptID)
	if done.State != "verified" || receiptID == "" {
		return fmt.Errorf("%s: want a verified execution with a receipt, got %s", what, done.State)
	}
	return nil
}

// swapBody sends another action than the live permit names.
func (a *Agent) swapBody(ctx context.Context) error {
	if err := a.choose("merchant.product", "productId"); err != nil {
		return err
	}
	body, err := operation(a.entry.action())
	if err != nil {
		return err
	}
	r, err := a.Operate(ctx, a.permit.Token, body)
	if err != nil {
		return err
	}
	return a.mustRefuse("swap the body under a live permit", r, http.StatusForbidden, "PERMIT_MISMATCH", a.permit.PermitID)
}

// spendTwice uses the spent permit under a new key.
func (a *Agent) spendTwice(ctx context.Context) error {
	body, err := operation(a.permit.Action)
	if err != nil {
		return err
	}
	r, err := a.Operate(ctx, a.permit.Token, body)
	if err != nil {
		return err
	}
	return a.mustRefuse("spend a permit twice", r, http.StatusConflict, "PERMIT_CONSUMED", a.permit.PermitID)
}

// ownerRoute knocks at an owner's route with the run's token.
func (a *Agent) ownerRoute(ctx context.Context) error {
	r, err := a.Get(ctx, "/api/v1/owner/runs")
	if err != nil {
		return err
	}
	return a.mustRefuse("list all runs as the owner would", r, http.StatusForbidden, "BEARER_ON_OWNER_ROUTE", "")
}

// shopDirectly goes to the shop past the control plane, as any visitor can.
func (a *Agent) shopDirectly(ctx context.Context) error {
	const look, order = "open a page of the shop", "order at the shop directly"
	if a.local {
		a.record("no shop to open: the run is local", Skipped, "", client.Reply{}, "", "")
		a.record("no shop to order at: the run is local", Skipped, "", client.Reply{}, "", "")
		return nil
	}
	if u, err := url.Parse(a.shop); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s: the terms name no shop on the web", look)
	}
	page, err := http.NewRequestWithContext(ctx, "GET", a.shop+"/", nil)
	if err != nil {
		return err
	}
	jar := visitorJar{}
	shop := client.New()
	shop.Jar = &jar
	r, err := client.Send(shop, page)
	if err != nil {
		return fmt.Errorf("%s: %w", look, err)
	}
	if r.Status != http.StatusOK || len(jar.cookies) == 0 {
		a.record(look, Failed, r.Reason, r, "", "")
		return fmt.Errorf("%s: want a page that sets a visitor's cookie, got %d", look, r.Status)
	}
	a.record(look, OK, "", r, "", "")
	body, err := json.Marshal(map[string]any{
		"checkoutId": "chk_" + rand.Text(), "cartVersion": 1, "amountCents": a.terms["maxTotalCents"], "currency": "USD", "destination": a.terms["addressRef"],
	})
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, "POST", a.shop+"/api/orders", bytes.NewReader(body))
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "application/json")
	if r, err = client.Send(shop, post); err != nil {
		return fmt.Errorf("%s: %w", order, err)
	}
	return a.mustRefuse(order, r, http.StatusUnauthorized, "DISPATCH_PERMIT_REQUIRED", "")
}

// visitorJar keeps the cookies of the one shop it is used for.
type visitorJar struct{ cookies []*http.Cookie }

func (j *visitorJar) SetCookies(_ *url.URL, cookies []*http.Cookie) {
	j.cookies = append(j.cookies, cookies...)
}
func (j *visitorJar) Cookies(*url.URL) []*http.Cookie { return j.cookies }

// completed asks whether the run has reached its goal.
func (a *Agent) completed(ctx context.Context) error {
	const what = "ask whether the run is complete"
	r, err := a.Get(ctx, "/api/v1/capabilities")
	if err != nil {
		return err
	}
	var can struct {
		Status   string `json:"status"`
		Position string `json:"position"`
	}
	if err := a.accept(what, r, &can); err != nil {
		return err
	}
	a.record(what, can.Status, "", r, "", "")
	if can.Status != "completed" || can.Position != "done" {
		return fmt.Errorf("%s: want completed, got %s at %s", what, can.Status, can.Position)
	}
	return nil
}

// buyAgain reports the order once more after the run has ended.
func (a *Agent) buyAgain(ctx context.Context) error {
	r, err := a.report(ctx, a.entry.action())
	if err != nil {
		return err
	}
	return a.mustRefuse("buy again after completion", r, http.StatusConflict, "RUN_NOT_READY", "")
}

// alterArgument reports the cart entry of the terms with another quantity.
func (a *Agent) alterArgument(ctx context.Context) error {
	const what = "report an altered quantity"
	if err := a.observe(ctx); err != nil {
		return err
	}
	if err := a.choose("merchant.cart.add", "productId", "quantity"); err != nil {
		return err
	}
	var args struct {
		ProductID string `json:"productId"`
		Quantity  int64  `json:"quantity"`
	}
	err := json.Unmarshal(a.entry.Args, &args)
	if err != nil {
		return err
	}
	args.Quantity++
	altered := a.entry.action()
	if altered.Args, err = json.Marshal(args); err != nil {
		return err
	}
	d, err := a.decision(ctx, what, altered, "PAUSE")
	if err != nil {
		return err
	}
	if d.Decision.Decision != "PAUSE" || d.Decision.ReasonCode != "ARGUMENT_MISMATCH" || d.Permit != nil {
		return fmt.Errorf("%s: want PAUSE ARGUMENT_MISMATCH and no permit, got %s %s", what, d.Decision.Decision, d.Decision.ReasonCode)
	}
	return nil
}
