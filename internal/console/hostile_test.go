package console_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// H-020: whatever stands in an instruction, a report or a clarification is shown as
// text. Nothing of it becomes an element, a script, a style or a request.
func TestMarkupIsText(t *testing.T) {
	t.Parallel()
	const hostile = `</p></q><img src=x onerror="window.broken=1"><script>window.broken=1</script><svg onload=window.broken=1>` +
		`<a href="javascript:window.broken=1">Approved</a><form class=act data-path=/api/v1/owner/session></form><style>main{display:none}</style>`
	h := newHouse(t)
	a := h.agent(h.create(object{"instruction": hostile}))
	a.words = hostile
	a.cycle("merchant.catalog")
	a.propose0(t)
	b := h.signedIn("/runs/" + a.run)
	b.do(chromedp.SendKeys(chromedp.CSS("#act-clarify textarea"), hostile), chromedp.Click(chromedp.CSS("#act-clarify button")))
	b.shows(".words", "<img src=x")
	elements := `document.querySelectorAll("main img, main script, main svg, main style, main a[href^=javascript], main form[data-path$=session]").length`
	look := func(where string) {
		t.Helper()
		if n := eval[int](b, elements); n != 0 {
			t.Errorf("%s: %d elements are the agent's", where, n)
		}
		if eval[bool](b, "window.broken === 1") {
			t.Errorf("%s: the agent's script ran", where)
		}
	}
	look("live")
	b.open(h.origin + "/runs/" + a.run)
	eval[bool](b, "document.querySelectorAll('details').forEach(d => d.open = true), true")
	if shown := b.text("main"); strings.Count(shown, `<img src=x onerror="window.broken=1">`) < 4 {
		t.Errorf("instruction, goal, purpose, rationale and clarification are not all shown as they are:\n%s", shown)
	}
	look("loaded")
	b.accessible("run-hostile")
	for _, path := range []string{"/runs", "/approvals"} {
		b.open(h.origin + path)
		look(path)
	}
	// Control: the same text as markup is found, and the policy keeps it from running.
	b.expect("Content Security Policy")
	b.expect("404")
	// In one go, since the page may fetch itself anew and put its own content back.
	if n := eval[int](b, fmt.Sprintf(`(document.querySelector("main").innerHTML = %q,
		document.querySelector("main a[href^=javascript]").dispatchEvent(new MouseEvent("click", {bubbles: true})), %s)`, hostile, elements)); n < 5 {
		t.Errorf("control: %d elements", n)
	}
	if eval[bool](b, "window.broken === 1") {
		t.Error("control: the policy lets a script run that is not a file of ours")
	}
}

// G-20: a session that has ended leads to signing in, and from there back.
func TestSessionExpiry(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.agent(h.create())
	b := h.signedIn("/runs/" + a.run)
	b.expect("401")
	b.shows("#live", "live")
	h.clock.Move(12 * time.Hour)
	b.do(chromedp.Click(chromedp.CSS("#act-revoke button")), chromedp.Click(chromedp.CSS(`#confirm-revoke button[value="yes"]`)))
	b.until(`location.pathname === "/login"`)
	b.signIn(h.secret)
	b.until(`location.pathname === "/runs/` + a.run + `"`)
	b.open(h.origin + "/runs")
	b.shows("main h1", "Runs")
	h.clock.Move(12 * time.Hour)
	b.open(h.origin + "/runs")
	b.until(`location.pathname === "/login"`)
}

// A page is whole without a script; only acting needs one, and says so.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.agent(h.create())
	a.buy()
	b := h.signedIn("/runs")
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	must(t, err)
	b.do(chromedp.Navigate(h.origin + "/runs/" + a.run))
	text, err := chromedp.Run(b.ctx, chromedp.TextContent(chromedp.CSS("body")))
	must(t, err)
	for _, want := range []string{"needs one", "merchant.checkout.submit", "completed", "Download the signed evidence"} {
		if !strings.Contains(text, want) {
			t.Errorf("without a script %q is not shown", want)
		}
	}
}

// A run with many events and a list with many runs come in pages.
func TestPaging(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.agent(h.create(object{"instruction": strings.Repeat("Look at the catalog again and again. ", 60)[:2000]}))
	for range 45 {
		a.cycle("merchant.catalog")
	}
	first := a.run
	for range 101 {
		h.create()
	}
	b := h.signedIn("/runs")
	if n := eval[int](b, "document.querySelectorAll('tbody tr').length"); n != 100 {
		t.Errorf("%d runs on a page, want 100", n)
	}
	b.do(chromedp.Click(chromedp.CSS("a[rel=next]")))
	b.until("location.search.startsWith('?before=')")
	b.until("document.readyState === 'complete'")
	if n := eval[int](b, "document.querySelectorAll('tbody tr').length"); n != 2 || b.has("a[rel=next]") {
		t.Errorf("%d runs on the last page, want 2", n)
	}
	b.do(chromedp.Click(chromedp.CSS("tbody tr:last-child a")))
	b.until(`location.pathname === "/runs/` + first + `"`)
	b.until("document.readyState === 'complete'")
	b.accessible("run-long")
	if n := eval[int](b, "document.querySelectorAll('.entries > li').length"); n != 40 {
		t.Errorf("%d entries on a page, want 40", n)
	}
	b.do(chromedp.Click(chromedp.CSS(".timeline > .pages:last-child a")))
	b.until("location.search.startsWith('?until=')")
	b.shows("#timeline", "Run created by the owner")
	b.do(chromedp.Click(chromedp.CSS(".timeline .pages a")))
	b.until("location.search === ''")
}

