package console

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"countersign/evidence"
	"countersign/internal/console/frame"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// metrics are measured durations of a turn (H-155).
type metrics = run.Metrics

// report is what a consumer reported. Its prose is read only when it is shown.
type report struct {
	propose.Reported
	step int // of the turn, where the prose goes
}

// describe turns an event into what a person reads. A type that is not known here is
// shown as it was recorded, so that nothing is hidden. It returns nil for what is told
// in another place of the turn.
func (c *chart) describe(l records.Line, t *turn) (*step, error) {
	s := &step{Sequence: l.Sequence, Type: l.Type, Timestamp: l.Timestamp, Title: titles[l.Type]}
	tell, known := tellers[l.Type]
	if !known {
		s.Title, s.Raw = l.Type, frame.SpellJSON(l.Data)
		return s, nil
	}
	if err := tell(c, s, t, l.Data); err != nil {
		return nil, err
	}
	if s.Title == "" {
		return nil, nil
	}
	return s, nil
}

// titles say what each event is, in the words of the protocol.
var titles = map[string]string{
	"run.created":            "Run created by the owner",
	"run.initialized":        "Run initialized",
	"run.paused":             "Run paused",
	"run.resumed":            "Run went on",
	"run.completed":          "Run completed",
	"run.revoked":            "Run revoked by the owner",
	"run.terminated":         "Run terminated",
	"run.failed":             "Run failed",
	"grant.created":          "Grant created by the owner",
	"grant.revoked":          "Grant ended",
	"session.issued":         "Restricted session issued",
	"hosted.session":         "Hosted session",
	"observation.recorded":   "Observation recorded",
	"proposal.prepared":      "Transaction proposal prepared",
	"proposal.voided":        "Transaction proposal voided",
	"turn.proposed":          "Proposed by the consumer",
	"policy.checked":         "Hard checks",
	"guardian.decided":       "Guardian decision",
	"permit.issued":          "Permit issued",
	"permit.claimed":         "Permit claimed",
	"permit.consumed":        "Permit consumed",
	"permit.expired":         "Permit expired unused",
	"permit.revoked":         "Permit revoked unused",
	"permit.voided":          "Permit voided",
	"execution.dispatched":   "Dispatched",
	"hosted.receipt":         "Receipt of the store",
	"execution.receipt":      "Receipt",
	"execution.verified":     "Verified",
	"execution.mismatch":     "Does not match what was promised",
	"execution.not_applied":  "Not applied",
	"execution.unconfirmed":  "Effect unconfirmed",
	"execution.voided":       "Voided: nothing was sent",
	"operation.refused":      "Request refused",
	"approval.granted":       "Approved by the owner",
	"clarification.added":    "Clarification by the owner",
	"retry.accepted":         "Retry accepted from the owner",
	"simulate.applied":       "Simulated by the owner",
	"model.called":           "Model called",
	"turn.outcome":           "The consumer made no proposal",
	"turn.rejected":          "Malformed answer of the consumer",
	"attack.report":          "Malformed report of an attack",
	"execution.reconciled":   "Reconciled by the owner's statement",
	"execution.probed":       "Looked up at the store",
	"execution.contradicted": "A receipt contradicts the owner's statement",
}

// tell reads an event's data into a step.
type tell func(c *chart, s *step, t *turn, data []byte) error

// told makes a tell from a function over the event's own type.
func told[E any](f func(c *chart, s *step, t *turn, e *E)) tell {
	return func(c *chart, s *step, t *turn, data []byte) error {
		var e E
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		f(c, s, t, &e)
		return nil
	}
}

