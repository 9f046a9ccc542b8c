package invariant_test

// A model is what the protocol makes of one run at a local service: how each request is
// answered, which events it appends and where it leaves the run. It is written from the
// requirements and shares no code with the product. Money is in cents, time in
// milliseconds since the run was created.
type model struct {
	// How the run was made, where it stands, and what is known of its newest execution.
	service, mode, status, stop, effectState, finding string
	budget, spent, reserved, now, end                 int            // end is that of the run's grant
	events                                            []string       // that the newest command appends
	fates                                             map[int]string // of permits, by number: how their use is answered
	seen, shown                                       int            // when it was observed, -1: has to be; the proposal in that catalog
	// Proposals are numbered from 1, and so many were prepared; 0: none is. The approved one
	// is that of the newest approval, whose grant ends at exactEnd.
	proposal, proposals, proposalEnd, exactProposal, exactEnd int
	// Uses are those of the grant that a commit rests on; the generation is that of the
	// run's newest token.
	uses, stated, streak, clarified, refusals, generation, tokenEnd int
	permit, effect                                                  permit // the live one; that of the newest execution
	// The next receipt gets lost; steps that are closed; what was seen is not so any more.
	// The service has changed since, has something to commit, and has committed.
	drop, read, prepared, old, changed, offer, ordered bool
	lines, priced                                      int // products in the cart; price changes
}

type permit struct {
	op                  string // "": none is live
	number, end, amount int
}

// A rule is an answer and when it is given.
type rule struct {
	when bool
	then string
}

// ok is the answer to what is done; none and forged are no permits.
const ok, none, forged = "200 ", -1, -2

// first is what the first rule that applies says, or "".
func first(rules ...rule) string {
	for _, r := range rules {
		if r.when {
			return r.then
		}
	}
	return ""
}

func given(s string) rule { return rule{s != "", s} }

// unless does something unless it is refused, and says how that is answered.
func unless(refusal string, do func()) string {
	if refusal == "" {
		do()
	}
	return first(given(refusal), rule{true, ok})
}

// categories are what a stop for a reason means (G-02).
var categories = map[string]string{
	"APPROVAL_REQUIRED": "approval", "DISPATCH_UNCONFIRMED": "reconciliation", "OWNER_REVOKED": "terminal", "GRANT_EXPIRED": "authority", "GRANT_EXHAUSTED": "authority",
	"CLARIFICATION_REQUESTED": "clarification", "AMBIGUOUS_GOAL": "clarification", "FORBIDDEN_OPERATION": "clarification", "ARGUMENT_MISMATCH": "clarification",
	"EFFECT_MISMATCH": "clarification", "BUDGET_EXCEEDED": "clarification", "INVALID_SELECTION": "retry", "STALE_TARGET": "retry", "STALE_STATE": "retry",
	"MISSING_EVIDENCE": "retry", "PROVIDER_TIMEOUT": "retry", "EXECUTION_NOT_APPLIED": "retry",
}

func newModel(service, mode string, budget int) *model {
	m := &model{service: service, mode: mode, budget: budget, end: 3600_000, status: "ready", seen: -1}
	m.fates = map[int]string{none: "403 PERMIT_REQUIRED", forged: "403 PERMIT_MISMATCH"}
	m.emit("run.created", "grant.created")
	m.observed()
	m.emit("run.initialized")
	return m
}

func (m *model) emit(events ...string) { m.events = append(m.events, events...) }
func (m *model) ended() bool           { return m.status == "completed" || m.status == "revoked" }
func (m *model) unresolved() bool      { return m.effectState == "unconfirmed" }
func (m *model) category() string      { return categories[m.stop] }
func (m *model) grantsEnd() int        { return max(m.end, m.exactEnd) }
func (m *model) bearer(g int) bool     { return g > 0 && g == m.generation && m.now < m.tokenEnd }
func (m *model) stale() bool {
	return m.permit.op == "" && (m.seen < 0 || m.old || m.now-m.seen >= 30_000)
}

// pause stops the run for the reason, if that is so.
func (m *model) pause(really bool, reason string) {
	if really {
		m.emit("run.paused")
		m.status, m.stop = "paused", reason
	}
}

