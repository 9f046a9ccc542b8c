package narrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// lines has the words for each type of event (api/events.md). operation is that of the
// permit or execution that the event is about.
var lines = map[string]func(d data, operation string) string{
	"run.created": func(d data, _ string) string {
		return "run created with a budget of " + amount(d.text("budgetCents"), d.text("currency"))
	},
	"grant.created": func(d data, _ string) string {
		return fmt.Sprintf("granted by %s: %d operations, at most %s, until %s", d.text("createdBy"), len(d.texts("grant", "operations")),
			amount(d.text("grant", "maxTotalCents"), d.text("grant", "currency")), d.text("grant", "expiresAt"))
	},
	"grant.revoked": func(d data, _ string) string { return "grant " + d.text("grantId") + " revoked, " + d.text("cause") },
	"hosted.session": func(d data, _ string) string {
		switch phase := d.text("phase"); phase {
		case "dispatched":
			return "asked the store at " + d.text("dispatch", "aud") + " for a session"
		case "opened":
			return "session at the store is open; its receipt is kept"
		case "failed":
			return "no session at the store: " + d.text("reasonCode")
		default:
			return "session at the store: " + phase
		}
	},
	"run.initialized": func(data, string) string { return "run ready" },
	"session.issued": func(d data, _ string) string {
		return "token number " + d.text("generation") + " issued, good until " + d.text("expiresAt") + " at " + d.text("origin")
	},
	"run.paused":     stopped("run paused"),
	"run.resumed":    func(d data, _ string) string { return "run ready again, " + words(d.text("cause")) },
	"run.completed":  func(data, string) string { return "run completed" },
	"run.revoked":    func(d data, _ string) string { return "run revoked by " + or(d.text("by"), "its owner") },
	"run.terminated": stopped("run terminated"),
	"run.failed":     stopped("run failed"),

	"approval.granted": func(d data, _ string) string {
		return "approved by " + d.text("approvedBy") + session(d.text("approver")) + ", exactly this and once: " + d.text("operationId") + charge(d.text("amountCents")) + " to " + d.text("destination") + ", until " + d.text("expiresAt")
	},
	"clarification.added": func(d data, _ string) string { return "clarified by " + d.text("by") },
	"retry.accepted":      func(d data, _ string) string { return "retry accepted by " + d.text("by") },
	"simulate.applied":    func(d data, _ string) string { return "simulated by " + d.text("by") + ": " + words(d.text("event")) },

	"observation.recorded": func(d data, _ string) string {
		return fmt.Sprintf("observed: %d possible actions, document epoch %s, state revision %s", len(d.list("catalog")), d.text("documentEpoch"), d.text("stateRevision"))
	},
	"proposal.prepared": func(d data, _ string) string { return "proposal prepared: " + proposal(object(d.at("proposal"))) },
	"proposal.voided":   func(d data, _ string) string { return "proposal withdrawn: " + words(d.text("cause")) },

	"model.called": func(d data, _ string) string {
		return "model call " + d.text("call") + ", " + d.text("purpose") + ", to " + d.text("provider")
	},
	"turn.outcome": func(d data, _ string) string {
		return "no proposal but " + words(d.text("kind")) + about(d.text("operationId")) + ", by " + d.text("source") + label(d)
	},
	"turn.rejected": func(d data, _ string) string { return "answer rejected as malformed, " + d.text("bytes") + " bytes" },
	"attack.report": func(d data, _ string) string {
		return "attack " + d.text("attackId") + " sent a malformed report, " + d.text("bytes") + " bytes"
	},
	"turn.proposed": func(d data, _ string) string {
		action := selected(d)
		if action == nil {
			return "reported, without one selected action"
		}
		return "reported: " + action.text("operationId") + " " + compact(action.at("args")) + context(d)
	},
	"policy.checked": func(d data, _ string) string {
		var failed []string
		findings := d.list("findings")
		for _, f := range findings {
			if f.text("result") == "failed" {
				failed = append(failed, f.text("name")+" ("+f.text("code")+")")
			}
		}
		text := fmt.Sprintf("hard checks: %s, %d looked at", d.text("verdict"), len(findings))
		if len(failed) > 0 {
			text = "hard checks: " + d.text("verdict") + " " + d.text("reasonCode") + "; failed: " + strings.Join(failed, ", ")
		}
		return text + label(d)
	},
	"guardian.decided": func(d data, _ string) string {
		return "guardian: " + d.text("decision") + " " + d.text("reasonCode") + label(d)
	},

	"permit.issued": func(d data, _ string) string {
		return "permit issued: " + d.text("permit", "bindings", "operationId") + charge(d.text("amountCents")) + ", until " + d.text("permit", "expiresAt")
	},
	"permit.claimed": func(d data, operation string) string {
		return "permit claimed" + about(operation) + reserved(d, "reservedCents", "reserved")
	},
	"permit.consumed": func(_ data, operation string) string { return "permit used up" + about(operation) },
	"permit.expired":  func(_ data, operation string) string { return "permit expired unused" + about(operation) },
	"permit.revoked": func(d data, operation string) string {
		return "permit revoked" + about(operation) + ", " + words(d.text("cause"))
	},
	"permit.voided": func(d data, operation string) string {
		return "permit void, nothing was sent" + about(operation) + ", " + words(d.text("cause"))
	},

	"execution.dispatched": func(d data, _ string) string {
		text := "intent: " + d.text("operationId") + charge(d.text("amountCents"))
		if target := d.text("dispatch", "htu"); target != "" {
			text += " by " + d.text("dispatch", "htm") + " " + target
		}
		return text
	},
	"hosted.receipt": func(d data, operation string) string {
		return "receipt of the store, by " + words(d.text("observedBy")) + about(operation)
	},
	"execution.receipt": func(d data, operation string) string {
		text := d.text("kind") + " receipt: " + d.text("result") + charge(d.text("amountCents")) + about(operation)
		if status := d.text("status"); status != "" && status != "0" {
			text += ", status " + status
		}
		if order := d.text("orderId"); order != "" {
			text += ", order " + order
		}
		return text
	},
	"execution.verified": func(d data, operation string) string {
		return "verified" + about(operation) + ": " + strings.Join(names(d.list("postconditions")), ", ")
	},
	"execution.mismatch": func(d data, operation string) string {
		var missing []data
		for _, p := range d.list("postconditions") {
			if p.text("holds") != "true" {
				missing = append(missing, p)
			}
		}
		return "DIFFERS from what was promised" + about(operation) + ": not " + strings.Join(names(missing), ", ")
	},
	"execution.not_applied": func(d data, operation string) string {
		return "took no effect" + about(operation) + ", " + words(d.text("cause")) + reserved(d, "releasedCents", "released")
	},
	"execution.probed": func(d data, operation string) string {
		return "asked the store what became of it" + about(operation) + ": " + words(d.text("answer"))
	},
	"execution.reconciled": func(d data, operation string) string {
		return "stated by " + d.text("by") + ", without a receipt: " + words(d.text("finding")) + about(operation) + reserved(d, "releasedCents", "released") + reserved(d, "spentCents", "spent")
	},
	"execution.contradicted": func(d data, operation string) string {
		return "the store's receipt CONTRADICTS the statement" + about(operation) + ": stated " + words(d.text("statement")) + ", receipt " + words(d.text("receiptResult")) + reserved(d, "overspentCents", "over the budget")
	},
	"execution.unconfirmed": func(d data, operation string) string {
		return "UNKNOWN whether it took effect" + about(operation) + ", " + words(d.text("cause"))
	},
	"execution.voided": func(d data, operation string) string {
		return "nothing was sent" + about(operation) + ", " + words(d.text("cause")) + reserved(d, "releasedCents", "released")
	},

	"metrics": func(d data, _ string) string {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(d)) {
			if what, ok := strings.CutSuffix(name, "Micros"); ok && d[name] != nil {
				parts = append(parts, what+" "+d.text(name)+" µs")
			}
		}
		return "measured: " + or(strings.Join(parts, ", "), "nothing")
	},
	"operation.refused": func(d data, operation string) string {
		return "refused, nothing touched: " + d.text("reasonCode") + about(operation)
	},
}