// tellers are by type of event.
var tellers = map[string]tell{
	"run.created": told(func(_ *chart, s *step, _ *turn, e *run.Created) {
		s.text("terms digest", e.TermsDigest).text("goal digest", e.GoalDigest)
		if e.StoreOrigin != nil {
			s.say("store", *e.StoreOrigin)
		}
	}),
	"run.initialized": told(func(*chart, *step, *turn, *run.Initialized) {}),
	"run.paused":      told(func(_ *chart, s *step, _ *turn, e *run.Paused) { s.stop(&e.Stop, "wait") }),
	"run.resumed":     told(func(_ *chart, s *step, _ *turn, e *run.Resumed) { s.say("cause", e.Cause) }),
	"run.completed": told(func(_ *chart, s *step, _ *turn, e *run.Completed) {
		s.Tone = "good"
		s.text("execution", e.ExecutionID)
	}),
	"run.revoked":    told(func(_ *chart, s *step, _ *turn, e *run.Revoked) { s.say("by", e.By).stop(&e.Stop, "over") }),
	"run.terminated": told(func(_ *chart, s *step, _ *turn, e *run.Terminated) { s.stop(&e.Stop, "over") }),
	"run.failed":     told(func(_ *chart, s *step, _ *turn, e *run.Failed) { s.stop(&e.Stop, "over") }),
	"grant.created": told(func(_ *chart, s *step, _ *turn, e *run.Granted) {
		g := e.Grant
		s.say("kind", g.Kind).say("at most", spellMoney(g.MaxTotalCents, g.Currency)).say("operations", strings.Join(g.Operations, ", "))
		s.say("ends at", frame.Moment(g.ExpiresAt)).text("grant", g.ID)
	}),
	"grant.revoked": told(func(_ *chart, s *step, _ *turn, e *run.GrantRevoked) {
		s.say("cause", e.Cause).text("grant", e.GrantID)
	}),
	"session.issued": told(func(_ *chart, s *step, _ *turn, e *run.SessionIssued) {
		s.say("generation", fmt.Sprint(e.Generation)).say("ends at", frame.Moment(e.ExpiresAt))
	}),
	"hosted.session": told(func(_ *chart, s *step, _ *turn, e *run.HostedSessionEvent) {
		s.say("phase", e.Phase).text("session at the store", e.SessionID)
		if e.ReasonCode != nil {
			s.say("reason", *e.ReasonCode)
		}
	}),
	"observation.recorded": told(func(_ *chart, s *step, _ *turn, e *run.Observed) {
		s.say("state revision", fmt.Sprint(e.StateRevision)).say("document epoch", fmt.Sprint(e.DocumentEpoch))
		s.say("catalog entries", fmt.Sprint(len(e.Catalog))).text("observation", e.ObservationID)
	}),
	"proposal.prepared": told(func(_ *chart, s *step, _ *turn, e *run.ProposalPrepared) {
		p := e.Proposal
		s.say("amount", spellMoney(p.AmountCents, p.Currency)).say("destination", p.Destination).say("operation", p.OperationID)
		s.say("ends at", frame.Moment(p.ExpiresAt)).text("proposal", p.ID)
	}),
	"proposal.voided": told(func(_ *chart, s *step, _ *turn, e *run.ProposalVoided) {
		s.say("cause", e.Cause).text("proposal", e.ProposalID)
	}),
	"turn.proposed":    told(tellProposed),
	"policy.checked":   told(tellChecked),
	"guardian.decided": told(tellDecided),
	"permit.issued": told(func(c *chart, s *step, _ *turn, e *run.Issued) {
		s.say("good until", frame.Moment(e.Permit.ExpiresAt)).say("amount", spellMoney(e.AmountCents, c.currency))
		s.text("permit", e.Permit.ID).text("effect digest", e.Permit.EffectDigest)
	}),
	"permit.claimed": told(func(c *chart, s *step, _ *turn, e *run.Claimed) {
		s.say("reserved", spellMoney(e.ReservedCents, c.currency)).text("execution", e.ExecutionID)
	}),
	"permit.consumed": told(func(_ *chart, s *step, _ *turn, e *run.Consumed) { s.text("permit", e.PermitID) }),
	"permit.expired":  told(func(_ *chart, s *step, _ *turn, e *run.PermitExpired) { s.Tone = "over"; s.text("permit", e.PermitID) }),
	"permit.revoked": told(func(_ *chart, s *step, _ *turn, e *run.PermitRevoked) {
		s.Tone = "over"
		s.say("cause", e.Cause).text("permit", e.PermitID)
	}),
	"permit.voided": told(func(_ *chart, s *step, _ *turn, e *run.PermitVoided) {
		s.Tone = "over"
		s.say("cause", e.Cause).text("permit", e.PermitID)
	}),
	"execution.dispatched": told(func(c *chart, s *step, _ *turn, e *run.Dispatched) {
		s.say("amount", spellMoney(e.AmountCents, c.currency)).noted("class", e.Class, classes[e.Class])
		if e.Dispatch != nil {
			s.say("request", e.Dispatch.Method+" "+e.Dispatch.URI).text("body digest", e.Dispatch.BodySHA256)
		}
		s.text("execution", e.ExecutionID).text("effect digest", e.EffectDigest)
	}),
	"hosted.receipt": told(func(_ *chart, s *step, _ *turn, e *run.HostedReceipt) {
		s.noted("observed by", strings.ReplaceAll(e.ObservedBy, "_", "-"), "signed by the store's key as pinned when the run was created")
	}),
	"execution.receipt": told(func(c *chart, s *step, _ *turn, e *run.Receipt) {
		s.say("kind", e.Kind).say("result", e.Result).say("amount", spellMoney(e.AmountCents, c.currency))
		if e.OrderID != nil {
			s.text("order", *e.OrderID)
		}
		if e.Kind == run.ReceiptLocal {
			s.noted("of", "the synthetic service inside the control plane", "no external receipt")
		}
	}),
	"execution.verified": told(func(_ *chart, s *step, _ *turn, e *run.Verified) {
		s.Tone = "good"
		s.postconditions(e.Postconditions)
		s.text("by observation", e.ObservationID)
	}),
	"execution.mismatch": told(func(_ *chart, s *step, _ *turn, e *run.Mismatched) {
		s.Tone = "danger"
		s.postconditions(e.Postconditions)
	}),
	"execution.not_applied": told(func(c *chart, s *step, _ *turn, e *run.NotApplied) {
		s.Tone = "over"
		s.say("cause", e.Cause).say("released", spellMoney(e.ReleasedCents, c.currency))
	}),
	"execution.unconfirmed": told(func(_ *chart, s *step, _ *turn, e *run.Unconfirmed) {
		s.Tone = "danger"
		s.noted("cause", e.Cause, "it may have happened; the amount stays reserved and nothing is sent again")
	}),
	"execution.voided": told(func(c *chart, s *step, _ *turn, e *run.Voided) {
		s.Tone = "over"
		s.say("cause", e.Cause).say("reason", e.ReasonCode).say("released", spellMoney(e.ReleasedCents, c.currency))
	}),
	"operation.refused": told(func(_ *chart, s *step, _ *turn, e *run.Refused) { s.Tone = "over"; s.say("reason", e.ReasonCode) }),
	"approval.granted": told(func(_ *chart, s *step, _ *turn, e *run.Approved) {
		s.Tone = "good"
		s.say("by", e.ApprovedBy).text("session", e.Approver).say("amount", spellMoney(e.AmountCents, e.Currency)).say("destination", e.Destination)
		s.noted("good until", frame.Moment(e.ExpiresAt), "for one use").text("proposal", e.ProposalID).text("effect digest", e.EffectDigest)
	}),
	"clarification.added": told(func(_ *chart, s *step, _ *turn, e *run.Clarified) {
		s.say("by", e.By).prose("clarification", "no grant changes by it", &e.Clarification)
	}),
	"retry.accepted": told(func(_ *chart, s *step, _ *turn, e *run.RetryAccepted) { s.say("by", e.By) }),
	"simulate.applied": told(func(_ *chart, s *step, _ *turn, e *run.Simulated) {
		s.noted("event", e.Event, "synthetic").say("by", e.By)
	}),
	"execution.probed": told(func(_ *chart, s *step, _ *turn, e *run.Probed) {
		s.say("answer", strings.ReplaceAll(e.Answer, "_", " "))
	}),
	"execution.reconciled": told(func(c *chart, s *step, _ *turn, e *run.Reconciled) {
		s.Tone = "wait"
		s.noted("finding", strings.ReplaceAll(e.Finding, "_", " "), "stated by the owner; not a receipt")
		s.say("spent", spellMoney(e.SpentCents, c.currency)).say("released", spellMoney(e.ReleasedCents, c.currency))
		s.prose("note", "", e.Note)
	}),
	"execution.contradicted": told(func(c *chart, s *step, _ *turn, e *run.Contradicted) {
		s.Tone = "danger"
		s.say("stated", strings.ReplaceAll(e.Statement, "_", " ")).say("receipt says", e.ReceiptResult)
		s.say("amount", spellMoney(e.AmountCents, c.currency)).say("overspent", spellMoney(e.OverspentCents, c.currency))
	}),
	"model.called": told(func(_ *chart, s *step, _ *turn, e *run.Called) {
		s.say("call", fmt.Sprint(e.Call)).say("purpose", e.Purpose).say("provider", e.Provider)
	}),
	"turn.outcome": told(func(_ *chart, s *step, _ *turn, e *run.Concluded) {
		s.Label, s.Tone = e.Provenance, "wait"
		s.say("outcome", strings.ReplaceAll(e.Kind, "_", " ")).say("source", e.Source).say("provider", e.Provider)
		s.prose("in its words", "reported", &e.Text)
	}),
	"turn.rejected": told(func(_ *chart, s *step, _ *turn, e *run.Rejected) {
		s.Label, s.Tone = run.ByRuntime, "wait"
		s.prose("what was wrong", "", &e.Problem)
		s.say("bytes", fmt.Sprint(e.Bytes)).text("SHA-256", e.SHA256)
		s.prose("its first characters, as they came", "untrusted", &e.Raw)
	}),
	"attack.report": told(func(_ *chart, s *step, _ *turn, e *run.AttackReported) {
		s.Label, s.Tone = run.ByHardPolicy, "wait"
		s.say("attack", e.AttackID).say("bytes", fmt.Sprint(e.Bytes)).text("SHA-256", e.SHA256)
		s.prose("its first characters, as they came", "untrusted", &e.Raw)
	}),
	"metrics": told(func(_ *chart, s *step, t *turn, e *run.Metrics) {
		if t == nil {
			s.Title = "Measured"
			s.measured(e)
			return
		}
		t.metrics = append(t.metrics, *e)
	}),
}

