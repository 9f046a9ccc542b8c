package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Consumer is an agent's end of the restricted API: an origin and a token. It is
// not safe for concurrent use.
type Consumer struct {
	Origin, Token string
	HTTP          *http.Client // of New
	turnID        string       // newest turn whose answer has arrived
}

// Once sends one request under the token, with nil for no body.
func (c *Consumer) Once(ctx context.Context, method, path string, body []byte, headers map[string]string) (Reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.Origin+path, bytes.NewReader(body))
	if err != nil {
		return Reply{}, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return Send(c.HTTP, r)
}

const (
	waiting  = 100 * time.Millisecond // before the second try, doubled for each further one
	patience = 15 * time.Second       // longer than the 10 s that a dispatch can be under way
)

// ErrUnanswered means that no answer came however often the request was sent.
var ErrUnanswered = errors.New("no answer")

// again sends until an answer arrives that is not just "later". Only what may be
// repeated is sent through it.
func (c *Consumer) again(ctx context.Context, try func() (Reply, error)) (Reply, error) {
	wait, start := waiting, time.Now()
	var last error
	for time.Since(start) < patience {
		r, err := try()
		switch {
		case err == nil && r.Reason != "IN_PROGRESS" && r.Reason != "LEDGER_UNAVAILABLE":
			return r, nil
		case err == nil:
			last = errors.New(r.Got())
		default:
			last = err
		}
		select {
		case <-ctx.Done():
			return Reply{}, ctx.Err()
		case <-time.After(max(wait, r.After)):
			wait *= 2
		}
	}
	return Reply{}, fmt.Errorf("%w from %s: %w", ErrUnanswered, c.Origin, last)
}

// Get reads a resource.
func (c *Consumer) Get(ctx context.Context, path string) (Reply, error) {
	return c.again(ctx, func() (Reply, error) { return c.Once(ctx, "GET", path, nil, nil) })
}

// Propose submits a report. When the answer is lost, the newest decision tells
// whether the report had arrived; only if not it is sent again.
func (c *Consumer) Propose(ctx context.Context, report []byte) (Reply, error) {
	lost := false
	return c.again(ctx, func() (Reply, error) {
		if lost {
			r, err := c.Once(ctx, "GET", "/api/v1/decision", nil, nil)
			if err != nil {
				return r, err
			}
			if id := turnOf(r); r.Status == http.StatusOK && id != c.turnID {
				c.turnID = id
				return r, nil
			}
		}
		r, err := c.Once(ctx, "POST", "/api/v1/turns", report, nil)
		lost = err != nil || r.Reason == "LEDGER_UNAVAILABLE"
		if err == nil && r.Status == http.StatusOK {
			c.turnID = turnOf(r)
		}
		return r, err
	})
}

func turnOf(r Reply) string {
	var turn struct {
		TurnID string `json:"turnId"`
	}
	_ = json.Unmarshal(r.Body, &turn) // an answer without a turn has none
	return turn.TurnID
}

// Operate executes a permitted action under a fresh key. A lost answer is asked
// for again with the same key, which has no second effect.
func (c *Consumer) Operate(ctx context.Context, permit string, body []byte) (Reply, error) {
	headers := map[string]string{"X-Step-Permit": permit, "X-Idempotency-Key": "op-" + rand.Text()}
	return c.again(ctx, func() (Reply, error) { return c.Once(ctx, "POST", "/api/v1/operation", body, headers) })
}
