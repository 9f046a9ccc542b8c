package gateway

import (
	"context"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
)

// Permit is a live step permit with its token. It is shown only to the run's own
// bearer.
type Permit struct {
	PermitID  string
	Token     string
	ExpiresAt evidence.Time
	Action    propose.Action
}

// Turn is the answer of POST /turns and GET /decision.
type Turn struct {
	TurnID   string
	Decision records.Decision
	Permit   *Permit
}

// Propose takes a consumer's report: hard checks, guardian, and for an ALLOW the
// one permit (H-132). A malformed report stores nothing; one that would get a permit
// while the workspace is frozen stops the run and stores nothing of itself. contextTurn is
// the context turn that the report was made in, as whoever reports says; "": none.
func (g *Gateway) Propose(ctx context.Context, id, contextTurn string, body []byte) (*Turn, error) {
	report, err := propose.ParseReport(body, g.Doors.Checks...)
	if err != nil {
		return nil, err
	}
	var decided *attempt
	var seen *run.Observed
	tries := 0
	err = g.decide(ctx, id, func(a *attempt) error {
		decided = a
		g.inContext(ctx, a, contextTurn, &tries)
		var err error
		if seen, err = g.Catalog(ctx, a.State()); err != nil {
			return err
		}
		start := time.Now()
		review, denial := a.Deciding.Propose(report, seen.Catalog)
		if denial != nil {
			if denial.Reason == authority.RunNotReady {
				a.Refuse("", denial.Reason, canon.Hash(body))
			}
			return denial
		}
		policy := time.Since(start).Microseconds()
		turnID := a.State().Turn.ID
		metrics := run.Metrics{TurnID: &turnID, PolicyMicros: &policy}
		if review.Reason == "" {
			guardian := g.Ask(ctx, a.Deciding, report, review, seen)
			metrics.GuardianMicros = &guardian
		}
		a.Measure(metrics)
		return nil
	})
	if authority.Denied(err, authority.Frozen) {
		err = g.decide(ctx, id, func(a *attempt) error { return first(g.freeze(ctx, a), err) })
	}
	if err != nil {
		return nil, err
	}
	return g.turn(ctx, decided, seen)
}

// Attempt decides one part of a managed attempt, for package managed: f gets the
// decision, and may call look once to record how the service is now. What f emits is
// stored here, by the rules of every other decision; f asks nobody outside.
func (g *Gateway) Attempt(ctx context.Context, id string, f func(d *decide.Deciding, look func() error) error) error {
	return g.AttemptIn(ctx, id, "", f)
}

// AttemptIn is Attempt for a part whose report was made in a context turn; "": in none.
func (g *Gateway) AttemptIn(ctx context.Context, id, contextTurn string, f func(d *decide.Deciding, look func() error) error) error {
	tries := 0
	return g.looking(ctx, id, nil, func(a *attempt, look func() error) error {
		g.inContext(ctx, a, contextTurn, &tries)
		return f(a.Deciding, look)
	})
}

// Decision returns the newest decision of the run and its live permit, so that a
// consumer that lost an answer can go on (H-133).
func (g *Gateway) Decision(ctx context.Context, id string) (*Turn, error) {
	a, err := g.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	s := a.State()
	if s.Decision == nil {
		return nil, &authority.Denial{Reason: authority.NotFound, Detail: "The run has no decision yet."}
	}
	seen, err := g.Catalog(ctx, s)
	if err != nil {
		return nil, err
	}
	return g.turn(ctx, a, seen)
}

// turn shows the newest decision and its live permit.
func (g *Gateway) turn(ctx context.Context, a *attempt, seen *run.Observed) (*Turn, error) {
	s := a.State()
	decision, err := g.Explain(ctx, s, a.Text)
	if err != nil {
		return nil, err
	}
	out := &Turn{TurnID: s.Decision.TurnID, Decision: *decision}
	if p := s.Permit; p != nil {
		if entry := propose.EntryByID(seen.Catalog, p.EntryID); entry != nil {
			out.Permit = &Permit{p.ID, g.Keys.StepPermitToken(s.ID, p.ID), p.ExpiresAt, entry.Action()}
		}
	}
	return out, nil
}
