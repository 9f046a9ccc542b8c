package incidentdemo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"

	"countersign/internal/client"
	"countersign/internal/runbook/incident"
)

// cookieName is that of the session's cookie.
const cookieName = "countersign_incident"

// request is what is sent to the one endpoint of the workflow.
type request struct {
	Operation       string `json:"operation"`
	Channel         string `json:"channel"`
	MitigationID    string `json:"mitigationId,omitempty"`
	ExpectedVersion int64  `json:"expectedVersion,omitempty"`
	ActionDigest    string `json:"actionDigest,omitempty"`
	ResourceVersion int64  `json:"resourceVersion,omitempty"`
	IdempotencyKey  string `json:"idempotencyKey,omitempty"`
	FormNonce       string `json:"formNonce,omitempty"`
}

// answer is what is read of an answer; a refusal that was decided has receipt and snapshot
// too.
type answer struct {
	Replayed bool `json:"replayed"`
	Result   struct {
		Status   string `json:"status"`
		Approval *struct {
			ApprovalID string `json:"approvalId"`
		} `json:"approval"`
		Execution *struct {
			ID         string `json:"id"`
			ApprovalID string `json:"approvalId"`
		} `json:"execution"`
	} `json:"result"`
	Receipt *struct {
		ID string `json:"id"`
	} `json:"receipt"`
	Snapshot snapshot `json:"snapshot"`
}

type snapshot struct {
	Session *struct {
		ID string `json:"id"`
	} `json:"session"`
	ResourceVersion int64   `json:"resourceVersion"`
	Staged          *staged `json:"staged"`
	Receipts        struct {
		Total        int64  `json:"total"`
		Head         string `json:"head"`
		Verification struct {
			Verified bool `json:"verified"`
		} `json:"verification"`
	} `json:"receipts"`
}

// staged is all that an execution has to present.
type staged struct {
	ActionDigest    string `json:"actionDigest"`
	ResourceVersion int64  `json:"resourceVersion"`
	IdempotencyKey  string `json:"idempotencyKey"`
}

func plain(operation string) func(*Show) request {
	return func(*Show) request { return request{Operation: operation, Channel: incident.API} }
}

func stage(mitigation string) func(*Show) request {
	return func(s *Show) request {
		return request{Operation: incident.Stage, Channel: incident.API, MitigationID: mitigation, ExpectedVersion: s.seen.ResourceVersion}
	}
}

// approve approves what was staged first.
func approve(channel, nonce string) func(*Show) request {
	return func(s *Show) request {
		of := s.staged[first]
		return request{Operation: incident.Approve, Channel: channel, ActionDigest: of.ActionDigest, ResourceVersion: of.ResourceVersion, FormNonce: nonce}
	}
}

func execute(nth int) func(*Show) request {
	return func(s *Show) request {
		of := s.staged[nth]
		return request{Operation: incident.Execute, Channel: incident.API, ActionDigest: of.ActionDigest, ResourceVersion: of.ResourceVersion, IdempotencyKey: of.IdempotencyKey}
	}
}

// borrow executes the second with the key of the first.
func borrow(s *Show) request {
	r := execute(second)(s)
	r.IdempotencyKey = s.staged[first].IdempotencyKey
	return r
}

// reset resets a version; 0 is the one that stands.
func reset(version int64) func(*Show) request {
	return func(s *Show) request {
		of := version
		if of == 0 {
			of = s.seen.ResourceVersion
		}
		return request{Operation: incident.Reset, Channel: incident.API, ExpectedVersion: of}
	}
}

// post sends a request under the session's cookie, and keeps the one that it is given.
func (s *Show) post(ctx context.Context, what request) (r client.Reply, a answer, err error) {
	body, err := json.Marshal(what)
	if err != nil {
		return r, a, err
	}
	if r, err = s.send(ctx, http.MethodPost, "/api/v1/incident", body); err != nil {
		return r, a, err
	}
	if err := json.Unmarshal(r.Body, &a); err != nil {
		return r, a, fmt.Errorf("the answer is no JSON: %w", err)
	}
	for _, c := range r.Cookies {
		if c.Name == cookieName {
			s.cookie = c
		}
	}
	return r, a, nil
}

func (s *Show) get(ctx context.Context, path string) (client.Reply, error) {
	return s.send(ctx, http.MethodGet, path, nil)
}

func (s *Show) send(ctx context.Context, method, path string, body []byte) (client.Reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.Origin+path, bytes.NewReader(body))
	if err != nil {
		return client.Reply{}, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", s.Origin)
	}
	if s.cookie != nil {
		r.AddCookie(&http.Cookie{Name: s.cookie.Name, Value: s.cookie.Value})
	}
	return client.Send(s.HTTP, r)
}

// nonces find the one-time nonce in the page's approval form.
var nonces = regexp.MustCompile(`<input[^>]* name="formNonce"[^>]* value="([0-9a-f]{64})"`)

// form fetches the page and returns the nonce of its approval form, "" when it has none.
func (s *Show) form(ctx context.Context) (r client.Reply, nonce string, err error) {
	if r, err = s.get(ctx, "/incident"); err != nil {
		return r, "", err
	}
	if found := nonces.FindSubmatch(r.Body); r.Status == http.StatusOK && found != nil {
		nonce = string(found[1])
	}
	return r, nonce, nil
}
