package projects

import (
	"fmt"
	"html/template"
	"strconv"

	"countersign/internal/contextturn/turn"
)

// words are the functions of the templates.
var words = template.FuncMap{
	"state":    func(status string) string { return stateWords[status] },
	"tone":     func(word string) string { return tones[word] },
	"sentence": turn.Sentence,
	"states":   func() []string { return states },
	"honesty":  func(of string) string { return honesty[of] },
	"title":    title,
	"build":    build,
	"bytes":    size,
	"count":    counted,
}

// stateWords are the states of a turn as lists name them; beside each stands its code.
var stateWords = map[string]string{
	turn.Open:             "open",
	turn.WithDelivery:     "completed, context delivered",
	turn.WithoutDelivery:  "completed, no delivery observed",
	turn.Expired:          "expired or incomplete",
	turn.ReportedCanceled: "reported cancelled",
	turn.ReportedFailed:   "reported failed",
}

// tones are the classes that give a state, a verdict or a class of evidence its colour; the
// word is always there too.
var tones = map[string]string{
	turn.Open: "going", turn.WithDelivery: "good", turn.WithoutDelivery: "over", turn.Expired: "wait", turn.ReportedCanceled: "over", turn.ReportedFailed: "wait",
	turn.Covered: "good", turn.Partial: "wait", turn.Gap: "over", turn.Conflict: "danger",
	turn.ClassObserved: "going", turn.ClassReported: "wait", turn.ClassNotObserved: "over", turn.ClassBridge: "wait",
}

// honesty are the fixed sentences by what they are of.
var honesty = map[string]string{
	"perimeter": turn.HonestyPerimeter, "delivery": turn.HonestyDelivery, "observation": turn.HonestyObservation, "reported": turn.HonestyReported,
	"unobserved": turn.HonestyNotObserved, "absent": turn.HonestyAbsent, "bridge": turn.HonestyBridge,
}

// titles say what an event of a turn is.
var titles = map[string]string{
	turn.Opened{}.EventType():    "Turn opened",
	turn.Delivered{}.EventType(): "Context handed to the HTTP response",
	turn.Answered{}.EventType():  "Call answered without an item",
	turn.Observed{}.EventType():  "A hook reported an intention",
	turn.Complete{}.EventType():  "Completion reported",
	turn.Expiry{}.EventType():    "Fifteen minutes passed",
	turn.Late{}.EventType():      "Completion reported after the end",
}

// title names an event; one that is not known here keeps the name that it has in evidence.
func title(kind string) string {
	if words, ok := titles[kind]; ok {
		return words
	}
	return kind
}

// build names the Build or draft that a call was answered from.
func build(b *turn.Build) string {
	switch {
	case b == nil:
		return "none selected"
	case b.Draft:
		return b.Environment + " draft"
	}
	return fmt.Sprintf("%s Build %d", b.Environment, b.Number)
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	case n >= 1<<10:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	}
	return counted(int(n), "byte")
}

// counted writes a number with what is counted.
func counted(n any, one string) string {
	if s := fmt.Sprint(n); s == "1" {
		return s + " " + one
	}
	return fmt.Sprint(n, " ", one, "s")
}
