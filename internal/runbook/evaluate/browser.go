package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/canon"
	"countersign/internal/channel/runbookhttp"
	"countersign/internal/client"
	"countersign/internal/runbook/incident"
)

// Paths and names of the channel.
const (
	apiPath      = runbookhttp.Path
	evidencePath = runbookhttp.Path + "/evidence"
	pagePath     = "/incident"
	cookieName   = runbookhttp.CookieName
)

// browser is a session of the control plane as a browser has it: a cookie, and nothing else.
type browser struct {
	house  *house
	cookie string
}

// State is what the API says of a session. It is a part of its snapshot.
type State struct {
	Status          string    `json:"status"`
	ResourceVersion int64     `json:"resourceVersion"`
	Staged          *Staged   `json:"staged"`
	Approval        *Approval `json:"approval"`
	Receipts        Total     `json:"receipts"`
}

// Total is how many receipts a session has.
type Total struct {
	Total int `json:"total"`
}

// Staged is the action that is staged.
type Staged struct {
	MitigationID    string `json:"mitigationId"`
	ResourceVersion int64  `json:"resourceVersion"`
	ActionDigest    string `json:"actionDigest"`
	IdempotencyKey  string `json:"idempotencyKey"`
}

// Approval is its approval.
type Approval struct {
	State        string `json:"state"`
	ActionDigest string `json:"actionDigest"`
}

// send sends a request, and keeps the session's cookie.
func (b *browser) send(ctx context.Context, method, path string, body []byte) (client.Reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.house.plane.Origin()+path, bytes.NewReader(body))
	if err != nil {
		return client.Reply{}, err
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", b.house.plane.Origin())
	}
	if b.cookie != "" {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: b.cookie})
	}
	reply, err := client.Send(b.house.http, r)
	for _, c := range reply.Cookies {
		if c.Name == cookieName && c.Value != b.cookie {
			if b.cookie == "" {
				b.house.begun++
			}
			b.cookie = c.Value
		}
	}
	return reply, err
}

// state reads the session.
func (b *browser) state(ctx context.Context) (*State, error) {
	r, err := b.send(ctx, http.MethodGet, apiPath, nil)
	if err != nil {
		return nil, err
	}
	s := &State{}
	if err := json.Unmarshal(r.Body, s); err != nil || r.Status != http.StatusOK {
		return nil, fmt.Errorf("evaluate: the incident is not read: %d, %w", r.Status, err)
	}
	return s, nil
}

// ask sends a request that has to be let through.
func (b *browser) ask(ctx context.Context, body map[string]any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := b.send(ctx, http.MethodPost, apiPath, raw)
	if err == nil && r.Status != http.StatusOK {
		err = fmt.Errorf("evaluate: %v was answered %d %s", body["operation"], r.Status, r.Reason)
	}
	return err
}

// inputs find the one-time nonce in the page's approval form.
var (
	inputs = regexp.MustCompile(`<input\b[^>]*\bname="formNonce"[^>]*>`)
	values = regexp.MustCompile(`\bvalue="([0-9a-f]+)"`)
)

// approve approves what is staged as the page's form does.
func (b *browser) approve(ctx context.Context, staged *Staged) error {
	r, err := b.send(ctx, http.MethodGet, pagePath, nil)
	if err != nil {
		return err
	}
	nonce := values.FindSubmatch(inputs.Find(r.Body))
	if r.Status != http.StatusOK || nonce == nil {
		return fmt.Errorf("evaluate: the page shows no approval form: %d", r.Status)
	}
	return b.ask(ctx, map[string]any{
		"operation": incident.Approve, "channel": incident.Human, "actionDigest": staged.ActionDigest, "resourceVersion": staged.ResourceVersion, "formNonce": string(nonce[1]),
	})
}