// classes say what a class of effect means.
var classes = map[string]string{
	propose.ClassRead:    "discloses, changes nothing",
	propose.ClassLocal:   "changes only what the browser shows",
	propose.ClassPrepare: "changes the service, spends nothing",
	propose.ClassCommit:  "spends, or is otherwise consequential",
}

// contextClasses say what a run knows of the context turn that a report was made in.
var contextClasses = map[string]string{
	run.ClassReported: "reported by the consumer; it was not seen open here, and it permits nothing",
	run.ClassObserved: "observed: it was in this ledger and open when this was decided; it permits nothing",
}

func tellProposed(_ *chart, s *step, t *turn, e *run.Proposed) {
	if t == nil {
		return
	}
	for _, candidate := range e.Report.Candidates {
		if candidate.ID == e.Report.SelectedCandidateID {
			t.Operation = candidate.Action.OperationID
			if action, err := json.Marshal(candidate.Action); err == nil {
				t.Action = action
			}
		}
	}
	t.report = &report{e.Report, len(t.Steps)}
	s.noted("candidates", fmt.Sprint(len(e.Report.Candidates)), "an alternative that was considered was neither authorized nor executed")
	if c := e.ContextTurn; c != nil {
		s.noted("context turn", c.ID, contextClasses[c.Class])
	}
	s.text("turn", e.TurnID).text("report digest", e.ReportDigest)
}

