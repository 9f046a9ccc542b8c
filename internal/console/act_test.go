package console_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"countersign/evidence"
)

// H-172 H-219: a run's page follows what an agent does, and keeps what the person does with it:
// the focus, what was typed, what was opened, where the page stands.
func TestRunPageIsLive(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.agent(h.create())
	b := h.signedIn("/runs/" + a.run)
	b.shows("#live", "live")
	eval[bool](b, "window.same = true")
	a.propose("merchant.catalog")
	b.shows("#timeline .turn-head .chip", "permitted, not dispatched")
	eval[bool](b, "document.querySelector('#timeline .turn details').open = true")
	a.execute()
	b.shows("#timeline .turn-head .chip", "verified")
	b.until("document.querySelector('#timeline .turn details').open")
	// H-172: each of the five words is there, and only for what happened.
	a.propose("product:")
	b.until(`[...document.querySelector("#timeline .turn").querySelectorAll(".track li")].map(l => l.className).join() === "yes,yes,yes,no,no"`)
	used := a.permit
	a.propose0(t)
	b.shows("main", "This run is paused")
	// Words that are half typed survive an event of the run.
	b.do(chromedp.SendKeys(chromedp.CSS("#act-clarify textarea"), "The smaller"))
	top := eval[float64](b, "document.activeElement.getBoundingClientRect().top")
	a.permit = used
	if r := a.execute(); r.Status != http.StatusConflict && r.Status != http.StatusForbidden {
		t.Fatalf("a permit of before: %s", r.Got())
	}
	b.until(`document.querySelector("#timeline").textContent.includes("Request refused")`)
	if got := eval[string](b, "document.activeElement.value"); got != "The smaller" {
		t.Errorf("the focused field holds %q after a refresh", got)
	}
	if now := eval[float64](b, "document.activeElement.getBoundingClientRect().top"); now != top {
		t.Errorf("what is being typed moved from %v to %v", top, now)
	}
	// H-174: the words are sent, and no grant changes by them.
	before := b.text("#grants ~ .grant")
	b.press(" one.")
	b.tabTo("#act-clarify button")
	b.press("\r")
	b.shows("#said", "The clarification is recorded")
	b.shows("main", "The smaller one.")
	b.until(`document.querySelector("#act-clarify") === null`)
	b.shows("main .meta", "ready")
	if after := b.text("#grants ~ .grant"); strings.Split(after, "ends in")[0] != strings.Split(before, "ends in")[0] {
		t.Errorf("grants before %q, after %q", before, after)
	}
	if !eval[bool](b, "window.same === true") {
		t.Error("the page was loaded again")
	}
}

// A page survives the server's end: it says that it is no longer current, comes back
// by itself and shows what happened meanwhile.
func TestReconnect(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.agent(h.create())
	b := h.signedIn("/runs/" + a.run)
	b.expect("ERR_CONNECTION_REFUSED")
	b.expect("ERR_INCOMPLETE_CHUNKED_ENCODING")
	b.shows("#live", "live")
	h.stop()
	b.until(`document.querySelector("#live").textContent !== "live"`)
	h.serve(strings.TrimPrefix(h.origin, "http://"))
	a.cycle("merchant.catalog")
	b.shows("#timeline .turn-head .chip", "verified")
	b.until(`document.querySelector("#live").textContent === "live"`)
}

// propose0 asks for what no grant covers, which pauses the run.
func (a *agent) propose0(t *testing.T) {
	t.Helper()
	a.h.clock.Move(31 * time.Second) // the permit of before has ended
	verdict, _ := a.propose("add:", func(action object) { action["args"] = object{"productId": "fieldwork-keyboard", "quantity": 3} })
	if verdict != "PAUSE" {
		t.Fatalf("an altered argument: %s", verdict)
	}
}

