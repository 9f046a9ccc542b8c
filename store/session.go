package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"countersign/dispatch"
)

const (
	sessionCookie = "store_session"
	visitorCookie = "store_visitor"
	// ownerCookie is the control plane's. Cookies ignore ports, so it arrives here
	// when both are served under one host name.
	ownerCookie = "countersign_owner"

	sessionLifetime  = 24 * time.Hour
	checkoutLifetime = 10 * time.Minute
)

const timeLayout = "2006-01-02T15:04:05.000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

type session struct {
	id          string
	cartVersion int64
	expires     int64 // Unix milliseconds; from then on there is no session
}

func scanSession(r row) (session, error) {
	var s session
	err := r.Scan(&s.id, &s.cartVersion, &s.expires)
	return s, err
}

// session returns the session of the request's cookie, or nil. Two cookies of
// that name are none.
func (s *Store) session(ctx context.Context, q queryer, r *http.Request) (*session, error) {
	cookies := r.CookiesNamed(sessionCookie)
	if len(cookies) != 1 {
		return nil, nil
	}
	found, err := find(ctx, q, "session", scanSession, `SELECT sid, cart_version, expires_ms FROM sessions WHERE cookie_hash = $1`, cookieHash(cookies[0].Value))
	if err != nil || found == nil || s.now().UnixMilli() >= found.expires {
		return nil, err
	}
	return found, nil
}

// openSession adopts the permit's sid.
func (s *Store) openSession(body []byte) (mutation, error) {
	if err := dispatch.Decode(body, &struct{}{}); err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx *sql.Tx, p dispatch.Permit, _ *session) (reply, error) {
		secret := randomValue()
		expires := s.now().Add(sessionLifetime)
		res, err := tx.ExecContext(ctx, `INSERT INTO sessions (sid, cookie_hash, cart_version, expires_ms) VALUES ($1, $2, 1, $3) ON CONFLICT (sid) DO NOTHING`,
			p.Session, cookieHash(secret), expires.UnixMilli())
		if err != nil {
			return reply{}, fmt.Errorf("store: session: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil {
			return reply{}, fmt.Errorf("store: session: %w", err)
		} else if n == 0 {
			return reply{}, dispatch.Refuse("SESSION_EXISTS", "A session with this id is open already.")
		}
		return reply{
			status: http.StatusCreated,
			body: struct {
				SessionID   string `json:"sessionId"`
				CartVersion int64  `json:"cartVersion"`
				Currency    string `json:"currency"`
				ExpiresAt   string `json:"expiresAt"`
			}{p.Session, 1, currency, formatTime(expires)},
			cookie: s.cookie(sessionCookie, secret, sessionLifetime),
		}, nil
	}, nil
}

func (s *Store) cookie(name, value string, lifetime time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(lifetime / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.secure,
	}
}

func randomValue() string {
	var b [32]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func cookieHash(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}
