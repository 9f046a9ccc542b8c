package narrate_test

import (
	"strings"
	"testing"

	"countersign/internal/narrate"
)

// L-8: how the workspace stands, and what has no outcome; nothing of it steers a terminal.
func TestFreeze(t *testing.T) {
	for raw, want := range map[string]string{
		`{"frozen":true,"epoch":2,"since":"2026-01-15T09:00:00.000Z","reason":"it \u001b[2J went\nastray","changed":true,"executions":[
			{"executionId":"e1","runId":"r1","operationId":"merchant.checkout.submit","state":"dispatched","dispatchedAt":"T1"},
			{"executionId":"e2","runId":"r2","operationId":"merchant.cart.add","state":"unconfirmed","dispatchedAt":"T2"}]}`: `The workspace is now frozen: freeze 2 since 2026-01-15T09:00:00.000Z: it [2J went astray
in flight e1 of run r1: merchant.checkout.submit, dispatched at T1
unconfirmed e2 of run r2: merchant.cart.add, dispatched at T2
`,
		`{"frozen":true,"epoch":1,"since":"T","reason":"","changed":false,"executions":[]}`:   "The workspace is already frozen: freeze 1 since T: (the reason was erased)\n",
		`{"frozen":false,"epoch":1,"since":null,"reason":"","changed":true,"executions":[]}`:  "Freeze 1 of the workspace is lifted.\n",
		`{"frozen":false,"epoch":0,"since":null,"reason":"","changed":false,"executions":[]}`: "The workspace is not frozen.\n",
	} {
		var b strings.Builder
		if err := narrate.Freeze(&b, []byte(raw)); err != nil || b.String() != want {
			t.Errorf("%s\ntold as\n%swant\n%s(%v)", raw, b.String(), want, err)
		}
	}
	for _, raw := range []string{"", "{}", "[]", `{"frozen":"yes"}`} {
		var b strings.Builder
		if err := narrate.Freeze(&b, []byte(raw)); err == nil || b.Len() > 0 {
			t.Errorf("%q is told as %q", raw, b.String())
		}
	}
}
