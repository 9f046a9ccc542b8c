package console_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"countersign/evidence"
)

// The workflow on the page of one server, each time with a session of its own: the page sends
// requests and shows what the server makes of them.
func TestIncidentPage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	beside := func(test func(*testing.T, *house)) func(*testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			test(t, h)
		}
	}
	// the blocked path, the approved one, the retry, and the chain.
	t.Run("mouse", beside(byMouse))
	t.Run("keyboard", beside(byKeyboard))
	// H-229: the simulator drives the same API and is labelled.
	t.Run("simulator", beside(bySimulator))
	// H-228, H-229: nothing native is inferred from a polyfill.
	t.Run("polyfill", beside(withPolyfill))
	// a page that lies harms nothing.
	t.Run("tampered", beside(tampered))
	// a reload shows the same and leaves no receipt.
	t.Run("reloaded", beside(reloaded))
	// two tabs.
	t.Run("raced", beside(raced))
	// an answer that is lost.
	t.Run("lost answer", beside(answerLost))
	// what is approved is what a press was aimed at.
	t.Run("baited", beside(baited))
	t.Run("key held", beside(keyHeld))
	t.Run("overtaken", beside(overtaken))
	t.Run("menu", beside(menu))
	// what the page says of itself, and to whom.
	t.Run("public", beside(public))
}

// The blocked path first, then the approved one, then the retry, and the evidence that all of
// it left.
func byMouse(t *testing.T, h *house) {
	b := h.incident(t)
	b.expect("403")
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	for _, want := range []string{"Set max connections back from 40 to 120.", "checkout-api", "low risk", "p95 latency\t4.8 s\t1.2 s\tbetter\t< 1.5 s, met", "pool in use\t94 %\t31 %\tbetter\t< 75 %, met"} {
		b.shows("#effect", want)
	}
	b.shows("#refused", "An execution will be refused: it is not approved.")
	b.shows("#said a", "Go to the exact action")
	digest := b.text("#digest")
	if len(digest) != 64 || !strings.HasPrefix(b.text("#key"), "rr_") || !b.has("#approve") || b.has("#approval") {
		t.Errorf("what is staged: digest %q, key %q", digest, b.text("#key"))
	}
	b.click("execute")
	b.shows("#said", "approval_required")
	b.shows("#said", "A person approves exactly what is staged")
	b.receipts(2)
	b.reaches("awaiting-approval", 2) // a blocked execution changes nothing
	b.click("approve")
	b.shows("#approval", "active")
	b.shows("#approval", "with the one-time nonce of the page's form")
	if b.has("#approve") {
		t.Error("what is approved can be approved again")
	}
	b.until(`/^[34]:[0-5][0-9]$/.test(document.querySelector("#approval time[data-until]").innerText)`)
	b.click("execute")
	b.reaches("mitigated", 3)
	for _, want := range []string{"1.2 s", "0.6 %", "31 %"} {
		b.shows("#happened", want)
	}
	b.shows("#receipt-1 [data-th=tool]", "page control\nbelongs to stage_mitigation") // no tool was called
	b.shows("#receipt-3 [data-th=tool]", "page control\nbelongs to no tool")
	if got := b.text("#execution-title"); got != "Last execution" {
		t.Errorf("before a reset: %q", got)
	}
	record := b.text("#record")
	b.click("dismiss")
	b.click("repeat")
	b.shows("#said", "Same record, nothing applied again.")
	b.shows("#said", record)
	b.receipts(5)
	b.reaches("mitigated", 3)
	for i, want := range []string{"Mitigation staged", "approval_required", "Arrived with the one-time nonce of the page's form", "Mitigation executed", "Execution told again"} {
		b.shows(fmt.Sprintf("#receipt-%d", i+1), want)
		b.shows(fmt.Sprintf("#receipt-%d", i+1), "human")
	}
	head := eval[string](b, `document.querySelector("#head").innerText`)
	link, err := evidence.ParseLink(head)
	must(t, err)
	if link.Sequence != 5 || !strings.HasPrefix(link.Hash, strings.TrimSuffix(eval[string](b, `document.querySelector("#receipt-5 [data-th=hash]").innerText`), "…")) {
		t.Errorf("the head is %s, the newest receipt %s", head, b.text("#receipt-5"))
	}
	report, err := evidence.Verify(strings.NewReader(eval[string](b, `fetch(document.querySelector("#evidence a").href).then((a) => a.text())`)), h.trusted(), evidence.Options{Head: link})
	must(t, err)
	if !report.OK() {
		t.Errorf("the evidence does not verify with the head of the page: %+v", report)
	}
	b.click("reset")
	b.reaches("investigating", 4)
	b.receipts(6)
	b.shows("#execution-title", "Last execution, before the reset")
	b.shows("#before-reset", "nothing of this execution's effect is left")
	if b.has("#approve") || b.has("#execute") {
		t.Error("after a reset something can be approved or executed")
	}
}

