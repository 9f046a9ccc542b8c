package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// consumer is an agent's end of the restricted API: an origin and a token.
type consumer struct {
	origin, token string
	http          *http.Client
	turnID        string // newest turn whose answer has arrived
}

// newHTTPClient makes a client that goes exactly where it is told.
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil},
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// reply is an answer, whatever its status.
type reply struct {
	status  int
	reason  string // reasonCode of a problem
	body    []byte
	cookies []*http.Cookie
	after   time.Duration // Retry-After
	ms      int64
}

// maxReply bounds what is read of an answer in bytes.
const maxReply = 8 << 20

// send sends one request once.
func send(client *http.Client, r *http.Request) (reply, error) {
	start := time.Now()
	resp, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return reply{}, err
	}
	out := reply{status: resp.StatusCode, body: body, cookies: resp.Cookies(), ms: time.Since(start).Milliseconds()}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		out.after = time.Duration(seconds) * time.Second
	}
	if resp.StatusCode >= 400 {
		var problem struct {
			ReasonCode string `json:"reasonCode"`
		}
		// A problem without a code stays one: the status says enough.
		_ = json.Unmarshal(body, &problem)
		out.reason = problem.ReasonCode
	}
	return out, nil
}

func (c *consumer) once(ctx context.Context, method, path string, body []byte, headers map[string]string) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.origin+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return send(c.http, r)
}

const (
	waiting  = 100 * time.Millisecond // before the second try, doubled for each further one
	patience = 15 * time.Second       // longer than the 10 s that a dispatch can be under way
)

// errLost means that no answer came however often the request was sent.
var errLost = errors.New("no answer")

// again sends until an answer arrives that is not just "later". Only what may be
// repeated is sent through it.
func (c *consumer) again(ctx context.Context, try func() (reply, error)) (reply, error) {
	wait, start := waiting, time.Now()
	var last error
	for time.Since(start) < patience {
		r, err := try()
		switch {
		case err == nil && r.reason != "IN_PROGRESS" && r.reason != "LEDGER_UNAVAILABLE":
			return r, nil
		case err == nil:
			last = fmt.Errorf("%d %s", r.status, r.reason)
		default:
			last = err
		}
		select {
		case <-ctx.Done():
			return reply{}, ctx.Err()
		case <-time.After(max(wait, r.after)):
			wait *= 2
		}
	}
	return reply{}, fmt.Errorf("%w from %s: %w", errLost, c.origin, last)
}

// get reads a resource.
func (c *consumer) get(ctx context.Context, path string) (reply, error) {
	return c.again(ctx, func() (reply, error) { return c.once(ctx, "GET", path, nil, nil) })
}

// propose submits a report. When the answer is lost, the newest decision tells
// whether the report had arrived; only if not it is sent again.
func (c *consumer) propose(ctx context.Context, report []byte) (reply, error) {
	lost := false
	return c.again(ctx, func() (reply, error) {
		if lost {
			r, err := c.once(ctx, "GET", "/api/v1/decision", nil, nil)
			if err != nil {
				return r, err
			}
			if id := turnOf(r); r.status == http.StatusOK && id != c.turnID {
				c.turnID = id
				return r, nil
			}
		}
		r, err := c.once(ctx, "POST", "/api/v1/turns", report, nil)
		lost = err != nil || r.reason == "LEDGER_UNAVAILABLE"
		if err == nil && r.status == http.StatusOK {
			c.turnID = turnOf(r)
		}
		return r, err
	})
}

func turnOf(r reply) string {
	var turn struct {
		TurnID string `json:"turnId"`
	}
	_ = json.Unmarshal(r.body, &turn) // an answer without a turn has none
	return turn.TurnID
}

// operate executes a permitted action under a fresh key. A lost answer is asked
// for again with the same key, which has no second effect.
func (c *consumer) operate(ctx context.Context, permit string, body []byte) (reply, error) {
	headers := map[string]string{"X-Step-Permit": permit, "X-Idempotency-Key": "op-" + rand.Text()}
	return c.again(ctx, func() (reply, error) { return c.once(ctx, "POST", "/api/v1/operation", body, headers) })
}
