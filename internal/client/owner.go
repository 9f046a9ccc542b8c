package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Owner is the owner's end of the API.
type Owner struct {
	Origin string
	HTTP   *http.Client // of New
	cookie string       // Cookie header value of the session
}

const (
	ownerPrefix = "/api/v1/owner/"
	ownerCookie = "countersign_owner"
)

// do sends a request and reads the answer, which must have this status, into v.
func (c *Owner) do(ctx context.Context, method, path string, body any, status int, v any) (Reply, error) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return Reply{}, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.Origin+path, bytes.NewReader(raw))
	if err != nil {
		return Reply{}, err
	}
	r.Header.Set("Origin", c.Origin)
	r.Header.Set("X-Halfspan-Owner", "1")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.cookie != "" {
		r.Header.Set("Cookie", c.cookie)
	}
	got, err := Send(c.HTTP, r)
	if err != nil {
		return Reply{}, err
	}
	if got.Status != status {
		return got, fmt.Errorf("%s %s: want %d, %s", method, path, status, got.Got())
	}
	if v != nil {
		if err := json.Unmarshal(got.Body, v); err != nil {
			return got, fmt.Errorf("%s %s: the answer is unreadable: %w", method, path, err)
		}
	}
	return got, nil
}

// SignIn exchanges the owner secret for a session.
func (c *Owner) SignIn(ctx context.Context, secret string) (Reply, error) {
	got, err := c.do(ctx, "POST", ownerPrefix+"session", map[string]string{"secret": secret}, http.StatusOK, nil)
	if err != nil {
		return got, err
	}
	for _, line := range got.Cookies {
		if line.Name == ownerCookie {
			c.cookie = line.Name + "=" + line.Value
			return got, nil
		}
	}
	return got, errors.New("signing in set no cookie")
}

// CreateRun creates a run and returns its id.
func (c *Owner) CreateRun(ctx context.Context, body any) (string, Reply, error) {
	var run struct {
		RunID string `json:"runId"`
	}
	got, err := c.do(ctx, "POST", ownerPrefix+"runs", body, http.StatusCreated, &run)
	return run.RunID, got, err
}

// Session is a run's restricted session.
type Session struct {
	Token     string `json:"token"`
	ExpiresAt string `json:"expiresAt"`
	Origin    string `json:"origin"`
}

// IssueToken issues the run's token and ends the former one.
func (c *Owner) IssueToken(ctx context.Context, runID string) (Session, Reply, error) {
	var s Session
	got, err := c.do(ctx, "POST", ownerPrefix+"runs/"+runID+"/session", struct{}{}, http.StatusOK, &s)
	return s, got, err
}

// Export returns the run's signed evidence.
func (c *Owner) Export(ctx context.Context, runID string) (Reply, error) {
	return c.do(ctx, "GET", ownerPrefix+"runs/"+runID+"/evidence", nil, http.StatusOK, nil)
}
