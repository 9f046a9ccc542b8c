package audit

import (
	"encoding/hex"
	"net/http"
	"strings"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
)

// receipts follows the dispatches of a chain and checks what the store signed
// about each.
type receipts struct {
	out     Receipts
	keys    []dispatch.TrustedKey
	given   bool
	issuer  string
	runID   string
	intents map[string]dispatch.Permit // by execution: what was recorded before it was sent
	signed  map[string]signed          // by execution: the receipt that has arrived
	stated  map[string]bool            // executions of which an owner stated what became of them
}

// signed is a receipt that verified, and the answer's body as the chain names it.
type signed struct {
	dispatch.Receipt
	body     string // hex SHA-256
	observed string
}

func newReceipts(given []dispatch.TrustedKey) *receipts {
	c := &receipts{
		out: Receipts{Keys: KeysAttested, Findings: []evidence.Finding{}}, keys: given, given: given != nil,
		intents: map[string]dispatch.Permit{}, signed: map[string]signed{}, stated: map[string]bool{},
	}
	if c.given {
		c.out.Keys = KeysGiven
	}
	return c
}

func (c *receipts) end() Receipts {
	c.out.OK, c.out.Stated = c.out.Failures == 0, len(c.stated)
	return c.out
}

func (c *receipts) fail(e evidence.Event, problem string) {
	c.out.Failures++
	if len(c.out.Findings) < evidence.MaxFindings {
		c.out.Findings = append(c.out.Findings, evidence.Finding{Sequence: e.Sequence, ID: e.ID, Problem: problem})
	}
}

func (c *receipts) apply(e evidence.Event) {
	switch e.Type {
	case "run.created":
		on(c, e, c.created)
	case "hosted.session":
		on(c, e, c.session)
	case "execution.dispatched":
		on(c, e, c.dispatched)
	case "hosted.receipt":
		on(c, e, c.hosted)
	case "execution.receipt":
		on(c, e, c.execution)
	case "execution.probed":
		on(c, e, c.probed)
	case "execution.reconciled":
		on(c, e, c.reconciled)
	case "execution.contradicted":
		on(c, e, c.contradicted)
	}
}

// on reads the event's data and hands it to f.
func on[T any](c *receipts, e evidence.Event, f func(evidence.Event, T)) {
	var data T
	if err := canon.Decode(e.Data, &data); err != nil {
		c.fail(e, "the data is unreadable")
		return
	}
	f(e, data)
}

func (c *receipts) created(e evidence.Event, d run.Created) {
	c.issuer, c.runID = d.Subject.Issuer, d.Subject.ID
	if c.given || len(d.StoreKeys) == 0 {
		return
	}
	keys, err := dispatch.ParseKeys([]byte(strings.Join(d.StoreKeys, "\n") + "\n"))
	if err != nil {
		c.fail(e, "the pinned store keys are unreadable")
	}
	c.keys = keys
}

// permit rebuilds the claims that a receipt has to answer. The times are not
// recorded and no receipt repeats them.
func (c *receipts) permit(d *run.Dispatch, executionID, stepPermit, effectDigest string) dispatch.Permit {
	return dispatch.Permit{
		Issuer: c.issuer, Audience: d.Audience, ID: executionID, Session: d.SessionID, StepPermit: stepPermit,
		Method: d.Method, Target: d.URI, BodyHash: d.BodySHA256, EffectDigest: effectDigest,
	}
}

func (c *receipts) session(e evidence.Event, d run.HostedSessionEvent) {
	switch {
	case d.Phase == run.SessionDispatched && d.Dispatch != nil:
		c.intents[d.ExecutionID] = c.permit(d.Dispatch, d.ExecutionID, c.runID, d.EffectDigest)
	case d.Phase == run.SessionOpened && d.Receipt != nil:
		if r := c.check(e, d.ExecutionID, *d.Receipt); r != nil && r.Result != dispatch.Applied {
			c.fail(e, "the store's receipt does not say that the session was opened")
		}
	case d.Phase == run.SessionOpened:
		c.fail(e, "no receipt of the store stands behind the session")
	}
}

func (c *receipts) dispatched(_ evidence.Event, d run.Dispatched) {
	if d.Dispatch != nil {
		c.intents[d.ExecutionID] = c.permit(d.Dispatch, d.ExecutionID, d.PermitID, d.EffectDigest)
	}
}

func (c *receipts) hosted(e evidence.Event, d run.HostedReceipt) {
	if r := c.check(e, d.ExecutionID, d.Receipt); r != nil {
		c.signed[d.ExecutionID] = signed{*r, d.ResponseSHA256, d.ObservedBy}
		if d.ObservedBy == run.ByLookUp {
			c.out.LookedUp++
		}
	}
	delete(c.stated, d.ExecutionID)
}

// probed checks a receipt that decided nothing: it is about another amount than was
// permitted. One that decides is checked where it is recorded.
func (c *receipts) probed(e evidence.Event, d run.Probed) {
	if d.Receipt != nil && d.Answer != state.AnswerReceipt {
		c.check(e, d.ExecutionID, *d.Receipt)
	}
}

func (c *receipts) reconciled(_ evidence.Event, d run.Reconciled) {
	if _, receipted := c.signed[d.ExecutionID]; !receipted && d.Finding != state.FindingUnknown {
		c.stated[d.ExecutionID] = true
	}
}

// contradicted compares a contradiction with the receipt that it speaks of.
func (c *receipts) contradicted(e evidence.Event, d run.Contradicted) {
	c.out.Contradicted++
	if r, ok := c.signed[d.ExecutionID]; !ok || string(r.Result) != d.ReceiptResult {
		c.fail(e, "receiptResult is not what the store's receipt says")
	}
}

// check verifies a receipt and compares it with the dispatch it answers.
func (c *receipts) check(e evidence.Event, executionID, token string) *dispatch.Receipt {
	c.out.Checked++
	r, err := dispatch.ParseReceipt(token, c.keys)
	if err != nil {
		c.fail(e, "the store's receipt does not verify: "+strings.TrimPrefix(err.Error(), "dispatch: "))
		return nil
	}
	intent, ok := c.intents[executionID]
	if !ok {
		c.fail(e, "the store's receipt answers a dispatch that was not recorded")
		return nil
	}
	if err := r.Answers(intent); err != nil {
		c.fail(e, strings.TrimPrefix(err.Error(), "dispatch: "))
		return nil
	}
	return &r
}

// execution compares the control plane's own receipt with the store's.
func (c *receipts) execution(e evidence.Event, d run.Receipt) {
	if d.Kind != run.ReceiptHosted {
		return
	}
	r, ok := c.signed[d.ExecutionID]
	if !ok {
		c.fail(e, "no receipt of the store that verifies stands behind it")
		return
	}
	amount := "0"
	if r.AmountCents != nil {
		amount = *r.AmountCents
	}
	differs := func(member string) { c.fail(e, member+" is not what the store's receipt says") }
	if d.Result != string(r.Result) {
		differs("result")
	}
	if d.AmountCents.String() != amount {
		differs("amountCents")
	}
	if text(d.OrderID) != text(r.OrderID) {
		differs("orderId")
	}
	// A repeated permit is answered with the stored receipt and another body; a
	// look-up has none of the body.
	if r.observed == "response" && d.Status != http.StatusConflict && r.body != hexHash(r.AnswerHash) {
		differs("the hash of the answer")
	}
}

// text is s, or a value that no id has.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// hexHash spells a receipt's hash the way the chain does.
func hexHash(encoded string) string {
	raw, err := canon.DecodeBase64(encoded)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(raw)
}
