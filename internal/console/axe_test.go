package console_test

import (
	"fmt"
	"os"
	"sync"
)

// axeFile holds the rules of axe-core, a development dependency of tools/.
const axeFile = "../../tools/node_modules/axe-core/axe.min.js"

var axe = sync.OnceValues(func() ([]byte, error) { return os.ReadFile(axeFile) })

// violation is a rule that a page breaks.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		Target  []any  `json:"target"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// accessible applies every rule of axe to the page with its parts unfolded, in light and
// dark and at the widths of a phone and of a desk; of a list of a hundred alike to the first. At no width does it scroll
// sideways.
func (b *tab) accessible(name string) {
	b.t.Helper()
	source, err := axe()
	must(b.t, err)
	for _, l := range looks {
		if os.Getenv(pictures) == "" {
			break
		}
		b.see(l)
		b.picture(fmt.Sprintf("%s-%s-%d", name, l.Scheme, l.Width))
	}
	b.unfold()
	for _, l := range looks {
		b.see(l)
		if over := eval[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
			b.t.Errorf("%s, %s at %d: %d pixels stick out: %s", name, l.Scheme, l.Width, over, eval[string](b, wide))
		}
		if over := eval[int](b, aside); over > 0 {
			b.t.Errorf("%s, %s at %d: %d tables reach over what is beside them", name, l.Scheme, l.Width, over)
		}
		if !eval[bool](b, "typeof axe === 'object'") {
			eval[bool](b, string(source)+"; true")
		}
		for _, v := range eval[[]violation](b, "axe.run({exclude: ['#earlier tr:nth-child(n+4)']}, {resultTypes: ['violations'], preload: false}).then(r => r.violations)") {
			for _, n := range v.Nodes {
				b.t.Errorf("%s, %s at %d: axe %s, %s: %v\n%s", name, l.Scheme, l.Width, v.ID, v.Help, n.Target, n.Summary)
			}
		}
	}
}

// wide names the elements that stick out.
const wide = `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
	.map(e => e.nodeName + "." + e.className + "#" + e.id).slice(0, 5).join(" ")`

// aside counts the tables that are wider than their place.
const aside = `[...document.querySelectorAll("table")].filter(e => e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().right + 1).length`

// unfold opens what can be opened; of a long page the beginning, which has one of each.
func (b *tab) unfold() {
	b.t.Helper()
	eval[bool](b, "[...document.querySelectorAll('details')].slice(0, 24).forEach(d => d.open = true), true")
}
