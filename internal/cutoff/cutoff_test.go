package cutoff

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/contextclient"
	"countersign/contextclient/outbox"
)

const (
	delivered   = "COMPLETED_WITH_CONTEXT_DELIVERY"
	undelivered = "COMPLETED_WITHOUT_CONTEXT_DELIVERY"
	open        = "OPEN"
	expired     = "EXPIRED_OR_INCOMPLETE"
	absent      = "" // no turn
)

// want is what a cut leads to.
type want struct {
	cut
	waiting int    // reports in the outbox while it lasts
	before  string // how the turn is shown while it lasts
	after   string // and after recovery
	turn    bool   // the application has one
	text    bool   // and its context
}

// cuts are those of every step. A start that is cut once is repeated; everything else
// is cut until it is mended.
var cuts = []want{
	{cut{}, 0, delivered, delivered, true, true},
	{cut{"start", false, true}, 0, delivered, delivered, true, true},
	{cut{"start", true, true}, 0, delivered, delivered, true, true},
	{cut{"start", false, false}, 0, absent, absent, false, false},
	{cut{"start", true, false}, 0, open, open, false, false},
	{cut{"compass", false, false}, 0, undelivered, undelivered, true, false},
	{cut{"compass", true, false}, 0, delivered, delivered, true, false}, // it was handed to the response: no more is claimed
	{cut{"observations", false, false}, 2, open, delivered, true, true}, // the completion waits behind it
	{cut{"observations", true, false}, 2, open, delivered, true, true},
	{cut{"complete", false, false}, 1, open, delivered, true, true},
	{cut{"complete", true, false}, 1, delivered, delivered, true, true}, // stored, and unanswered
}

func (c cut) String() string {
	if c.name == "" {
		return "nothing"
	}
	return fmt.Sprintf("%s %s %s", map[bool]string{true: "once", false: "always"}[c.once], map[bool]string{true: "behind", false: "before"}[c.behind], c.name)
}

// plays holds one side to every cut.
func plays(t *testing.T, h *house, clientID string, s side) {
	var waiting []string // turns whose end nobody has reported
	for _, w := range cuts {
		known := h.turns(clientID)
		h.proxy.set(w.cut)
		o := s.run(t)
		one := func(when, status string, observations int) {
			t.Helper()
			turns := without(h.turns(clientID), known)
			if status == absent {
				if len(turns) != 0 {
					t.Errorf("%v: %s the server has %+v, want no turn", w.cut, when, turns)
				}
				return
			}
			if len(turns) != 1 {
				t.Fatalf("%v: %s the server has %d turns, want one: %+v", w.cut, when, len(turns), turns)
			}
			got := turns[0]
			if got.Status != status || got.Observations != observations || w.turn && got.ID != o.Turn {
				t.Errorf("%v: %s the server has %+v, want %s with %d observations of %s", w.cut, when, got, status, observations, o.Turn)
			}
			if !w.turn {
				waiting = append(waiting, got.ID)
			}
			events := h.recorded(got.ID)
			calls, _ := h.proxy.counted("compass")
			for of, n := range map[string]int{
				"contextturn.opened": 1, "context.delivered": calls, "contextturn.observed": observations,
				"contextturn.completed": map[bool]int{true: 1}[status != open], "contextturn.late": 0, "contextturn.expired": 0,
			} {
				if count(events, of) != n {
					t.Errorf("%v: %s %d of %s, want %d: %v", w.cut, when, count(events, of), of, n, events)
				}
			}
		}

		if o.Answer != "the answer" || (o.Turn != "") != w.turn || (o.Text != "") != w.text || (len(o.Problems) == 0) != w.text {
			t.Errorf("%v: the application has %+v", w.cut, o)
		}
		// Whoever is told of trouble hears each problem, and of a completion that waits.
		if n := len(o.Problems) + min(w.waiting, 1); len(o.Told) != n {
			t.Errorf("%v: told %q, want %d", w.cut, o.Told, n)
		}
		if o.Waiting != w.waiting || o.Queued != (w.name == "observations") {
			t.Errorf("%v: %d reports wait, the observation %v, want %d", w.cut, o.Waiting, o.Queued, w.waiting)
		}
		seen := map[bool]int{true: 1}[w.turn && (w.name != "observations" || w.behind)]
		one("while it lasts", w.before, seen)
		if _, n := h.proxy.counted(""); (n > 0) != (w.name != "") {
			t.Errorf("%v: %d requests were cut", w.cut, n)
		}

		h.proxy.mend()
		if left := s.flush(t); left != 0 {
			t.Errorf("%v: %d reports wait after recovery", w.cut, left)
		}
		one("after recovery", w.after, map[bool]int{true: 1}[w.turn])
	}

	// What nobody has reported stays inconclusive: nothing is inferred.
	h.clock.Move(15 * time.Minute)
	if len(waiting) == 0 {
		t.Error("no turn is left open")
	}
	for _, turn := range h.turns(clientID) {
		want := !slices.Contains(waiting, turn.ID)
		if got := turn.Status != expired && turn.Reported != nil; got != want || !want && (turn.Status != expired || turn.Deliveries != 0 || turn.Observations != 0) {
			t.Errorf("15 minutes later: %+v", turn)
		}
	}
}