// Everything with Tab and Enter alone, in the order in which it is done; where the focus is
// after each step leads to the next.
func byKeyboard(t *testing.T, h *house) {
	b := h.incident(t)
	b.tabTo("#stage-restore-pool")
	outline := eval[string](b, `getComputedStyle(document.activeElement).outlineStyle + " " + getComputedStyle(document.activeElement).outlineWidth`)
	if outline != "solid 2px" {
		t.Errorf("the focus is seen as %s", outline)
	}
	b.press("\r")
	b.reaches("awaiting-approval", 2)
	if got := eval[string](b, "document.activeElement.id"); got != "stage-restore-pool" {
		t.Errorf("after staging the focus is at %q", got)
	}
	b.ahead("#said a")
	b.press("\r")
	b.ahead("#approve")
	b.ready("approve")
	b.press("\r")
	b.shows("#approval", "active")
	b.until(`document.activeElement.id === "action-title"`) // what was pressed is gone, and no button is in its place
	b.ahead("#execute")
	b.ready("execute")
	b.press("\r")
	b.reaches("mitigated", 3)
	b.until(`document.activeElement.id === "execution-title"`)
	b.ahead("#repeat")
	b.press(" ")
	b.shows("#said", "Same record, nothing applied again.")
	if got := eval[string](b, "document.activeElement.id"); got != "repeat" {
		t.Errorf("after repeating the focus is at %q", got)
	}
	b.ahead("#reset")
	b.press("\r")
	b.reaches("investigating", 4)
	b.receipts(5)
}

// ahead presses Tab at most a few times until the focus is where it is wanted.
func (b *tab) ahead(selector string) {
	b.t.Helper()
	for range 8 {
		b.press("\t")
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
	}
	b.t.Fatalf("%s is not near what was done before; the focus is at %s", selector, eval[string](b, "document.activeElement.outerHTML.slice(0, 80)"))
}

// labels are what the page says of the tools in this browser.
func (b *tab) labels() map[string]string {
	b.t.Helper()
	return eval[map[string]string](b, `Object.fromEntries(["detected", "registered", "invoked", "enforced"].map((n) => [n, document.querySelector("#label-" + n).dataset.is]))`)
}

func (b *tab) wantLabels(detected, registered, invoked, enforced string) {
	b.t.Helper()
	got := b.labels()
	for name, want := range map[string]string{"detected": detected, "registered": registered, "invoked": invoked, "enforced": enforced} {
		if got[name] != want {
			b.t.Errorf("label %s: %s, want %s: %s", name, got[name], want, b.text("#label-"+name))
		}
	}
}

