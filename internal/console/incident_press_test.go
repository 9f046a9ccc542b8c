package console_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// How a page may treat a press that began at another action.
const (
	guarded = iota // as it is
	inPlace        // the elements of an action are those of the one before it, but what a press began at is known
	without        // and nothing is known of where a press began
)

// inPlaceOf gives the buttons of every action the same id, as if a refresh wrote another
// action into them; deaf keeps the page's script from seeing where a press begins.
const (
	inPlaceOf = `(() => { const real = window.fetch; window.fetch = async (url, asked) => {
		const answer = await real(url, asked);
		if (asked?.headers?.Accept !== "text/html") return answer;
		const text = (await answer.text()).replace(/id="deciding-[^"]*"/, 'id="deciding"');
		return {url: answer.url, ok: answer.ok, text: async () => text};
	}; return true; })()`
	deaf = `["pointerdown", "keydown"].forEach((type) => addEventListener(type, (event) => event.stopImmediatePropagation(), true)), true`
)

// A press that is aimed at one action approves no other that an agent stages meanwhile
// not with the mouse, whose button is pressed before and released
// after, and not with the keyboard, where the focus stood before. With each guard off, the
// next one stands; without any, the other action is approved.
func baited(t *testing.T, h *house) {
	for _, mouse := range []bool{true, false} {
		for mode, name := range []string{guarded: "guarded", inPlace: "in place", without: "without"} {
			t.Run(fmt.Sprintf("%s, mouse %v", name, mouse), func(t *testing.T) {
				t.Parallel()
				bait(t, h, mode, mouse)
			})
		}
	}
}

func bait(t *testing.T, h *house, mode int, mouse bool) {
	b := h.incident(t)
	b.expect("412")
	if mode != guarded {
		eval[bool](b, inPlaceOf)
	}
	if mode == without {
		eval[bool](b, deaf)
	}
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	b.ready("approve")
	if got := b.text("#approve"); got != "Approve exactly this: Restore the connection pool" {
		t.Errorf("the button says %q", got)
	}
	if mouse {
		b.mouse(input.DispatchMouseEventTypeMousePressed, "approve")
	} else {
		eval[bool](b, `document.querySelector("#approve").focus(), document.activeElement.id === "approve"`)
		if mode == inPlace {
			b.key(input.DispatchKeyEventTypeRawKeyDown, " ", false) // a button is pressed when this key is released
		}
	}
	if got := b.asked(`{operation: "stage", channel: "webmcp", mitigationId: "shift-traffic", expectedVersion: 2}`); got != "200 " {
		t.Fatalf("an agent's stage: %s", got)
	}
	b.reaches("awaiting-approval", 3)
	b.shows("#changed", "What is staged has changed: Restore the connection pool → Shift traffic. Read it before approving.")
	b.shows("#approve", "Approve exactly this: Shift traffic")
	if mode == guarded {
		b.until(`document.activeElement.id === "action-title"`)
		if !eval[bool](b, `document.querySelector("#approve").getAttribute("aria-disabled") === "true" && document.querySelector("#execute").getAttribute("aria-disabled") === "true"`) {
			t.Error("what is new can be pressed at once")
		}
	}
	switch {
	case mouse:
		b.mouse(input.DispatchMouseEventTypeMouseReleased, "approve")
	case mode == inPlace:
		b.key(input.DispatchKeyEventTypeKeyUp, " ", false)
	default:
		b.press("\r")
	}
	if mode == without {
		b.shows("#approval", "active") // of an action that nobody aimed at
		return
	}
	if mode == inPlace {
		b.shows("#said", "(stale_approval)")
	} else if mouse { // a press that is too early is none
		b.mouse(input.DispatchMouseEventTypeMousePressed, "approve")
		b.mouse(input.DispatchMouseEventTypeMouseReleased, "approve")
	}
	b.ready("approve")
	if got := eval[string](b, `fetch("/api/v1/incident").then(async (a) => { const s = await a.json(); return s.receipts.total + " " + (s.approval?.state ?? "none"); })`); got != "2 none" {
		t.Errorf("receipts and approval: %s", got)
	}
	if mode == guarded { // control: what was read, and is pressed then, is approved
		if mouse {
			b.accessible("incident-changed")
		}
		b.click("approve")
		b.shows("#approval", "active")
		b.until(`document.querySelector("#changed").innerText === ""`)
	}
}

