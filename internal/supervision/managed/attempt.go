package managed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/ask"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// attempt is one managed attempt under way.
type attempt struct {
	*Steps
	ctx   context.Context
	runID string
	decide.Attempt
	going    bool    // the executor is to be asked
	client   *string // context client of the run; nil: it has none
	turn     string  // context turn of the attempt, "": none
	executor Executor
	briefing decide.Briefing
	micros   int64       // that asking the executor took
	permit   *run.Permit // that its proposal got, nil when none
	action   propose.Action
}

// decide decides one part of the attempt, see [gateway.Gateway.Attempt]. It gives up
// after [run.DispatchLife]; what was leased then ends with its lease.
func (x *attempt) decide(f func(ctx context.Context, d *decide.Deciding, look func() error) error) error {
	return x.decideIn("", f)
}

// decideIn is decide for a part that takes a report in, made in a context turn.
func (x *attempt) decideIn(contextTurn string, f func(ctx context.Context, d *decide.Deciding, look func() error) error) error {
	ctx, cancel := context.WithTimeout(x.ctx, run.DispatchLife)
	defer cancel()
	return x.gateway.AttemptIn(ctx, x.runID, contextTurn, func(d *decide.Deciding, look func() error) error { return f(ctx, d, look) })
}

// begin observes the service, briefs the executor and counts the request that asks it.
func (x *attempt) begin() error {
	return x.decide(func(ctx context.Context, d *decide.Deciding, look func() error) error {
		x.going = false
		if stopped, denial := d.CanStep(); stopped || denial != nil {
			return denied(denial)
		}
		if d.NeedsObservation() {
			if err := look(); err != nil {
				return err
			}
			if d.State().Status != run.StatusReady {
				return nil // what was seen completed the run, or stopped it
			}
		}
		s := d.State()
		x.Attempt = decide.Attempt{ID: d.NewID(), ObservationID: s.Observation.ID, Provider: s.Config.Executor, Provenance: run.ByReplay}
		if x.executor = x.executors[s.Config.Executor]; x.executor == nil {
			d.Abandon(x.Attempt, authority.ProviderUnconfigured, stopcontext.SourceRuntime)
			return nil
		}
		if err := x.brief(ctx, d); err != nil {
			return err
		}
		if x.executor.Outside() {
			x.Provenance = run.ByModel
			if !x.call(d, run.PurposeExecutor) {
				return nil
			}
		}
		x.going = true
		return nil
	})
}

// call counts one request to the provider.
func (x *attempt) call(d *decide.Deciding, purpose string) bool {
	return d.Call(decide.Call{AttemptID: x.ID, Purpose: purpose, Provider: x.Provider, Holder: x.gateway.Ledger.Holder()})
}

// brief writes down what the executor is told.
func (x *attempt) brief(ctx context.Context, d *decide.Deciding) (err error) {
	s, seen := d.State(), d.Observed()
	if seen == nil {
		if seen, err = x.gateway.Catalog(ctx, s); err != nil {
			return err
		}
	}
	x.briefing, x.client = d.Brief(x.ID, seen), s.Config.ContextClient
	if x.briefing.Instruction, err = x.gateway.Text(ctx, x.runID, s.Instruction); err != nil {
		return err
	}
	for _, c := range s.Clarifications {
		words, err := x.gateway.Text(ctx, x.runID, c)
		if err != nil {
			return err
		}
		x.briefing.Clarifications = append(x.briefing.Clarifications, words)
	}
	if seen.View == nil {
		return nil
	}
	view, fresh := d.Text(*seen.View)
	if !fresh {
		if view, err = x.gateway.Text(ctx, x.runID, *seen.View); err != nil {
			return err
		}
	}
	x.briefing.View = decide.Fenced(seen.ObservationID, view)
	return nil
}

// answer is what an executor said, as far as it is understood: an outcome, or why there
// is none.
type answer struct {
	outcome *propose.Outcome
	native  bool   // the outcome is a refusal of the provider itself
	raw     []byte // malformed
	problem string // with raw
	reason  string // of the stop, when there is no outcome
}

// answer asks the executor and, once, to repair what is malformed (H-036).
func (x *attempt) answer() answer {
	got := x.ask(func(ctx context.Context) ([]byte, error) { return x.executor.Propose(ctx, x.briefing) })
	if got.raw == nil {
		return got
	}
	if x.executor.Outside() {
		counted, limit := false, false
		err := x.decide(func(_ context.Context, d *decide.Deciding, _ func() error) error {
			counted, limit = false, false
			if going, denial := d.Resume(x.Attempt); denial != nil || !going {
				return denied(denial)
			}
			if limit = !d.CanCall(); !limit {
				counted = x.call(d, run.PurposeRepair)
			}
			return nil
		})
		switch {
		case limit:
			got.reason = authority.ModelCallLimit
			return got
		case err != nil || !counted:
			return answer{reason: authority.ProviderError} // the run has moved on; nothing of the attempt counts
		}
	}
	return x.ask(func(ctx context.Context) ([]byte, error) {
		return x.executor.Repair(ctx, x.briefing, got.raw, got.problem)
	})
}

