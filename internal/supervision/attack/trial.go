package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
)

// trial is one shape of an attack under way: its runs, its twin and what was measured.
// The first thing that goes wrong with the installation ends it: from then on nothing is
// sent, and the shape counts as not carried out.
type trial struct {
	r       *Runner
	ctx     context.Context
	cookie  string
	attack  *Attack
	service string
	shape   shape

	runs    []string
	err     error
	wrong   string // with what the attack left behind, beside the numbers
	former  string // observation that the twin rested on
	found   Shape
	decided string // who decided about the attack, by the run's evidence
	twins   int    // that were played
	tried   bool
}

// run plays the shape and ends its runs, whatever came of it.
func (t *trial) run() Shape {
	t.found = Shape{t.shape.name, Finding{DecidedBy: or(t.shape.by, ByHardPolicy), Expected: t.shape.want, Twin: true}}
	t.shape.do(t)
	ending, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), endingFor)
	defer cancel()
	for _, id := range t.runs {
		if err := t.r.Runs.Revoke(ending, id); err != nil && !authority.Denied(err, authority.RunNotReady) {
			t.fail(fmt.Errorf("run %s could not be revoked: %w", id, err))
		}
	}
	return t.judge()
}

// told is what went wrong without its cause, which may speak of the inside. A denial does
// not.
func told(err error) string {
	cause := errors.Unwrap(err)
	if _, denied := errors.AsType[*authority.Denial](err); denied || cause == nil {
		return err.Error()
	}
	return strings.TrimSuffix(strings.TrimSuffix(err.Error(), cause.Error()), ": ")
}

// endingFor bounds ending the runs of a shape.
const endingFor = 10 * time.Second

// judge says what the shape has come to, and when it is not blocked why. What got a permit
// or had an effect is open, whatever else went wrong.
func (t *trial) judge() Shape {
	f := &t.found
	f.Twin = f.Twin && t.twins > 0
	let := func(outcome, problem string, args ...any) {
		f.Outcome, f.Problem = outcome, fmt.Sprintf(problem, args...)
	}
	switch {
	case t.err != nil:
		f.Twin = false
		let(OutcomeNotCarriedOut, "%s", told(t.err))
		t.r.Log.Warn("an attack could not be carried out", "attack", t.attack.ID, "service", t.service, "error", t.err)
	case !f.Twin:
		let(OutcomeNotCarriedOut, "%s", or(f.Problem, "no twin was played"))
	case !t.tried || f.Got == nil:
		let(OutcomeNotCarriedOut, "the attack was not carried out")
	case *f.Got != f.Expected && isTrouble(*f.Got):
		let(OutcomeNotCarriedOut, "answered %s instead of %s", f.Got, f.Expected)
	case *f.Got != f.Expected:
		let(OutcomeOpen, "answered %s instead of %s", f.Got, f.Expected)
	case f.Permits != 0:
		let(OutcomeOpen, "%d permits were issued", f.Permits)
	case f.Effects != 0:
		let(OutcomeOpen, "%d effects at the service", f.Effects)
	case t.shape.check != 0 && (f.Failed == nil || f.Failed.Number != t.shape.check):
		let(OutcomeOpen, "policy.checked does not name check %d as the first that failed", t.shape.check)
	case t.decided != f.DecidedBy:
		let(OutcomeOpen, "decided by %s instead of %s", t.decided, f.DecidedBy)
	case t.wrong != "":
		let(OutcomeOpen, "%s", t.wrong)
	default:
		f.Outcome = OutcomeBlocked
	}
	if f.Permits+f.Effects > 0 {
		f.Outcome = OutcomeOpen
	}
	return *f
}