func tellChecked(c *chart, s *step, t *turn, e *run.Checked) {
	s.Label, s.Tone = e.Provenance, "good"
	s.say("result", e.Verdict)
	if e.ReasonCode != nil {
		s.Tone = "wait"
		s.noted("reason", *e.ReasonCode, stopcontext.Message(*e.ReasonCode))
	}
	if e.AmountCents != nil && *e.AmountCents > 0 && t != nil {
		t.Amount = spellMoney(*e.AmountCents, c.currency)
	}
	if e.EffectDigest != nil {
		s.text("effect digest", *e.EffectDigest)
	}
	for _, f := range e.Findings {
		s.Rows = append(s.Rows, row{f.Name, strings.TrimSpace(f.Result + " " + f.Code), f.Code == ""})
	}
}

func tellDecided(_ *chart, s *step, t *turn, e *run.Decided) {
	s.Label, s.Tone = e.Provenance, "wait"
	if e.Decision == run.Allow {
		s.Tone = "good"
	}
	s.noted("decision", e.Decision, "not itself a permit").say("reason", e.ReasonCode).say("provider", e.Provider)
	s.prose("explanation", "", &e.Explanation)
	s.prose("asks for", "", e.ClarificationRequest)
}

func (s *step) say(name, value string) *step { return s.noted(name, value, "") }

