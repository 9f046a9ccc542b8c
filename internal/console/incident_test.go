package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// incident opens the page of the incident in a browser of its own, which has no session yet.
func (h *house) incident(t *testing.T) *tab {
	t.Helper()
	b := newTab(t)
	b.visit(h)
	return b
}

// visit opens the page and waits until its scripts have shown what they found.
func (b *tab) visit(h *house) {
	b.t.Helper()
	b.open(h.origin + "/incident")
	b.until(`document.querySelector("#label-detected").dataset.is !== "unknown" && !document.querySelector("#probe-enforce").disabled && document.querySelector("#live").innerText === "live"`)
}

// click presses a button with the mouse, as soon as it can be pressed.
func (b *tab) click(id string) {
	b.t.Helper()
	b.ready(id)
	b.do(chromedp.Click(chromedp.ID(id)))
}

// ready waits until a button stands there and is no longer too new to be pressed.
func (b *tab) ready(id string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`((e) => e && !e.disabled && e.getAttribute("aria-disabled") !== "true")(document.querySelector("#%s"))`, id))
}

// reaches waits until the page shows a status and a version.
func (b *tab) reaches(status string, version int) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector("#status").dataset.status === %q && document.querySelector("#status").dataset.version === "%d"`, status, version))
}

// receipts waits until the page shows that many receipts in all.
func (b *tab) receipts(n int) {
	b.t.Helper()
	b.shows("#counts", fmt.Sprintf("%d in all", n))
	b.shows("#verified", "verified")
}

// asked sends a request of the page's origin and returns status and reason of the answer.
func (b *tab) asked(members string) string {
	b.t.Helper()
	return eval[string](b, `fetch("/api/v1/incident", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(`+members+`)}).then(async (a) => a.status + " " + ((await a.json()).reasonCode ?? ""))`)
}

// Every state of the page, looked at as four people would.
func TestIncidentStates(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.incident(t)
	b.expect("403")
	b.expect("409")
	b.shows("#chain", "No receipt yet.")
	b.accessible("incident-before")
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	b.accessible("incident-staged")
	b.click("execute")
	b.shows("#said", "approval_required")
	b.accessible("incident-blocked")
	for _, width := range []int64{705, 820} { // between a phone and a desk
		b.see(look{"light", width})
		if over := eval[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 || eval[int](b, aside) > 0 {
			t.Errorf("at %d: %d pixels stick out: %s", width, over, eval[string](b, wide))
		}
	}
	b.click("approve")
	b.shows("#approval", "active")
	b.accessible("incident-approved")
	h.clock.Move(5 * time.Minute)
	b.shows("#approval", "expired")
	b.accessible("incident-expired")
	b.click("approve")
	b.shows("#approval", "active")
	b.click("execute")
	b.reaches("mitigated", 3)
	b.accessible("incident-mitigated")
	b.click("stage-shift-traffic")
	b.reaches("awaiting-approval", 4)
	// What is better than the incident as it was found is worse than now.
	b.shows("#effect", "Worse than now: p95 latency, errors, pool in use.")
	b.shows("#option-shift-traffic", "now 1.2 s, worse")
	b.accessible("incident-worse")
	b.click("approve")
	b.shows("#approval", "active")
	b.click("execute")
	b.reaches("monitoring", 5)
	b.accessible("incident-monitoring")
	h.partial.Store(true)
	b.click("stage-scale-workers")
	b.reaches("awaiting-approval", 6)
	b.click("approve")
	b.shows("#approval", "active")
	b.click("execute")
	b.reaches("recovery-required", 7)
	b.accessible("incident-recovery")
	if got := b.text("#status"); !strings.Contains(got, "reset the simulation") {
		t.Errorf("what to do after a partial failure: %s", got)
	}
	eval[bool](b, `(async () => { for (let i = 0; i < 105; i++) await fetch("/api/v1/incident", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({operation: "snapshot", channel: "api"})}); return true; })()`)
	b.shows("#evidence", "anchor")
	b.shows("#counts", "100 shown and verified")
	b.accessible("incident-many")
	frozen(t, h, b)
}

// frozen is the page while the workspace is: it says so before somebody presses, and a
// refusal gives one advice, which is not about runs.
func frozen(t *testing.T, h *house, b *tab) {
	t.Helper()
	h.partial.Store(false)
	b.click("reset")
	b.reaches("investigating", 8)
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 9)
	_, err := h.owner.Freeze(t.Context(), "to see what the page says")
	must(t, err)
	b.shows("#frozen-here", "An approval or an execution will be refused while the freeze lasts.")
	b.shows("#refused", "Either will be refused: the workspace is frozen.")
	b.click("approve")
	b.shows("#said", "(FROZEN)")
	if got := b.text("#said"); strings.Contains(got, "What to do next") {
		t.Errorf("two advices: %s", got)
	}
	b.accessible("incident-frozen")
}
