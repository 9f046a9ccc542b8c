package console_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"countersign/evidence"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
)

// G-37: a project is listed with what it hands out and to whom; what is missing stands
// there with the command that does it.
func TestProjectPages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.signedIn("/projects")
	b.shows("main", "No projects yet.")
	b.shows("main", "countersign project create HANDLE/SLUG")
	b.shows("#live", "live")
	p := h.project("acme/help")
	b.shows("main", "acme/help") // by itself
	for _, want := range []string{
		"countersign context publish DIR --project acme/help --env production", "countersign context publish DIR --project acme/help --env staging",
		"countersign client create --project acme/help", "build_missing",
	} {
		b.shows("#"+p.id, want)
	}
	p.publish("production", false, refunds)
	p.publish("staging", false, refunds)
	p.publish("staging", false, refunds+"\nMore.\n")
	p.publish("staging", true, refunds+"\nNew.\n")
	p.client("Desk", "production", "custom", "required")
	p.client("Old integration", "production", "custom", "absent")
	gone := p.client("Former", "production", "custom", "absent")
	p.owner("POST", "/mcp/clients/"+gone.id+"/revoke", object{}, nil)
	p.owner("POST", "/token", object{"environment": "production", "profile": "support"}, nil)
	var shared struct{ ClientID string }
	p.owner("POST", "/token", object{"environment": "staging", "profile": "support"}, &shared)
	p.owner("POST", "/mcp/clients/"+shared.ClientID+"/revoke", object{}, nil)
	c := p.client("Reporter", "production", "custom", "absent")
	c.call("", "report-gap", object{"task": "How long is a voucher valid?", "detail": "Asked twice."})
	b.shows("#"+p.id, "3 named clients, 1 of them with turn protocol required, 1 shared token; revoked: 1 named client, 1 shared token")
	b.shows("#"+p.id, "Build 1")
	b.shows("#"+p.id, "Draft")
	b.shows("#"+p.id, "Build 2 stands behind it")
	if got := b.text("#" + p.id); strings.Contains(got, "countersign context publish") || strings.Contains(got, "countersign client create") {
		t.Errorf("nothing is missing, and yet: %s", got)
	}
	b.accessible("projects")
	b.do(chromedp.Click(chromedp.CSS("#" + p.id + " h2 a")))
	b.until(`location.pathname === "` + p.at("") + `"`)
	b.shows("#gaps", "How long is a voucher valid?")
	b.shows("#clients", "revoked")
	for environment, base := range map[string]string{"production": h.origin + "/acme/help", "staging": h.origin + "/acme/help/staging"} {
		bases := eval[[]string](b, `[...document.querySelectorAll("#open .environment")].filter((e) => e.querySelector("h3").innerText === "`+environment+`").map((e) => e.querySelector(".base").innerText)`)
		if len(bases) != 1 || bases[0] != base {
			t.Errorf("the base address of %s is %q, want %s", environment, bases, base)
		}
	}
	b.shows("main", "Trinity, authoring of Builds and a policy of retention are out of scope.")
	b.accessible("project")
	if got := exported(b); !strings.Contains(got, `"project.opened"`) || strings.Count(got, `"build.published"`) != 3 || strings.Count(got, `"draft.saved"`) != 1 {
		t.Errorf("evidence of the project: %s", got)
	}
	b.do(chromedp.Click(chromedp.CSS("#" + c.id + " a")))
	b.until(`location.pathname === "` + p.at("/clients/"+c.id) + `"`)
	b.shows("#live", "live")
	for _, want := range []string{"absent", "support", c.id, h.origin + "/acme/help"} {
		b.shows("#facts", want)
	}
	b.shows("#open", "report-gap")
	b.accessible("client")
	if got := exported(b); !strings.Contains(got, `"client.created"`) {
		t.Errorf("evidence of the client: %s", got)
	}
	b.look(p, "/gaps")
	b.shows("main", "How long is a voucher valid?")
	b.accessible("gaps")
	b.look(p, "/clients")
	b.shows("#"+gone.id, "revoked")
	b.accessible("clients")
	b.open(h.origin + "/limits")
	b.shows("#beyond", "Trinity")
	b.shows("#beyond", "Authoring of Builds")
	b.shows("#beyond", "A policy of retention")
}

