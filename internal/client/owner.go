package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
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

// RefusedError is an answer that is not the one a request is there for.
type RefusedError struct {
	Request string // method and path
	Want    int    // status
	Reply
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: want %d, %s", e.Request, e.Want, e.Got())
}

// Once sends one request under the session, with nil for no body, and returns its
// answer whatever its status.
func (c *Owner) Once(ctx context.Context, method, path string, body any) (Reply, error) {
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
	return Send(c.HTTP, r)
}

// do sends a request and reads the answer into v. An answer with another status is
// a *[RefusedError].
func (c *Owner) do(ctx context.Context, method, path string, body any, status int, v any) (Reply, error) {
	got, err := c.Once(ctx, method, path, body)
	if err != nil {
		return Reply{}, err
	}
	if got.Status != status {
		return got, &RefusedError{method + " " + path, status, got}
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

// Run returns a RunView.
func (c *Owner) Run(ctx context.Context, runID string) (Reply, error) {
	return c.do(ctx, "GET", ownerPrefix+"runs/"+runID, nil, http.StatusOK, nil)
}

// Revoke ends a run and returns its RunView.
func (c *Owner) Revoke(ctx context.Context, runID string) (Reply, error) {
	return c.do(ctx, "POST", ownerPrefix+"runs/"+runID+"/revoke", struct{}{}, http.StatusOK, nil)
}

// Retry lets a run that stands still try again, and returns its RunView.
func (c *Owner) Retry(ctx context.Context, runID string) (Reply, error) {
	return c.do(ctx, "POST", ownerPrefix+"runs/"+runID+"/retry", struct{}{}, http.StatusOK, nil)
}

// FreezeState returns how the workspace stands.
func (c *Owner) FreezeState(ctx context.Context) (Reply, error) {
	return c.do(ctx, "GET", ownerPrefix+"freeze", nil, http.StatusOK, nil)
}

// ExportFreezes returns the signed evidence of the workspace's freezes.
func (c *Owner) ExportFreezes(ctx context.Context) (Reply, error) {
	return c.do(ctx, "GET", ownerPrefix+"freeze/evidence", nil, http.StatusOK, nil)
}

// Freeze freezes the workspace and returns how it stands.
func (c *Owner) Freeze(ctx context.Context, reason string) (Reply, error) {
	return c.do(ctx, "POST", ownerPrefix+"freeze", map[string]string{"reason": reason}, http.StatusOK, nil)
}

// Unfreeze lifts the standing freeze and returns how the workspace stands. epoch names
// the one that is meant; 0: whichever stands.
func (c *Owner) Unfreeze(ctx context.Context, reason string, epoch int64) (Reply, error) {
	body := map[string]any{"reason": reason}
	if epoch != 0 {
		body["epoch"] = epoch
	}
	return c.do(ctx, "POST", ownerPrefix+"unfreeze", body, http.StatusOK, nil)
}

// maxPage is the most that one answer of a list may hold.
const maxPage = 100

// Runs returns the RunViews of the newest runs, at most that many, and whether there
// are more.
func (c *Owner) Runs(ctx context.Context, most int) (runs []json.RawMessage, more bool, err error) {
	more, err = c.EachRun(ctx, most, func(view json.RawMessage) (bool, error) {
		runs = append(runs, view)
		return true, nil
	})
	if err != nil {
		return nil, false, err
	}
	return runs, more, nil
}

// EachRun looks at the RunViews of the newest runs, at most that many, one after the
// other until look says no or fails. It asks for as many pages as that takes. more: after
// the last one that it looked at there are others.
func (c *Owner) EachRun(ctx context.Context, most int, look func(view json.RawMessage) (goOn bool, err error)) (more bool, err error) {
	return c.each(ctx, list{path: ownerPrefix + "runs", member: "runs", cursor: "cursor"}, most, look)
}

// list is a list of the server that is read in pages.
type list struct {
	path   string
	query  url.Values // beside limit and the cursor
	member string     // of an answer, that holds the page
	cursor string     // the query parameter that nextCursor goes into
}

// each is EachRun for any list.
func (c *Owner) each(ctx context.Context, l list, most int, look func(json.RawMessage) (goOn bool, err error)) (more bool, err error) {
	cursor, looked := "", 0
	for {
		query := maps.Clone(l.query)
		if query == nil {
			query = url.Values{}
		}
		query.Set("limit", strconv.Itoa(min(maxPage, most-looked)))
		if cursor != "" {
			query.Set(l.cursor, cursor)
		}
		var answer map[string]json.RawMessage
		if _, err := c.do(ctx, "GET", l.path+"?"+query.Encode(), nil, http.StatusOK, &answer); err != nil {
			return false, err
		}
		var page []json.RawMessage
		var next *string
		if err := errors.Join(json.Unmarshal(answer[l.member], &page), json.Unmarshal(answer["nextCursor"], &next)); err != nil {
			return false, fmt.Errorf("GET %s: the answer is unreadable: %w", l.path, err)
		}
		for i, view := range page {
			if goOn, err := look(view); err != nil || !goOn {
				return i+1 < len(page) || next != nil, err
			}
		}
		looked += len(page)
		switch {
		case next == nil:
			return false, nil
		case looked >= most:
			return true, nil
		case *next == cursor || len(page) == 0:
			return false, fmt.Errorf("the list of %s does not go on where it says so", l.member)
		}
		cursor = *next
	}
}

// SignOut ends the session.
func (c *Owner) SignOut(ctx context.Context) error {
	_, err := c.do(ctx, "DELETE", ownerPrefix+"session", nil, http.StatusNoContent, nil)
	c.cookie = ""
	return err
}
