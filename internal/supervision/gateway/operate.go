package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/supervision/ask"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// OperateRequest is one POST /operation.
type OperateRequest struct {
	RunID string
	// Generation is that of the credential that authenticated the caller. A claim
	// holds it against the run once more, so that a token which was rotated
	// meanwhile claims nothing. 0 stands for a run that has no session yet.
	Generation int64
	Managed    bool   // a managed attempt asks, which has no credential
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
func (g *Gateway) Operate(ctx context.Context, r OperateRequest) (*records.Operation, error) {
	if !goodKey(r.Key) {
		return nil, &authority.Denial{Reason: authority.InvalidRequest, Detail: "header.x-idempotency-key: want 16 to 160 characters out of A-Z a-z 0-9 - _ . ~, fresh for each operation"}
	}
	action, err := propose.ParseOperation(r.Body)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	ctx = g.outliving(ctx)
	c := &claim{OperateRequest: r, action: action}
	if r.Token != "" {
		c.permitID, c.genuine = g.Keys.StepPermitID(r.RunID, r.Token)
	}
	c.fingerprint = fingerprint(c)
	if err := g.carry(ctx, c); err != nil {
		return nil, err
	}
	if c.taken != nil {
		out, err := g.Outcome(ctx, c.taken.Object, r.RunID, c.taken.Sequence, nil)
		if out != nil {
			out.Replayed = true
		}
		return out, err
	}
	return g.Outcome(ctx, c.executionID, r.RunID, c.sequence, c.events)
}

// outliving is ctx without its end: whoever hangs up changes nothing.
func (g *Gateway) outliving(ctx context.Context) context.Context {
	if g.Doors.Caller {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// carry claims the permit and carries the action out.
func (g *Gateway) carry(ctx context.Context, c *claim) error {
	ctx, cancel := context.WithTimeout(ctx, run.DispatchLife)
	defer cancel()
	err := g.decide(ctx, c.RunID, func(a *attempt) error { return g.claim(ctx, a, c) })
	if authority.Denied(err, authority.Frozen) {
		return g.refuse(ctx, c, err)
	}
	if errors.Is(err, ErrUnknown) {
		// An intent may be stored, now or a little later. Nothing was sent, and
		// nothing will be.
		if c.executionID != "" && !g.abandon(ctx, c) {
			go g.abandonLater(context.WithoutCancel(ctx), c)
		}
		return err
	}
	if err != nil || c.taken != nil {
		return err
	}
	g.Fault("after-intent")
	return g.attempt(ctx, c)
}

// abandon voids an intent of unknown fate and reports whether it was there.
func (g *Gateway) abandon(ctx context.Context, c *claim) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	found := false
	err := ask.Safely(func() error {
		return g.decide(ctx, c.RunID, func(a *attempt) (err error) {
			found, err = c.void(a, "recheck", authority.ExecutionNotApplied)
			return err
		})
	})
	if err != nil {
		g.Log.Warn("an intent of unknown fate could not be voided", "run", c.RunID, "error", err)
	}
	return found && err == nil
}

// abandonLater looks for the intent until no commit that was under way can store it
// any more. Without it a late one would become an unknown outcome with its lease,
// though nothing was sent.
func (g *Gateway) abandonLater(ctx context.Context, c *claim) {
	ctx, cancel := context.WithTimeout(ctx, abandonFor)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !g.abandon(ctx, c) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// abandonFor is longer than a claim may wait for its commit ([run.DispatchLife]) and
// an engine lets that take.
const abandonFor = 15 * time.Second

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
	action      *propose.Action
	permitID    string
	genuine     bool // the token is one of this run
	fingerprint string
	taken       *ledger.Record // of the same request, sent before
	executionID string
	sequence    int64 // of execution.dispatched
	entry       *propose.Entry
	permit      run.Permit
	claimedAt   evidence.Time
	notAfter    time.Time        // when it is too late to begin sending
	end         evidence.Time    // of the authority that the dispatch rests on
	state       *run.State       // as stored with the intent
	events      []evidence.Event // that this attempt has stored, from the claim on
}

// keep takes what was stored for the answer.
func (c *claim) keep(events []evidence.Event) { c.events = append(c.events, events...) }

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

// lookUp finds the record of a key that is taken. A key that another request has
// taken is a conflict.
func (g *Gateway) lookUp(ctx context.Context, a *attempt, c *claim) error {
	record, err := g.Ledger.Record(ctx, g.Workspace, principal(c.RunID), c.Key)
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case record.Fingerprint != c.fingerprint:
		a.Refuse(c.permitID, authority.IdempotencyConflict, canon.Hash(c.Body))
		return &authority.Denial{Reason: authority.IdempotencyConflict, Detail: "The idempotency key was used for another request; use a fresh one."}
	}
	c.taken = &record
	return nil
}

// refuse records that a freeze has refused the claim, and stops the run for it; a
// managed attempt stops its run itself.
func (g *Gateway) refuse(ctx context.Context, c *claim, frozen error) error {
	return g.decide(ctx, c.RunID, func(a *attempt) error {
		a.Refuse(c.permitID, authority.Frozen, canon.Hash(c.Body))
		if !c.Managed {
			if err := g.freeze(ctx, a); err != nil {
				return err
			}
		}
		return frozen
	})
}

// claim decides the claim and prepares the one commit that stores it with its
// intent and its idempotency record.
func (g *Gateway) claim(ctx context.Context, a *attempt, c *claim) error {
	c.taken, c.executionID = nil, ""
	if err := g.lookUp(ctx, a, c); err != nil || c.taken != nil {
		return err
	}
	if !c.Managed && c.Generation != a.State().Session.Generation && !g.Doors.Generation {
		return identity.ErrUnauthenticated
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
	c.events, a.stored = nil, c.keep
	a.change.Record = &ledger.Record{
		Workspace: g.Workspace, Principal: principal(c.RunID), Key: c.Key, Fingerprint: c.fingerprint,
		Subject: g.Key(c.RunID), Object: c.executionID, Sequence: c.sequence,
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
	if s.Proposal != nil && c.permit.Class == propose.ClassCommit {
		end = min(end, s.Proposal.ExpiresAt)
	}
	return end
}

func (g *Gateway) claimRequest(ctx context.Context, a *attempt, c *claim) (decide.ClaimRequest, *authority.Denial, error) {
	r := decide.ClaimRequest{PermitID: c.permitID, Action: c.action, ExecutionID: a.NewID(), Holder: g.Ledger.Holder(), FreezeEpoch: a.epoch}
	if c.Token != "" && !c.genuine {
		return r, &authority.Denial{Reason: authority.PermitMismatch, Detail: "This is no permit of this run."}, nil
	}
	seen, err := g.Catalog(ctx, a.State())
	if err != nil {
		return r, nil, err
	}
	r.Catalog = seen.Catalog
	if p := a.State().Permit; c.permitID != "" && (p == nil || p.ID != c.permitID) {
		fate, err := g.Ledger.Fate(ctx, g.Workspace, c.permitID)
		switch {
		case err == nil:
			r.Fate = &decide.Fate{PermitID: fate.PermitID, Fate: fate.Fate, Cause: fate.Cause, ExecutionID: fate.Execution}
		case !isNotFound(err):
			return r, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	r.Dispatch = func(e *propose.Entry, p *run.Permit) (*run.Dispatch, *authority.Denial) {
		request, err := g.services[a.State().Config.Service].(Hosted).Request(promise(e))
		if err != nil || a.State().Hosted == nil {
			return nil, &authority.Denial{Reason: authority.HostedUnreachable, Detail: "The operation cannot be sent to the store."}
		}
		return g.link.Dispatch(a.State(), a.State().Hosted.ID, request), nil
	}
	return r, nil, nil
}

func promise(e *propose.Entry) service.Promise {
	return service.Promise{Operation: e.OperationID, Args: e.Args, Postconditions: e.Effect.Postconditions}
}
