package narrate_test

import (
	"strings"
	"testing"

	"countersign/internal/narrate"
)

// L-8: how the workspace stands, and what has no outcome, also when nothing is open;
// nothing of it steers a terminal.
func TestStanding(t *testing.T) {
	const none = "in flight: none; unconfirmed: none\n"
	for raw, want := range map[string]struct{ answer, state string }{
		`{"frozen":true,"epoch":2,"since":"2026-01-15T09:00:00.000Z","reason":"it \u001b[2J went\nastray","changed":true,"executions":[
			{"executionId":"e1","runId":"r1","operationId":"merchant.checkout.submit","state":"dispatched","dispatchedAt":"T1"},
			{"executionId":"e2","runId":"r2","operationId":"merchant.cart.add","state":"unconfirmed","dispatchedAt":"T2"}],
			"settled":[{"executionId":"e3","runId":"r3","operationId":"merchant.cart.add","state":"verified","dispatchedAt":"T3"}],"last":{"since":"2026-01-15T09:00:00.000Z","until":null}}`: {
			"The workspace is now frozen: freeze 2 since 2026-01-15T09:00:00.000Z: it [2J went astray\n",
			"The workspace is frozen: freeze 2 since 2026-01-15T09:00:00.000Z: it [2J went astray\n"},
		`{"frozen":true,"epoch":1,"since":"T","reason":"","changed":false,"executions":[]}`: {
			"The workspace is already frozen: freeze 1 since T: (the reason was erased)\n",
			"The workspace is frozen: freeze 1 since T: (the reason was erased)\n"},
		`{"frozen":false,"epoch":1,"since":null,"reason":"","changed":true,"executions":[]}`: {
			"Freeze 1 of the workspace is lifted.\n",
			"The workspace is not frozen.\n"},
		`{"frozen":false,"epoch":3,"since":null,"reason":"","changed":true,"executions":[],"last":{"since":"S","until":"U","reason":"it\nburns","unfreezeReason":""}}`: {
			"Freeze 3 of the workspace is lifted.\n",
			"The workspace is not frozen. Freeze 3 stood from S until U.\nfrozen:  it burns\nlifted:  (the reason was erased)\n"},
		`{"frozen":false,"epoch":0,"since":null,"reason":"","changed":false,"executions":[]}`: {
			"The workspace is not frozen.\n",
			"The workspace is not frozen.\n"},
	} {
		open := none
		if strings.Contains(raw, "e1") {
			open = `in flight: 1; unconfirmed: 1; settled since the freeze: 1
in flight e1 of run r1: merchant.checkout.submit, dispatched at T1
unconfirmed e2 of run r2: merchant.cart.add, dispatched at T2
verified e3 of run r3: merchant.cart.add, dispatched at T3
What is unconfirmed may have had its effect, and may be older than any freeze. It stays so, frozen or not, until its owner has it
looked up on the page of its run: http://o/runs/ID
`
		}
		s, err := narrate.ParseStanding([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		var answer, state strings.Builder
		if err := s.Answer(&answer, "http://o"); err != nil || answer.String() != want.answer+open {
			t.Errorf("%s\nanswered as\n%swant\n%s(%v)", raw, answer.String(), want.answer+open, err)
		}
		if err := s.State(&state, "http://o"); err != nil || state.String() != want.state+open {
			t.Errorf("%s\ntold as\n%swant\n%s(%v)", raw, state.String(), want.state+open, err)
		}
	}
	for _, raw := range []string{"", "{}", "[]", `{"frozen":"yes"}`, `{"frozen":null}`} {
		if s, err := narrate.ParseStanding([]byte(raw)); err == nil {
			t.Errorf("%q is read as %+v", raw, s)
		}
	}
}

// Of what may follow a stop, only another try is a command; what needs an owner's decision
// is for the page alone.
func TestRetryIsACommand(t *testing.T) {
	for _, recovery := range []string{"approve", "clarify", "retry", "reconcile", "none"} {
		got := show(t, strings.Replace(twoTurns, `"recovery":"clarify"`, `"recovery":"`+recovery+`"`, 1))
		if strings.Contains(got, "or by `countersign run retry "+id+"`") != (recovery == "retry") {
			t.Errorf("%s: %s", recovery, got)
		}
	}
}
