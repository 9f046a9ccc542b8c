package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"countersign/internal/channel/edge"
)

// ownerClient speaks the owner's API of a running server.
type ownerClient struct {
	origin string
	http   *http.Client
	cookie string // Cookie header value of the session
}

// do sends a request and reads the answer, which must have this status, into v.
func (c *ownerClient) do(ctx context.Context, method, path string, body any, status int, v any) (reply, error) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return reply{}, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.origin+path, bytes.NewReader(raw))
	if err != nil {
		return reply{}, err
	}
	r.Header.Set("Origin", c.origin)
	r.Header.Set("X-Halfspan-Owner", "1")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.cookie != "" {
		r.Header.Set("Cookie", c.cookie)
	}
	got, err := send(c.http, r)
	if err != nil {
		return reply{}, err
	}
	if got.status != status {
		return got, fmt.Errorf("%s %s: want %d, got %d %s", method, path, status, got.status, got.reason)
	}
	if v != nil {
		if err := json.Unmarshal(got.body, v); err != nil {
			return got, fmt.Errorf("%s %s: the answer is unreadable: %w", method, path, err)
		}
	}
	return got, nil
}

// signIn exchanges the owner secret for a session.
func (c *ownerClient) signIn(ctx context.Context, secret string) (reply, error) {
	got, err := c.do(ctx, "POST", edge.SessionPath, map[string]string{"secret": secret}, http.StatusOK, nil)
	if err != nil {
		return got, err
	}
	for _, line := range got.cookies {
		if line.Name == edge.OwnerCookie {
			c.cookie = line.Name + "=" + line.Value
			return got, nil
		}
	}
	return got, errors.New("signing in set no cookie")
}

// createRun creates a run and returns its id.
func (c *ownerClient) createRun(ctx context.Context, body any) (string, reply, error) {
	var run struct {
		RunID string `json:"runId"`
	}
	got, err := c.do(ctx, "POST", edge.OwnerPrefix+"runs", body, http.StatusCreated, &run)
	return run.RunID, got, err
}

// issued is a run's restricted session.
type issued struct {
	Token     string `json:"token"`
	ExpiresAt string `json:"expiresAt"`
	Origin    string `json:"origin"`
}

func (c *ownerClient) issueToken(ctx context.Context, runID string) (issued, reply, error) {
	var s issued
	got, err := c.do(ctx, "POST", edge.OwnerPrefix+"runs/"+runID+"/session", struct{}{}, http.StatusOK, &s)
	return s, got, err
}

// export returns the run's signed evidence.
func (c *ownerClient) export(ctx context.Context, runID string) (reply, error) {
	return c.do(ctx, "GET", edge.OwnerPrefix+"runs/"+runID+"/evidence", nil, http.StatusOK, nil)
}