// exported is the evidence that the page's button leads to.
func exported(b *tab) string {
	b.t.Helper()
	b.until(`document.querySelector("#evidence + p a.button") !== null`)
	return eval[string](b, `fetch(document.querySelector("#evidence + p a.button").href).then((a) => a.text())`)
}

// traced is a project with turns in every state, and what else is recorded.
type traced struct {
	*perimeter
	c                                                   *caller
	open, with, without, expired, cancelled, failed     string
	compass, outside, draft, bridged, withheld, nothing string
}

const task = "How is a card payment refunded?"

func newTraced(t *testing.T) *traced {
	t.Helper()
	h := newHouse(t)
	p := &traced{perimeter: h.project("acme/help")}
	p.publish("production", false, refunds)
	p.publish("staging", true, refunds+"\nNew.\n")
	p.c = p.client("Desk", "production", "custom", "required")
	staging, free, bridge := p.client("Staging", "staging", "custom", "required"), p.client("Old integration", "production", "custom", "absent"), p.client("Local bridge", "production", "bridge", "absent")
	c := p.c
	p.expired = c.start("")
	c.call(p.expired, "compass", object{"task": task})
	h.clock.Move(16 * time.Minute)
	p.with = c.start("ticket 4711")
	p.compass = c.call(p.with, "compass", object{"task": task})
	p.withheld = c.call(p.with, "doctor", object{})
	c.observe(p.with)
	c.complete(p.with, "completed", "in 1.2 s")
	p.without = c.start("")
	p.nothing = c.call(p.without, "compass", object{"task": "zebra"})
	c.complete(p.without, "completed", "")
	p.cancelled, p.failed = c.start(""), c.start("")
	c.call(p.failed, "find", object{"query": "refund"})
	c.complete(p.cancelled, "cancelled", "")
	c.complete(p.failed, "failed", "")
	in := staging.start("")
	p.draft = staging.call(in, "compass", object{"task": task})
	staging.complete(in, "completed", "")
	p.outside = free.call("", "resolve", object{"ref": "refunds"})
	var made struct{ Receipt struct{ ID string } }
	bridge.send("POST", bridge.base+"bridge/receipts", object{"kind": "file.write", "digest": strings.Repeat("ab", 32)}, bridge.header(""), &made)
	p.bridged = made.Receipt.ID
	p.open = c.start("")
	return p
}

// S-068, S-069, S-070, S-071, S-072: each state of a turn is shown by name, with what it
// says and no more.
func TestStatesOfTurns(t *testing.T) {
	t.Parallel()
	p := newTraced(t)
	b, one := p.signedIn(p.at("/traces")), p.signedIn("/projects")
	eval[bool](b, `document.querySelector("details.honest").open = true`)
	for _, state := range []struct {
		id, code, word string
		says           []string
	}{
		{p.open, "OPEN", "open", []string{"A start was received", "no completion was observed yet"}},
		{p.with, "COMPLETED_WITH_CONTEXT_DELIVERY", "completed, context delivered", []string{"The client reported completion", "at least one context delivery"}},
		{p.without, "COMPLETED_WITHOUT_CONTEXT_DELIVERY", "completed, no delivery observed", []string{"The client reported completion", "no context delivery was observed"}},
		{p.expired, "EXPIRED_OR_INCOMPLETE", "expired or incomplete", []string{"Fifteen minutes passed before a completion was reported", "inconclusive"}},
		{p.cancelled, "REPORTED_CANCELLED", "reported cancelled", []string{"The client reported", "a technical status, no statement about reasoning or about what a user saw"}},
		{p.failed, "REPORTED_FAILED", "reported failed", []string{"The client reported", "a technical status, no statement about reasoning or about what a user saw"}},
	} {
		b.shows("#"+state.id, state.word)
		if shown := eval[string](b, `document.querySelector("#`+state.id+` .chip").title`); shown != state.code {
			t.Errorf("%s: %s in the list", state.code, shown)
		}
		one.look(p.perimeter, "/traces/"+state.id)
		one.shows("#state", state.code)
		for _, says := range append(state.says, state.word) {
			one.shows("#state", says)
		}
		for _, says := range append(state.says, state.code) {
			b.shows("details.honest", says)
		}
	}
}