// What an agent stages between an answer and the next look is news, and no message about the
// action before it stands beside it: not after an approval, and not after an execution
// that is told again.
func overtaken(t *testing.T, h *house) {
	b := h.incident(t)
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	b.ready("approve")
	eval[bool](b, `(() => { const real = window.fetch; window.fetch = async (url, asked) => {
		const answer = await real(url, asked);
		if (String(asked?.body).includes('"operation":"approve"')) {
			window.fetch = real;
			await real("/api/v1/incident", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({operation: "stage", channel: "webmcp", mitigationId: "shift-traffic", expectedVersion: 2})});
		}
		return answer;
	}; return true; })()`)
	b.click("approve")
	b.shows("#changed", "Restore the connection pool → Shift traffic")
	b.until(`document.querySelector("#said").innerText === ""`)
	b.ready("approve")
	b.click("approve")
	b.shows("#approval", "active")
	b.shows("#said", "Exactly this action is approved") // the control: what stands is told
	b.ready("execute")
	b.click("execute")
	b.reaches("monitoring", 4)
	b.click("stage-scale-workers")
	b.reaches("awaiting-approval", 5)
	b.ready("repeat")
	eval[bool](b, `(async () => {
		await fetch("/api/v1/incident", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({operation: "stage", channel: "webmcp", mitigationId: "restore-pool", expectedVersion: 5})});
		document.querySelector("#repeat").click();
		return true;
	})()`)
	b.reaches("awaiting-approval", 6)
	b.shows("#changed", "Scale workers → Restore the connection pool")
}

// What is new can be pressed after a press of another button of the mouse whose end the page
// was never told, as where a menu has taken it.
func menu(t *testing.T, h *house) {
	b := h.incident(t)
	eval[bool](b, `document.dispatchEvent(new PointerEvent("pointerdown", {button: 2, buttons: 2, bubbles: true})), true`)
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	if got := b.asked(`{operation: "stage", channel: "webmcp", mitigationId: "shift-traffic", expectedVersion: 2}`); got != "200 " {
		t.Fatalf("an agent's stage: %s", got)
	}
	b.reaches("awaiting-approval", 3)
	eval[bool](b, `document.dispatchEvent(new PointerEvent("pointerdown", {button: 2, buttons: 2, bubbles: true})), true`)
	b.ready("approve")
}

// mouse is one half of a click, in the middle of a button.
func (b *tab) mouse(half input.DispatchMouseEventType, id string) {
	b.t.Helper()
	at := eval[[]float64](b, fmt.Sprintf(`(() => { const e = document.querySelector("#%s"); e.scrollIntoView({block: "center", behavior: "instant"}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`, id))
	_, err := chromedp.Call(b.ctx, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: half, X: at[0], Y: at[1], Button: input.MouseButtonLeft, ClickCount: 1})
	must(b.t, err)
}

// key is one event of a key, Enter or Space.
func (b *tab) key(half input.DispatchKeyEventType, key string, again bool) {
	b.t.Helper()
	p := input.DispatchKeyEventParams{Type: half, Key: key, Code: map[string]string{" ": "Space", "Enter": "Enter"}[key], WindowsVirtualKeyCode: map[string]int64{" ": 32, "Enter": 13}[key], AutoRepeat: &again}
	if half != input.DispatchKeyEventTypeKeyUp {
		p.Type, p.Text = input.DispatchKeyEventTypeKeyDown, map[string]string{" ": " ", "Enter": "\r"}[key]
	}
	_, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, p)
	must(b.t, err)
}

// A key that is held down approves and does not execute: the focus goes to no button, and
// the repetitions of a key press none.
func keyHeld(t *testing.T, h *house) {
	b := h.incident(t)
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	b.ready("approve")
	eval[bool](b, `document.querySelector("#approve").focus(), true`)
	b.key(input.DispatchKeyEventTypeKeyDown, "Enter", false)
	b.shows("#approval", "active")
	b.until(`document.activeElement.id === "action-title"`)
	b.ready("execute")
	b.key(input.DispatchKeyEventTypeKeyDown, "Enter", true)
	eval[bool](b, `document.querySelector("#execute").focus(), true`)
	b.key(input.DispatchKeyEventTypeKeyDown, "Enter", true)
	if eval[bool](b, `document.querySelector("#execute").form.hasAttribute("aria-busy")`) || b.text("#said") == "" {
		t.Error("a repeated key presses a button")
	}
	b.receipts(2)
	b.reaches("awaiting-approval", 2)
	b.key(input.DispatchKeyEventTypeKeyUp, "Enter", false)
	b.press("\r") // control: a press of its own does
	b.reaches("mitigated", 3)
}