// stopped says how a run came to stand still, and why.
func stopped(what string) func(data, string) string {
	return func(d data, _ string) string {
		return what + ": " + d.text("stopContext", "reasonCode") + ". " + d.text("stopContext", "message")
	}
}

// label is the provenance as it was recorded.
func label(d data) string {
	if p := d.text("provenance"); p != "" {
		return " [" + p + "]"
	}
	return ""
}

func grant(g data) string {
	var limits []string
	for _, c := range g.list("constraints") {
		joint := " "
		if c.text("rule") == "atMost" {
			joint = " at most "
		}
		name, value, _ := strings.Cut(fact(c.text("name"), c.text("value"), g.text("currency")), " ")
		limits = append(limits, name+joint+value)
	}
	text := strings.Join(g.texts("operations"), ", ")
	if kind := g.text("kind"); kind != "" {
		text = kind + ": " + text
	}
	if listed := g.texts("onApproval"); len(listed) > 0 {
		text += "; each effect on approval: " + strings.Join(listed, ", ")
	}
	if uses, _ := g.at("maxUses").(map[string]any); len(uses) > 0 {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(uses)) {
			parts = append(parts, plain(name)+" "+data(uses).text(name)+"x")
		}
		text += "; at most " + strings.Join(parts, ", ")
	}
	return text + "; where " + strings.Join(limits, ", ") + "; until " + g.text("expiresAt")
}