// ask makes one request and waits no longer than the provider may take, whatever the
// executor does with its context.
func (x *attempt) ask(f func(context.Context) ([]byte, error)) answer {
	ctx, cancel := context.WithTimeout(x.ctx, x.patience)
	defer cancel()
	start := time.Now()
	raw, err := ask.Within(ctx, 0, f)
	x.micros += time.Since(start).Microseconds()
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return answer{outcome: refused(refusal), native: true}
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return answer{reason: authority.ProviderTimeout}
	case err != nil:
		x.log.Warn("a managed executor failed", "run", x.runID, "attempt", x.ID, "provider", x.Provider, "error", err)
		return answer{reason: authority.ProviderError}
	}
	outcome, err := propose.ParseOutcome(raw)
	if err != nil {
		return answer{raw: append([]byte{}, raw...), problem: problem(err), reason: authority.MalformedModelReport}
	}
	return answer{outcome: outcome}
}

// refused is a native refusal as an outcome (H-184).
func refused(r *Refusal) *propose.Outcome {
	text := "The model provider refused and gave no reason."
	if r.Explanation != "" {
		text = cut(r.Explanation, propose.MaxExplanation)
	}
	return &propose.Outcome{Kind: propose.OutcomeRefusal, Text: text}
}

// maxProblem bounds what is said about an outcome, in characters: names of members may
// be the model's own.
const maxProblem = 2000

// problem says what is wrong with an outcome, a line for each place.
func problem(err error) string {
	malformed, ok := errors.AsType[*propose.MalformedError](err)
	if !ok {
		return cut(err.Error(), maxProblem)
	}
	var lines strings.Builder
	for _, p := range malformed.Problems {
		fmt.Fprintf(&lines, "%s: %s\n", p.Pointer, p.Message)
	}
	return cut(lines.String(), maxProblem)
}

// cut is at most the first n characters of s.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// submit takes the answer in: a proposal is checked and judged, anything else stops the
// run.
func (x *attempt) submit(got answer) error {
	err := x.decideIn(x.turn, func(ctx context.Context, d *decide.Deciding, _ func() error) error {
		x.permit = nil
		if going, denial := d.Resume(x.Attempt); denial != nil || !going {
			return denied(denial)
		}
		metrics := run.Metrics{ExecutorMicros: &x.micros}
		switch {
		case got.outcome == nil && got.raw == nil:
			d.Abandon(x.Attempt, got.reason, stopcontext.SourceProvider)
		case got.outcome == nil:
			d.Reject(x.Attempt, got.raw, got.problem, got.reason)
		case got.outcome.Kind == propose.OutcomeProposal:
			x.propose(ctx, d, got.outcome.Report, &metrics)
		default:
			d.Conclude(x.Attempt, got.outcome, got.native, x.briefing.Observation.Catalog)
		}
		d.Measure(metrics)
		return nil
	})
	if authority.Denied(err, authority.Frozen) {
		x.permit = nil // it was not stored
		return x.abandon(authority.Frozen)
	}
	return err
}

// propose lets a proposal go the way of every report: hard checks, guardian, permit.
func (x *attempt) propose(ctx context.Context, d *decide.Deciding, r *propose.Report, metrics *run.Metrics) {
	seen, start := x.briefing.Observation, time.Now()
	review := d.ProposeManaged(x.Attempt, r, seen.Catalog)
	policy := time.Since(start).Microseconds()
	turnID := d.State().Turn.ID
	metrics.TurnID, metrics.PolicyMicros = &turnID, &policy
	if review.Reason != "" {
		return
	}
	guardian := x.gateway.Ask(ctx, d, r, review, seen)
	metrics.GuardianMicros = &guardian
	if p := d.State().Permit; p != nil {
		x.permit, x.action = p, review.Entry.Action()
	}
}

// execute carries out what was permitted, as POST /operation does. What comes of it is
// in the run.
func (x *attempt) execute() error {
	_, err := x.gateway.Operate(x.ctx, gateway.OperateRequest{
		RunID: x.runID, Managed: true, Token: x.gateway.Keys.StepPermitToken(x.runID, x.permit.ID), Key: x.ID, Body: canon.MustMarshal(map[string]any{"action": x.action}),
	})
	if d, ok := errors.AsType[*authority.Denial](err); ok {
		reason := d.Reason
		if stopcontext.Category(reason) == "" || stopcontext.Category(reason) == stopcontext.CategoryReconciliation {
			reason = authority.ExecutionNotApplied // only if nothing was dispatched, see Abandon
		}
		return x.abandon(reason)
	}
	return err
}

// abandon stops the run unless the attempt came to an effect.
func (x *attempt) abandon(reason string) error {
	return x.decide(func(_ context.Context, d *decide.Deciding, _ func() error) error {
		d.Abandon(x.Attempt, reason, stopcontext.SourceRuntime)
		return nil
	})
}

// denied turns a nil *authority.Denial into a nil error.
func denied(d *authority.Denial) error {
	if d == nil {
		return nil
	}
	return d
}
