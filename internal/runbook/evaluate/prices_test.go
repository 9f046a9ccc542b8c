package evaluate

import (
	"strings"
	"testing"
	"time"
)

const someModel = "example-model-2026-11-01"

func prices(t *testing.T) *Prices {
	t.Helper()
	p, err := ReadPrices([]byte(`{"model":"` + someModel + `","currency":"USD","asOf":"2026-11-30","inputPerMillion":"3.00","cachedInputPerMillion":"0.30","outputPerMillion":"15"}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The estimated cost is tokens by price, three prices, exact to the last of six places
//
func TestCost(t *testing.T) {
	for want, tokens := range map[string]Tokens{
		"0.000000": {}, "3.000000": {Input: 1_000_000}, "0.300000": {CachedInput: 1_000_000}, "15.000000": {Output: 1_000_000},
		"0.000003": {Input: 1}, "0.012345": {Input: 3_100, CachedInput: 150, Output: 200}, "0.000001": {CachedInput: 3}, "150000000.000000": {Output: 10_000_000_000_000},
	} {
		if got := prices(t).Cost(tokens); got != (Cost{"USD", want}) {
			t.Errorf("%+v: %+v, want %s", tokens, got, want)
		}
	}
}

// Prices are read strictly, and are current for at most 31 days, of the model that is run
//
func TestPrices(t *testing.T) {
	good := `{"model":"m","currency":"USD","asOf":"2026-11-30","inputPerMillion":"3.00","cachedInputPerMillion":"0.30","outputPerMillion":"15"}`
	for _, bad := range [][2]string{
		{`"3.00"`, `3`}, {`"3.00"`, `"3,00"`}, {`"3.00"`, `"-3"`}, {`"3.00"`, `"03"`}, {`"0.30"`, `""`}, {`"15"`, `"15."`}, {`"15"`, `"1e3"`}, {`USD`, `usd`}, {`2026-11-30`, `30.11.2026`}, {`2026-11-30`, `2026-02-30`},
		{`"model":"m"`, `"model":""`}, {`"model":"m",`, ``}, {`{`, `{"discount":"0",`}, {`}`, `}}`},
	} {
		if _, err := ReadPrices([]byte(strings.Replace(good, bad[0], bad[1], 1))); err == nil {
			t.Errorf("%s for %s was read", bad[1], bad[0])
		}
	}
	day := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		model   string
		days    int
		problem string
	}{{someModel, 0, ""}, {"", 0, ""}, {someModel, 30, ""}, {someModel, 31, "older than 31 days"}, {someModel, -1, "has not come"}, {"another-model-2026-11-01", 0, "those given are of " + someModel}} {
		if got := prices(t).Current(c.model, day.AddDate(0, 0, c.days)); (got == "") != (c.problem == "") || !strings.Contains(got, c.problem) {
			t.Errorf("%s after %d days: %q, want %q", c.model, c.days, got, c.problem)
		}
	}
}

// A model is pinned by a date, a numbered release or a digest; a name that moves is not
// . A date is one of the calendar, and what a terminal could be told by is no name.
func TestPinned(t *testing.T) {
	for _, model := range []string{"a-20261101", "a-b-2026-11-01", "a-001", "a-preview-0528", "a-0229", "a-20240229", "a:7b@sha256:" + strings.Repeat("0a", 32)} {
		if !Pinned(model) {
			t.Errorf("%q counts as not pinned", model)
		}
	}
	for _, model := range []string{"", "a", "a-latest", "a-4", "a-4.1", "a-20261101-latest", "a-2026", "a@sha256:0a", "a-20261101 ",
		"a-20260229", "a-2026-02-30", "a-2026-13-01", "a-00000000", "a-99999999", "a-0000", "a-0431", "a-1301", // no days of the calendar
		"a b-001", "a\n-001", "a-001\n", "\x1b[2Ja-001", "a\u0085-001", "ä-001", "-001", "@sha256:" + strings.Repeat("0a", 32), strings.Repeat("a", 197) + "-001",
	} {
		if Pinned(model) {
			t.Errorf("%q counts as pinned", model)
		}
	}
}
