package console

import (
	"encoding/json"
	"strings"
	"testing"

	"countersign/internal/money"
	"countersign/internal/supervision/chain"
	"countersign/internal/supervision/records"
)

// Every event that a run can have is told in words. One that this page does not know
// is shown as it was recorded, so that nothing is hidden.
func TestEveryEventHasWords(t *testing.T) {
	for _, kind := range chain.EventTypes() {
		if tellers[kind] == nil || titles[kind] == "" && kind != "metrics" {
			t.Errorf("%s has no words", kind)
		}
	}
	c, err := newChart([]records.Line{{Sequence: 1, Type: "something.new", Data: json.RawMessage(`{"what":"<b>it</b>"}`)}}, "USD")
	if err != nil {
		t.Fatal(err)
	}
	if s := c.items[0].Event; s.Title != "something.new" || !strings.Contains(s.Raw, "<b>it</b>") {
		t.Errorf("an unknown event is shown as %+v", s)
	}
	if _, err := newChart([]records.Line{{Sequence: 1, Type: "run.paused", Data: json.RawMessage(`[]`)}}, "USD"); err == nil {
		t.Error("an event that cannot be read is passed over")
	}
}

func TestSpelling(t *testing.T) {
	for cents, want := range map[money.Cents]string{0: "0.00 USD", 5: "0.05 USD", 13700: "137.00 USD", 100000: "1,000.00 USD", money.Max: "9,999,999,999.99 USD"} {
		if got := spellMoney(cents, "USD"); got != want {
			t.Errorf("%d cents: %q, want %q", cents, got, want)
		}
	}
	// What cannot be seen is spelled out: a character without a glyph, one that turns
	// the direction, a space that is none.
	for text, want := range map[string]string{
		"addr_home": "addr_home", "Büro 2": "Büro 2", "addr\u200b_home": `"addr\u200b_home"`, "a\u202eb": `"a\u202eb"`, "a\nb": `"a\nb"`, "a\u00a0b": `"a\u00a0b"`, `a"b`: `"a\"b"`,
	} {
		if got := exact(text); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}

// The templates are whole: they are parsed when the first page is shown.
func TestTemplates(t *testing.T) {
	for _, name := range []string{"approvals", "runs", "run", "limits", "freeze"} {
		if views()[name] == nil {
			t.Errorf("%s has no template", name)
		}
	}
}