// What every answer for a browser carries, and what is not a page.
func TestAnswers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	run := h.create()
	p := h.project("acme/help")
	get := func(method, path, accept string, cookie bool) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, h.origin+path, nil)
		must(t, err)
		r.Header.Set("Accept", accept)
		if cookie {
			r.Header.Set("Cookie", h.cookie())
		}
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Do(r)
		must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp, string(body)
	}
	const html = "text/html,application/xhtml+xml"
	for _, c := range []struct {
		path   string
		status int
	}{
		{"/login", 200}, {"/approvals", 200}, {"/runs", 200}, {"/runs/" + run, 200}, {"/limits", 200}, {"/nothing", 404}, {"/runs/nothing", 404},
		{"/runs/01940e2e-7c00-7000-8000-000000000001", 404}, {"/runs?before=x", 400}, {"/runs/" + run + "?until=0", 400}, {"/assets/nothing.js", 404},
		{"/projects", 200}, {"/projects/" + p.id, 200}, {"/projects/" + p.id + "/traces", 200}, {"/projects/" + p.id + "/recorder", 200},
		{"/projects/" + p.id + "/traces?status=DONE", 400}, {"/projects/" + p.id + "/traces/trn_01940e2e7c0070008000000000000001", 404},
		{"/projects/" + p.id + "/recorder/int_01940e2e7c0070008000000000000001", 404}, {"/projects/nothing", 404}, {"/projects/nothing/traces", 404}, {"/projects/nothing/recorder", 404},
	} {
		resp, body := get("GET", c.path, html, true)
		if resp.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", c.path, resp.StatusCode, c.status)
		}
		for name, want := range map[string]string{
			"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s %q, want %q", c.path, name, got, want)
			}
		}
		policy := resp.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %s", c.path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
			t.Errorf("%s: policy %q", c.path, policy)
		}
		if !strings.Contains(body, `<main id="main"`) || !strings.Contains(body, "countersign</title>") {
			t.Errorf("%s: not in the layout", c.path)
		}
		for _, inline := range []string{"<script>", " style=", " onclick=", "<style"} {
			if strings.Contains(body, inline) {
				t.Errorf("%s: %s in the page", c.path, inline)
			}
		}
		if resp, _ := get("POST", c.path, html, true); c.status == 200 && resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d, want 405", c.path, resp.StatusCode)
		}
		// Whoever is not signed in learns nothing, not even which runs there are.
		if resp, body := get("GET", c.path, html, false); strings.HasPrefix(c.path, "/runs") || strings.HasPrefix(c.path, "/projects") || c.path == "/approvals" || c.path == "/limits" {
			if resp.StatusCode != http.StatusSeeOther || !strings.HasPrefix(resp.Header.Get("Location"), "/login?next=") || strings.Contains(body, instruction) {
				t.Errorf("%s without a session: %d to %q", c.path, resp.StatusCode, resp.Header.Get("Location"))
			}
		}
	}
	// Programs are told as before.
	for _, path := range []string{"/nothing", "/api/v1/owner/nothing"} {
		resp, _ := get("GET", path, "application/json", true)
		if resp.StatusCode != 404 || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s for a program: %d %s", path, resp.StatusCode, resp.Header.Get("Content-Type"))
		}
	}
	if resp, _ := get("GET", "/api/v1/owner/nothing", html, true); resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a path of the API as a page: %s", resp.Header.Get("Content-Type"))
	}
	for _, path := range []string{"/runs/live", "/projects/live?of=/projects"} {
		if resp, _ := get("GET", path, html, false); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a session: %d", path, resp.StatusCode)
		}
	}
	resp, _ := get("GET", "/assets/console.js", "*/*", false)
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/javascript") || resp.Header.Get("ETag") == "" {
		t.Errorf("the script: %d %v", resp.StatusCode, resp.Header)
	}
	// Signing in leads to a page of this site and nowhere else.
	for next, want := range map[string]string{
		"/runs?before=x": "/runs?before=x", "https://elsewhere.example/": "/approvals", "//elsewhere.example/": "/approvals", `/\elsewhere.example`: "/approvals",
		"javascript:alert(1)": "/approvals", "": "/approvals", "/\t/elsewhere.example": "/approvals", "runs": "/approvals",
	} {
		_, body := get("GET", "/login?next="+strings.NewReplacer("\t", "%09", `\`, "%5C", "?", "%3F").Replace(next), html, false)
		if !strings.Contains(body, `data-next="`+want+`"`) {
			t.Errorf("next %q does not lead to %s", next, want)
		}
	}
}

// G-40: the page shows what the JSON route lists.
func TestLimits(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var list struct {
		Limits []struct{ ID, Text, Status string }
	}
	h.get("/limits", &list)
	b := h.signedIn("/limits")
	if n := eval[int](b, "document.querySelectorAll('.limits li[id]').length"); n != len(list.Limits) || n == 0 {
		t.Errorf("%d lines on the page, %d of the route", n, len(list.Limits))
	}
	for _, l := range list.Limits {
		if shown := b.text("#" + l.ID); !strings.Contains(shown, l.Text) || !strings.Contains(shown, "not implemented") || l.Status != "not_implemented" {
			t.Errorf("%s %s: shown as %q", l.ID, l.Status, shown)
		}
	}
}
