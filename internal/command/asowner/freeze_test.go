package asowner

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/internal/command"
)

// A freeze whose answer got lost may have been stored, and is told so; one that was
// refused is not. What was answered that is no such answer is no success.
func TestFreezeWithoutAnswer(t *testing.T) {
	h := newHouse(t)
	why := "it burns"
	freeze := func(s command.Streams) error {
		return (&Freeze{Reason: &why, signedIn: h.flags}).Run(t.Context(), s)
	}
	const route = "POST " + freezeRoute
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
	next := h.ends(command.Done, freeze)
	if got := h.out.String(); got != "The workspace is now frozen: freeze 1 since T: it burns\nin flight: none; unconfirmed: none\n" {
		t.Error(got)
	}
	if want := " --epoch 1 --reason TEXT\nThe page: " + h.flags.Origin + "/freeze\n"; !strings.HasPrefix(next, "Lift it: countersign unfreeze --origin http://127.0.0.1:") || !strings.HasSuffix(next, want) {
		t.Error(next)
	}
}

const freezeRoute = "/api/v1/owner/freeze"

// standing is an answer that says how the workspace stands, with executions in these states.
func standing(frozen bool, epoch int, states ...string) string {
	var open []string
	for i, state := range states {
		open = append(open, fmt.Sprintf(`{"executionId":"e%d","runId":"r%d","operationId":"o","state":%q,"dispatchedAt":"T"}`, i, i, state))
	}
	return fmt.Sprintf(`{"frozen":%v,"epoch":%d,"since":"T","reason":"it burns","executions":[%s]}`, frozen, epoch, strings.Join(open, ","))
}

// Without a reason nothing is frozen: how the workspace stands is only asked for, and the
// status does not tell it. An empty reason is one, for the server to refuse.
func TestFreezeShows(t *testing.T) {
	h := newHouse(t)
	h.answers["POST "+freezeRoute] = problem(400, `{"reasonCode":"INVALID_REQUEST","detail":"body.reason"}`)
	show := func(s command.Streams) error { return (&Freeze{signedIn: h.flags}).Run(t.Context(), s) }
	for answer, want := range map[string]string{
		standing(false, 0): "The workspace is not frozen.\nin flight: none; unconfirmed: none\n",
		strings.Replace(standing(false, 4), `}`, `,"last":{"since":"S","until":"U","reason":"it burned","unfreezeReason":"it is out"}}`, 1): "The workspace is not frozen. Freeze 4 stood from S until U.\nfrozen:  it burned\nlifted:  it is out\nin flight: none; unconfirmed: none\n",
		standing(false, 5): "The workspace is not frozen.\nin flight: none; unconfirmed: none\n",
		standing(true, 3, "dispatched"): "The workspace is frozen: freeze 3 since T: it burns\nin flight: 1; unconfirmed: none\n" +
			"in flight e0 of run r0: o, dispatched at T\n",
	} {
		h.answers["GET "+freezeRoute] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }
		text := h.ends(command.Done, show)
		if h.out.String() != want || strings.Contains(text, "Lift it:") != strings.Contains(answer, "true") {
			t.Errorf("%s is shown as %s%s", answer, h.out.String(), text)
		}
		if want := []string{signIn, "GET " + freezeRoute, signOut}; !slices.Equal(h.requests, want) {
			t.Errorf("%q", h.requests)
		}
		h.flags.JSON = true
		if text := h.ends(command.Done, show); h.out.String() != answer+"\n" || text != "" {
			t.Errorf("%s as JSON: %s%s", answer, h.out.String(), text)
		}
		h.flags.JSON = false
	}
	empty := ""
	h.ends(command.WrongUsage, func(s command.Streams) error {
		return (&Freeze{Reason: &empty, signedIn: h.flags}).Run(t.Context(), s)
	})
	if !slices.Contains(h.requests, "POST "+freezeRoute) {
		t.Errorf("an empty reason was taken for none: %q", h.requests)
	}
}