// S-073, S-074, S-075, S-076, S-061: every line of a turn has its class of evidence, counts
// say what they count, and what is not observed is named.
func TestClassesOfEvidence(t *testing.T) {
	t.Parallel()
	p := newTraced(t)
	b := p.signedIn(p.at("/traces/" + p.with))
	lines := eval[[][]string](b, `[...document.querySelectorAll("#lines > li")].map((l) => [l.querySelector("h3").innerText, [...l.querySelectorAll(".class")].map((c) => c.innerText).join()])`)
	for i, want := range [][]string{
		{"Turn opened", "observed"}, {"Context handed to the HTTP response", "observed"}, {"Call answered without an item", "observed"},
		{"A hook reported an intention", "observed"}, {"Completion reported", "reported"},
	} {
		if i >= len(lines) || lines[i][0] != want[0] || lines[i][1] != want[1] {
			t.Errorf("line %d is not %q: %q", i+1, want, lines)
		}
	}
	for _, want := range []string{
		"Reported by the application. It is a technical status", // S-061
		"no execution, request, result or comprehension is counted", "A hook reported an intention before a tool was to run.",
		"Handed to the HTTP response. Whether the application received it, or a model read or understood it, was not observed.",
	} {
		b.shows("main", want)
	}
	for _, want := range []string{"whether a tool was invoked or what came of it", "requests made after a hook", "use of results", "reasoning or comprehension", "its final answer"} {
		b.shows("#missing", want)
	}
	if n := eval[int](b, `[...document.querySelectorAll("#missing > li")].filter((l) => l.querySelector(".class").innerText !== "not observed").length`); n != 0 {
		t.Errorf("%d lines of what is missing have another class", n)
	}
	counts := b.text("#counted + dl")
	if want := "deliveries 1 context calls 2 observations 1 late reports 0"; strings.Join(strings.Fields(counts), " ") != want {
		t.Errorf("counts %q, want %q", counts, want)
	}
	b.shows("#facts", "ticket 4711")
	b.shows("#facts", "in 1.2 s")
	b.accessible("turn")
	// The button leads to the evidence whose head the page names.
	list, err := os.ReadFile(filepath.Join(p.dir, "keys", "evidence.pub"))
	must(t, err)
	keys, err := evidence.ParseKeys(list)
	must(t, err)
	head, err := evidence.ParseLink(eval[string](b, `document.querySelector("#evidence ~ .command").innerText.match(/--head (\S+)/)[1]`))
	must(t, err)
	report, err := evidence.Verify(strings.NewReader(exported(b)), keys, evidence.Options{Head: head})
	must(t, err)
	if !report.OK() {
		t.Errorf("the evidence does not verify: %+v", report)
	}
	b.shows(".command", "countersign verify --key evidence.pub --head "+head.String()+" FILE")
}

// claims are wordings that would say more than was observed.
var claims = regexp.MustCompile(`(?i)\b(the (model|application|client) (has )?(read|used|understood|ignored|received|consumed|did not)|ignor(ed|es)|(was|were|been) (read|consumed|understood|delivered to)|without (using )?(any )?context\b)`)