// Lists follow too: a new run, and what begins to wait.
func TestListsAreLive(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	runs, waiting := h.signedIn("/runs"), h.signedIn("/approvals")
	runs.shows("main", "No runs yet.")
	waiting.shows("main", "Nothing waits.")
	a := h.agent(h.create())
	runs.shows("tbody tr", instruction)
	a.cycle("merchant.catalog")
	a.propose0(t)
	waiting.shows(".queue li", "A clarification")
	runs.shows("tbody tr", "paused: clarification")
	// What waits longest stands first; the newest run does.
	next := h.waiting()
	waiting.until(`[...document.querySelectorAll(".queue li")].map((l) => l.id).join() === "wait-` + a.run + `,wait-` + next.run + `"`)
	waiting.until(`document.title.startsWith("(2) Approvals")`)
	runs.until(`document.querySelector("tbody tr").id === "run-` + next.run + `"`)
}

// H-148: without a mouse a run is revoked, after a question that leaves it as it is
// unless it is answered.
func TestRevokeByKeyboard(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.agent(h.create())
	a.propose("merchant.catalog")
	b := h.signedIn("/runs/" + a.run)
	b.shows("#timeline .turn", "permitted")
	if !strings.Contains(b.text("#act-revoke"), "cannot undo what was dispatched already") {
		t.Errorf("the consequence is not told: %s", b.text("#act-revoke"))
	}
	b.press("\t")
	if got := b.text(":focus"); got != "Skip to the content" {
		t.Errorf("the first Tab leads to %q", got)
	}
	b.tabTo("#act-revoke button")
	b.press("\r")
	b.until(`document.querySelector("#confirm-revoke").open`)
	b.accessible("run-confirm")
	b.press("\u001b")
	b.until(`!document.querySelector("#confirm-revoke").open`)
	b.shows("main .meta", "ready")
	if !eval[bool](b, `document.activeElement.matches("#act-revoke button")`) {
		t.Error("the focus does not come back to the button")
	}
	b.press("\r")
	b.until(`document.querySelector("#confirm-revoke").open`)
	b.press("\r") // the focus is on leaving it
	b.until(`!document.querySelector("#confirm-revoke").open`)
	b.press("\r")
	b.until(`document.querySelector("#confirm-revoke").open`)
	b.tabTo(`#confirm-revoke button[value="yes"]`)
	b.press("\r")
	b.shows("main", "This run has ended")
	b.shows("#said", "The run is revoked.")
	b.shows("#timeline .turn", "permit revoked")
	b.until(`document.querySelector("#act-revoke") === null && document.activeElement.id === "said"`)
	if r := a.execute(); r.Reason != "PERMIT_REVOKED" {
		t.Errorf("the permit afterwards: %s", r.Got())
	}
	b.accessible("run-revoked")
}

// waiting makes a run of exact mode that waits for its approval.
func (h *house) waiting(edits ...object) *agent {
	h.t.Helper()
	a := h.agent(h.create(append([]object{{"mode": "exact"}}, edits...)...))
	for _, name := range purchase[:4] {
		a.cycle(name)
	}
	return a
}

