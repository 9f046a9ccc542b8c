package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// signIn types the secret and presses Enter.
func (b *tab) signIn(secret string) {
	b.t.Helper()
	b.until(`document.readyState === "complete" && document.querySelector("#secret") !== null`)
	b.do(chromedp.SendKeys(chromedp.ID("secret"), secret+"\r"))
}

// G-20: nothing is shown without a session; a wrong secret is refused in words, the
// right one leads to where the person wanted to go; signing out ends it.
func TestSignIn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := newTab(t)
	b.expect("401")
	b.open(h.origin + "/runs")
	b.until(`location.pathname === "/login"`)
	b.accessible("login")
	b.signIn("not-the-secret")
	b.shows("#said", "The secret is not the owner's.")
	if b.text("#said") == "" || eval[string](b, "location.pathname") != "/login" {
		t.Error("a wrong secret gets further")
	}
	b.accessible("login-refused")
	b.do(chromedp.Clear(chromedp.ID("secret")))
	b.signIn(h.secret)
	b.until(`location.pathname === "/runs"`)
	b.shows("main", "No runs yet.")
	b.accessible("runs-empty")
	// Who is signed in and comes to the form goes on.
	b.open(h.origin + "/login?next=%2Flimits")
	b.until(`location.pathname === "/limits"`)
	b.do(chromedp.Click(chromedp.ID("sign-out")))
	b.until(`location.pathname === "/login"`)
	b.open(h.origin + "/runs")
	b.until(`location.pathname === "/login"`)
}

// The states of the pages, each looked at as four people would.
func TestPages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	bought := h.agent(h.create())
	bought.buy()
	paused := h.agent(h.create())
	paused.cycle("merchant.catalog")
	if verdict, _ := paused.propose("add:", func(a object) { a["args"] = object{"productId": "fieldwork-keyboard", "quantity": 3} }); verdict != "PAUSE" {
		t.Fatalf("an altered argument: %s", verdict)
	}
	lost := h.unconfirmed(false)
	open := h.agent(h.create())
	open.cycle("merchant.catalog")
	open.propose("product:")

	b := h.signedIn("/runs")
	b.accessible("runs")
	// The header stays in one line down to where phones begin, so that it covers nothing that
	// is scrolled to.
	for _, width := range []int64{1280, 800, 720} {
		b.see(look{"light", width})
		if height := eval[float64](b, `document.querySelector(".top").offsetHeight`); height > 64 {
			t.Errorf("at %d the header is %v pixels high", width, height)
		}
	}
	for _, page := range []struct{ name, path, shows string }{
		{"approvals", "/approvals", "What waits"}, {"limits", "/limits", "not implemented"}, {"missing", "/nothing/here", "no such page"},
		{"run-completed", "/runs/" + bought.run, "completed"}, {"run-paused", "/runs/" + paused.run, "FORBIDDEN_OPERATION"},
		{"run-unconfirmed", "/runs/" + lost.run, "Effect unconfirmed"}, {"run-active", "/runs/" + open.run, "merchant.product"},
	} {
		if page.name == "missing" {
			b.expect("404")
		}
		b.open(h.origin + page.path)
		b.shows("main", page.shows)
		b.accessible(page.name)
	}
}