// S-012, S-013, S-087: where no delivery was recorded, that is all that is said; what did
// not reach the gateway is no row, and what is not known yet is shown as incomplete.
func TestNothingIsInferred(t *testing.T) {
	t.Parallel()
	p := newTraced(t)
	status, _ := p.try("POST", p.c.base+"turns/start", object{}, map[string]string{"Authorization": "Bearer " + p.c.token})
	if status != 400 { // no key: refused, and so absent
		t.Fatalf("a start without a key: %d", status)
	}
	b := p.signedIn(p.at("/traces"))
	if n := eval[int](b, "document.querySelectorAll('tbody tr').length"); n != 7 {
		t.Errorf("%d turns are listed, want the 7 that were opened", n)
	}
	b.shows("main", "A turn that did not reach this gateway is absent from this list; nothing is inferred from that.")
	eval[bool](b, "document.querySelectorAll('details').forEach(d => d.open = true), true")
	said := []string{b.text("main")}
	b.look(p.perimeter, "/traces/"+p.without)
	b.shows("#state", "no context delivery was observed through this perimeter during the turn. That says nothing about what the model used, answered or left aside.")
	b.shows("#missing", "No context delivery was observed through this perimeter during the turn.")
	said = append(said, b.text("main"))
	for id, missing := range map[string]string{p.open: "No completion was observed yet.", p.expired: "No completion was observed before the end of the turn."} {
		b.look(p.perimeter, "/traces/"+id)
		b.shows("#missing", missing)
		said = append(said, b.text("main"))
	}
	b.look(p.perimeter, "/recorder")
	for _, text := range append(said, b.text("main")) {
		for _, fixed := range []string{turn.HonestyPerimeter, turn.HonestyDelivery, turn.Sentence(turn.Open), turn.Sentence(turn.WithoutDelivery)} {
			text = strings.ReplaceAll(text, fixed, "")
		}
		if claim := claims.FindString(text); claim != "" {
			t.Errorf("%q is claimed: %s", claim, text)
		}
	}
	// Control: wordings that the protocol forbids are found.
	for _, claim := range []string{"The model ignored context.", "The application received it.", "2 items were read.", "The model did not answer.", "Completed without context."} {
		if !claims.MatchString(claim) {
			t.Errorf("control: %q is not found", claim)
		}
	}
}

