package projects

import (
	"fmt"
	"html/template"
	"strconv"

	"countersign/internal/contextturn/turn"
)

// words are the functions of the templates.
var words = template.FuncMap{
	"status":   func(status string) string { return statusWords[status] },
	"tone":     func(word string) string { return tones[word] },
	"sentence": turn.Sentence,
	"statuses": func() []string { return statuses },
	"meanings": func(of string) []meaning { return meanings[of] },
	"honesty":  func(of string) string { return honesty[of] },
	"title":    title,
	"build":    build,
	"bytes":    size,
	"count":    counted,
}

// statusWords are the states of a turn as lists name them; beside each stands its code.
var statusWords = map[string]string{
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

// meaning is what a class of evidence says of one kind of record.
type meaning struct{ Class, Of, Says string }

// recorded are the kinds of events of a turn, in the order in which they can come.
var recorded = []struct{ Type, Title, Says string }{
	{turn.Opened{}.EventType(), "Turn opened", "A start reached the gateway with this client's token, or supervision opened the turn for an attempt of a run."},
	{turn.Delivered{}.EventType(), "Context handed to the HTTP response", turn.HonestyDelivery},
	{turn.Answered{}.EventType(), "Call answered without an item", answered},
	{turn.Observed{}.EventType(), "A hook reported an intention", turn.HonestyObservation},
	{turn.Complete{}.EventType(), "Completion reported", turn.HonestyReported},
	{turn.Expiry{}.EventType(), "Fifteen minutes passed", "They passed by this server's clock, and no completion had been recorded. Whether one was sent was not observed."},
	{turn.Late{}.EventType(), "Completion reported after the end", turn.HonestyReported + " It changes nothing."},
}

// answered says what is observed of a call that hands out nothing.
const answered = "A call of doctor, test or report-gap, or one that found nothing: it reached the gateway with this client's token and was answered, and no item was handed out. What a gap report says is the client's word."

// meanings are what the classes say, by the page that has such records.
var meanings = map[string][]meaning{
	"turn": ofTurn(),
	"recorder": {
		{turn.ClassObserved, "a call with items", turn.HonestyDelivery},
		{turn.ClassObserved, "a call without items", answered},
		{turn.ClassBridge, "a receipt of a bridge", turn.HonestyBridge},
	},
}

func ofTurn() (list []meaning) {
	for _, r := range recorded {
		list = append(list, meaning{turn.ClassOf(r.Type), r.Title, r.Says})
	}
	return list
}

// title names an event; one that is not known here keeps the name that it has in evidence.
func title(kind string) string {
	for _, r := range recorded {
		if r.Type == kind {
			return r.Title
		}
	}
	return kind
}

// build names the Build or draft that a call was answered from.
func build(b *turn.Build) string {
	switch {
	case b == nil:
		return "none selected"
	case b.Draft:
		return "draft"
	}
	return fmt.Sprintf("Build %d", b.Number)
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