// resume lets the run go on, for which the events stand.
func (m *model) resume(events ...string) {
	m.emit(append(events, "run.resumed")...)
	m.status, m.stop, m.streak = "ready", "", 0
	m.outOfGrants()
}

func (m *model) outOfGrants() {
	m.pause(m.status == "ready" && m.now >= m.grantsEnd(), "GRANT_EXPIRED")
}

// closed ends the live permit, if there is one. fate is how its use is answered then.
func (m *model) closed(event, fate string) {
	if m.permit.op != "" {
		m.emit(event)
		m.fates[m.permit.number], m.permit = fate, permit{}
	}
}

func (m *model) voidProposal() {
	if m.proposal != 0 {
		m.emit("proposal.voided")
		m.proposal = 0
		m.pause(m.status == "paused" && m.category() == "approval", "STALE_STATE")
	}
}

func (m *model) endGrants(ends ...*int) {
	for _, end := range ends {
		if *end > m.now {
			m.emit("grant.revoked")
			*end = m.now
		}
	}
}

// move lets time pass.
func (m *model) move(by int) {
	if m.now += by; m.now >= m.permit.end {
		m.closed("permit.expired", "403 PERMIT_EXPIRED")
	}
	if m.now >= m.proposalEnd && !m.ended() {
		m.voidProposal()
	}
	m.outOfGrants()
}

// approved reports whether the operation rests on the approval of what stands.
func (m *model) approved(op string) bool {
	return op == "commit" && m.proposal != 0 && m.exactProposal == m.proposal && m.now < m.exactEnd && m.uses == 0
}

// check is the first hard check that a report fails, "" for none (G-09).
func (m *model) check(op, defect string, oldest int) string {
	approved, fit := m.approved(op), m.fit(op)
	return first(
		rule{defect == "selection", "INVALID_SELECTION"},
		rule{m.seen < 0 || defect == "evidence", "MISSING_EVIDENCE"},
		rule{m.old || m.now-m.seen > oldest, "STALE_STATE"},
		rule{defect == "target" || !m.offered(op), "STALE_TARGET"},
		rule{defect == "operation" || m.outside(op), "FORBIDDEN_OPERATION"},
		rule{!approved && m.now >= m.end, "GRANT_EXPIRED"},
		rule{op == "commit" && m.mode == "bounded" && m.uses > 0, "GRANT_EXHAUSTED"},
		rule{defect == "argument", "ARGUMENT_MISMATCH"},
		rule{defect == "effect" || defect == "proposal" || op == "commit" && (m.proposal == 0 || m.proposal != m.shown), "EFFECT_MISMATCH"},
		rule{!approved && m.spent+m.reserved+fit > m.budget, "BUDGET_EXCEEDED"},
		rule{op == "commit" && m.mode == "exact" && !approved, "APPROVAL_REQUIRED"})
}

// take takes a report in: the checks, the guardian, the permit.
func (m *model) take(op, defect string, managed bool) (reason string) {
	m.emit("turn.proposed", "policy.checked")
	if reason = m.check(op, defect, map[bool]int{false: 60_000, true: 150_000}[managed]); reason == "" {
		m.emit("guardian.decided")
		reason = m.judged(op)
	}
	if m.streak++; categories[reason] != "retry" {
		m.streak = 0
	}
	if reason == "RELEVANT" {
		end := map[bool]int{false: m.end, true: m.exactEnd}[m.approved(op)]
		m.permit = permit{op, len(m.fates) - 1, min(m.now+30_000, end), m.amount(op)}
		m.fates[m.permit.number] = ""
		m.emit("permit.issued")
	}
	m.pause(reason != "RELEVANT" && (managed || m.streak == 0 || m.streak >= 10), reason)
	m.emit("metrics")
	return reason
}

// refuse records a refused request, of the first hundred (L-3).
func (m *model) refuse(answer string) string {
	if m.refusals++; m.refusals <= 100 {
		m.emit("operation.refused")
	}
	return answer
}

