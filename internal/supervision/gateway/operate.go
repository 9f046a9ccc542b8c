package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// Operation is the answer of POST /operation. A replay has the same content.
type Operation struct {
	ExecutionID   string
	State         string
	Receipt       *Receipt
	ObservationID *string
	Replayed      bool
}

// Receipt is what is known of an execution's effect. JWS is the store's signed
// receipt, nil for reads and local services.
type Receipt struct {
	run.Receipt
	EventID string
	JWS     *string
}

// OperateRequest is one POST /operation.
type OperateRequest struct {
	RunID string
	// Generation is that of the credential that authenticated the caller. A claim
	// holds it against the run once more, so that a token which was rotated
	// meanwhile claims nothing. 0 stands for a run that has no session yet.
	Generation int64
	Token      string // x-step-permit, "" when absent
	Key        string // x-idempotency-key
	Body       []byte
}

// Operate executes the one action that a permit names (H-134). The order is that
// of G-12: idempotency first, then permit state, bindings, authority, claim and
// intent in one commit, send, receipt.
//
// ctx says only whether the caller is still there when Operate begins. After that
// the attempt belongs to the gateway and ends within [run.DispatchLife] and the
// time that storing its outcome takes: a caller that hangs up must not create an
// unknown outcome.
func (g *Gateway) Operate(ctx context.Context, r OperateRequest) (*Operation, error) {
	if !goodKey(r.Key) {
		return nil, &authority.Denial{Reason: authority.InvalidRequest, Detail: "Send the header x-idempotency-key with 16 to 160 characters out of A-Z a-z 0-9 - _ . ~."}
	}
	action, err := run.ParseOperation(r.Body)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	ctx = context.WithoutCancel(ctx)
	c := &claim{OperateRequest: r, action: action}
	if r.Token != "" {
		c.permitID, c.genuine = g.Keys.StepPermitID(r.RunID, r.Token)
	}
	c.fingerprint = fingerprint(c)

	replay, err := g.replay(ctx, c)
	if replay != nil || err != nil {
		return replay, err
	}
	if err := g.carry(ctx, c); err != nil {
		return nil, err
	}
	if c.replayed {
		return g.replay(ctx, c)
	}
	return g.outcome(ctx, c.executionID, r.RunID, c.sequence)
}

// carry claims the permit and carries the action out.
func (g *Gateway) carry(ctx context.Context, c *claim) error {
	ctx, cancel := context.WithTimeout(ctx, run.DispatchLife)
	defer cancel()
	err := g.decide(ctx, c.RunID, func(a *attempt) error { return g.claim(ctx, a, c) })
	if denial, ok := errors.AsType[*authority.Denial](err); ok && denial.Reason == authority.Frozen {
		return g.refuse(ctx, c, denial)
	}
	if errors.Is(err, ErrUnknown) {
		// The intent may be stored. Nothing was sent, and nothing will be.
		if voidErr := g.void(ctx, c, "recheck", authority.ExecutionNotApplied); voidErr != nil {
			g.Log.Warn("an intent of unknown fate could not be voided", "run", c.RunID, "error", voidErr)
		}
		return err
	}
	if err != nil || c.replayed {
		return err
	}
	g.Fault("after-intent")
	return g.attempt(ctx, c)
}

func goodKey(key string) bool {
	if len(key) < 16 || len(key) > 160 {
		return false
	}
	for _, c := range []byte(key) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' && c != '~' {
			return false
		}
	}
	return true
}

// claim is one operation on its way.
type claim struct {
	OperateRequest
	action      *run.Action
	permitID    string
	genuine     bool // the token is one of this run
	fingerprint string
	replayed    bool // the key was taken meanwhile
	executionID string
	sequence    int64 // of execution.dispatched
	entry       *run.Entry
	permit      run.Permit
	claimedAt   evidence.Time
	window      time.Duration // what is left to begin sending
	end         evidence.Time // of the authority that the dispatch rests on
	state       *run.State    // as stored with the intent
}

