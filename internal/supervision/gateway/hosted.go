package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/proof"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// sealedSession is the name under which the store's session cookie rests,
// encrypted.
const sealedSession = "hosted-session"

// sessionEntry is the effect of opening a session at a store.
func sessionEntry(svc Service) *propose.Entry {
	return &propose.Entry{
		Kind: "service", OperationID: svc.Name() + ".session.open", Args: []byte("{}"), Transport: "service",
		Effect: propose.Effect{Class: propose.ClassPrepare, DisclosedFields: []string{}, Postconditions: []string{}},
	}
}

// dispatchFor names the signed request that a mutation will be.
func (g *Gateway) dispatchFor(s *run.State, sessionID string, r service.Request) *run.Dispatch {
	return &run.Dispatch{
		Audience: *s.StoreOrigin, SessionID: sessionID, Method: r.Method, URI: *s.StoreOrigin + r.Path,
		BodySHA256: dispatch.HashBody(r.Body), KeyID: g.Keys.Dispatch().ID,
	}
}

// permitFor is the dispatch permit of an intent (G-13). It is signed only after
// the intent is stored.
func (g *Gateway) permitFor(d *run.Dispatch, jti, stepPermit, effectDigest string, now, end evidence.Time) dispatch.Permit {
	iat := now.Time().Unix()
	return dispatch.Permit{
		Issuer: g.Issuer, Audience: d.Audience, IssuedAt: iat, ExpiresAt: min(iat+30, end.Time().Unix()), ID: jti, Session: d.SessionID,
		StepPermit: stepPermit, Method: d.Method, Target: d.URI, BodyHash: d.BodySHA256, EffectDigest: effectDigest,
	}
}

// answer is what a store said about one dispatch, as far as it can be believed.
type answer struct {
	receipt *dispatch.Receipt // nil: nothing that verifies
	jws     string
	http    dispatch.Answer
	unsent  bool   // no byte left
	cause   string // when there is no receipt
}

// late is the cause of an intent that was voided because its time to begin had
// passed.
const late = "late"

// stop is the reason for which a run stops whose intent was not sent.
func (a answer) stop() string {
	if a.cause == late {
		return authority.ExecutionNotApplied
	}
	return authority.HostedUnreachable
}

// send sends a mutation once and believes only a receipt that verifies. From
// notAfter on nothing begins to leave (L-3).
func (g *Gateway) send(ctx context.Context, s *run.State, p dispatch.Permit, r service.Request, notAfter time.Time) answer {
	token, err := p.Sign(g.Keys.Dispatch().Private)
	if err != nil {
		return answer{unsent: true, cause: "unsigned"}
	}
	cookie, err := g.cookie(ctx, s)
	if err != nil {
		return answer{unsent: true, cause: "session_unreadable"}
	}
	got, err := g.Sender.Send(ctx, dispatch.Request{Method: r.Method, URL: p.Target, Body: r.Body, Permit: token, Cookie: cookie, NotAfter: notAfter})
	g.Fault("after-send")
	switch {
	case errors.Is(err, dispatch.ErrLate):
		return answer{unsent: true, cause: late}
	case errors.Is(err, dispatch.ErrNotSent):
		return answer{unsent: true, cause: "unreachable"}
	case errors.Is(err, context.DeadlineExceeded):
		return answer{cause: "timeout"}
	case err != nil:
		return answer{cause: "disconnected"}
	}
	receipt, err := g.believe(s, p, got)
	if err != nil {
		reason, check := proof.Hint(got.Body)
		g.Log.Warn("a store's answer does not verify", "run", s.ID, "execution", p.ID, "status", got.Status, "error", err, "unverified_reason", reason, "unverified_check", check)
		return answer{cause: "unverifiable_answer", http: got}
	}
	return answer{receipt: receipt, jws: got.Receipt, http: got}
}

func (g *Gateway) believe(s *run.State, p dispatch.Permit, got dispatch.Answer) (*dispatch.Receipt, error) {
	receipt, err := g.receipt(s, p, got.Receipt)
	if err != nil {
		return nil, err
	}
	// A repeated permit is answered with the stored receipt and another body.
	if got.Status != http.StatusConflict && !g.Doors.Answer && receipt.AnswerHash != dispatch.HashBody(got.Body) {
		return nil, errors.New("gateway: the receipt is about another answer body")
	}
	return receipt, nil
}

// receipt reads a receipt that the run's store signed about the permit.
func (g *Gateway) receipt(s *run.State, p dispatch.Permit, token string) (*dispatch.Receipt, error) {
	pinned, err := proof.Pinned(s.StoreKeys)
	if err != nil {
		return nil, err
	}
	receipt, err := dispatch.ParseReceipt(token, pinned)
	if err != nil {
		return nil, err
	}
	if err := receipt.Answers(p); err != nil && !g.Doors.Receipt {
		return nil, err
	}
	return &receipt, nil
}

// cookie opens the store's session cookie; a run without one sends none.
func (g *Gateway) cookie(ctx context.Context, s *run.State) (string, error) {
	sealed, err := g.Ledger.SealedValue(ctx, g.Key(s.ID), sealedSession)
	if isNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	value, err := g.Keys.Open(s.ID+"/"+sealedSession, sealed)
	return string(value), err
}

// read sends one read of a store by session cookie alone, unless notAfter, if there
// is one, has passed.
func (g *Gateway) read(ctx context.Context, s *run.State, r service.Request, notAfter time.Time) ([]byte, int, error) {
	cookie, err := g.cookie(ctx, s)
	if err != nil {
		return nil, 0, err
	}
	got, err := g.Sender.Send(ctx, dispatch.Request{Method: r.Method, URL: *s.StoreOrigin + r.Path, Cookie: cookie, NotAfter: notAfter})
	if err != nil {
		return nil, 0, err
	}
	if got.Status != http.StatusOK {
		return nil, got.Status, fmt.Errorf("gateway: the store answered a read with %d", got.Status)
	}
	if err := canon.Check(got.Body); err != nil {
		return nil, got.Status, err
	}
	return got.Body, got.Status, nil
}

// seeHosted looks at the store. A failure stores nothing.
func (g *Gateway) seeHosted(ctx context.Context, s *run.State, svc Service, view *string) (decide.Sighting, error) {
	hosted := svc.(Hosted)
	var bodies [][]byte
	captured, err := g.now(ctx)
	if err != nil {
		return decide.Sighting{}, err
	}
	for _, r := range hosted.Reads(s.OrderID) {
		body, _, err := g.read(ctx, s, r, time.Time{})
		if err != nil {
			g.Log.Warn("a hosted store cannot be observed", "run", s.ID, "error", err)
			return decide.Sighting{}, &authority.Denial{Reason: authority.HostedUnreachable, Detail: "The store cannot be observed; try again."}
		}
		bodies = append(bodies, body)
	}
	sighting, err := hosted.SeeHosted(bodies, view)
	if err != nil {
		g.Log.Warn("a hosted store is not understood", "run", s.ID, "error", err)
		return decide.Sighting{}, &authority.Denial{Reason: authority.HostedUnreachable, Detail: "The store's answers are not understood."}
	}
	sighting.CapturedAt = captured
	return sighting, nil
}

// now is the ledger's time.
func (g *Gateway) now(ctx context.Context) (evidence.Time, error) {
	now, err := g.Ledger.Now(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return evidence.TimeOf(now), nil
}

func isNotFound(err error) bool { return errors.Is(err, ledger.ErrNotFound) }