func (m *model) issueToken() string {
	return unless(first(rule{m.ended(), "409 RUN_NOT_READY"}, rule{m.now >= m.grantsEnd(), "403 GRANT_EXPIRED"}), func() {
		m.generation, m.tokenEnd = m.generation+1, m.grantsEnd()
		m.emit("session.issued")
	})
}

// observe is GET /observation.
func (m *model) observe() string {
	keeps, stopped := m.ended() || !m.stale(), m.status != "ready"
	return unless(first(rule{keeps && m.seen < 0, "409 RUN_NOT_READY"}, rule{keeps, ok}, rule{m.unresolved(), "409 UNRESOLVED_EFFECT"}, rule{stopped, "409 RUN_NOT_READY"}), m.observed)
}

// observed records how the service is. What it offers is prepared, or stays so.
func (m *model) observed() {
	fresh := m.offer && (m.proposal == 0 || m.changed)
	if m.proposal != 0 && (fresh || !m.offer) {
		m.emit("proposal.voided")
		m.proposal = 0
	}
	if fresh {
		m.emit("proposal.prepared")
		m.proposal, m.proposals, m.proposalEnd = m.proposals+1, m.proposals+1, m.now+600_000
	}
	m.emit("observation.recorded")
	m.seen, m.shown, m.changed, m.old = m.now, m.proposal, false, false
	if m.effect.op == "commit" && m.effectState == "verified" {
		m.emit("run.completed")
		m.status = "completed"
	}
	m.pause(fresh && m.mode == "exact" && m.check("commit", "", 1<<40) == "APPROVAL_REQUIRED", "APPROVAL_REQUIRED")
	m.outOfGrants()
}

// report is POST /turns.
func (m *model) report(op, defect string) string {
	no := first(rule{defect == "malformed", "400 MALFORMED_PROPOSAL"}, rule{m.unresolved(), "409 UNRESOLVED_EFFECT"})
	if no == "" && m.status != "ready" {
		return m.refuse("409 RUN_NOT_READY")
	}
	if no = first(given(no), rule{m.permit.op != "", "409 PERMIT_OUTSTANDING"}); no != "" {
		return no
	}
	return ok + m.take(op, defect, false)
}

// operate is POST /operation under a fresh key with the permit of that number, from 1.
func (m *model) operate(number int, right bool) string {
	fate := m.fates[number]
	no := first(rule{fate == "409 PERMIT_CONSUMED" && m.unresolved(), "409 UNRESOLVED_EFFECT"}, given(fate), rule{!right, "403 PERMIT_MISMATCH"}, rule{m.permit.op == "commit" && m.proposal == 0, "409 STALE_STATE"})
	if no != "" {
		return m.refuse(no)
	}
	return m.execute()
}

// execute claims the live permit and does what it is for.
func (m *model) execute() string {
	if m.effectState == "reconciled" {
		m.stated++
	}
	m.effect, m.effectState, m.finding = m.permit, "unconfirmed", ""
	m.closed("permit.claimed", "409 PERMIT_CONSUMED")
	m.emit("execution.dispatched")
	m.reserved += m.effect.amount
	m.use(1)
	m.act(m.effect.op)
	if m.drop && m.effect.op != "read" {
		m.drop = false
		m.emit("execution.unconfirmed")
		m.pause(true, "DISPATCH_UNCONFIRMED")
		return "502 DISPATCH_UNCONFIRMED"
	}
	m.reserved, m.spent, m.effectState = m.reserved-m.effect.amount, m.spent+m.effect.amount, "verified"
	m.emit("execution.receipt", "permit.consumed", "execution.verified")
	m.read, m.prepared = m.read || m.effect.op == "read", m.prepared || m.effect.op == "prepare"
	m.observed()
	m.emit("metrics")
	return ok
}

// use counts uses of the grant that a commit rests on.
func (m *model) use(n int) { m.uses += map[string]int{"commit": n}[m.effect.op] }

// recoverable is why a stop of the category cannot be mended, or "" (G-03).
func (m *model) recoverable(category string) string {
	return first(rule{m.unresolved(), "409 UNRESOLVED_EFFECT"}, rule{m.status != "paused" || m.category() != category, "409 RECOVERY_NOT_ELIGIBLE"})
}