// H-010 H-070 H-153 H-154 H-223: the owner sees the whole effect, approves it, and nothing is
// dispatched by that; then the agent may do exactly this, once.
func TestApprove(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.waiting()
	b := h.signedIn("/approvals")
	b.shows(".queue li", "Your approval")
	b.shows(".queue li", "137.00 USD")
	b.accessible("approvals-waiting")
	b.tabTo(".queue a")
	b.press("\r")
	b.shows(".proposal h2", "Waits for your approval")
	b.accessible("run-waiting")
	shown := b.text(".proposal")
	for _, want := range []string{"137.00 USD", "addr_home", "merchant.checkout.submit", "commit", "order.confirmed", "effect digest", "state revision", "ends in 9:", "single use", "Dispatches nothing",
		"Scope: one use, within your terms: origin local, productId fieldwork-keyboard, quantity at most 1, addressRef addr_home, totalCents at most 13700."} {
		if !strings.Contains(shown, want) {
			t.Errorf("the proposal does not show %q", want)
		}
	}
	// Every member that the digest covers, and the digest that the API tells.
	var v struct {
		Proposal struct {
			EffectDigest string
			ProposalID   string
		}
	}
	h.get("/runs/"+a.run, &v)
	if v.Proposal.EffectDigest == "" || !strings.Contains(shown, v.Proposal.EffectDigest) || !strings.Contains(shown, v.Proposal.ProposalID) {
		t.Errorf("want digest %s of proposal %s in\n%s", v.Proposal.EffectDigest, v.Proposal.ProposalID, shown)
	}
	b.tabTo("#act-approve button")
	b.press("\r")
	b.until(`document.querySelector("#confirm-approve").open`)
	b.shows("#confirm-approve", v.Proposal.EffectDigest)
	b.tabTo(`#confirm-approve button[value="yes"]`)
	b.press("\r")
	b.shows("#said", "Approved. Nothing has been dispatched.")
	b.shows("#timeline", "Approved by the owner")
	b.shows(".counts", "4 dispatched")
	b.accessible("run-approved")
	a.cycle("submit")
	b.shows("main .meta", "completed")
	b.shows(".counts", "5 verified")
	// H-153 H-154 H-070: one proposal with all that followed from it, each with the
	// provenance that was recorded; what was reported is said to be reported.
	b.unfold()
	shown = b.text("#timeline .turn")
	at := 0
	for _, want := range []string{
		"Proposed by the consumer", "reported rationale", "neither its private reasoning nor proof of intent", "Hard checks", "hard policy", "Guardian decision", "replay (authored)",
		"not itself a permit", "Permit issued", "Permit claimed", "Dispatched", "Receipt", "no external receipt", "Permit consumed", "Verified", "Measured durations",
	} {
		i := strings.Index(shown[at:], want)
		if i < 0 {
			t.Fatalf("%q does not follow in the turn:\n%s", want, shown)
		}
		at += i
	}
	if !strings.Contains(shown, "recorded at") || !strings.Contains(b.text("main"), "caller-reported; no proof of identity") {
		t.Error("times are not told as recorded, or the traffic actor not as reported")
	}
}

// H-224: what the page showed and no longer stands cannot be approved, and the page
// says why and what to do.
func TestStaleApproval(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.waiting()
	b := h.signedIn("/runs/" + a.run)
	b.expect("409")
	b.shows(".proposal", "Waits for your approval")
	eval[bool](b, `document.querySelector("#act-approve [name=digest]").value = "0".repeat(64), true`)
	b.do(chromedp.Click(chromedp.CSS("#act-approve button")), chromedp.Click(chromedp.CSS(`#confirm-approve button[value="yes"]`)))
	b.shows("#said", "APPROVAL_STALE")
	b.shows("#said", "What to do next")
	if eval[string](b, `document.querySelector("#said").getAttribute("role")`) != "alert" {
		t.Error("the refusal is not read out")
	}
	b.accessible("run-refused")
	var v struct{ Status string }
	if h.get("/runs/"+a.run, &v); v.Status != "paused" {
		t.Errorf("status %s", v.Status)
	}
	// In time the proposal ends by itself, and the page stops offering it.
	h.clock.Move(11 * time.Minute)
	b.until(`document.querySelector("#act-approve") === null`)
	b.shows("#timeline", "Transaction proposal voided")
	// What is prepared anew is another proposal, and the same page approves that one.
	b.tabTo("#act-retry button")
	b.press("\r")
	b.shows("main .meta", "ready")
	_, err := a.Get(t.Context(), "/api/v1/observation")
	must(t, err)
	b.shows(".proposal", "Waits for your approval")
	b.do(chromedp.Click(chromedp.CSS("#act-approve button")), chromedp.Click(chromedp.CSS(`#confirm-approve button[value="yes"]`)))
	b.shows("#said", "Approved. Nothing has been dispatched.")
}

// What is left counts from the server's clock: the client's is of no account.
func TestCountdown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.clock.Move(72 * time.Hour) // the client's is three days behind
	h.signIn()
	a := h.waiting()
	b := h.signedIn("/runs/" + a.run)
	b.until(`/^9:[0-5]\d$/.test(document.querySelector(".proposal .until").textContent)`)
	// Control: by the client's clock three days more would be left.
	if days := eval[float64](b, `(Number(document.querySelector(".proposal .until").dataset.until) - Date.now()) / 86400000`); days < 2.9 {
		t.Errorf("control: %v days", days)
	}
}

