package dispatch

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"time"

	"countersign/internal/canon"
)

// Bounds of a permit's times. All three hold for the second, not beyond it.
const (
	MaxLifetime = 30 * time.Second // exp - iat at most
	MaxSkew     = 5 * time.Second  // iat ahead of the shop's clock at most
)

// Permit holds the claims of a dispatch permit: one effect, at one shop, by one
// exact request. All members are always present.
type Permit struct {
	Issuer       string `json:"iss"` // the control plane's origin
	Audience     string `json:"aud"` // the shop's exact origin, such as https://shop.example
	IssuedAt     int64  `json:"iat"` // Unix seconds, rounded down
	ExpiresAt    int64  `json:"exp"` // Unix seconds, rounded down; from then on it is expired
	ID           string `json:"jti"` // the execution's id; counts once
	Session      string `json:"sid"` // the shop session it acts in
	StepPermit   string `json:"pid"` // the control plane's step permit; the run's id for a new session
	Method       string `json:"htm"` // such as POST
	Target       string `json:"htu"` // audience and path, without a query
	BodyHash     string `json:"bh"`  // HashBody of the exact body bytes
	EffectDigest string `json:"ed"`  // lowercase hex SHA-256 of the approved effect
}

// Operation is the method and path that the permit is for, such as
// "POST /api/orders".
func (p Permit) Operation() string {
	return p.Method + " " + strings.TrimPrefix(p.Target, p.Audience)
}

// Sign returns the permit as a compact JWS. It refuses claims that no shop would
// accept at any time.
func (p Permit) Sign(key ed25519.PrivateKey) (string, error) {
	if err := p.check(); err != nil {
		return "", fmt.Errorf("dispatch: permit: %w", err)
	}
	if !strings.HasPrefix(p.Target, p.Audience+"/") {
		return "", fmt.Errorf("dispatch: permit: htu is not at the audience")
	}
	if p.ExpiresAt <= p.IssuedAt || p.ExpiresAt-p.IssuedAt > int64(MaxLifetime/time.Second) {
		return "", fmt.Errorf("dispatch: permit: want exp after iat by at most %s", MaxLifetime)
	}
	payload, err := canon.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("dispatch: permit: %w", err)
	}
	return seal(permitType, key, payload), nil
}

func (p Permit) check() error {
	switch {
	case !isName(p.Issuer):
		return fmt.Errorf("%w: iss", errForm)
	case !isName(p.Audience):
		return fmt.Errorf("%w: aud", errForm)
	case !isID(p.ID):
		return fmt.Errorf("%w: jti", errForm)
	case !isID(p.Session):
		return fmt.Errorf("%w: sid", errForm)
	case !isID(p.StepPermit):
		return fmt.Errorf("%w: pid", errForm)
	case !isName(p.Method):
		return fmt.Errorf("%w: htm", errForm)
	case !isName(p.Target):
		return fmt.Errorf("%w: htu", errForm)
	case !isBodyHash(p.BodyHash):
		return fmt.Errorf("%w: bh", errForm)
	case !canon.IsHash(p.EffectDigest):
		return fmt.Errorf("%w: ed", errForm)
	}
	return nil
}

// ParsePermit returns the claims of a token that has the one accepted form and is
// signed with one of keys. It looks at no clock and at no request: use
// [Verifier.Verify] before acting.
func ParsePermit(token string, keys []TrustedKey) (Permit, error) {
	p, _, err := openPermit(token, keys, "")
	return p, err
}

func openPermit(token string, keys []TrustedKey, without Reason) (Permit, TrustedKey, error) {
	payload, key, err := open(permitType, token, keys, without)
	if err != nil {
		return Permit{}, TrustedKey{}, err
	}
	var p Permit
	if decodeExact(payload, &p) != nil {
		return Permit{}, TrustedKey{}, errForm
	}
	if err := p.check(); err != nil {
		return Permit{}, TrustedKey{}, err
	}
	return p, key, nil
}
