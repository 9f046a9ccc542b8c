package dispatch

import (
	"errors"
	"net/http"
	"time"
)

// Headers of the wire.
const (
	PermitHeader  = "Countersign-Permit"  // of a request
	ReceiptHeader = "Countersign-Receipt" // of an answer
)

// Reason says which check a permit failed. Reasons are append-only.
type Reason string

// Reasons, in the order of the checks. The first that fails decides.
const (
	Missing         Reason = "missing"       // no permit; the only one that answers 401
	Malformed       Reason = "malformed"     // not the one accepted form, or more than one
	UnknownKey      Reason = "unknown_key"   // kid names no trusted key
	BadSignature    Reason = "signature"     //
	KeyExpired      Reason = "key_expired"   // the key's notAfter has passed
	WrongAudience   Reason = "audience"      // aud is another shop
	WrongLifetime   Reason = "lifetime"      // exp - iat is over MaxLifetime, or negative
	NotYetValid     Reason = "not_yet_valid" // iat is ahead by more than MaxSkew
	Expired         Reason = "expired"       // now >= exp
	WrongMethod     Reason = "method"        // htm
	WrongTarget     Reason = "target"        // htu, or the request has a query
	WrongBody       Reason = "body"          // bh
	SessionMismatch Reason = "session"       // sid; checked by the shop, who knows its sessions
)

// PermitError says that a request has no valid permit. Nothing happened.
type PermitError struct{ Reason Reason }

func (e *PermitError) Error() string { return "dispatch: permit refused: " + string(e.Reason) }

// Verifier checks permits for one shop. It is safe for concurrent use as long as
// its fields are not changed.
type Verifier struct {
	Origin string           // the shop's configured origin, such as https://shop.example
	Keys   []TrustedKey     // of the control plane's dispatch.pub
	Now    func() time.Time // nil: time.Now

	without Reason // a check that tests leave out, to see that it is the one that protects
}

// Verify checks the permit in r's header against the request and its exact body
// bytes. The target is compared with Origin, never with r.Host. The error is a
// *[PermitError]. A verified permit is not spent yet: see [Ledger.Spend].
func (v *Verifier) Verify(r *http.Request, body []byte) (Permit, error) {
	values := r.Header.Values(PermitHeader)
	if len(values) == 0 {
		return Permit{}, &PermitError{Missing}
	}
	if len(values) > 1 && v.without != Malformed {
		return Permit{}, &PermitError{Malformed}
	}
	p, key, err := openPermit(values[0], v.Keys, v.without)
	if err != nil {
		return Permit{}, &PermitError{formReason(err)}
	}
	now := clock(v.Now)
	lifetime := p.ExpiresAt - p.IssuedAt
	for _, check := range []struct {
		reason Reason
		fails  bool
	}{
		{KeyExpired, !key.NotAfter.IsZero() && now.After(key.NotAfter)},
		{WrongAudience, p.Audience != v.Origin},
		{WrongLifetime, lifetime < 0 || lifetime > int64(MaxLifetime/time.Second)},
		{NotYetValid, time.Unix(p.IssuedAt, 0).After(now.Add(MaxSkew))},
		{Expired, p.expired(now)},
		{WrongMethod, p.Method != r.Method},
		{WrongTarget, p.Target != v.Origin+r.URL.EscapedPath() || r.URL.RawQuery != "" || r.URL.ForceQuery},
		{WrongBody, p.BodyHash != HashBody(body)},
	} {
		if check.fails && check.reason != v.without {
			return Permit{}, &PermitError{check.reason}
		}
	}
	return p, nil
}

func (p Permit) expired(now time.Time) bool { return !now.Before(time.Unix(p.ExpiresAt, 0)) }

func formReason(err error) Reason {
	switch {
	case errors.Is(err, errUnknownKey):
		return UnknownKey
	case errors.Is(err, errSignature):
		return BadSignature
	}
	return Malformed
}

func clock(now func() time.Time) time.Time {
	if now == nil {
		return time.Now()
	}
	return now()
}
