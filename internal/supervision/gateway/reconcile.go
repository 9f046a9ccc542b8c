package gateway

import (
	"context"
	"net/http"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/proof"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
)

// PointProbed is a fail point beside [Points]: the store was asked, and its answer is
// not recorded.
const PointProbed = "after-probe"

// Probe finds out what became of an execution whose effect is unconfirmed or rests on
// an owner's statement (L-4): the store is asked to close its dispatch, and what it
// answers is recorded. Applied is then verified like any receipt, and the run may
// complete. An answer without a receipt changes nothing; when none came back, that is
// recorded and denied with HOSTED_UNREACHABLE.
//
// Nothing is recorded before the store is asked, unlike before a dispatch: closing has
// no effect but that the dispatch can have none any more, and every repetition returns
// the receipt that is stored. So a look-up whose answer got lost is made again, and
// there is no unknown outcome that an intent would have to witness.
//
// As in Operate, a caller that hangs up changes nothing. A freeze does not forbid it.
func (g *Gateway) Probe(ctx context.Context, id, executionID string) error {
	ctx = g.outliving(ctx)
	a, err := g.begin(ctx, id)
	if err != nil {
		return err
	}
	x, denial := a.InDoubt(executionID)
	if denial != nil {
		return denial
	}
	look, err := g.ask(ctx, a, x)
	if err != nil {
		return err
	}
	if err := g.decide(ctx, id, func(a *attempt) error { return denied(a.Deciding.Probe(executionID, look)) }); err != nil {
		return err
	}
	g.looked(ctx, id, executionID, look)
	if look.Answer == state.AnswerUnreachable {
		return &authority.Denial{Reason: authority.HostedUnreachable, Detail: "The store did not answer; nothing is known yet. Probe again when it does."}
	}
	return nil
}

// Reconcile records what an owner states about an execution (G-14). That a hosted one
// was not applied is stated only after the store was asked as in [Gateway.Probe]: a
// receipt stands in place of the statement, and without one the statement waits until
// the dispatch permit has long expired.
func (g *Gateway) Reconcile(ctx context.Context, id string, r decide.Statement) error {
	ctx = g.outliving(ctx)
	a, err := g.begin(ctx, id)
	if err != nil {
		return err
	}
	asks, denial := a.CanReconcile(r)
	if denial != nil {
		return denial
	}
	var look decide.Look
	if asks != nil && !g.Doors.Statement {
		if look, err = g.ask(ctx, a, asks); err != nil {
			return err
		}
	}
	err = g.decide(ctx, id, func(a *attempt) error {
		if look.Answer != "" {
			if denial := a.Deciding.Probe(r.ExecutionID, look); denial != nil || look.Answer == state.AnswerReceipt {
				return denied(denial)
			}
		}
		return denied(a.Deciding.Reconcile(r))
	})
	if err == nil {
		g.looked(ctx, id, r.ExecutionID, look)
	}
	return err
}

// ask asks the store to close the dispatch of x. A local service has nothing to close.
func (g *Gateway) ask(ctx context.Context, a *attempt, x *run.Execution) (decide.Look, error) {
	look := decide.Look{ProbeID: a.NewID(), Answer: state.AnswerNotSeen}
	if x.Dispatch == nil {
		return look, nil
	}
	now, err := g.now(ctx)
	if err != nil {
		return look, err
	}
	body, end := dispatch.CloseBody(x.ID), now.Add(30*time.Second)
	closing := *x.Dispatch
	closing.Method, closing.URI, closing.BodySHA256 = http.MethodPost, closing.Audience+dispatch.ClosePath, dispatch.HashBody(body)
	permit := g.link.Permit(&closing, look.ProbeID, x.PermitID, x.EffectDigest, now, end)
	token, err := permit.Sign(g.Keys.Dispatch().Private)
	if err != nil {
		return look, err
	}
	ctx, cancel := context.WithTimeout(ctx, run.DispatchLife)
	defer cancel()
	got, err := g.Sender.Send(ctx, dispatch.Request{Method: closing.Method, URL: closing.URI, Body: body, Permit: token})
	g.Fault(PointProbed)
	if err != nil {
		g.Log.Warn("a store does not answer a probe", "run", a.State().ID, "execution", x.ID, "error", err)
		look.Answer = state.AnswerUnreachable
		return look, nil
	}
	return g.hear(look.ProbeID, a.State(), x, got, now, end), nil
}

// hear takes an answer to a probe for what it proves. Only a receipt proves anything;
// the rest is the store's word, and changes nothing.
func (g *Gateway) hear(probeID string, s *run.State, x *run.Execution, got dispatch.Answer, now, end evidence.Time) decide.Look {
	asked := g.link.Permit(x.Dispatch, x.ID, x.PermitID, x.EffectDigest, now, end)
	receipt, err := g.link.Receipt(s, asked, got.Receipt)
	look := proof.Look(probeID, x, receipt, got)
	if look.Answer != state.AnswerReceipt {
		reason, check := proof.Hint(got.Body)
		g.Log.Warn("a store's answer to a probe decides nothing", "run", s.ID, "execution", x.ID, "status", got.Status, "error", err, "unverified_reason", reason, "unverified_check", check)
	}
	return look
}

// looked verifies an execution that a look-up found applied. When the service cannot
// be seen now, the next observation verifies it.
func (g *Gateway) looked(ctx context.Context, id, executionID string, look decide.Look) {
	if look.Answer == state.AnswerReceipt && look.Outcome.Result == run.ResultApplied {
		g.verify(ctx, &claim{OperateRequest: OperateRequest{RunID: id}, executionID: executionID}, nil)
	}
}
