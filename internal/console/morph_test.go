package console_test

import "testing"

// What a refresh takes over and what it leaves: attributes, texts and fixed values
// become the server's; what a person typed, chose, opened or stands at stays, and so does
// what a script fills in.
func TestTakingOver(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := newTab(t)
	b.open(h.origin + "/login")
	got := eval[map[string]any](b, `(async () => {
		const { morph } = await import("/assets/morph.js");
		const tree = (html) => new DOMParser().parseFromString("<main>" + html + "</main>", "text/html").querySelector("main");
		const page = document.importNode(tree(
			'<p id=a class=x title=t>one</p><form id=f><input type=hidden name=digest value=old><input id=typed><input type=radio name=r value=1><input type=radio name=r value=2>' +
			'<textarea id=area></textarea><button id=go>go</button></form><details id=d><summary>s</summary><p>in</p></details><ol><li id=l0>0</li><li id=l1>1</li><li id=l2><a id=link href="#">2</a></li></ol><i>bare</i><div id=kept data-script><p>mine</p></div>'), true);
		document.body.append(page);
		const byId = (id) => page.querySelector("#" + id);
		byId("typed").value = "mine";
		byId("area").value = "words";
		page.querySelectorAll("[type=radio]")[1].checked = true;
		byId("d").open = true;
		byId("go").disabled = true;
		byId("typed").focus();
		const former = ["a", "typed", "l1", "l2", "d"].map(byId);
		morph(page, tree(
			'<section id=new>new</section><p id=a class=y>two</p><form id=f><input type=hidden name=digest value=fresh><input id=typed><input type=radio name=r value=1><input type=radio name=r value=2>' +
			'<textarea id=area></textarea><button id=go>go on</button></form><details id=d><summary>s</summary><p>in, changed</p></details><ol><li id=l3>3</li><li id=l2><a id=link href="#">2</a></li><li id=l1>1!</li></ol><div id=kept data-script><p>theirs</p></div>'));
		const focus = document.activeElement.id, order = [...page.querySelectorAll("li")].map((l) => l.id + l.textContent).join(" ");
		const same = former.every((node, i) => node === byId(["a", "typed", "l1", "l2", "d"][i]));
		byId("link").focus();
		const list = page.querySelector("ol");
		morph(list, tree('<ol><li id=l2><a id=link href="#">2</a></li><li id=l3>3</li></ol>').firstElementChild);
		const moved = document.activeElement.id + list.textContent;
		return {
			moved, same, order, focus,
			first: page.firstElementChild.id, text: byId("a").textContent, class: byId("a").className, title: byId("a").hasAttribute("title"),
			digest: page.querySelector("[name=digest]").value, typed: byId("typed").value, area: byId("area").value,
			chosen: new FormData(byId("f")).get("r"), open: byId("d").open, inside: byId("d").querySelector("p").textContent, disabled: byId("go").disabled, button: byId("go").textContent,
			gone: page.querySelector("i") === null, left: byId("kept").textContent,
		};
	})()`)
	for name, want := range map[string]any{
		"same": true, "first": "new", "text": "two", "class": "y", "title": false, "digest": "fresh", "typed": "mine", "area": "words", "chosen": "2", "open": true,
		"inside": "in, changed", "disabled": true, "button": "go on", "focus": "typed", "order": "l33 l22 l11!", "gone": true, "left": "mine", "moved": "link23",
	} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}