// approve approves what is prepared; right says that it names it.
func (m *model) approve(right bool) string {
	lapsed := m.mode == "exact" && m.proposal == 0 && m.status == "paused" && m.stop == "STALE_STATE"
	no := first(rule{lapsed, "409 APPROVAL_STALE"}, given(m.recoverable("approval")), rule{!right, "409 APPROVAL_STALE"}, rule{m.now >= m.end, "403 GRANT_EXPIRED"})
	return unless(no, func() {
		m.exactProposal, m.exactEnd, m.uses = m.proposal, min(m.now+300_000, m.proposalEnd, m.end), 0
		m.resume("approval.granted", "grant.created")
	})
}

func (m *model) clarify() string {
	return unless(first(given(m.recoverable("clarification")), rule{m.clarified >= 10, "409 RECOVERY_NOT_ELIGIBLE"}), func() {
		m.clarified++
		m.resume("clarification.added")
	})
}

func (m *model) retry() string {
	return unless(m.recoverable("retry"), func() {
		m.seen = -1
		m.resume("retry.accepted")
	})
}

func (m *model) revoke() string {
	return unless(first(rule{m.status == "revoked", ok}, rule{m.ended(), "409 RUN_NOT_READY"}), func() {
		m.closed("permit.revoked", "403 PERMIT_REVOKED")
		m.endGrants(&m.end, &m.exactEnd)
		m.emit("run.revoked")
		m.status, m.stop = "revoked", "OWNER_REVOKED"
	})
}

func (m *model) probe() string {
	known := !m.unresolved() && m.effectState != "reconciled"
	return unless(first(rule{m.effect.op == "", "404 NOT_FOUND"}, rule{known, "409 RECOVERY_NOT_ELIGIBLE"}), func() { m.emit("execution.probed") })
}

// reconcile takes the owner's word about the newest effect (G-14).
func (m *model) reconcile(finding string) string {
	late := !m.unresolved() || finding == "not_applied" && m.stated >= 8
	return unless(first(rule{m.effect.op == "", "404 NOT_FOUND"}, rule{m.finding == finding, ok}, rule{late, "409 RECOVERY_NOT_ELIGIBLE"}), func() {
		m.emit("execution.reconciled")
		if finding != "unknown" {
			m.effectState, m.finding = "reconciled", finding
			m.reserved -= m.effect.amount
		}
		switch finding {
		case "applied":
			m.spent += m.effect.amount
		case "not_applied":
			m.use(-1)
			m.pause(m.status == "paused", "EXECUTION_NOT_APPLIED")
		}
	})
}

// simulate lets something happen at the service or to the run's clockwork (G-19).
func (m *model) simulate(event string) string {
	impossible := m.ended() || event == "expire_approval" && m.exactEnd <= m.now || event == "expire_permit" && m.permit.op == "" || event == "provider_timeout" && m.status != "ready"
	return unless(first(rule{m.unresolved(), "409 UNRESOLVED_EFFECT"}, rule{impossible, "409 RECOVERY_NOT_ELIGIBLE"}), func() {
		m.emit("simulate.applied")
		switch event {
		case "expire_grant":
			m.closed("permit.revoked", "403 PERMIT_REVOKED")
			m.endGrants(&m.end, &m.exactEnd)
			m.outOfGrants()
		case "expire_permit":
			m.closed("permit.expired", "403 PERMIT_EXPIRED")
		case "expire_approval":
			if m.permit.op == "commit" {
				m.closed("permit.revoked", "403 PERMIT_REVOKED")
			}
			m.endGrants(&m.exactEnd)
		case "drop_receipt":
			m.drop = true
		case "provider_timeout":
			m.closed("permit.revoked", "403 PERMIT_REVOKED")
			m.pause(true, "PROVIDER_TIMEOUT")
		default: // revise_state, navigate, price_change
			m.old = true
			m.closed("permit.revoked", "409 STALE_STATE")
			m.voidProposal()
			m.reprice(event == "price_change")
		}
	})
}
