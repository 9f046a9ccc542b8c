package asowner

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"countersign/internal/command"
)

// A freeze whose answer got lost may have been stored, and is told so; one that was
// refused is not. What was answered that is no such answer is no success.
func TestFreezeWithoutAnswer(t *testing.T) {
	h := newHouse(t)
	freeze := func(s command.Streams) error {
		return (&Freeze{Reason: "it burns", signedIn: h.flags}).Run(t.Context(), s)
	}
	const route = "POST /api/v1/owner/freeze"
	var sent string
	h.answers[route] = func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = string(body)
		panic(http.ErrAbortHandler)
	}
	if text := h.ends(command.NotReady, freeze); !strings.Contains(text, "it is unknown whether that was done, give the same command again") || sent != `{"reason":"it burns"}` {
		t.Errorf("%s\nsent %s", text, sent)
	}
	for status, want := range map[int]int{400: command.WrongUsage, 403: command.NotHolding, 409: command.NotHolding, 503: command.NotReady} {
		h.answers[route] = problem(status, `{"reasonCode":"X","detail":"no"}`)
		if text := h.ends(want, freeze); strings.Contains(text, "unknown whether") {
			t.Errorf("%d: %s", status, text)
		}
	}
	h.answers[route] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"ok":true}`) }
	if text := h.ends(command.NotReady, freeze); h.out.Len() != 0 || !strings.Contains(text, "does not say how the workspace stands") {
		t.Errorf("%s%s", h.out.String(), text)
	}
	h.answers[route] = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"frozen":true,"epoch":1,"since":"T","reason":"it burns","changed":true,"executions":[]}`)
	}
	h.ends(command.Done, freeze)
	if got := h.out.String(); got != "The workspace is now frozen: freeze 1 since T: it burns\n" {
		t.Error(got)
	}
}
