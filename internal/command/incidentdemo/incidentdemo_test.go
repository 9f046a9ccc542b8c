package incidentdemo_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/command/incidentdemo"
	"countersign/internal/scripted"
)

// answers is a server that answers as the workflow must, but for what spoil alters.
func answers(t *testing.T, spoil func(step int, status int, reason string) (int, string), page string) *httptest.Server {
	t.Helper()
	script := []struct {
		status int
		reason string
	}{
		{200, ""}, {200, ""}, {200, ""}, {403, "approval_required"}, {403, "approval_required"}, {403, "approval_required"}, {200, ""}, {200, ""}, {200, ""},
		{200, ""}, {409, "idempotency_conflict"}, {200, ""}, {412, "stale_execution"}, {412, "stale_reset"}, {200, ""},
	}
	asked, executed := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/incident":
			io.WriteString(w, page)
			return
		case "/api/v1/incident/evidence":
			io.WriteString(w, "{}\n")
			return
		}
		var body struct{ Operation string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || asked == len(script) {
			t.Errorf("request %d: %v", asked, err)
			return
		}
		status, reason := spoil(asked, script[asked].status, script[asked].reason)
		asked++
		replayed := false
		if body.Operation == "execute" && status == http.StatusOK {
			executed++
			replayed = executed == 2
		}
		receipt := `{"id": "r"}`
		if reason == "stale_reset" {
			receipt = "null"
		}
		http.SetCookie(w, &http.Cookie{Name: "countersign_incident", Value: "c"})
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status": %d, "reasonCode": %q, "replayed": %t, "receipt": %s, "result": {"status": "mitigated", "execution": {"id": "x", "approvalId": "a"}},
			"snapshot": {"session": {"id": "ses"}, "resourceVersion": 2, "staged": {"actionDigest": "d", "resourceVersion": 2, "idempotencyKey": "k"},
			"receipts": {"total": 14, "head": "14:h", "verification": {"verified": true}}}}`, status, reason, replayed, receipt)
	}))
	t.Cleanup(server.Close)
	return server
}

const approvalForm = `<form><input type="hidden" name="formNonce" value="00000000000000000000000000000000000000000000000000000000000000ff"></form>`

// The demo fails, and says at which step, when something is let through that must be refused, when what
// must be done once is done anew, and when the page has no form: it shows nothing that did not happen.
func TestSaysWhenItGoesWrong(t *testing.T) {
	as := func(_, status int, reason string) (int, string) { return status, reason }
	at := func(step, status int, reason string) func(int, int, string) (int, string) {
		return func(n, s int, r string) (int, string) {
			if n == step {
				return status, reason
			}
			return s, r
		}
	}
	for _, c := range []struct {
		name    string
		spoil   func(int, int, string) (int, string)
		page    string
		verdict string // of the last entry
		says    string
	}{
		{"everything as it must be", as, approvalForm, scripted.OK, ""},
		{"an execution without an approval", at(3, 200, ""), approvalForm, scripted.NotRefused, "execute it without an approval: want 403 approval_required, got 200"},
		{"an approval by word", at(5, 200, ""), approvalForm, scripted.NotRefused, "approve it with a made-up nonce"},
		{"another reason", at(3, 403, "approval_expired"), approvalForm, scripted.NotRefused, "got 403 approval_expired"},
		{"the approved execution is refused", at(7, 403, "approval_required"), approvalForm, scripted.Failed, "execute what is approved: want 200"},
		{"a lost race leaves a receipt", at(13, 412, "stale_execution"), approvalForm, scripted.NotRefused, "reset an old version"},
		{"a page without a form", as, "<p>nothing waits</p>", scripted.Failed, "the page has no approval form"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told []scripted.Entry
			var said strings.Builder
			show := incidentdemo.Show{
				Origin: answers(t, c.spoil, c.page).URL, HTTP: client.New(),
				Say: func(format string, args ...any) { fmt.Fprintf(&said, format, args...) }, Add: func(e scripted.Entry) { told = append(told, e) },
			}
			_, err := show.Play(t.Context())
			last := told[len(told)-1]
			switch {
			case last.Verdict != c.verdict:
				t.Errorf("the last entry is %+v", last)
			case c.says == "" && (err != nil || len(told) != 17):
				t.Errorf("%d entries, %v", len(told), err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || command.StatusOf(err) != command.NotHolding):
				t.Errorf("want %q, got %v", c.says, err)
			}
			// Who approves is said before it is done.
			for _, e := range told {
				if e.Actor == incidentdemo.Person && !strings.Contains(said.String(), "No person is here: the demo plays one.") {
					t.Errorf("%+v, and nothing says who that is: %q", e, &said)
				}
			}
		})
	}
}
