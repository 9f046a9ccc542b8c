// Package hosted is the control plane's side of the wire to a hosted store: dispatch
// permits, requests that are sent once, receipts that verify, reads by the session cookie
// alone (design 4). It decides nothing and stores nothing; what an answer means for a run
// is the gateway's to record.
package hosted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/proof"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// SealedSession is the name under which the store's session cookie rests, encrypted.
const SealedSession = "hosted-session"

// Sender sends one request to a store, once.
type Sender interface {
	Send(context.Context, dispatch.Request) (dispatch.Answer, error)
}

// Link speaks with the stores of runs. It is safe for concurrent use.
type Link struct {
	Issuer string
	Keys   *keys.Keys
	Sender Sender
	Log    *slog.Logger
	// Sealed returns the sealed cookie of a run, or [ledger.ErrNotFound].
	Sealed func(ctx context.Context, runID string) ([]byte, error)

	Sent  func()       // called when a mutation's answer is there, or its failure
	Doors decide.Doors // for tests
}

// Dispatch names the signed request that a mutation will be.
func (l *Link) Dispatch(s *run.State, sessionID string, r service.Request) *run.Dispatch {
	return &run.Dispatch{
		Audience: *s.StoreOrigin, SessionID: sessionID, Method: r.Method, URI: *s.StoreOrigin + r.Path,
		BodySHA256: dispatch.HashBody(r.Body), KeyID: l.Keys.Dispatch().ID,
	}
}

// Permit is the dispatch permit of an intent (G-13). It is signed only after
// the intent is stored.
func (l *Link) Permit(d *run.Dispatch, jti, stepPermit, effectDigest string, now, end evidence.Time) dispatch.Permit {
	iat := now.Time().Unix()
	return dispatch.Permit{
		Issuer: l.Issuer, Audience: d.Audience, IssuedAt: iat, ExpiresAt: min(iat+30, end.Time().Unix()), ID: jti, Session: d.SessionID,
		StepPermit: stepPermit, Method: d.Method, Target: d.URI, BodyHash: d.BodySHA256, EffectDigest: effectDigest,
	}
}

// Answer is what a store said about one dispatch, as far as it can be believed.
type Answer struct {
	Receipt *dispatch.Receipt // nil: nothing that verifies
	JWS     string
	HTTP    dispatch.Answer
	Unsent  bool   // no byte left
	Cause   string // when there is no receipt
}

// Late is the cause of an intent that was voided because its time to begin had
// passed.
const Late = "late"

// Stop is the reason for which a run stops whose intent was not sent.
func (a Answer) Stop() string {
	if a.Cause == Late {
		return authority.ExecutionNotApplied
	}
	return authority.HostedUnreachable
}

// Why says why an answer decides nothing.
func (a Answer) Why() string { return cmp.Or(a.Cause, "unverifiable_answer") }

// Send sends a mutation once and believes only a receipt that verifies. From
// notAfter on nothing begins to leave (L-3).
func (l *Link) Send(ctx context.Context, s *run.State, p dispatch.Permit, r service.Request, notAfter time.Time) Answer {
	token, err := p.Sign(l.Keys.Dispatch().Private)
	if err != nil {
		return Answer{Unsent: true, Cause: "unsigned"}
	}
	cookie, err := l.cookie(ctx, s)
	if err != nil {
		return Answer{Unsent: true, Cause: "session_unreadable"}
	}
	got, err := l.Sender.Send(ctx, dispatch.Request{Method: r.Method, URL: p.Target, Body: r.Body, Permit: token, Cookie: cookie, NotAfter: notAfter})
	l.Sent()
	switch {
	case errors.Is(err, dispatch.ErrLate):
		return Answer{Unsent: true, Cause: Late}
	case errors.Is(err, dispatch.ErrNotSent):
		return Answer{Unsent: true, Cause: "unreachable"}
	case errors.Is(err, context.DeadlineExceeded):
		return Answer{Cause: "timeout"}
	case err != nil:
		return Answer{Cause: "disconnected"}
	}
	receipt, err := l.believe(s, p, got)
	if err != nil {
		reason, check := proof.Hint(got.Body)
		l.Log.Warn("a store's answer does not verify", "run", s.ID, "execution", p.ID, "status", got.Status, "error", err, "unverified_reason", reason, "unverified_check", check)
		return Answer{Cause: "unverifiable_answer", HTTP: got}
	}
	return Answer{Receipt: receipt, JWS: got.Receipt, HTTP: got}
}

func (l *Link) believe(s *run.State, p dispatch.Permit, got dispatch.Answer) (*dispatch.Receipt, error) {
	receipt, err := l.Receipt(s, p, got.Receipt)
	if err != nil {
		return nil, err
	}
	// A repeated permit is answered with the stored receipt and another body.
	if got.Status != http.StatusConflict && !l.Doors.Answer && receipt.AnswerHash != dispatch.HashBody(got.Body) {
		return nil, errors.New("hosted: the receipt is about another answer body")
	}
	return receipt, nil
}

// Receipt reads a receipt that the run's store signed about the permit.
func (l *Link) Receipt(s *run.State, p dispatch.Permit, token string) (*dispatch.Receipt, error) {
	pinned, err := proof.Pinned(s.StoreKeys)
	if err != nil {
		return nil, err
	}
	receipt, err := dispatch.ParseReceipt(token, pinned)
	if err != nil {
		return nil, err
	}
	if err := receipt.Answers(p); err != nil && !l.Doors.Receipt {
		return nil, err
	}
	return &receipt, nil
}

// cookie opens the store's session cookie; a run without one sends none.
func (l *Link) cookie(ctx context.Context, s *run.State) (string, error) {
	sealed, err := l.Sealed(ctx, s.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	value, err := l.Keys.Open(s.ID+"/"+SealedSession, sealed)
	return string(value), err
}

// Read sends one read of a store by session cookie alone, unless notAfter, if there
// is one, has passed.
func (l *Link) Read(ctx context.Context, s *run.State, r service.Request, notAfter time.Time) ([]byte, int, error) {
	cookie, err := l.cookie(ctx, s)
	if err != nil {
		return nil, 0, err
	}
	got, err := l.Sender.Send(ctx, dispatch.Request{Method: r.Method, URL: *s.StoreOrigin + r.Path, Cookie: cookie, NotAfter: notAfter})
	if err != nil {
		return nil, 0, err
	}
	if got.Status != http.StatusOK {
		return nil, got.Status, fmt.Errorf("hosted: the store answered a read with %d", got.Status)
	}
	if err := canon.Check(got.Body); err != nil {
		return nil, got.Status, err
	}
	return got.Body, got.Status, nil
}