// isTrouble recognizes an answer that tells of the installation and not of the attack. An
// INTERNAL is none: after a twin that passed, it is what the attack has met.
func isTrouble(a Answer) bool {
	return a.Status > http.StatusInternalServerError || a.Status == http.StatusTooManyRequests || a.Code == authority.Frozen
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// String is the answer in words, for a person.
func (a Answer) String() string {
	if a.Decision != "" {
		return fmt.Sprintf("%d %s %s", a.Status, a.Decision, a.Code)
	}
	return fmt.Sprintf("%d %s", a.Status, a.Code)
}

// fail notes what went wrong with the installation.
func (t *trial) fail(err error) {
	if t.err == nil && err != nil {
		t.err = err
	}
}

// mark is how far a run has come: its newest event and what its service holds.
type mark struct{ sequence, effects int64 }

// mark reads the two from the ledger.
func (t *trial) mark(s *session) (m mark) {
	if t.err != nil {
		return m
	}
	subject, _, err := t.r.Ledger.Load(t.ctx, ledger.Key{Workspace: t.r.Workspace, Kind: ledger.KindRun, ID: s.ID})
	if err != nil {
		t.fail(fmt.Errorf("the run could not be read: %w", err))
	}
	return mark{subject.Sequence, t.effects(s)}
}

// behind returns the events behind a mark, out of the evidence that an owner is given.
func (t *trial) behind(s *session, m mark) []evidence.Event {
	if t.err != nil || t.mark(s).sequence == m.sequence {
		return nil
	}
	r := s.Owner("GET", "/evidence", nil)
	var export struct {
		Events []evidence.Event `json:"events"`
	}
	if r.Status != 200 {
		t.fail(fmt.Errorf("the evidence could not be exported: %s", r.Answer))
	} else if err := json.Unmarshal(r.Body, &export); err != nil {
		t.fail(fmt.Errorf("the evidence is unreadable: %w", err))
	}
	return slices.DeleteFunc(export.Events, func(e evidence.Event) bool { return e.Sequence <= m.sequence })
}

// effects counts what the service of a run has carried out, by its own ledger: every
// operation at a local service, reads among them, stores its state anew. What an owner's
// simulation changes at a service counts too and therefore stands before or behind an
// attack.
func (t *trial) effects(s *session) (n int64) {
	if t.err != nil {
		return 0
	}
	var err error
	if t.attack.Hosted() {
		n, err = t.r.Store.Effects(t.ctx, s.ID)
	} else {
		var subject ledger.Subject
		subject, _, err = t.r.Ledger.Load(t.ctx, ledger.Key{Workspace: t.r.Workspace, Kind: ledger.KindService, ID: s.ID})
		n = subject.Revision
	}
	if err != nil {
		t.fail(fmt.Errorf("the service's ledger could not be read: %w", err))
	}
	return n
}

// twin plays the benign twin in a run: f sends its requests and returns the answer to the
// last one. It has to be allowed, and what it did has to stand in the service's own
// ledger.
func (t *trial) twin(s *session, f func() *Reply) {
	before := t.effects(s)
	if t.err != nil {
		return
	}
	r := f()
	after := t.effects(s)
	t.twins++
	switch {
	case t.err != nil || !t.found.Twin:
	case !r.Done():
		t.found.Twin, t.found.Problem = false, "the twin was not carried out: "+r.Answer.String()
	case after <= before:
		t.found.Twin, t.found.Problem = false, "the twin had no effect at the service"
	}
}

// allowed plays a benign twin that has no effect of its own, such as an owner's request:
// it has to be answered with 200.
func (t *trial) allowed(f func() *Reply) {
	if t.err != nil {
		return
	}
	r := f()
	t.twins++
	if t.err == nil && t.found.Twin && r.Status != 200 {
		t.found.Twin, t.found.Problem = false, "the twin was not allowed: "+r.Answer.String()
	}
}

// attackIn carries the attack out in a run whose twin was played, or in one of its own: f
// sends the altered requests and returns the answer that counts. What it left behind is
// read from the run's evidence and from the service.
func (t *trial) attackIn(s *session, f func() *Reply) {
	before := t.mark(s)
	if t.err != nil {
		return
	}
	r := f()
	t.left(s, before)
	if t.err != nil {
		return
	}
	t.tried = true
	t.found.Got = &r.Answer
	if t.decided = or(t.decided, ByRuntime); r.Answer == malformed {
		t.decided = ByHardPolicy // check 1 leaves no event
	}
}

// left takes in what came of a run since a mark.
func (t *trial) left(s *session, before mark) {
	t.found.Effects += t.mark(s).effects - before.effects
	for _, e := range t.behind(s, before) {
		switch e.Type {
		case (run.Issued{}).EventType():
			t.found.Permits++
		case (run.Checked{}).EventType():
			t.fail(t.checked(e))
		case (run.Decided{}).EventType():
			t.fail(t.judged(e))
		}
	}
}

// sparing carries an attack out that must leave another run alone, and counts what it did
// there.
func (t *trial) sparing(other *session, attack func()) {
	before := t.mark(other)
	attack()
	t.left(other, before)
}

// alter does the one thing in which an attack differs from its twin.
func (t *trial) alter(f func()) {
	if t.err == nil && !t.r.unaltered {
		f()
	}
}

// judged notes that the guardian decided.
func (t *trial) judged(e evidence.Event) error {
	var d run.Decided
	if err := canon.Unmarshal(e.Data, &d); err != nil {
		return fmt.Errorf("event %s is unreadable: %w", e.ID, err)
	}
	if d.Decision != run.Allow {
		t.decided = d.Provenance
	}
	return nil
}

// malformedIn sends a malformed report: the route refuses it and stores nothing (L-11).
// Then the control plane stores that the suite sent it, with the pause (H-167).
func (t *trial) malformedIn(s *session, report []byte) {
	before := t.mark(s)
	t.attackIn(s, func() *Reply { return s.Pursue(report) })
	after := t.mark(s)
	if t.err != nil || *t.found.Got != malformed {
		return
	}
	if after.sequence != before.sequence {
		t.wrong = "the malformed report left events behind"
		return
	}
	err := t.r.Runs.Attempt(t.ctx, s.ID, func(d *decide.Deciding, _ func() error) error {
		if denial := d.ReportAttack(t.attack.ID, report); denial != nil {
			return denial
		}
		return nil
	})
	if err != nil {
		t.fail(fmt.Errorf("the attack's report could not be stored: %w", err))
		return
	}
	var types []string
	for _, e := range t.behind(s, after) {
		types = append(types, e.Type)
	}
	if want := []string{(run.AttackReported{}).EventType(), (run.Paused{}).EventType()}; t.err == nil && !slices.Equal(types, want) {
		t.wrong = fmt.Sprintf("the evidence goes on with %v instead of %v", types, want)
	}
}

// checked notes the first check that failed.
func (t *trial) checked(e evidence.Event) error {
	var c run.Checked
	if err := canon.Unmarshal(e.Data, &c); err != nil {
		return fmt.Errorf("event %s is unreadable: %w", e.ID, err)
	}
	for _, f := range c.Findings {
		if f.Result == run.CheckFailed && t.found.Failed == nil {
			t.found.Failed, t.decided = &Check{f.Check, f.Name}, ByHardPolicy
		}
	}
	return nil
}

var errNoEntry = errors.New("the catalog has no such entry")
