package asowner

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/command"
)

const unfreezeRoute = "/api/v1/owner/unfreeze"

// The end of a freeze names the freeze: the one that was asked for, else the newest when
// the command began. What was never frozen is not asked to be unfrozen, since that could
// only end a freeze that comes at that moment.
func TestUnfreezeNamesTheFreeze(t *testing.T) {
	for name, c := range map[string]struct {
		epoch    int64
		stands   string
		requests []string
		sent     string
	}{
		"frozen":       {0, standing(true, 3), []string{signIn, "GET " + freezeRoute, "POST " + unfreezeRoute, signOut}, `{"epoch":3,"reason":"over"}`},
		"lifted":       {0, standing(false, 3), []string{signIn, "GET " + freezeRoute, "POST " + unfreezeRoute, signOut}, `{"epoch":3,"reason":"over"}`},
		"never frozen": {0, standing(false, 0), []string{signIn, "GET " + freezeRoute, signOut}, ""},
		"named":        {2, standing(true, 3), []string{signIn, "POST " + unfreezeRoute, signOut}, `{"epoch":2,"reason":"over"}`},
	} {
		h := newHouse(t)
		var sent string
		h.answers["GET "+freezeRoute] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, c.stands) }
		h.answers["POST "+unfreezeRoute] = func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent = string(body)
			io.WriteString(w, strings.Replace(standing(false, 3), `{`, `{"changed":true,`, 1))
		}
		h.ends(command.Done, func(s command.Streams) error {
			return (&Unfreeze{Reason: "over", Epoch: c.epoch, signedIn: h.flags}).Run(t.Context(), s)
		})
		if !slices.Equal(h.requests, c.requests) || sent != c.sent || h.out.Len() == 0 {
			t.Errorf("%s: %q sent %s: %s", name, h.requests, sent, h.out.String())
		}
	}
}

// Who unfreezes and has no answer, or one that leaves open what was stored, is told to give
// the command again with the number of the freeze. A refusal says no such thing.
func TestUnfreezeWithoutAnswer(t *testing.T) {
	h := newHouse(t)
	h.answers["GET "+freezeRoute] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, standing(true, 7)) }
	unfreeze := func(s command.Streams) error {
		return (&Unfreeze{Reason: "over", signedIn: h.flags}).Run(t.Context(), s)
	}
	h.answers["POST "+unfreezeRoute] = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if text := h.ends(command.NotReady, unfreeze); !strings.Contains(text, "it is unknown whether that was done, give it again with --epoch 7") {
		t.Error(text)
	}
	h.answers["POST "+unfreezeRoute] = problem(503, `{"reasonCode":"LEDGER_UNAVAILABLE","detail":"no"}`)
	if text := h.ends(command.NotReady, unfreeze); !strings.Contains(text, "Give it again for the same freeze: countersign unfreeze ") || !strings.Contains(text, " --epoch 7 --reason TEXT\n") {
		t.Error(text)
	}
	h.answers["POST "+unfreezeRoute] = problem(409, `{"reasonCode":"REVISION_CONFLICT","detail":"no"}`)
	if text := h.ends(command.NotHolding, unfreeze); strings.Contains(text, "again") {
		t.Error(text)
	}
}

// Freezing and unfreezing sign in again while the server's ledger stores nothing, for a
// bounded time; other commands do not, and no other refusal is tried again.
func TestFreezeSignsInAgain(t *testing.T) {
	why := "it burns"
	busy := problem(503, `{"reasonCode":"LEDGER_UNAVAILABLE","detail":"The ledger is busy."}`)
	h := newHouse(t)
	h.answers["POST "+freezeRoute] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, standing(true, 1)) }
	h.answers["POST "+unfreezeRoute] = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, standing(false, 1)) }
	enters := h.answers[signIn]
	freeze := func(s command.Streams) error {
		return (&Freeze{Reason: &why, signedIn: h.flags}).Run(t.Context(), s)
	}
	unfreeze := func(s command.Streams) error {
		return (&Unfreeze{Reason: why, Epoch: 1, signedIn: h.flags}).Run(t.Context(), s)
	}
	refuse := func(times int, with http.HandlerFunc) {
		h.answers[signIn] = func(w http.ResponseWriter, r *http.Request) {
			if times--; times >= 0 {
				with(w, r)
				return
			}
			enters(w, r)
		}
	}
	for what, run := range map[string]func(command.Streams) error{"POST " + freezeRoute: freeze, "POST " + unfreezeRoute: unfreeze} {
		refuse(3, busy)
		h.ends(command.Done, run)
		if want := []string{signIn, signIn, signIn, signIn, what, signOut}; !slices.Equal(h.requests, want) {
			t.Errorf("%q", h.requests)
		}
		refuse(1, problem(401, `{"reasonCode":"AUTHENTICATION_REQUIRED","detail":"no"}`))
		h.ends(command.NotReady, run)
		if !slices.Equal(h.requests, []string{signIn}) {
			t.Errorf("after a 401: %q", h.requests)
		}
	}
	// Another command, and with it the control: without patience the first 503 ends it.
	refuse(1, busy)
	text := h.ends(command.NotReady, func(s command.Streams) error {
		return (&listCommand{Limit: 1, signedIn: h.flags}).Run(t.Context(), s)
	})
	if !slices.Equal(h.requests, []string{signIn}) || !strings.Contains(text, "503 LEDGER_UNAVAILABLE: The ledger is busy.") {
		t.Errorf("run list: %q %s", h.requests, text)
	}
	h.flags.patience = time.Millisecond
	refuse(1<<30, busy)
	if text := h.ends(command.NotReady, freeze); len(h.requests) < 1 || slices.Contains(h.requests, "POST "+freezeRoute) || !strings.Contains(text, "503 LEDGER_UNAVAILABLE") {
		t.Errorf("without end: %q %s", h.requests, text)
	}
}