// H-220 H-222: an unresolved effect overrides whatever else is shown, leads to the
// evidence and offers no retry; after a revoke too.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.unconfirmed(true)
	b := h.signedIn("/runs/" + a.run)
	check := func(state string) {
		t.Helper()
		b.shows(".notice.danger h2", "Effect unconfirmed")
		b.shows(".notice.danger", "Review the evidence")
		if b.has("#act-retry") || b.has("#act-approve") || strings.Contains(strings.ToLower(b.text("main")), "let it try again") {
			t.Errorf("%s: a retry is offered", state)
		}
		if !strings.Contains(b.text("main .meta"), "effect unconfirmed") {
			t.Errorf("%s: shown as %s", state, b.text("main .meta"))
		}
	}
	check("paused")
	h.revoke(a.run)
	b.shows("main .meta", "status revoked")
	check("revoked")
	b.open(h.origin + "/approvals")
	b.shows(".queue li", "effect unconfirmed")
	b.open(h.origin + "/runs")
	b.shows("tbody tr", "effect unconfirmed")
}

// H-101: the download is the signed export; it verifies with the key of the folder.
func TestEvidenceDownload(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.agent(h.create())
	a.buy()
	b := h.signedIn("/runs/" + a.run)
	folder := t.TempDir()
	c := chromedp.FromContext(b.ctx)
	_, err := chromedp.CallBrowser(b.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, BrowserContextID: c.BrowserContextID, DownloadPath: folder, EventsEnabled: new(true),
	})
	must(t, err)
	done := chromedp.BrowserEvents(b.ctx, browser.DownloadProgress)
	b.do(chromedp.Click(chromedp.CSS("a[download]")))
	for e, err := range done {
		must(t, err)
		if e.State == browser.DownloadProgressStateCompleted {
			break
		}
	}
	list, err := os.ReadFile(filepath.Join(h.dir, "keys", "evidence.pub"))
	must(t, err)
	keys, err := evidence.ParseKeys(list)
	must(t, err)
	export, err := os.ReadFile(filepath.Join(folder, "evidence-"+a.run+".json"))
	must(t, err)
	report, err := evidence.Verify(bytes.NewReader(export), keys, evidence.Options{})
	if err != nil || !report.OK() {
		t.Errorf("the download does not verify: %+v, %v", report, err)
	}
}

// unconfirmed makes a hosted run whose order was sent and not answered. The store has
// acted on it when acts is true.
func (h *house) unconfirmed(acts bool) *agent {
	h.t.Helper()
	a := h.agent(h.create(object{"target": "hosted"}))
	for _, name := range purchase[:4] {
		a.cycle(name)
	}
	h.lost.Store(lostAnswer)
	if !acts {
		h.lost.Store(lostRequest)
	}
	a.propose("submit")
	if r := a.execute(); r.Status != http.StatusBadGateway {
		h.t.Fatalf("a lost answer: %s", r.Got())
	}
	return a
}

// L-4: the store is asked; its signed answer is a receipt, and the run goes on from it.
func TestProbe(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.unconfirmed(true)
	b := h.signedIn("/runs/" + a.run)
	b.shows("#act-probe", "sends nothing again")
	// What is around a notice stays when the notice goes: a part that is open, and the place.
	eval[bool](b, `document.querySelector("#timeline").same = document.querySelector("#timeline .turn details").open = true`)
	h.lost.Store(lostNothing)
	b.tabTo("#act-probe button")
	b.press("\r")
	b.shows("#said", "The store was asked")
	b.shows("main .meta", "completed")
	b.until(`document.querySelector(".notice.danger") === null`)
	b.until(`document.querySelector("#timeline").textContent.includes("look-up")`)
	b.shows("#timeline .turn-head .chip", "verified")
	if !eval[bool](b, `document.querySelector("#timeline").same === true && document.querySelector("#timeline .turn details").open`) {
		t.Error("the timeline was made anew")
	}
	// So whatever can come and go, and what is beside it, has a name.
	if unnamed := eval[string](b, `[...document.querySelectorAll("#main > *, #columns > *, #timeline > *")].filter(e => !e.id).map(e => e.outerHTML.slice(0, 80)).join("\n")`); unnamed != "" {
		t.Errorf("without an id:\n%s", unnamed)
	}
}

