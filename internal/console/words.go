package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"countersign/internal/canon"
	"countersign/internal/money"
)

// words are the functions of the templates: how things of a run are spelled.
var words = template.FuncMap{
	"money":   spellMoney,
	"amount":  amount,
	"outcome": spellOutcome,
	"tone":    tone,
	"terms":   termsOf,
	"value":   valued,
	"exact":   exact,
	"wants":   func(recovery string) want { return wants[recovery] },
	"micros":  micros,
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

// want says in words what a run waits for, by the route that helps.
type want struct{ Title, Next string }

var wants = map[string]want{
	"approve":   {"Your approval", "Look at the complete effect and approve it, or revoke the run."},
	"clarify":   {"A clarification", "Answer in words. Nothing that was granted changes."},
	"retry":     {"A retry", "Mend what stopped it and let it go on. Nothing is sent by that."},
	"reconcile": {"A reconciliation", "Find out what happened at the store. It is never sent again by itself."},
	"probe":     {"A look-up", "Ask the store what became of the effect, or revoke the run."},
}