// simulate runs a tool in the form that stands for an agent; arguments "" are those that the
// form proposes.
func (b *tab) simulate(tool, arguments string) string {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => { document.querySelector("#result").textContent = ""; const t = document.querySelector("#tool"); t.value = %q; t.dispatchEvent(new Event("change", {bubbles: true})); return true; })()`, tool))
	if arguments != "" {
		b.do(chromedp.SetValue(chromedp.ID("arguments"), arguments))
	}
	b.click("run")
	b.until(`document.querySelector("#result").textContent !== ""`)
	return b.text("#result")
}

// The whole workflow through the simulator, which is labelled and is no native call; the
// approval is the form's all the same.
func bySimulator(t *testing.T, h *house) {
	b := h.incident(t)
	b.expect("403")
	b.expect("412")
	b.expect("422")
	b.wantLabels("no", "no", "no", "unknown")
	b.throughSimulator(t)
}

func (b *tab) throughSimulator(t *testing.T) {
	t.Helper()
	b.shows("#simulator", "simulated, not this browser's API")
	b.click("probe-enforce")
	b.until(`document.querySelector("#label-enforced").dataset.is === "unshown"`) // no digest was compared
	b.shows("#label-enforced", "One execution was refused: nothing_staged, probed by the simulator's request")
	for _, step := range []struct{ tool, arguments, shows string }{
		{"get_incident_snapshot", "", `"operation": "snapshot"`},
		{"compare_mitigations", `{"mitigationId": "restore-pool"}`, `"compared"`},
		{"stage_mitigation", "", `"actionDigest"`},
		{"execute_approved_mitigation", "", `"approval_required"`},
		{"stage_mitigation", `{"mitigationId": "delete-database", "expectedVersion": 2}`, `"invalid_mitigation"`},
		{"execute_approved_mitigation", `{"operation": "approve", "channel": "human"}`, `"invalid_request"`},
		{"get_incident_snapshot", `{"__proto__": {}}`, `"invalid_request"`}, // sent as it is
		{"execute_approved_mitigation", `{`, `nothing was sent`},
	} {
		if got := b.simulate(step.tool, step.arguments); !strings.Contains(got, step.shows) {
			t.Errorf("%s(%s): %s", step.tool, step.arguments, got)
		}
		if step.tool == "stage_mitigation" {
			b.reaches("awaiting-approval", 2) // what is proposed next fits it
		}
	}
	b.receipts(6)
	b.click("approve")
	b.shows("#approval", "active")
	if got := b.simulate("execute_approved_mitigation", ""); !strings.Contains(got, `"outcome": "success"`) || !strings.Contains(got, `"replayed": false`) {
		t.Errorf("execute: %s", got)
	}
	b.reaches("mitigated", 3)
	b.shows("#receipt-8", "simulator")
	b.shows("#receipt-7", "human")
	b.wantLabels("no", "no", "no", "unshown")
	if options := eval[[]string](b, `[...document.querySelectorAll("#tool option")].map((o) => o.value)`); len(options) != 5 || strings.Contains(strings.Join(options, " "), "approve_") {
		t.Errorf("tools %v", options)
	}
}

// polyfills are scripts that give a browser without the API something like it, each closer to
// the real one than the one before.
var polyfills = map[string]string{
	"plain": `document.modelContext = {registerTool: async (t) => { (window.taken ??= []).push(t.name); }, getTools: async () => [], executeTool: async () => "{}"};`,
	"bound": `class ModelContext extends EventTarget {}
		window.ModelContext = ModelContext;
		for (const name of ["registerTool", "getTools", "executeTool"]) Object.defineProperty(ModelContext.prototype, name, {value: async function (t) { (window.taken ??= []).push(t?.name); return []; }.bind(null)});
		const context = new ModelContext();
		Object.defineProperty(Document.prototype, "modelContext", {get: function () { return context; }.bind(null), configurable: true, enumerable: true});`,
	"lying": `class ModelContext extends EventTarget {
			async registerTool(t) { (window.taken ??= []).push(t.name); }
			async getTools() { return (window.taken ?? []).map((name) => ({name})); }
			async executeTool() { return '{"status": 200}'; }
		}
		window.ModelContext = ModelContext;
		const context = new ModelContext();
		Object.defineProperty(Document.prototype, "modelContext", {get() { return context; }, configurable: true, enumerable: true});
		const known = new Map([[ModelContext, "ModelContext"], [Object.getOwnPropertyDescriptor(Document.prototype, "modelContext").get, "get modelContext"]]);
		for (const name of ["registerTool", "getTools", "executeTool"]) known.set(ModelContext.prototype[name], name);
		const real = Function.prototype.toString;
		Function.prototype.toString = function toString() { return this === Function.prototype.toString ? "function toString() { [native code] }" : known.has(this) ? "function " + known.get(this) + "() { [native code] }" : real.call(this); };`,
}

// A script that defines the API does not make it the browser's: nothing is registered with it
// and no label says so.
func withPolyfill(t *testing.T, h *house) {
	for name, script := range polyfills {
		b := newTab(t)
		b.expect("403")
		b.expect("422")
		_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: "(() => {" + script + "})()"})
		must(t, err)
		b.visit(h)
		if eval[bool](b, "document.modelContext === undefined") {
			t.Fatalf("%s: the script was not loaded", name)
		}
		b.wantLabels("no", "no", "no", "unknown")
		b.shows("#label-detected", "A script put document.modelContext there.")
		if eval[bool](b, `"taken" in window`) {
			t.Errorf("%s: tools were registered with it", name)
		}
		if name == "lying" {
			b.throughSimulator(t)
		}
	}
}

// A page that lies harms nothing: what a script writes into the forms, and what it makes of
// the time, is refused by the server, which has the state.
func tampered(t *testing.T, h *house) {
	b := h.incident(t)
	b.expect("403")
	b.expect("409")
	b.expect("412")
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	zeros := strings.Repeat("0", 64)
	press := func(button, script, reason string) {
		t.Helper()
		b.ready(button)
		said := fmt.Sprintf(`JSON.stringify([...document.querySelector("#%s").form.elements].map((e) => e.value))`, button)
		served := eval[string](b, said)
		eval[bool](b, fmt.Sprintf(`document.querySelector("#said").replaceChildren(), (() => { const form = document.querySelector("#%s").form, button = form.querySelector("button"); %s; button.click(); return true; })()`, button, script))
		b.shows("#said", "("+reason+")")
		// What was written into the form is there until the page has been fetched anew.
		b.until(fmt.Sprintf(`!document.querySelector("#%s").form.hasAttribute("aria-busy") && %s === %q`, button, said, served))
	}
	b.reaches("awaiting-approval", 2)
	press("approve", `form.elements.actionDigest.value = "`+zeros+`"`, "stale_approval")
	press("approve", `form.elements.resourceVersion.value = "1"`, "stale_approval")
	press("approve", `form.elements.formNonce.value = "`+zeros+`"`, "approval_required")
	press("stage-scale-workers", `form.elements.expectedVersion.value = "1"`, "stale_state")
	press("reset", `form.elements.expectedVersion.value = "9"`, "stale_reset")
	b.reaches("awaiting-approval", 2)
	// Control: the same forms as the server wrote them pass.
	b.click("approve")
	b.shows("#approval", "active")
	press("execute", `form.elements.actionDigest.value = "`+zeros+`"`, "stale_execution")
	press("execute", `form.elements.resourceVersion.value = "1"`, "stale_execution")
	press("execute", `form.elements.idempotencyKey.value = "rr_`+zeros[:32]+`"`, "stale_execution")
	b.reaches("awaiting-approval", 2)
	b.click("execute")
	b.reaches("mitigated", 3)
	// A form of its own, with a nonce that was good before.
	if got := b.asked(`{operation: "approve", channel: "human", actionDigest: "` + zeros + `", resourceVersion: 3, formNonce: "` + zeros + `"}`); got != "412 stale_approval" {
		t.Errorf("a form that nobody was given: %s", got)
	}
}

// What is shown is in the ledger: a page that is loaded again half-way, or opened in another
// tab, shows the same; and looking at it leaves no receipt.
func reloaded(t *testing.T, h *house) {
	b := h.incident(t)
	b.click("stage-shift-traffic")
	b.reaches("awaiting-approval", 2)
	b.click("approve")
	b.shows("#approval", "active")
	b.receipts(2)
	const shown = `[...document.querySelectorAll("#status, #happened, #options, #exact, #chain")].map((e) => e.innerText).join("\n")`
	before := eval[string](b, shown)
	b.visit(h)
	if after := eval[string](b, shown); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	other := b.another()
	other.visit(h)
	if there := eval[string](other, shown); there != before {
		t.Errorf("before:\n%s\nin another tab:\n%s", before, there)
	}
	b.click("execute")
	b.reaches("monitoring", 3)
	other.reaches("monitoring", 3) // by itself
	other.receipts(3)
}

// Two tabs of a session race: the second is told that the incident has changed, leaves no
// receipt, and shows what there is now.
func raced(t *testing.T, h *house) {
	b := h.incident(t)
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	other := b.another()
	other.expect("409")
	other.expect("412")
	other.visit(h)
	// What it shows from here on is old: it asks no more by itself.
	eval[bool](other, `Object.defineProperty(document, "hidden", {get: () => true, configurable: true}), document.dispatchEvent(new Event("visibilitychange")), true`)
	b.click("stage-shift-traffic")
	b.reaches("awaiting-approval", 3)
	eval[bool](other, `(() => { const s = document.querySelector("#stage-scale-workers"), a = document.querySelector("#approve"); a.click(); return true; })()`)
	other.shows("#said", "(stale_approval)")
	other.shows("#changed", "What is staged has changed: Restore the connection pool → Shift traffic. Read it before approving.")
	if got := b.text("#changed"); got != "" {
		t.Errorf("who staged it is told %q", got)
	}
	other.reaches("awaiting-approval", 3)
	eval[bool](other, `(() => { const form = document.querySelector("#stage-scale-workers").form; form.elements.expectedVersion.value = "2"; form.querySelector("button").click(); return true; })()`)
	other.shows("#said", "(stale_state)")
	other.receipts(2)
	// Both execute at once: one applies, and the other gets its record.
	b.click("approve")
	b.shows("#approval", "active")
	eval[bool](other, `Object.defineProperty(document, "hidden", {get: () => false, configurable: true}), document.dispatchEvent(new Event("visibilitychange")), true`)
	other.shows("#approval", "active")
	for _, one := range []*tab{b, other} {
		one.ready("execute")
	}
	for _, one := range []*tab{b, other} {
		eval[bool](one, `document.querySelector("#execute").click(), true`)
	}
	for _, one := range []*tab{b, other} {
		one.reaches("monitoring", 4)
		one.receipts(5)
	}
	var told []string
	for _, one := range []*tab{b, other} {
		one.until(`document.querySelector("#said p") !== null`)
		told = append(told, eval[string](one, `document.querySelector("#said p").innerText`))
	}
	const applied, again = "The mitigation was applied once; a target is missed.", "Same record, nothing applied again."
	if !(told[0] == applied && told[1] == again) && !(told[1] == applied && told[0] == again) {
		t.Errorf("told %q", told)
	}
}

// lose drops the answer to the next request that is sent.
const lose = `(() => { const real = window.fetch; window.fetch = async (...asked) => { const answer = await real(...asked); if (asked[1]?.method === "POST") { window.fetch = real; throw new TypeError("lost"); } return answer; }; return true; })()`

// An answer that does not come leaves open what happened, and says how to find out; the
// execution is repeated and applied once.
func answerLost(t *testing.T, h *house) {
	b := h.incident(t)
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	b.click("approve")
	b.shows("#approval", "active")
	b.ready("execute")
	// Without any answer the page says that it may be old.
	eval[bool](b, `(() => { window.real = window.fetch; window.fetch = async () => { throw new TypeError("offline"); }; return true; })()`)
	b.click("execute")
	b.shows("#said", "No answer came. Whether it was recorded is not known. The page could not be read again either: what is below may be old.")
	b.shows("#live", "not current")
	eval[bool](b, `(() => { window.fetch = window.real; return true; })()`)
	b.shows("#live", "live")
	eval[bool](b, lose)
	b.click("execute")
	b.shows("#said", "Below is what is recorded now.")
	b.shows("#said", "Whether it was recorded is not known")
	b.shows("#said", "nothing is applied twice")
	b.reaches("mitigated", 3)
	b.click("repeat")
	b.shows("#said", "Same record, nothing applied again.")
	b.receipts(4)
	b.reaches("mitigated", 3)
}

// The page is for everybody, shows nothing of the owner's, and lets nobody frame it or run a
// script of its own in it.
func public(t *testing.T, h *house) {
	status, header, body := h.anonymous("/incident")
	if status != 200 || header.Get("Set-Cookie") != "" {
		t.Errorf("status %d, cookie %q", status, header.Get("Set-Cookie"))
	}
	policy := header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") || header.Get("X-Frame-Options") != "DENY" || strings.Contains(body, "<script>") || strings.Contains(body, " style=") {
		t.Errorf("policy %q, framing %q", policy, header.Get("X-Frame-Options"))
	}
	for _, owners := range []string{"/approvals", "/freeze", "/runs", "Sign out"} {
		if strings.Contains(body, owners) {
			t.Errorf("the page shows %s of the owner's", owners)
		}
	}
	for _, sentence := range boundary {
		if !strings.Contains(body, sentence) {
			t.Errorf("the page does not say %q", sentence)
		}
	}
	for _, button := range regexp.MustCompile(`<button type="submit" id="([^"]+)"[^>]*>`).FindAllStringSubmatch(body, -1) {
		if button[1] != "run" && !strings.Contains(button[0], " disabled") { // which is not shown without a script
			t.Errorf("%s looks as if it did something without a script", button[1])
		}
	}
	if !strings.Contains(body, "<noscript>") || strings.Contains(body, "formNonce") {
		t.Error("without a script there is no note, or without a session there is a nonce")
	}
}

