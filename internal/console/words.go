package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/money"
)

// words are the functions of the templates: how things are spelled on every page.
var words = template.FuncMap{
	"money":   spellMoney,
	"amount":  amount,
	"moment":  moment,
	"stamp":   stamp,
	"millis":  func(t evidence.Time) int64 { return int64(t) },
	"short":   short,
	"outcome": spellOutcome,
	"tone":    tone,
	"spaced":  func(s string) string { return strings.ReplaceAll(s, "_", " ") },
	"json":    spellJSON,
	"terms":   termsOf,
	"value":   valued,
	"exact":   exact,
	"wants":   func(recovery string) want { return wants[recovery] },
	"micros":  micros,
	"dict":    dict,
	"long":    func(s string) bool { return len(s) > 140 }, // too long for a heading's size
}

// spellMoney writes cents with two decimals and the currency: 13700 USD is 137.00 USD.
func spellMoney(c money.Cents, currency string) string {
	n := int64(c)
	whole := fmt.Sprint(n / 100)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return fmt.Sprintf("%s.%02d %s", whole, n%100, currency)
}

// amount writes cents that come as text; what is no amount is shown as it is.
func amount(cents, currency string) string {
	c, err := money.Parse(cents)
	if err != nil {
		return cents
	}
	return spellMoney(c, currency)
}

func moment(t evidence.Time) string { return t.Time().Format("2006-01-02 15:04:05 UTC") }

// stamp is the time of an event, to the millisecond.
func stamp(s string) string {
	t, err := evidence.ParseTime(s)
	if err != nil {
		return s
	}
	return t.Format("2006-01-02 15:04:05.000 UTC")
}

// short is the part of an id that tells it from others of the same moment.
func short(id string) string {
	if len(id) <= 8 {
		return id
	}
	return "…" + id[len(id)-8:]
}

// spellOutcome puts the outcome of a run into words (G-01, H-219).
func spellOutcome(outcome string) string {
	if category, paused := strings.CutPrefix(outcome, "paused:"); paused {
		if category == "approval" {
			return "waits for approval"
		}
		return "paused: " + category
	}
	if outcome == outcomeUnconfirmed {
		return "effect unconfirmed"
	}
	return outcome
}

// tone is the class that gives an outcome its colour; the word is always there too.
func tone(outcome string) string {
	switch {
	case outcome == outcomeUnconfirmed, outcome == "paused:reconciliation":
		return "danger"
	case outcome == "completed":
		return "good"
	case strings.HasPrefix(outcome, "paused:"):
		return "wait"
	case outcome == "active":
		return "going"
	}
	return "over"
}

// spellJSON writes a value for people, every member on a line of its own.
func spellJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}

// term is one member of a run's terms.
type term struct{ Name, Value string }

// termsOf lists the members of terms in the order of their canonical form.
// Free text stands in texts.
func termsOf(raw json.RawMessage, texts map[string]string, currency string) []term {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return []term{{"terms", string(raw)}}
	}
	var list []term
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if text, free := texts[name]; free {
			list = append(list, term{name, text})
			continue
		}
		list = append(list, term{name, valued(name, plain(members[name]), currency)})
	}
	return list
}

// valued spells a value whose name says that it is an amount as one.
func valued(name, value, currency string) string {
	if strings.HasSuffix(name, "Cents") {
		return amount(value, currency)
	}
	return value
}

// plain writes a text without its quotes and anything else as JSON.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(canon.MustMarshal(raw))
}

func micros(n *int64) string {
	if n == nil {
		return "not measured"
	}
	return (time.Duration(*n) * time.Microsecond).String()
}

// dict makes a map of names and values for a template that takes several.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("console: %v is not a name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// want says in words what a run waits for, by the route that helps.
type want struct{ Title, Next string }

var wants = map[string]want{
	"approve":   {"Your approval", "Look at the complete effect and approve it, or revoke the run."},
	"clarify":   {"A clarification", "Answer in words. Nothing that was granted changes."},
	"retry":     {"A retry", "Mend what stopped it and let it go on. Nothing is sent by that."},
	"reconcile": {"A reconciliation", "Find out what happened at the store. It is never sent again by itself."},
	"probe":     {"A look-up", "Ask the store what became of the effect, or revoke the run."},
}
