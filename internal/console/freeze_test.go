package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// freeze freezes or unfreezes the workspace from elsewhere.
func (h *house) freeze(on bool) {
	h.t.Helper()
	var err error
	if on {
		_, err = h.owner.Freeze(h.t.Context(), "from elsewhere")
	} else {
		_, err = h.owner.Unfreeze(h.t.Context(), "from elsewhere", 0)
	}
	must(h.t, err)
}

// L-8: without a mouse everything is stopped, after a reason and a question that leaves it
// as it is unless it is answered. Every page says so within seconds and without loading
// again, and says when it is over; a run that met the freeze goes on after a retry.
func TestFreezePage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	lost := h.unconfirmed(false)
	a := h.agent(h.create())
	a.cycle("merchant.catalog")
	b, onRun, onLimits := h.signedIn("/freeze"), h.signedIn("/runs/"+a.run), h.signedIn("/limits")
	others := []*tab{onRun, onLimits}
	for _, o := range others {
		eval[bool](o, "window.same = true")
		if o.text("#frozen") != "" {
			t.Errorf("before any freeze: %q", o.text("#frozen"))
		}
	}
	b.shows("#unconfirmed", "merchant.checkout.submit")
	if !strings.Contains(b.text("#unconfirmed"), lost.run[len(lost.run)-8:]) || !strings.Contains(b.text("#in-flight"), "Nothing is in flight") {
		t.Errorf("open effects: %s %s", b.text("#in-flight"), b.text("#unconfirmed"))
	}
	b.accessible("freeze")

	b.tabTo("#freeze-reason")
	b.do(chromedp.SendKeys(chromedp.CSS("#freeze-reason"), "An agent orders <b>what</b> nobody asked for."))
	b.tabTo("#act-freeze button")
	b.press("\r")
	b.until(`document.querySelector("#confirm-freeze").open`)
	b.accessible("freeze-confirm")
	b.press("\u001b")
	b.until(`!document.querySelector("#confirm-freeze").open`)
	if b.text("#frozen") != "" {
		t.Errorf("frozen without an answer: %q", b.text("#frozen"))
	}
	b.tabTo("#act-freeze button")
	b.press("\r")
	b.until(`document.querySelector("#confirm-freeze").open`)
	b.tabTo(`#confirm-freeze button[value="yes"]`)
	b.press("\r")
	b.shows("main h1", "The workspace is frozen")
	b.until(`document.activeElement.id === "frozen"`) // what was pressed is gone; the banner says it, and nothing green does
	if got := b.text("#said"); got != "" {
		t.Errorf("said besides: %q", got)
	}
	for _, o := range append(others, b) {
		o.shows("#frozen", "freeze 1")
		o.shows("#frozen", "An agent orders <b>what</b> nobody asked for.")
	}
	for _, o := range others {
		if !eval[bool](o, "window.same === true") {
			t.Error("a page was loaded again")
		}
	}
	b.accessible("frozen")

	if reason := a.refusedReport("product:"); reason != "FROZEN" {
		t.Errorf("a report while frozen: %s", reason)
	}
	onRun.shows("#stopped", "The run met a freeze of the workspace. The workspace is frozen; the run can be retried once the freeze is lifted.")
	onRun.shows("#blocked-retry", "Not while the workspace is frozen.")
	if !eval[bool](onRun, `document.querySelector("#blocked-retry button").disabled && !document.querySelector("#act-retry") && document.querySelector("#blocked-retry a").pathname === "/freeze"`) {
		t.Error("a retry is offered that the server would refuse")
	}
	b.shows("#stopped", "They can go on once freeze 1 is lifted.")
	if !eval[bool](b, `document.querySelector("#stopped a").pathname === "/runs/`+a.run+`"`) {
		t.Errorf("stopped: %s", b.text("#stopped"))
	}
	b.shows("#last", "A session, not a person")
	b.accessible("frozen-stopped")
	queue := h.signedIn("/approvals")
	queue.shows("#stopped-by-freeze", "1 run is stopped by a freeze; it can go on once freeze 1 is lifted.")
	if got := queue.text("main"); strings.Contains(got, "Let it") || !strings.Contains(got, "A reconciliation.") || strings.Count(got, "waits since") != 1 {
		t.Errorf("what waits while frozen: %s", got)
	}
	queue.accessible("approvals-frozen")
	onRun.accessible("run-frozen")
	onLimits.accessible("limits-frozen")

	// What was without an outcome when the workspace was frozen stays on the page with the one it gets.
	onLost := h.signedIn("/runs/" + lost.run)
	onLost.do(chromedp.Click(chromedp.CSS("#act-probe button")))
	b.shows("#settled", "not applied")
	b.shows("#settled", lost.run[len(lost.run)-8:])
	b.shows("#unconfirmed", "No effect is unconfirmed.")
	b.accessible("frozen-settled")

	b.do(chromedp.SendKeys(chromedp.CSS("#unfreeze-reason"), "The agent is revoked."), chromedp.Click(chromedp.CSS("#act-unfreeze button")))
	b.until(`document.querySelector("#confirm-unfreeze").open`)
	b.do(chromedp.Click(chromedp.CSS(`#confirm-unfreeze button[value="yes"]`)))
	b.shows("#said", "The freeze is lifted.")
	b.shows("main h1", "Freeze the workspace")
	b.until(`!document.querySelector("#settled")`)
	for _, o := range append(others, b) {
		o.until(`document.querySelector("#frozen").innerText.trim() === ""`)
	}
	b.shows("#stopped", "waiting for a retry")
	b.shows("#last", "The agent is revoked.")
	b.accessible("unfrozen")
	queue.until(`!document.querySelector("#stopped-by-freeze")`)
	queue.shows("#wait-"+a.run, "The freeze was lifted: an owner can retry the run.")
	onRun.shows("#stopped", "The freeze was lifted: an owner can retry the run.")
	onRun.do(chromedp.Click(chromedp.CSS("#act-retry button")))
	onRun.shows("main .meta", "ready")
	a.cycle("product:")
}