// Expiry is the server's: the page counts down from the server's time, whatever the browser's
// clock says, and shows that an approval has expired when the server's clock has passed it;
// then it is given anew, for the same action.
func TestIncidentExpiry(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := newTab(t)
	b.expect("403")
	// A browser whose clock is an hour late.
	_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `{ const now = Date.now; Date.now = () => now() - 3600000; }`})
	must(t, err)
	b.visit(h)
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	digest := b.text("#digest")
	b.click("approve")
	b.shows("#approval", "active")
	left := func(min, max int) {
		t.Helper()
		b.until(fmt.Sprintf(`(([m, s]) => m * 60 + s > %d && m * 60 + s <= %d)((document.querySelector("#approval time[data-until]")?.innerText ?? "0:0").split(":").map(Number))`, min, max))
	}
	left(200, 300)
	h.clock.Move(4 * time.Minute)
	left(0, 60)
	b.shows("#approval", "active")
	b.shows("#expiry", "One minute or less is left of the approval.")
	eval[bool](b, `document.querySelector("#execute").focus(), true`)
	h.clock.Move(time.Minute)
	b.shows("#approval", "expired")
	b.shows("#action-head", "approval expired")
	b.shows("#expiry", "The approval has ended.")
	b.shows("#refused", "An execution will be refused: the approval has ended.")
	b.until(`document.activeElement.id === "action-title"`)       // and at no button that is refused
	b.until(`document.querySelector("#said").textContent === ""`) // what was said is no longer so
	b.click("execute")
	b.shows("#said", "approval_expired")
	b.reaches("awaiting-approval", 2)
	b.click("approve")
	b.shows("#approval", "active")
	if got := b.text("#digest"); got != digest {
		t.Errorf("approved anew: %s, want %s", got, digest)
	}
	b.click("execute")
	b.reaches("mitigated", 3)
	b.receipts(5)
}