// G-14: the owner states what became of an effect. The page says that it is a word and
// no receipt, asks first, and the run is not completed by it.
func TestReconcile(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.unconfirmed(true)
	b := h.signedIn("/runs/" + a.run)
	b.shows("#act-reconcile", "not as a receipt")
	b.shows("#act-reconcile", "never completes a run")
	// Without a finding nothing is sent.
	b.tabTo("#act-reconcile button")
	b.press("\r")
	if eval[bool](b, `document.querySelector("#confirm-reconcile").open`) {
		t.Error("a statement without a finding is asked about")
	}
	b.do(chromedp.Click(chromedp.CSS(`#act-reconcile [value="applied"]`)), chromedp.SendKeys(chromedp.CSS("#act-reconcile textarea"), "The shop's list has it."))
	b.tabTo("#act-reconcile button")
	b.press("\r")
	b.until(`document.querySelector("#confirm-reconcile").open`)
	b.tabTo(`#confirm-reconcile button[value="yes"]`)
	b.press("\r")
	b.shows("#said", "Your statement is recorded.")
	b.until(`document.querySelector("#timeline").textContent.includes("The shop's list has it.")`)
	b.shows("#timeline .turn-head .chip", "settled by a statement, no receipt")
	b.shows(".notice", "A statement is no receipt")
	b.accessible("run-reconciled")
	var v struct{ Status, SpentCents string }
	if h.get("/runs/"+a.run, &v); v.Status == "completed" || v.SpentCents != "13700" {
		t.Errorf("status %s, spent %s", v.Status, v.SpentCents)
	}
	if strings.Contains(b.text("main .meta"), "completed") {
		t.Error("the page calls it completed")
	}
}

// Where no agent holds a token the owner lets the run go on, one action at a time.
func TestStep(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.signedIn("/runs/" + h.create())
	b.shows("#act-step", "At most one")
	b.tabTo("#act-step button")
	b.press("\r")
	b.shows("#said", "One action was tried")
	b.shows("#timeline .turn-head .chip", "verified")
	b.shows(".counts", "1 dispatched")
	b.accessible("run-stepped")
}

// Whoever is asked to clarify reads the question beside the answer's field.
func TestExecutorAsks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	run := h.create(object{"terms": object{"origin": "local", "productId": "of-no-shop", "quantity": 1, "addressRef": "addr_home", "maxTotalCents": "13700"}})
	b := h.signedIn("/runs/" + run)
	h.request("POST", "/runs/"+run+"/play")
	b.shows(".notice", "The executor asks: replay (authored)")
	b.shows("#act-clarify", "widens no grant")
}

// H-223: what is free text in the final arguments stands on the screen in words, not
// only as what the digest covers of it.
func TestApproveShowsFreeText(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const memo = "Synthetic rent <b>of</b> March"
	a := h.agent(h.create(object{
		"service": "bank", "mode": "exact", "budgetCents": "6000", "instruction": "Pay the rent.",
		"terms": object{"sourceAccountRef": "acct_checking", "payeeRef": "payee_landlord", "amountCents": "5000", "currency": "USD", "memo": memo},
	}))
	a.cycle("accounts")
	a.cycle("payees")
	a.cycle("transfer:acct_checking:payee_landlord")
	b := h.signedIn("/runs/" + a.run)
	b.shows(".proposal", "Waits for your approval")
	b.shows(".proposal", memo)
	b.shows(".proposal", "payee_landlord")
	b.shows("main .meta", "Synthetic bank")
	b.accessible("run-waiting-bank")
}