// --wait asks until nothing is in flight, and its status says whether everything has an
// outcome. It ends when the freeze is lifted, and after a while in any case.
func TestFreezeWaits(t *testing.T) {
	for name, c := range map[string]struct {
		answers []string // the last one is repeated
		status  int
		says    string
		asks    int // at least
	}{
		"nothing is in flight":       {[]string{standing(true, 1)}, command.Done, "", 2},
		"all get their outcome":      {[]string{standing(true, 1, "dispatched", "dispatched"), standing(true, 1, "dispatched"), standing(true, 1)}, command.Done, "", 3},
		"one stays unconfirmed":      {[]string{standing(true, 1, "dispatched"), standing(true, 1, "unconfirmed")}, command.NotHolding, "unconfirmed: 1", 2},
		"one was unconfirmed before": {[]string{standing(true, 1, "unconfirmed")}, command.NotHolding, "unconfirmed: 1", 2},
		"lifted meanwhile":           {[]string{standing(true, 1, "dispatched"), standing(false, 1, "dispatched")}, command.NotHolding, "is not frozen", 2},
		"frozen anew meanwhile":      {[]string{standing(true, 1, "dispatched"), standing(true, 2, "dispatched")}, command.NotHolding, "freeze 2 stands", 2},
		"no freeze":                  {[]string{standing(false, 0)}, command.NotHolding, "is not frozen", 2},
		"no end":                     {[]string{standing(true, 1, "dispatched")}, command.NotHolding, "1 still in flight", 3},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			asked := 0
			h.answers["GET "+freezeRoute] = func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, c.answers[min(asked, len(c.answers)-1)])
				asked++
			}
			wait := &Freeze{Wait: true, signedIn: h.flags}
			if name == "no end" {
				wait.atMost = time.Millisecond
			}
			text := h.ends(c.status, func(s command.Streams) error { return wait.Run(t.Context(), s) })
			if !strings.Contains(text, c.says) || asked < c.asks {
				t.Errorf("asked %d times: %s%s", asked, h.out.String(), text)
			}
		})
	}
	h := newHouse(t)
	ctx, interrupt := context.WithCancel(t.Context())
	h.answers["GET "+freezeRoute] = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, standing(true, 1, "dispatched"))
		interrupt()
	}
	if text := h.ends(command.NotHolding, func(s command.Streams) error {
		return (&Freeze{Wait: true, signedIn: h.flags}).Run(ctx, s)
	}); !strings.Contains(text, "interrupted") {
		t.Error(text)
	}
}

// A person who looks at runs is told that the workspace is frozen, beside the result; so
// is that it could not be read. A program is not.
func TestFrozenIsTold(t *testing.T) {
	h := newHouse(t)
	list := func(s command.Streams) error { return (&listCommand{Limit: 1, signedIn: h.flags}).Run(t.Context(), s) }
	for answer, want := range map[string]string{
		standing(true, 3):  "The workspace is frozen: freeze 3 since T: it burns\nLift it: countersign unfreeze --origin ",
		standing(false, 3): "",
		`{}`:               "It could not be read whether the workspace is frozen: ",
	} {
		h.answers["GET "+freezeRoute] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }
		text := h.ends(command.Done, list)
		if !strings.HasPrefix(text, want) || want == "" && text != "" || !strings.HasPrefix(h.out.String(), "ID") {
			t.Errorf("%s: %s%s", answer, h.out.String(), text)
		}
	}
	h.flags.JSON = true
	if text := h.ends(command.Done, list); text != "" || h.out.Len() != 0 || slices.Contains(h.requests, "GET "+freezeRoute) {
		t.Errorf("as JSON: %s%s", h.out.String(), text)
	}
}

// A list for one reason looks at more runs than it shows, and says when it ended early.
func TestListByReason(t *testing.T) {
	h := newHouse(t)
	page := 0
	h.answers["GET "+runs] = func(w http.ResponseWriter, r *http.Request) {
		page++
		if got := r.URL.Query().Get("limit"); got != "100" {
			t.Errorf("a page of %s", got)
		}
		next := `"` + strconv.Itoa(page) + `"`
		if page == 3 {
			next = "null"
		}
		fmt.Fprintf(w, `{"runs":[{"runId":"f%d","status":"paused","stopContext":{"reasonCode":"FROZEN"}},{"runId":"o%d","status":"paused","stopContext":{"reasonCode":"HOSTED_UNREACHABLE"}},{"runId":"r%d","status":"ready","stopContext":null}],"nextCursor":%s}`, page, page, page, next)
	}
	h.flags.JSON = true
	for limit, want := range map[int]struct {
		ids   []string
		pages int
		says  string
	}{1: {[]string{"f1"}, 2, "the newest 1 runs; there are more"}, 2: {[]string{"f1", "f2"}, 3, "the newest 2 runs; there are more"}, 3: {[]string{"f1", "f2", "f3"}, 3, ""}} {
		page = 0
		text := h.ends(command.Done, func(s command.Streams) error {
			return (&listCommand{Limit: limit, Reason: "FROZEN", signedIn: h.flags}).Run(t.Context(), s)
		})
		var ids []string
		for line := range strings.Lines(h.out.String()) {
			ids = append(ids, line[len(`{"runId":"`):][:2])
		}
		if !slices.Equal(ids, want.ids) || page != want.pages || !strings.Contains(text, want.says) || want.says == "" && text != "" {
			t.Errorf("--limit %d: %q of %d pages: %s", limit, ids, page, text)
		}
	}
	for _, reason := range []string{"frozen", "FROZEN ", "1"} {
		h.ends(command.WrongUsage, func(s command.Streams) error {
			return (&listCommand{Limit: 1, Reason: reason, signedIn: h.flags}).Run(t.Context(), s)
		})
	}
}