func (s *step) noted(name, value, note string) *step {
	s.Fields = append(s.Fields, field{Name: name, Value: value, Note: note})
	return s
}

// text adds an id or a digest.
func (s *step) text(name, value string) *step {
	s.Fields = append(s.Fields, field{Name: name, Value: value, Mono: true})
	return s
}

// prose adds erasable text, which is read when the step is shown.
func (s *step) prose(name, note string, c *evidence.Commitment) {
	if c != nil {
		s.Fields = append(s.Fields, field{Name: name, Block: true, Note: note, text: c})
	}
}

func (s *step) stop(stop *stopcontext.Stop, tone string) *step {
	s.Tone = tone
	return s.noted("reason", stop.ReasonCode, stop.Message).say("source", stop.Source).say("category", stop.Category).say("recovery", stop.Recovery)
}

func (s *step) postconditions(list []run.Postcondition) {
	for _, p := range list {
		word := "holds"
		if !p.Holds {
			word = "does not hold"
		}
		s.Rows = append(s.Rows, row{p.Name, word, p.Holds})
	}
}

func (s *step) measured(m *run.Metrics) {
	for _, d := range []struct {
		name   string
		micros *int64
	}{{"executor", m.ExecutorMicros}, {"hard checks", m.PolicyMicros}, {"guardian", m.GuardianMicros}, {"execution", m.ExecutionMicros}, {"observation", m.ObservationMicros}} {
		if d.micros != nil {
			s.say(d.name, micros(d.micros))
		}
	}
}

// readProse reads the texts of the steps that are shown.
func (s *site) readProse(ctx context.Context, id string, steps []step) (err error) {
	for i := range steps {
		for j := range steps[i].Fields {
			f := &steps[i].Fields[j]
			if f.text == nil {
				continue
			}
			if f.Value, err = s.Reader.Text(ctx, id, *f.text); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish adds to a turn that is shown what was left out while pairing. What a consumer
// reported is marked as reported, and nothing of it is taken for a fact (H-010, H-070).
func (t *turn) finish() {
	if r := t.report; r != nil && r.step < len(t.Steps) {
		s := &t.Steps[r.step]
		s.prose("goal as restated", "reported", &r.GoalRestatement)
		s.prose("reported rationale", "reported by the consumer: neither its private reasoning nor proof of intent", &r.Justification.Summary)
		for _, c := range r.Candidates {
			if c.RejectionReason != nil {
				s.prose("rejected alternative "+c.Action.OperationID, "reported", c.RejectionReason)
			} else {
				s.prose("purpose", "reported", &c.Purpose)
			}
		}
		for _, u := range r.Uncertainties {
			s.prose("uncertainty", "reported", &u)
		}
	}
	if len(t.metrics) > 0 {
		m := step{Type: "metrics", Title: "Measured durations"}
		for i := range t.metrics {
			m.measured(&t.metrics[i])
		}
		t.Steps = append(t.Steps, m)
	}
}
