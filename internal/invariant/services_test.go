package invariant_test

// What the model has to know of this installation: what the local services offer and cost,
// what an operation does there, and what the authored guardian and executor say. Operations
// have the same names at each service: read, prepare and commit, add at the merchant, and
// foreign for one outside of the terms.

// total is what the transaction costs (G-06, G-08).
func (m *model) total() int {
	return map[string]int{"merchant": 800 + m.lines*(12900+100*m.priced), "bank": 5000 + 25*m.priced, "broker": 10000}[m.service]
}

// fit is what has to be left of the budget for the operation.
func (m *model) fit(op string) int {
	return max(m.amount(op), map[string]int{"prepare": m.total()}[op])
}

// amount is what the operation costs.
func (m *model) amount(op string) int { return map[string]int{"commit": m.total()}[op] }

// most is the most that the merchant's terms allow.
const most = 13800

// outside reports whether the operation is outside of the terms.
func (m *model) outside(op string) bool {
	return op == "foreign" || op == "add" && m.lines > 0 || m.service == "merchant" && m.fit(op) > most
}

// offered reports whether the catalog of the newest observation has the operation.
func (m *model) offered(op string) bool {
	switch shop := m.service == "merchant"; op {
	case "add":
		return shop
	case "prepare":
		return shop && m.lines > 0 || !shop && !m.ordered
	case "commit":
		return m.shown > 0
	case "foreign":
		return shop || !m.ordered
	}
	return true
}

// act does what an operation is for.
func (m *model) act(op string) {
	m.changed = m.changed || op != "read"
	switch op {
	case "add":
		m.lines, m.offer = m.lines+1, false
	case "prepare":
		m.offer = !m.ordered
	case "commit":
		m.offer, m.ordered, m.lines = false, true, 0
	}
}

// reprice lets the service ask for more. What was prepared is gone (G-07).
func (m *model) reprice(really bool) {
	if really {
		m.priced, m.offer, m.changed, m.seen = m.priced+1, false, true, -1
	}
}

// judged is what the authored guardian says of a report that passed every check.
func (m *model) judged(op string) string {
	return first(rule{!m.read && op != "read", "MISSING_EVIDENCE"}, rule{!m.prepared && op == "commit", "AMBIGUOUS_GOAL"}, rule{true, "RELEVANT"})
}

// step is one attempt of the authored executor.
func (m *model) step() string {
	if no := first(rule{m.status != "ready", "409 RUN_NOT_READY"}, rule{m.permit.op != "", "409 PERMIT_OUTSTANDING"}); no != "" {
		return no
	}
	if m.stale() {
		if m.observed(); m.status != "ready" {
			return ok
		}
	}
	op := first(rule{!m.read, "read"}, rule{m.prepared, "commit"}, rule{m.offered("prepare"), "prepare"}, rule{true, "add"})
	if !m.offered(op) {
		m.emit("turn.outcome")
		m.pause(true, "CLARIFICATION_REQUESTED")
		m.emit("metrics")
	} else if m.take(op, "", true) == "RELEVANT" {
		m.execute()
	}
	return ok
}

// play repeats it.
func (m *model) play() string {
	answer := m.step()
	for n := 1; n < 16 && m.status == "ready" && answer == ok; n++ {
		m.step()
	}
	return answer
}