// S-084, S-085, S-086, S-087: connections are cut at every step of an application in Go. After
// recovery server and outbox agree: one turn, one observation, one receipt, or an absent or
// open turn of which nothing is inferred.
func TestCutGo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	id, token := h.client("in Go", "required")
	plays(t, h, id, &inGo{h.base(), token, filepath.Join(t.TempDir(), "private", "outbox")})
}

// S-084, S-085, S-086, S-087: the same of the module, in Node.
func TestCutNode(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	id, token := h.client("in Node", "required")
	plays(t, h, id, &inNode{h.base(), token, filepath.Join(t.TempDir(), "outbox.json")})
}

// S-084, S-085, S-086, S-087: the same of the module, in Chromium.
func TestCutChromium(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	id, token := h.client("in Chromium", "required")
	plays(t, h, id, newInChromium(t, h, token))
}

// Negative control: under a fresh key each time, what is reported again is there twice, and a
// completion that was stored is refused. It is the key that makes repeating harmless, and the
// evidence that tells.
func TestFreshKeys(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	id, token := h.client("with fresh keys", "required")
	c, box, _ := (&inGo{h.base(), token, filepath.Join(t.TempDir(), "private", "outbox")}).open(t)
	turn, err := c.Start(t.Context(), contextclient.StartOptions{})
	must(t, err)
	h.proxy.set(cut{"observations", true, false})
	if _, err := turn.Observe(t.Context(), tool, "use-1"); !errors.Is(err, contextclient.ErrQueued) {
		t.Fatal(err)
	}
	h.proxy.mend()
	f, err := box.FlushAll(t.Context(), func(ctx context.Context, e outbox.Entry) (outbox.Answer, error) {
		e.Key = outbox.NewKey()
		return c.Send(ctx, e)
	})
	must(t, err)
	if f.Delivered != 1 || h.turns(id)[0].Observations != 2 || count(h.recorded(turn.ID), "contextturn.observed") != 2 {
		t.Errorf("the server has %+v, want the observation twice", h.turns(id))
	}
	_, err = turn.Complete(t.Context(), contextclient.Completed, "")
	must(t, err)
	if e, ok := errors.AsType[*contextclient.Error](second(turn.Complete(t.Context(), contextclient.Completed, ""))); !ok || e.ReasonCode != "turn_closed" {
		t.Errorf("the second completion: %v, want turn_closed", e)
	}
}

func second[T any](_ T, err error) error { return err }

// A client without the opt-in gets its context from the same code: outside a turn, which it is told.
func TestWithoutOptIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	id, token := h.client("without the opt-in", "absent")
	dir := t.TempDir()
	for name, s := range map[string]side{"Go": &inGo{h.base(), token, filepath.Join(dir, "private", "outbox")}, "Node": &inNode{h.base(), token, filepath.Join(dir, "outbox.json")}} {
		h.proxy.set(cut{})
		o := s.run(t)
		if o.Turn != "" || o.Text == "" || len(o.Problems) != 1 || !strings.Contains(o.Problems[0], "turn_protocol_not_enabled") || len(o.Told) != 1 || o.Waiting != 0 || o.Answer == "" {
			t.Errorf("%s: %+v", name, o)
		}
		if n, _ := h.proxy.counted("compass"); n != 1 {
			t.Errorf("%s: %d calls of compass", name, n)
		}
	}
	if turns := h.turns(id); len(turns) != 0 {
		t.Errorf("the server has %+v, want no turn", turns)
	}
}