// S-045, S-046, S-089: the Flight Recorder has what was handed out, from which Build or
// draft, with the verdict and the turn; it says what it did not observe, and marks what a
// bridge reports. Erased words are said to be erased.
func TestFlightRecorder(t *testing.T) {
	t.Parallel()
	p := newTraced(t)
	p.erase(turn.Kind, p.without)
	b := p.signedIn(p.at("/recorder"))
	for id, wants := range map[string][]string{
		p.compass:  {"compass", "covered", "Build 1", p.with[len(p.with)-8:], "observed", "Desk"},
		p.draft:    {"compass", "covered", "draft", "observed", "Staging"},
		p.outside:  {"resolve", "none", "Build 1", "outside a turn", "observed", "Old integration"}, // no verdict
		p.nothing:  {"compass", "gap", "observed"},
		p.withheld: {"doctor", "observed"},
		p.bridged:  {"file.write", "bridge-observed", "outside a turn", "abababababab"},
	} {
		for _, want := range wants {
			b.shows("#"+id, want)
		}
	}
	order := eval[[]string](b, `[...document.querySelectorAll("tbody tr")].map((r) => r.id.slice(4))`)
	for i := 1; i < len(order); i++ {
		if order[i-1] < order[i] {
			t.Errorf("not the newest first: %v", order)
		}
	}
	b.shows("main", "Whether the application received it, or a model read or understood it, was not observed.")
	b.shows("main", "It shows no activity of a model or of a tool.")
	b.accessible("recorder")
	// On a phone a card has what there is, and no line for what there is not.
	b.see(look{"light", 360})
	if shown := b.text("#" + p.withheld); strings.Contains(shown, "none") {
		t.Errorf("on a phone: %q", shown)
	}
	if rows, height := len(order), eval[int](b, "document.querySelector('tbody').offsetHeight"); height > 150*rows {
		t.Errorf("%d interactions are %d pixels high on a phone", rows, height)
	}
	b.see(look{"light", 1280})

	b.tabTo("#" + p.compass + " a")
	b.press("\r")
	b.until(`location.pathname === "` + p.at("/recorder/"+p.compass) + `"`)
	b.shows("#request", task)
	for _, want := range []string{"A card payment is refunded to the card within five days.", "covered", "Refunds of card payments", "was not observed"} {
		b.shows("#answer", want)
	}
	for _, want := range []string{"Build 1", "production", p.with[len(p.with)-8:]} {
		b.shows("#facts", want)
	}
	b.accessible("interaction")
	b.do(chromedp.Click(chromedp.CSS("#bound + dl a")))
	b.until(`location.pathname === "` + p.at("/traces/"+p.with) + `"`)

	b.look(p.perimeter, "/recorder/"+p.outside)
	b.shows("#facts", "outside a turn")
	if got := exported(b); !strings.Contains(got, `"interaction.recorded"`) {
		t.Errorf("evidence of a call outside a turn: %s", got)
	}
	b.look(p.perimeter, "/recorder/"+p.nothing)
	b.shows("#request", "The words were erased.")
	b.shows("#answer", "The words were erased.")
	if got := b.text("main"); strings.Contains(got, "zebra") {
		t.Errorf("erased, and yet shown: %s", got)
	}
	b.look(p.perimeter, "/recorder/"+p.bridged)
	b.shows("main", "Bridge-observed: a local bridge reports a file, process or HTTP transition that it saw.")
	b.shows("main", strings.Repeat("ab", 32))
	b.accessible("bridge")
	b.look(p.perimeter, "/recorder?turn="+p.with)
	if n := eval[int](b, "document.querySelectorAll('tbody tr').length"); n != 2 {
		t.Errorf("%d interactions of a turn, want 2", n)
	}
	b.look(p.perimeter, "/recorder")
	b.do(chromedp.Click(chromedp.CSS(".filters summary")))
	eval[bool](b, `[...document.querySelectorAll(".filters a")].find((a) => a.innerText === "Local bridge, production").click(), true`)
	b.until(`location.search.startsWith("?client=") && document.readyState === "complete"`)
	if n := eval[int](b, "document.querySelectorAll('tbody tr').length"); n != 1 || !b.has("#"+p.bridged) {
		t.Errorf("%d interactions of the bridge, want 1", n)
	}
}

// erase deletes every text of a chain, and starts the server again.
func (p *traced) erase(kind, id string) {
	p.t.Helper()
	p.stop()
	l, err := sqlite.Open(p.t.Context(), filepath.Join(p.dir, "countersign.db"), sqlite.Options{Clock: p.clock})
	must(p.t, err)
	key := ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: kind, ID: id}
	texts, err := l.Texts(p.t.Context(), key)
	must(p.t, err)
	for _, text := range texts {
		must(p.t, l.EraseText(p.t.Context(), key, text.Commitment))
	}
	must(p.t, l.Close())
	p.serve(strings.TrimPrefix(p.origin, "http://"))
}

// Lists come in pages and can be narrowed; both by links, so that they work without a
// script.
func TestNarrowingTurns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p := h.project("acme/help")
	c, other := p.client("Desk", "production", "custom", "required"), p.client("Night desk", "production", "custom", "required")
	for range 51 {
		c.complete(c.start(""), "cancelled", "")
	}
	open := other.start("")
	b := h.signedIn(p.at("/traces"))
	rows := func() int { return eval[int](b, "document.querySelectorAll('tbody tr').length") }
	follow := func(word string) {
		t.Helper()
		before := eval[string](b, "location.search")
		eval[bool](b, `[...document.querySelectorAll("main a")].find((a) => a.innerText === "`+word+`").click(), true`)
		b.until(`location.search !== "` + before + `" && document.readyState === "complete"`)
	}
	if rows() != 50 || eval[string](b, `document.querySelector("tbody tr").id`) != open {
		t.Errorf("%d turns on the first page, want 50, the newest first", rows())
	}
	follow("Older turns")
	if rows() != 2 || b.has("a[rel=next]") {
		t.Errorf("%d turns on the last page, want 2", rows())
	}
	follow("To the newest")
	follow("reported cancelled")
	follow("Older turns")
	if rows() != 1 {
		t.Errorf("%d of the cancelled turns on the last page, want 1", rows())
	}
	b.look(p, "/traces")
	eval[bool](b, "document.querySelector('.filters details').open = true")
	follow("Night desk, production")
	if rows() != 1 || !b.has("#"+open) {
		t.Errorf("%d turns of the client, want 1", rows())
	}
	follow("reported failed")
	b.shows("main", "No such turns.")
	b.accessible("traces-none")
}

