package console_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// page is a page as the server writes it.
func (h *house) page(path string) string {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), "GET", h.origin+path, nil)
	must(h.t, err)
	r.Header.Set("Cookie", h.cookie())
	resp, err := http.DefaultClient.Do(r)
	must(h.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(h.t, err)
	return string(b)
}

// L-10: the page of a run tells, in words, what is known of the context turn that a report
// was made in, and tells nothing where none was named.
func TestContextTurnOfAReport(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p := h.project("acme/shop")
	c := p.client("desk", "production", "custom", "required")
	open, elsewhere := c.start(""), "trn_ffffffffffffffffffffffffffffffff"
	run := h.create(object{"contextClient": c.id})
	a := h.agent(run)
	for _, step := range []struct{ entry, turn, words string }{
		{purchase[0], "", ""},
		{purchase[1], elsewhere, "reported by the consumer; it was not seen open here, and it permits nothing"},
		{purchase[2], open, "observed: it was in this ledger and open when this was decided; it permits nothing"},
	} {
		before := h.page("/runs/" + run)
		r, err := a.Once(t.Context(), "POST", "/api/v1/turns", a.report(step.entry), map[string]string{"X-SEIF-Turn-Id": step.turn})
		must(t, err)
		if r.Status != http.StatusOK {
			t.Fatalf("%s: %s", step.entry, r.Got())
		}
		after := h.page("/runs/" + run)
		if step.turn == "" {
			if strings.Contains(after, "trn_") {
				t.Error("a turn is told of a report that named none")
			}
		} else if strings.Contains(before, step.words) || !strings.Contains(after, step.words) || !strings.Contains(after, step.turn) {
			t.Errorf("%s: the page does not tell of %s: %s", step.entry, step.turn, step.words)
		}
		h.clock.Move(31 * time.Second) // the permit ends unused
	}
	if !strings.Contains(h.page("/runs/"+run), c.id) {
		t.Error("the page does not name the context client of the run")
	}
}
