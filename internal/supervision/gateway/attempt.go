package gateway

import (
	"context"
	"errors"
	"time"

	"countersign/dispatch"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/hosted"
	"countersign/internal/supervision/proof"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// attempt carries a claimed action out and records its outcome.
func (g *Gateway) attempt(ctx context.Context, c *claim) error {
	switch {
	case c.state.Config.Target != run.TargetHosted:
		return g.executeLocal(ctx, c)
	case c.permit.Class == propose.ClassRead:
		return g.executeRead(ctx, c)
	default:
		return g.executeHosted(ctx, c)
	}
}

// executeLocal applies the effect at the local service. Effect, receipt,
// verification and the next observation are one commit.
func (g *Gateway) executeLocal(ctx context.Context, c *claim) error {
	svc := g.services[c.state.Config.Service]
	start := time.Now()
	return g.recordOutcome(ctx, c.RunID, g.recall, func(a *attempt) error {
		a.stored = c.keep
		if reason := g.lapsed(a, c); reason != "" {
			return denied(a.Void(c.executionID, "recheck", reason))
		}
		local, err := g.local(ctx, a)
		if err != nil {
			return err
		}
		effect, err := svc.Execute(local.State, promise(c.entry), a.NewID)
		if err != nil {
			return err
		}
		if a.State().DropReceipt && c.permit.Class != propose.ClassRead && effect.Refused == "" {
			a.change.Writes = append(a.change.Writes, ledger.Write{Key: local.Key, Revision: local.Revision, Head: local.Head, State: effect.State})
			return denied(a.Unconfirmed(c.executionID, "simulated"))
		}
		durations := c.durations(start)
		outcome := decide.Outcome{Kind: run.ReceiptLocal, Result: run.ResultApplied, OrderID: effect.OrderID, BodySHA256: viewHash(effect.View)}
		if effect.Refused != "" {
			outcome.Result, outcome.Cause = run.ResultRefused, "refused"
		}
		if denial := a.Receive(c.executionID, outcome); denial != nil {
			return denial
		}
		if effect.Refused != "" {
			a.Measure(durations)
			a.change.Guards = append(a.change.Guards, ledger.Guard{Key: local.Key, Revision: local.Revision})
			return nil
		}
		a.change.Writes = append(a.change.Writes, ledger.Write{Key: local.Key, Revision: local.Revision, Head: local.Head, State: effect.State})
		if a.State().Terminal() {
			a.Measure(durations)
			return nil
		}
		looked := time.Now()
		sighting, err := svc.SeeLocal(effect.State, effect.View)
		if err != nil {
			return err
		}
		sighting.CapturedAt = a.Now()
		if err := g.record(a, svc, sighting); err != nil {
			return err
		}
		micros := time.Since(looked).Microseconds()
		durations.ObservationMicros = &micros
		a.Measure(durations)
		return nil
	})
}

// settledElsewhere passes over a denial that only says that the outcome was
// recorded by somebody else, such as settling after the lease ended.
func settledElsewhere(d *authority.Denial) error {
	if d.Reason == authority.InProgress {
		return nil
	}
	return d
}

func viewHash(view *string) string {
	if view == nil {
		return canon.Hash(nil)
	}
	return canon.Hash([]byte(*view))
}

// durations says how long the execution took that began at start (H-155).
func (c *claim) durations(start time.Time) run.Metrics {
	micros := time.Since(start).Microseconds()
	return run.Metrics{TurnID: &c.permit.Bindings.TurnID, ExecutionID: &c.executionID, ExecutionMicros: &micros}
}

// executeRead reads from the store. A failure is a definite no-effect.
func (g *Gateway) executeRead(ctx context.Context, c *claim) error {
	request, err := g.services[c.state.Config.Service].(Hosted).Request(promise(c.entry))
	if err != nil {
		return err
	}
	if withheld, err := g.withhold(ctx, c); withheld || err != nil {
		return err
	}
	start := time.Now()
	g.Fault("before-send")
	body, status, readErr := g.link.Read(ctx, c.state, request, c.notAfter)
	g.Fault("after-send")
	err = g.recordOutcome(ctx, c.RunID, g.begin, func(a *attempt) error {
		a.stored = c.keep
		if readErr != nil {
			return denied(a.NotApplied(c.executionID, "read_failed"))
		}
		a.Measure(c.durations(start))
		return denied(a.Receive(c.executionID, decide.Outcome{Kind: run.ReceiptRead, Result: run.ResultApplied, Status: int64(status), BodySHA256: canon.Hash(body)}))
	})
	if err != nil || readErr != nil {
		return err
	}
	view := string(body)
	g.verify(ctx, c, &view)
	return nil
}

// executeHosted sends the mutation once and records what the store's receipt
// says; without a receipt that verifies the outcome is unknown.
func (g *Gateway) executeHosted(ctx context.Context, c *claim) error {
	request, err := g.services[c.state.Config.Service].(Hosted).Request(promise(c.entry))
	if err != nil {
		return err
	}
	if withheld, err := g.withhold(ctx, c); withheld || err != nil {
		return err
	}
	start := time.Now()
	g.Fault("before-send")
	permit := g.link.Permit(c.state.Execution.Dispatch, c.executionID, c.permit.ID, c.permit.EffectDigest, c.claimedAt, c.end)
	got := g.link.Send(ctx, c.state, permit, request, c.notAfter)
	g.Fault("before-receipt")
	err = g.recordOutcome(ctx, c.RunID, g.begin, func(a *attempt) error {
		a.stored = c.keep
		switch {
		case got.Unsent:
			return denied(a.Void(c.executionID, got.Cause, got.Stop()))
		case got.Receipt == nil || !g.Doors.Amount && !proof.AmountAgrees(got.Receipt, c.permit.Class, c.permit.AmountCents):
			return denied(a.Unconfirmed(c.executionID, got.Why()))
		}
		a.Measure(c.durations(start))
		return denied(a.Receive(c.executionID, proof.Outcome(got.Receipt, got.HTTP, run.ByResponse)))
	})
	g.Fault("after-receipt")
	if err != nil && got.Receipt != nil {
		g.Log.Error("a store's receipt could not be recorded", "run", c.RunID, "execution", c.executionID, "receipt", got.JWS, "error", err)
	}
	if err != nil || got.Receipt == nil || got.Receipt.Result != dispatch.Applied {
		return err
	}
	g.verify(ctx, c, nil)
	return nil
}

// withhold tests the authority once more just before bytes leave (H-044). When it
// has lapsed, or cannot be tested, the intent is voided and nothing is sent. Else
// c.notAfter is when it is too late for them to begin.
func (g *Gateway) withhold(ctx context.Context, c *claim) (bool, error) {
	// The ledger says how much of the window is left at a moment after this one, so
	// counted from here it never ends late, wherever the process is stopped.
	asked := time.Now()
	a, err := g.begin(ctx, c.RunID)
	if err != nil {
		g.Log.Warn("a dispatch cannot be rechecked", "run", c.RunID, "execution", c.executionID, "error", err)
		return true, g.void(ctx, c, "recheck", authority.ExecutionNotApplied)
	}
	x := a.State().Execution
	if out := x != nil && x.ID == c.executionID && x.State == run.ExecutionDispatched; !out && !g.Doors.Recheck {
		return true, nil // settled meanwhile; the chain says how
	}
	if reason := g.lapsed(a, c); reason != "" {
		return true, g.void(ctx, c, "recheck", reason)
	}
	if c.state.Execution.Dispatch != nil {
		// The clock may have been set back behind the chain. A store goes by the real
		// time and would refuse the permit as one of the future.
		if now, err := g.now(ctx); err != nil || a.Now().Sub(now) > run.ClockSkew {
			g.Log.Warn("a dispatch is given up: the clock is behind the run's newest event", "run", c.RunID, "execution", c.executionID, "behind", a.Now().Sub(now), "error", err)
			return true, g.void(ctx, c, "clock", authority.ExecutionNotApplied)
		}
	}
	window := g.sendWindow() - a.Now().Sub(c.claimedAt)
	if window <= 0 {
		return true, g.void(ctx, c, hosted.Late, authority.ExecutionNotApplied)
	}
	c.notAfter = asked.Add(window)
	return false, nil
}

func (g *Gateway) sendWindow() time.Duration {
	if g.Doors.Window {
		return run.DispatchLife
	}
	return run.SendWindow
}

// lapsed returns why the authority of a claimed execution no longer holds, or "".
func (g *Gateway) lapsed(a *attempt, c *claim) string {
	s, now := a.State(), a.Now()
	// A dispatch permit counts in whole seconds: in the last, incomplete one of
	// its authority it would reach the store expired.
	hosted := c.state.Execution.Dispatch != nil
	switch {
	case g.Doors.Recheck:
		return ""
	case s.Terminal():
		return authority.PermitRevoked
	case now >= c.end, hosted && now.Time().Unix() >= c.end.Time().Unix():
		return authority.PermitExpired
	}
	return ""
}

// void records that an intent was given up before anything was sent. An execution
// that is settled already stays as it is.
func (g *Gateway) void(ctx context.Context, c *claim, cause, reason string) error {
	return g.recordOutcome(ctx, c.RunID, g.begin, func(a *attempt) error {
		a.stored = c.keep
		_, err := c.void(a, cause, reason)
		return err
	})
}

// void decides that the intent was given up, if it is still out, and reports whether
// the run knows it.
func (c *claim) void(a *attempt, cause, reason string) (found bool, err error) {
	x := a.State().Execution
	if found = x != nil && x.ID == c.executionID; !found || x.State != run.ExecutionDispatched {
		return found, nil
	}
	return found, denied(a.Void(c.executionID, cause, reason))
}

// recordOutcome stores what became of an execution. An effect may stand behind
// it, so it tries on while the ledger refuses, until the lease has ended.
func (g *Gateway) recordOutcome(ctx context.Context, runID string, begin func(context.Context, string) (*attempt, error), f func(*attempt) error) error {
	ctx, cancel := context.WithTimeout(g.outliving(ctx), run.LeaseLife)
	defer cancel()
	wait := 5 * time.Millisecond
	for {
		err := g.decideFrom(ctx, runID, begin, f)
		if denial, ok := errors.AsType[*authority.Denial](err); ok {
			return settledElsewhere(denial)
		}
		if err == nil || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
			wait = min(2*wait, 500*time.Millisecond)
		}
	}
}

// verify takes the observation that shows whether the execution did what it
// promised. When the service cannot be seen now, or the observation cannot be
// stored, the execution stays receipted and the next observation verifies it.
func (g *Gateway) verify(ctx context.Context, c *claim, view *string) {
	g.Fault("before-verify")
	start := time.Now()
	err := g.looking(ctx, c.RunID, view, func(a *attempt, look func() error) error {
		a.stored = c.keep
		x := a.State().Execution
		if a.CanObserve() != nil || x == nil || x.ID != c.executionID || x.State != run.ExecutionReceipted {
			return nil // the run has ended, or stopped for another effect
		}
		if err := look(); err != nil {
			return err
		}
		micros := time.Since(start).Microseconds()
		a.Measure(run.Metrics{ExecutionID: &c.executionID, ObservationMicros: &micros})
		return nil
	})
	if err != nil {
		g.Log.Warn("the verification of an execution is pending", "run", c.RunID, "execution", c.executionID, "error", err)
	}
	g.Fault("after-verify")
}