// A page of turns and a turn follow what is recorded, and time, without loading again.
func TestTracesAreLive(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p := h.project("acme/help")
	list := h.signedIn(p.at("/traces"))
	list.shows("main", "No client takes part in the turn protocol")
	list.shows("#live", "live")
	eval[bool](list, "window.same = true")
	p.publish("production", false, refunds)
	c := p.client("Desk", "production", "custom", "required")
	id, late := c.start(""), c.start("")
	list.shows("#"+id, "open")
	list.accessible("traces")
	one := h.signedIn(p.at("/traces/" + id))
	one.shows("#live", "live")
	c.call(id, "compass", object{"task": task})
	one.shows("#lines", "compass: 1 item of Build 1 was handed to the HTTP response (verdict covered).")
	c.complete(id, "completed", "")
	one.shows("#state", "COMPLETED_WITH_CONTEXT_DELIVERY")
	list.shows("#"+id, "completed, context delivered")
	h.clock.Move(15 * time.Minute)
	list.shows("#"+late, "expired or incomplete")
	if !eval[bool](list, "window.same === true") {
		t.Error("the list was loaded again")
	}
}

// Whatever stands in names, labels, notes, tasks, queries, documents and gaps is shown as
// text. Nothing of it becomes an element, a script, a style or a request.
func TestContextIsText(t *testing.T) {
	t.Parallel()
	const hostile = `</p></pre><img src=x onerror=window.broken=1><script>window.broken=1</script><a href="javascript:0">x</a>`
	const name = `<img src=x onerror=window.broken=1><script>window.broken=1</script>`
	h := newHouse(t)
	p := h.project("acme/help")
	p.publish("production", false, "---\nid: refunds\ntitle: '"+hostile+"'\nauthor: '"+name+"'\nsource: '"+name+"'\n---\n"+hostile+" Refunds of a card.\n")
	c := p.client(name, "production", "custom", "required")
	id := c.start(name)
	calls := []string{
		c.call(id, "compass", object{"task": "refund card " + hostile}), c.call(id, "find", object{"query": "refund " + name}), c.call(id, "resolve", object{"ref": "refunds"}),
		c.call(id, "why", object{"ref": "refunds"}), c.call(id, "report-gap", object{"task": hostile, "detail": hostile}),
	}
	c.complete(id, "failed", hostile)
	pages := []string{"", "/traces", "/traces?client=" + c.id, "/traces/" + id, "/recorder"}
	for _, call := range calls {
		pages = append(pages, "/recorder/"+call)
	}
	b := h.signedIn("/projects")
	for _, page := range pages {
		b.look(p, page)
		eval[bool](b, "document.querySelectorAll('details').forEach(d => d.open = true), true")
		if n := eval[int](b, `document.querySelectorAll("main img, main script, main svg, main style, main a[href^=javascript], main iframe").length`); n != 0 {
			t.Errorf("%q: %d elements are a stranger's", page, n)
		}
		if eval[bool](b, "window.broken === 1") {
			t.Errorf("%q: a stranger's script ran", page)
		}
		if !strings.Contains(b.text("main"), "<img src=x onerror=window.broken=1><script>") {
			t.Errorf("%q does not show what stands there", page)
		}
	}
	b.look(p, "/recorder/"+calls[0])
	b.accessible("interaction-hostile")
}