func proposal(p data) string {
	return p.text("operationId") + charge(p.text("amountCents")) + " to " + p.text("destination") + ", until " + p.text("expiresAt")
}

// fact is a name and its value, an amount in dollars and cents.
func fact(name, value, currency string) string {
	if short, ok := strings.CutSuffix(name, "Cents"); ok {
		return plain(short) + " " + amount(value, currency)
	}
	return plain(name) + " " + value
}

// charge is what an action costs, "" for nothing.
func charge(cents string) string {
	if cents == "" || cents == "0" {
		return ""
	}
	return " for " + amount(cents, "")
}

func reserved(d data, name, verb string) string {
	if cents := d.text(name); cents != "" && cents != "0" {
		return ", " + amount(cents, "") + " " + verb
	}
	return ""
}

func about(operation string) string {
	if operation == "" {
		return ""
	}
	return " (" + operation + ")"
}

// words is a cause such as lease_expired as it is spoken.
func words(cause string) string { return strings.ReplaceAll(cause, "_", " ") }

func names(postconditions []data) (list []string) {
	for _, p := range postconditions {
		list = append(list, p.text("name"))
	}
	return list
}

// selected is the action of a report's selected candidate, nil when there is none.
func selected(d data) data {
	id := d.text("report", "selectedCandidateId")
	for _, c := range d.list("report", "candidates") {
		if c.text("id") == id {
			return object(c.at("action"))
		}
	}
	return nil
}

func object(v any) data {
	m, _ := v.(map[string]any)
	return m
}

// compact is a value as JSON in one line.
func compact(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return plain(string(raw))
}

// session tells one session from another by the beginning of the hash that names it.
func session(hash string) string {
	if len(hash) < 8 {
		return ""
	}
	return " in session " + hash[:8]
}

// context names the context turn that a report was made in.
func context(d data) string {
	if d.at("contextTurn") == nil {
		return ""
	}
	return ", in context turn " + d.text("contextTurn", "id") + " (" + d.text("contextTurn", "class") + ")"
}