// refusedReport reports and returns the reason that the report is refused with.
func (a *agent) refusedReport(name string) string {
	a.h.t.Helper()
	r, err := a.Propose(a.h.t.Context(), a.report(name))
	must(a.h.t, err)
	if r.Status != http.StatusConflict {
		return r.Got()
	}
	return r.Reason
}

// What is lifted is the freeze that the page shows: when another one has come since, that
// stays, and the page says so.
func TestUnfreezeAnother(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.freeze(true)
	b := h.signedIn("/freeze")
	b.expect("409")
	b.shows("#frozen", "from elsewhere")
	b.do(chromedp.SendKeys(chromedp.CSS("#unfreeze-reason"), "A late click."))
	// As of a page that has seen another, at the last moment: a refresh would put it right.
	eval[bool](b, `document.querySelector("#confirm-unfreeze").addEventListener("close", () => { document.querySelector("#act-unfreeze [name=epoch]").value = "7" }, { once: true }), true`)
	b.do(chromedp.Click(chromedp.CSS("#act-unfreeze button")), chromedp.Click(chromedp.CSS(`#confirm-unfreeze button[value="yes"]`)))
	b.shows("#said", "REVISION_CONFLICT")
	b.shows("#frozen", "freeze 1")
	h.freeze(false)
	h.freeze(true)
	b.shows("#frozen", "freeze 2")
	b.until(`document.querySelector("#act-unfreeze [name=epoch]").value === "2"`)
	b.do(chromedp.Click(chromedp.CSS("#act-unfreeze button")), chromedp.Click(chromedp.CSS(`#confirm-unfreeze button[value="yes"]`)))
	b.shows("#said", "The freeze is lifted.")
}

// Without a session nothing is told of it.
func TestFreezeNeedsASession(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.freeze(true)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"/freeze", "/freeze/mark"} {
		r, err := client.Get(h.origin + path)
		must(t, err)
		r.Body.Close()
		if r.StatusCode != http.StatusSeeOther || !strings.HasPrefix(r.Header.Get("Location"), "/login?") {
			t.Errorf("%s without a session: %d %s", path, r.StatusCode, r.Header.Get("Location"))
		}
	}
	b := newTab(t)
	b.open(h.origin + "/login")
	if got := b.text("#frozen"); got != "" {
		t.Errorf("whoever is not signed in is told %q", got)
	}
}
