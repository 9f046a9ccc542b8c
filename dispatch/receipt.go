package dispatch

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"countersign/internal/canon"
)

// Result is what became of a permit at the shop.
type Result string

// Results.
const (
	Applied Result = "applied" // the effect is there
	Refused Result = "refused" // the shop said no; nothing changed but the ledger row
	Closed  Result = "closed"  // never arrived, and can have no effect any more
)

// Receipt is the shop's signed word about one permit. All members are always
// present; orderId and amountCents are null where there is none.
type Receipt struct {
	Issuer       string  `json:"iss"` // the shop's origin
	Audience     string  `json:"aud"` // the permit's issuer
	ID           string  `json:"jti"` // of the permit that the receipt is about
	StepPermit   string  `json:"pid"`
	Session      string  `json:"sid"`
	EffectDigest string  `json:"ed"`
	BodyHash     string  `json:"bh"`          // of the request
	AnswerHash   string  `json:"rh"`          // HashBody of the first answer's body
	Operation    string  `json:"operation"`   // such as "POST /api/orders"
	OrderID      *string `json:"orderId"`     // null without an order
	AmountCents  *string `json:"amountCents"` // charged, cents as a decimal string; null without a charge
	Result       Result  `json:"result"`
	IssuedAt     int64   `json:"iat"` // Unix seconds, rounded down
}

// Sign returns the receipt as a compact JWS.
func (r Receipt) Sign(key ed25519.PrivateKey) (string, error) {
	if err := r.check(); err != nil {
		return "", fmt.Errorf("dispatch: receipt: %w", err)
	}
	payload, err := canon.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("dispatch: receipt: %w", err)
	}
	return seal(receiptType, key, payload), nil
}

func (r Receipt) check() error {
	switch {
	case !isName(r.Issuer):
		return fmt.Errorf("%w: iss", errForm)
	case !isName(r.Audience):
		return fmt.Errorf("%w: aud", errForm)
	case !isID(r.ID):
		return fmt.Errorf("%w: jti", errForm)
	case !isID(r.StepPermit):
		return fmt.Errorf("%w: pid", errForm)
	case !isID(r.Session):
		return fmt.Errorf("%w: sid", errForm)
	case !canon.IsHash(r.EffectDigest):
		return fmt.Errorf("%w: ed", errForm)
	case !isBodyHash(r.BodyHash):
		return fmt.Errorf("%w: bh", errForm)
	case !isBodyHash(r.AnswerHash):
		return fmt.Errorf("%w: rh", errForm)
	case !isName(r.Operation):
		return fmt.Errorf("%w: operation", errForm)
	case r.OrderID != nil && !isID(*r.OrderID):
		return fmt.Errorf("%w: orderId", errForm)
	case r.AmountCents != nil && !isCents(*r.AmountCents):
		return fmt.Errorf("%w: amountCents", errForm)
	case r.Result != Applied && r.Result != Refused && r.Result != Closed:
		return fmt.Errorf("%w: result", errForm)
	case r.Result != Applied && (r.OrderID != nil || r.AmountCents != nil):
		return fmt.Errorf("%w: orderId or amountCents without an effect", errForm)
	}
	return nil
}

// ParseReceipt returns the receipt of a token that has the one accepted form and
// is signed with one of keys before that key's end. Whether it is about a given
// permit is for [Receipt.Answers] to say.
func ParseReceipt(token string, keys []TrustedKey) (Receipt, error) {
	payload, key, err := open(receiptType, token, keys, "")
	if err != nil {
		return Receipt{}, err
	}
	var r Receipt
	if decodeExact(payload, &r) != nil {
		return Receipt{}, errForm
	}
	if err := r.check(); err != nil {
		return Receipt{}, err
	}
	if !key.NotAfter.IsZero() && time.Unix(r.IssuedAt, 0).After(key.NotAfter) {
		return Receipt{}, fmt.Errorf("dispatch: the receipt is later than its key's notAfter")
	}
	return r, nil
}

// Answers returns nil when r is about p and nothing else, and an error that names
// the first member that differs. A closed receipt answers the permit in doubt,
// not the probe; its body hash and operation are the probe's.
//
// It does not look at an answer's body: only the first answer to p has the body
// that AnswerHash is of (compare with [HashBody]); a 409 and a probe bring the
// stored receipt without that body.
func (r Receipt) Answers(p Permit) error {
	bodyHash, operation := p.BodyHash, p.Operation()
	if r.Result == Closed {
		bodyHash, operation = HashBody(CloseBody(p.ID)), "POST "+ClosePath
	}
	for _, c := range []struct{ member, got, want string }{
		{"iss", r.Issuer, p.Audience},
		{"aud", r.Audience, p.Issuer},
		{"jti", r.ID, p.ID},
		{"pid", r.StepPermit, p.StepPermit},
		{"sid", r.Session, p.Session},
		{"ed", r.EffectDigest, p.EffectDigest},
		{"bh", r.BodyHash, bodyHash},
		{"operation", r.Operation, operation},
	} {
		if c.got != c.want {
			return fmt.Errorf("dispatch: the receipt is about another permit: %s", c.member)
		}
	}
	return nil
}
