package incidentpage

import (
	"html/template"
	"strings"

	"countersign/internal/console/frame"
	"countersign/internal/runbook/incident"
)

// shortHash is how many characters of a receipt's hash a wide table shows.
const shortHash = 8

// words are the functions of the template.
var words = template.FuncMap{
	"tone":     func(word string) string { return tones[word] },
	"next":     func(status string) string { return nexts[status] },
	"happened": func(event string) string { return happened[event] },
	"arrived":  arrived,
	"honest":   func(of string) string { return honesty[of] },
	"day":      func(at string) string { day, _, _ := strings.Cut(frame.Stamp(at), " "); return day },
	"hour":     func(at string) string { _, hour, _ := strings.Cut(frame.Stamp(at), " "); return hour },
	"plain":    func(status string) string { return strings.ReplaceAll(status, "-", " ") },
	"cut":      func(hash string) string { return hash[:min(len(hash), shortHash)] }, // what is stored may be damaged
	"rest":     func(hash string) string { return hash[min(len(hash), shortHash):] },
}

// tones are the classes that give a word its colour; the word is always there too.
var tones = map[string]string{
	incident.Investigating: "going", incident.AwaitingApproval: "wait", incident.Mitigated: "good", incident.Monitoring: "wait", incident.RecoveryRequired: "danger",
	unreadable:       "danger",
	incident.Success: "good", incident.Blocked: "wait", incident.Error: "danger", incident.PartialFailure: "danger",
	"active": "good", "expired": "danger", "consumed": "over", "none": "wait",
	"low": "good", "medium": "wait",
}

// nexts say what a status stands for and what comes next.
var nexts = map[string]string{
	incident.Investigating:    "Nothing is staged. Compare the options and stage one.",
	incident.AwaitingApproval: "A mitigation is staged. It is executed once, after it was approved.",
	incident.Mitigated:        "The staged mitigation was applied once, and every target is met.",
	incident.Monitoring:       "The staged mitigation was applied once, and a target is missed. Another one can be staged.",
	incident.RecoveryRequired: "The mitigation was applied in part. Nothing is staged on top of it: reset the simulation.",
}

// happened names what a receipt tells.
var happened = map[string]string{
	incident.EventRead: "Incident read", incident.EventCompared: "Options compared", incident.EventStaged: "Mitigation staged",
	incident.EventApproved: "Approval given", incident.EventRepeated: "Live approval asked for again", incident.EventExecuted: "Mitigation executed",
	incident.EventReplayed: "Execution told again", incident.EventReset: "Simulation reset", incident.EventBlocked: "Request blocked",
}

// arrived says how an approval arrived.
func arrived(arrival string) string {
	if arrival == incident.ArrivalPageForm {
		return "with the one-time nonce of the page's form"
	}
	return arrival
}

// honesty are the fixed sentences by what they bound.
var honesty = map[string]string{
	"synthetic": incident.HonestySynthetic, "click": incident.HonestyClick, "approval": incident.HonestyApproval, "arrival": incident.HonestyArrival,
	"channel": incident.HonestyChannel, "segment": incident.HonestySegment, "tool": incident.HonestyTool,
}