func fingerprint(c *claim) string {
	permit := c.permitID
	if !c.genuine {
		permit = canon.Hash([]byte(c.Token))
	}
	return authority.Digest(authority.DomainRequest, struct {
		Operation string `json:"operation"`
		Resource  string `json:"resource"`
		Permit    string `json:"permitId"`
		Body      string `json:"bodySha256"`
	}{"POST /api/v1/operation", c.RunID, permit, canon.Hash(c.Body)})
}

func principal(runID string) string { return "run:" + runID }

// replay answers a key that is taken, or returns nil for a fresh one.
func (g *Gateway) replay(ctx context.Context, c *claim) (*Operation, error) {
	record, err := g.Ledger.Record(ctx, g.Workspace, principal(c.RunID), c.Key)
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case record.Fingerprint != c.fingerprint:
		return nil, g.refuse(ctx, c, &authority.Denial{Reason: authority.IdempotencyConflict, Detail: "The idempotency key was used for another request; use a fresh one."})
	}
	out, err := g.outcome(ctx, record.Object, c.RunID, record.Sequence)
	if out != nil {
		out.Replayed = true
	}
	return out, err
}

// refuse records a refusal that was found outside a decision.
func (g *Gateway) refuse(ctx context.Context, c *claim, denial *authority.Denial) error {
	err := g.decide(ctx, c.RunID, func(a *attempt) error {
		a.Refuse(c.permitID, denial.Reason, canon.Hash(c.Body))
		return denial
	})
	return err
}

// claim decides the claim and prepares the one commit that stores it with its
// intent and its idempotency record.
func (g *Gateway) claim(ctx context.Context, a *attempt, c *claim) error {
	c.replayed, c.executionID = false, ""
	if c.Generation != a.State().Session.Generation {
		return identity.ErrUnauthenticated
	}
	// The key may have been taken between the look-up and a lost race.
	if _, err := g.Ledger.Record(ctx, g.Workspace, principal(c.RunID), c.Key); !isNotFound(err) {
		c.replayed = err == nil
		return err
	}
	request, denial, err := g.claimRequest(ctx, a, c)
	if err != nil {
		return err
	}
	if denial == nil {
		s := a.State()
		if s.Permit != nil {
			c.permit = *s.Permit
		}
		c.entry, denial = a.Claim(request)
	}
	if denial != nil {
		a.Refuse(c.permitID, denial.Reason, canon.Hash(c.Body))
		return denial
	}
	s := a.State()
	c.executionID, c.sequence, c.claimedAt, c.state = s.Execution.ID, s.Execution.Sequence, a.Now(), s
	c.end = authorityEnd(s, c)
	a.change.Record = &ledger.Record{
		Workspace: g.Workspace, Principal: principal(c.RunID), Key: c.Key, Fingerprint: c.fingerprint,
		Subject: g.runKey(c.RunID), Object: c.executionID, Sequence: c.sequence,
	}
	return nil
}

// authorityEnd is when the grant and, for a commit, the proposal end.
func authorityEnd(s *run.State, c *claim) evidence.Time {
	end := c.claimedAt.Add(30 * time.Second)
	for _, grant := range s.Grants {
		if grant.ID == c.permit.Bindings.GrantID {
			end = min(end, grant.ExpiresAt)
		}
	}
	if s.Proposal != nil && c.permit.Class == run.ClassCommit {
		end = min(end, s.Proposal.ExpiresAt)
	}
	return end
}

