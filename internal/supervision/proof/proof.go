// Package proof says what the answer of a hosted store proves about a dispatch. Only a
// receipt that a pinned key signed proves anything; everything else that a store says is
// its bare word.
//
// Functions here ask nobody and keep nothing.
package proof

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"countersign/dispatch"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
)

// Pin writes store keys as lines of a *.pub file.
func Pin(list []dispatch.TrustedKey) []string {
	var lines []string
	for _, k := range list {
		lines = append(lines, strings.TrimSuffix(string(dispatch.FormatKeys([]dispatch.TrustedKey{k})), "\n"))
	}
	return lines
}

// Pinned reads the store keys that run.created carries, each in the form of
// a line of a *.pub file.
func Pinned(lines []string) ([]dispatch.TrustedKey, error) {
	return dispatch.ParseKeys([]byte(strings.Join(lines, "\n") + "\n"))
}

// AmountAgrees reports whether the store charged what was permitted: a commit its
// amount, anything else nothing.
func AmountAgrees(r *dispatch.Receipt, class string, permitted money.Cents) bool {
	switch {
	case r.Result != dispatch.Applied:
		return true
	case class == propose.ClassCommit:
		return r.AmountCents != nil && *r.AmountCents == permitted.String()
	}
	return r.AmountCents == nil || *r.AmountCents == "0"
}

// Outcome is what a receipt says became of an execution; got is the answer that it came
// with, observedBy how.
func Outcome(r *dispatch.Receipt, got dispatch.Answer, observedBy string) decide.Outcome {
	o := decide.Outcome{
		Kind: run.ReceiptHosted, Result: run.ResultRefused, Status: int64(got.Status), BodySHA256: canon.Hash(got.Body),
		Receipt: got.Receipt, ObservedBy: observedBy, Cause: "refused",
	}
	switch r.Result {
	case dispatch.Applied:
		o.Result, o.OrderID, o.Cause = run.ResultApplied, r.OrderID, ""
	case dispatch.Closed:
		o.Result, o.Cause = run.ResultClosed, "closed"
	}
	return o
}

// Look says what an answer to a probe of x tells. r is its receipt, nil when none
// verifies. Without a receipt the answer is the store's bare word, which decides nothing.
func Look(probeID string, x *run.Execution, r *dispatch.Receipt, got dispatch.Answer) decide.Look {
	look := decide.Look{ProbeID: probeID, Answer: state.AnswerUnverifiable}
	reason, _ := Hint(got.Body)
	switch {
	case r != nil:
		look.Receipt = &got.Receipt
		if AmountAgrees(r, x.Class, x.AmountCents) { // else it is signed, and about another amount than was permitted
			look.Answer, look.Outcome = state.AnswerReceipt, Outcome(r, got, run.ByLookUp)
		}
	case got.Status == http.StatusNotFound, got.Status == http.StatusMethodNotAllowed, got.Status == http.StatusNotImplemented:
		look.Answer = state.AnswerNotSeen
	case got.Status == http.StatusGone && reason == beyondRetention:
		look.Answer = state.AnswerBeyondRetention
	}
	return look
}

// beyondRetention is the reasonCode of a store that has pruned what it knew (design 4).
const beyondRetention = "BEYOND_RETENTION"

// codes are what a hint may consist of: nothing that is free text.
var codes = regexp.MustCompile(`^[A-Za-z_]{1,40}$`)

// Hint is the reasonCode and check of an answer that nothing proves, for the
// operator who looks for the cause: a store that trusts another dispatch key says so
// there. Nothing is decided by it.
func Hint(body []byte) (reason, check string) {
	var said struct {
		ReasonCode string `json:"reasonCode"`
		Check      string `json:"check"`
	}
	if json.Unmarshal(body, &said) != nil || !codes.MatchString(said.ReasonCode) {
		return "none", "none"
	}
	if !codes.MatchString(said.Check) {
		said.Check = "none"
	}
	return said.ReasonCode, said.Check
}

// SessionCookie picks the session cookie out of an answer as a Cookie header
// value.
func SessionCookie(a dispatch.Answer) (string, error) {
	for _, line := range a.SetCookie {
		c, err := http.ParseSetCookie(line)
		if err == nil && strings.HasSuffix(c.Name, "session") {
			return c.Name + "=" + c.Value, nil
		}
	}
	return "", errors.New("proof: the store set no session cookie")
}