// call carries out a call of an agent. The arguments are put into the request as they are
// written: members that do not belong there, or are there twice, are the server's to refuse.
func (b *browser) call(ctx context.Context, a Ask) Call {
	c := Call{Tool: a.Tool, Arguments: a.Arguments, Reason: noTool, Result: json.RawMessage("null")}
	for _, operation := range incident.Operations {
		if incident.ToolOf(operation) != a.Tool || a.Tool == "" {
			continue
		}
		r, err := b.send(ctx, http.MethodPost, apiPath, body(operation, a.Arguments))
		if c.Reason = r.Reason; err != nil {
			c.Reason = noAnswer
			return c
		}
		c.Status, c.LatencyMs = r.Status, r.Ms
		var answer struct {
			Replayed bool `json:"replayed"`
		}
		if err := json.Unmarshal(r.Body, &answer); err != nil {
			c.Reason = noAnswer
			return c
		}
		c.Replayed, c.Result = answer.Replayed, json.RawMessage(bytes.TrimSpace(r.Body))
	}
	return c
}

// body is the request of a tool. What is no object is sent as it is.
func body(operation, arguments string) []byte {
	rest, object := strings.CutPrefix(strings.TrimSpace(arguments), "{")
	if !object {
		return []byte(arguments)
	}
	comma := ","
	if strings.TrimSpace(rest) == "}" {
		comma = ""
	}
	return fmt.Appendf(nil, `{"operation":%q,"channel":%q%s%s`, operation, incident.API, comma, rest)
}

// Receipts are those of a task's session, read from its signed export.
type Receipts struct {
	Verified bool      `json:"verified"` // integrity and lawfulness, by the keys of the installation
	Problem  string    `json:"problem,omitempty"`
	Head     string    `json:"head"`   // SEQ:HASH
	Before   int       `json:"before"` // that were there when the task began
	Items    []Receipt `json:"items"`
}

// Receipt is a receipt without what its event holds beside.
type Receipt struct {
	Sequence   int64    `json:"sequence"`
	Event      string   `json:"event"`
	Channel    string   `json:"channel"`
	Outcome    string   `json:"outcome"`
	Reason     string   `json:"reasonCode,omitempty"`
	Mitigation string   `json:"mitigationId,omitempty"` // that it staged, approved or executed
	Compared   []string `json:"compared,omitempty"`
}

// receipts exports the session's evidence, verifies it and tells what is in it.
func (b *browser) receipts(ctx context.Context) (*Receipts, error) {
	out := &Receipts{Verified: true, Items: []Receipt{}}
	r, err := b.send(ctx, http.MethodGet, evidencePath, nil)
	switch {
	case err != nil:
		return nil, err
	case r.Status == http.StatusNotFound && b.cookie == "":
		return out, nil // no request was decided
	case r.Status != http.StatusOK:
		return nil, fmt.Errorf("evaluate: the evidence is not read: %d %s", r.Status, r.Reason)
	}
	report, err := audit.Verify(bytes.NewReader(r.Body), audit.Options{Keys: b.house.keys})
	if err != nil {
		return nil, fmt.Errorf("evaluate: the evidence: %w", err)
	}
	if !report.OK() {
		var why strings.Builder
		if err := report.PrintShort(&why, "evidence"); err != nil {
			return nil, err
		}
		out.Verified, out.Problem = false, why.String()
	}
	export, err := evidence.ReadExport(bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("evaluate: the evidence: %w", err)
	}
	for _, e := range export.Events {
		var receipt incident.Receipt
		if err := canon.Unmarshal(e.Data, &receipt); err != nil {
			return nil, fmt.Errorf("evaluate: receipt %d: %w", e.Sequence, err)
		}
		out.Items = append(out.Items, told(e.Sequence, &receipt))
		out.Head = evidence.Link{Sequence: e.Sequence, Hash: e.Hash}.String()
	}
	return out, nil
}

func told(sequence int64, r *incident.Receipt) Receipt {
	out := Receipt{Sequence: sequence, Event: r.Event, Channel: r.Channel, Outcome: r.Outcome, Compared: r.Result.Compared}
	if r.Result.ReasonCode != nil {
		out.Reason = *r.Result.ReasonCode
	}
	switch {
	case r.Result.Staged != nil:
		out.Mitigation = r.Result.Staged.MitigationID
	case r.Result.Approval != nil:
		out.Mitigation = r.Result.Approval.MitigationID
	case r.Result.Execution != nil:
		out.Mitigation = r.Result.Execution.MitigationID
	}
	return out
}