func (g *Gateway) claimRequest(ctx context.Context, a *attempt, c *claim) (run.ClaimRequest, *authority.Denial, error) {
	r := run.ClaimRequest{PermitID: c.permitID, Action: c.action, ExecutionID: a.NewID(), Holder: g.Ledger.Holder()}
	if c.Token != "" && !c.genuine {
		return r, &authority.Denial{Reason: authority.PermitMismatch, Detail: "This is no permit of this run."}, nil
	}
	seen, err := g.catalog(ctx, a.State())
	if err != nil {
		return r, nil, err
	}
	r.Catalog = seen.Catalog
	if c.permitID != "" {
		fate, err := g.Ledger.Fate(ctx, g.Workspace, c.permitID)
		switch {
		case err == nil:
			r.Fate = &run.Fate{PermitID: fate.PermitID, Fate: fate.Fate, Cause: fate.Cause, ExecutionID: fate.Execution}
		case !isNotFound(err):
			return r, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	r.Dispatch = func(e *run.Entry, p *run.Permit) (*run.Dispatch, *authority.Denial) {
		request, err := g.services[a.State().Config.Service].(Hosted).Request(promise(e))
		if err != nil || a.State().Hosted == nil {
			return nil, &authority.Denial{Reason: authority.HostedUnreachable, Detail: "The operation cannot be sent to the store."}
		}
		return g.dispatchFor(a.State(), a.State().Hosted.ID, request), nil
	}
	return r, nil, nil
}

func promise(e *run.Entry) service.Promise {
	return service.Promise{Operation: e.OperationID, Args: e.Args, Postconditions: e.Effect.Postconditions}
}

// attempt carries a claimed action out and records its outcome.
func (g *Gateway) attempt(ctx context.Context, c *claim) error {
	switch {
	case c.state.Config.Target != run.TargetHosted:
		return g.executeLocal(ctx, c)
	case c.permit.Class == run.ClassRead:
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
	return g.recordOutcome(ctx, c.RunID, func(a *attempt) error {
		if reason := g.lapsed(a, c); reason != "" {
			return denied(a.Void(c.executionID, "recheck", reason))
		}
		local, _, err := g.Ledger.Load(ctx, g.serviceKey(c.RunID))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		effect, err := svc.Execute(local.State, promise(c.entry), a.NewID)
		if err != nil {
			return err
		}
		outcome := run.Outcome{Kind: run.ReceiptLocal, Result: run.ResultApplied, OrderID: effect.OrderID, BodySHA256: viewHash(effect.View)}
		if effect.Refused != "" {
			outcome.Result, outcome.Cause = run.ResultRefused, "refused"
		}
		if denial := a.Receive(c.executionID, outcome); denial != nil {
			return denial
		}
		g.measure(a, c, start)
		if effect.Refused != "" {
			a.change.Guards = append(a.change.Guards, ledger.Guard{Key: local.Key, Revision: local.Revision})
			return nil
		}
		a.change.Writes = append(a.change.Writes, ledger.Write{Key: local.Key, Revision: local.Revision, Head: local.Head, State: effect.State})
		if a.State().Terminal() {
			return nil
		}
		sighting, err := svc.SeeLocal(effect.State, effect.View)
		if err != nil {
			return err
		}
		sighting.CapturedAt = a.Now()
		return g.record(a, svc, sighting)
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

func (g *Gateway) measure(a *attempt, c *claim, start time.Time) {
	micros := time.Since(start).Microseconds()
	a.Measure(run.Metrics{TurnID: &c.permit.Bindings.TurnID, ExecutionID: &c.executionID, ExecutionMicros: &micros})
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
	body, status, readErr := g.read(ctx, c.state, request)
	g.Fault("after-send")
	err = g.recordOutcome(ctx, c.RunID, func(a *attempt) error {
		if readErr != nil {
			return denied(a.NotApplied(c.executionID, "read_failed"))
		}
		g.measure(a, c, start)
		return denied(a.Receive(c.executionID, run.Outcome{Kind: run.ReceiptRead, Result: run.ResultApplied, Status: int64(status), BodySHA256: canon.Hash(body)}))
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
	permit := g.permitFor(c.state.Execution.Dispatch, c.executionID, c.permit.ID, c.permit.EffectDigest, c.claimedAt, c.end)
	got := g.send(ctx, c.state, permit, request, c.window)
	g.Fault("before-receipt")
	err = g.recordOutcome(ctx, c.RunID, func(a *attempt) error {
		switch {
		case got.unsent:
			return denied(a.Void(c.executionID, got.cause, authority.HostedUnreachable))
		case got.receipt == nil || !amountAgrees(got.receipt, &c.permit):
			return denied(a.Unconfirmed(c.executionID, got.why()))
		}
		g.measure(a, c, start)
		return denied(a.Receive(c.executionID, hostedOutcome(got)))
	})
	g.Fault("after-receipt")
	if err != nil && got.receipt != nil {
		g.Log.Error("a store's receipt could not be recorded", "run", c.RunID, "execution", c.executionID, "receipt", got.jws, "error", err)
	}
	if err != nil || got.receipt == nil || got.receipt.Result != dispatch.Applied {
		return err
	}
	g.verify(ctx, c, nil)
	return nil
}

// why says why an answer decides nothing.
func (a answer) why() string {
	if a.cause == "" {
		return "unverifiable_answer"
	}
	return a.cause
}

// amountAgrees reports whether the store charged what was permitted: a commit
// its amount, anything else nothing.
func amountAgrees(r *dispatch.Receipt, p *run.Permit) bool {
	switch {
	case r.Result != dispatch.Applied:
		return true
	case p.Class == run.ClassCommit:
		return r.AmountCents != nil && *r.AmountCents == p.AmountCents.String()
	}
	return r.AmountCents == nil || *r.AmountCents == "0"
}

func hostedOutcome(a answer) run.Outcome {
	o := run.Outcome{
		Kind: run.ReceiptHosted, Result: run.ResultRefused, Status: int64(a.http.Status), BodySHA256: canon.Hash(a.http.Body),
		Receipt: a.jws, ObservedBy: "response", Cause: "refused",
	}
	if a.receipt.Result == dispatch.Applied {
		o.Result, o.OrderID, o.Cause = run.ResultApplied, a.receipt.OrderID, ""
	}
	return o
}

// withhold tests the authority once more just before bytes leave (H-044). When it
// has lapsed, or cannot be tested, the intent is voided and nothing is sent.
func (g *Gateway) withhold(ctx context.Context, c *claim) (bool, error) {
	a, err := g.begin(ctx, c.RunID)
	if err != nil {
		g.Log.Warn("a dispatch cannot be rechecked", "run", c.RunID, "execution", c.executionID, "error", err)
		return true, g.void(ctx, c, "recheck", authority.ExecutionNotApplied)
	}
	if x := a.State().Execution; x == nil || x.ID != c.executionID || x.State != run.ExecutionDispatched {
		return true, nil // settled meanwhile; the chain says how
	}
	if reason := g.lapsed(a, c); reason != "" {
		return true, g.void(ctx, c, "recheck", reason)
	}
	if c.window = g.sendWindow() - a.Now().Sub(c.claimedAt); c.window <= 0 {
		return true, g.void(ctx, c, "late", authority.ExecutionNotApplied)
	}
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
	return g.recordOutcome(ctx, c.RunID, func(a *attempt) error {
		if x := a.State().Execution; x == nil || x.ID != c.executionID || x.State != run.ExecutionDispatched {
			return nil
		}
		return denied(a.Void(c.executionID, cause, reason))
	})
}

// recordOutcome stores what became of an execution. An effect may stand behind
// it, so it tries on while the ledger refuses, until the lease has ended.
func (g *Gateway) recordOutcome(ctx context.Context, runID string, f func(*attempt) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.LeaseLife)
	defer cancel()
	wait := 5 * time.Millisecond
	for {
		err := g.decide(ctx, runID, f)
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
		x := a.State().Execution
		if a.State().Terminal() || x == nil || x.ID != c.executionID || x.State != run.ExecutionReceipted {
			return nil
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
