package contextclient

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Tools are the seven tools of a project: those of a [Turn] in that turn, those of a
// [Client] outside any. Every call is recorded as an interaction of its own, and none is
// repeated but one that found the Build being opened (build_opening): once, after the server's Retry-After, if that
// is within the bound of one request. Errors are of type *[Error].
type Tools struct {
	client *Client
	turn   string
}

// Interaction names the record of one call.
type Interaction struct {
	ID         string    `json:"id"`
	Tool       string    `json:"tool"`
	RecordedAt time.Time `json:"recordedAt"`
	Build      *Build    `json:"build"` // that was used; nil when none was
}

// Build names a published snapshot, or the draft.
type Build struct {
	Environment string `json:"environment"`
	Number      int    `json:"number"` // 0 for a draft
	Digest      string `json:"digest"`
	Draft       bool   `json:"draft"`
}

// Answered is what every answer of a tool has.
type Answered struct {
	Interaction Interaction `json:"interaction"`
	TurnID      string      `json:"turnId"` // empty outside a turn
}

func (a *Answered) answered() *Answered { return a }

// The verdicts of compass.
const (
	Covered  = "covered"
	Partial  = "partial"
	Gap      = "gap"
	Conflict = "conflict"
)

// Compass is the context that fits a task.
type Compass struct {
	Answered
	Verdict string         `json:"verdict"` // one of Covered, Partial, Gap and Conflict
	Text    string         `json:"text"`    // for the model
	Items   []SelectedItem `json:"items"`
}

// SelectedItem is one item that compass chose, and why.
type SelectedItem struct {
	Ref    string `json:"ref"`
	Title  string `json:"title"`
	Reason string `json:"reason"`
}

// Compass asks for the context of a task, which is the user's question in its own words: at
// most 4,000 characters.
func (t Tools) Compass(ctx context.Context, task string) (Compass, error) {
	return use[Compass](ctx, t, "compass", map[string]any{"task": task})
}

// Resolved is one item, whole.
type Resolved struct {
	Answered
	Item Item `json:"item"`
}

// Item is a document of the selected Build.
type Item struct {
	Ref        string   `json:"ref"`
	Title      string   `json:"title"`
	Tags       []string `json:"tags"`
	Author     string   `json:"author"`
	Source     string   `json:"source"`
	Supersedes []string `json:"supersedes"`
	Conflicts  []string `json:"conflicts"`
	SHA256     string   `json:"sha256"`
	Text       string   `json:"text"`
}

// Resolve reads the item with this ref.
func (t Tools) Resolve(ctx context.Context, ref string) (Resolved, error) {
	return use[Resolved](ctx, t, "resolve", map[string]any{"ref": ref})
}

// Found are items, best first.
type Found struct {
	Answered
	Items []FoundItem `json:"items"`
}

// FoundItem is one item with the passage that was found.
type FoundItem struct {
	Ref     string `json:"ref"`
	Title   string `json:"title"`
	Snippet string `json:"snippet"`
}

// Find searches. limit is 1 to 20; 0 means the server's 10.
func (t Tools) Find(ctx context.Context, query string, limit int) (Found, error) {
	body := map[string]any{"query": query}
	if limit != 0 {
		body["limit"] = limit
	}
	return use[Found](ctx, t, "find", body)
}

// Reasons say where an item comes from, or why an interaction chose what it did.
type Reasons struct {
	Answered
	Provenance *Provenance `json:"provenance,omitempty"` // nil unless a ref was asked for
	Selection  *Selection  `json:"selection,omitempty"`  // nil unless an interaction was asked for
}

// Provenance is where an item comes from.
type Provenance struct {
	Ref          string   `json:"ref"`
	Title        string   `json:"title"`
	Source       string   `json:"source"`
	Author       string   `json:"author"`
	SHA256       string   `json:"sha256"`
	Supersedes   []string `json:"supersedes"`
	SupersededBy []string `json:"supersededBy"`
	Conflicts    []string `json:"conflicts"`
	Build        *Build   `json:"build"`
}

// Selection is what an interaction chose.
type Selection struct {
	InteractionID string `json:"interactionId"`
	Tool          string `json:"tool"`
	Build         *Build `json:"build"`
	Items         []struct {
		Ref    string `json:"ref"`
		Reason string `json:"reason"`
	} `json:"items"`
}

// Why asks where the item with this ref comes from.
func (t Tools) Why(ctx context.Context, ref string) (Reasons, error) {
	return use[Reasons](ctx, t, "why", map[string]any{"ref": ref})
}

// WhySelected asks why an interaction of this client chose what it did.
func (t Tools) WhySelected(ctx context.Context, interactionID string) (Reasons, error) {
	return use[Reasons](ctx, t, "why", map[string]any{"interactionId": interactionID})
}

// GapReport is what is missing: of a task or of an item, one of the two.
type GapReport struct {
	Task   string `json:"task,omitempty"`
	Ref    string `json:"ref,omitempty"`
	Detail string `json:"detail,omitempty"` // at most 2,000 characters
}

// GapReported names the gap.
type GapReported struct {
	Answered
	GapID string `json:"gapId"`
}

// ReportGap reports that context is missing.
func (t Tools) ReportGap(ctx context.Context, gap GapReport) (GapReported, error) {
	return use[GapReported](ctx, t, "report-gap", gap)
}

// Expectation is what the selected Build should answer: a stored case, or a task with
// the refs that belong to it.
type Expectation struct {
	CaseID     string   `json:"caseId,omitempty"`
	Task       string   `json:"task,omitempty"`
	ExpectRefs []string `json:"expectRefs,omitempty"`
}

// Tested says whether the expectation is met.
type Tested struct {
	Answered
	Passed   bool     `json:"passed"`
	Expected []string `json:"expected"`
	Missing  []string `json:"missing"`
	Found    int      `json:"found"`
}

// Test holds the selected Build against an expectation. It hands out no context.
func (t Tools) Test(ctx context.Context, e Expectation) (Tested, error) {
	return use[Tested](ctx, t, "test", e)
}

// Diagnosis is how the server sees this client.
type Diagnosis struct {
	Answered
	Client struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Kind string `json:"kind"`
	} `json:"client"`
	Profile     string    `json:"profile"`
	Environment string    `json:"environment"`
	Protocol    string    `json:"protocol"` // seif.http-turn.v1, or none
	Build       *Build    `json:"build"`
	Clock       time.Time `json:"clock"`
}

// Doctor asks how the server sees this client. It hands out no content of the project.
func (t Tools) Doctor(ctx context.Context) (Diagnosis, error) {
	return use[Diagnosis](ctx, t, "doctor", struct{}{})
}

// answer is the answer of a tool, which has to be of its turn.
type answer[T any] struct {
	value T
	turn  string
}

func (a *answer[T]) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &a.value) }

func (a *answer[T]) whole() bool {
	common := any(&a.value).(interface{ answered() *Answered }).answered()
	return common.Interaction.ID != "" && common.TurnID == a.turn
}

func use[T any](ctx context.Context, t Tools, tool string, body any) (T, error) {
	var none T
	if t.client == nil {
		return none, errors.New("contextclient: these tools belong to no client")
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return none, err
	}
	a := answer[T]{turn: t.turn}
	if err := t.client.ask(ctx, request{op: tool, body: raw, turn: t.turn}, &a); err != nil {
		return none, err
	}
	return a.value, nil
}

// ask sends a call. When it hears that the Build is being opened it asks again, once, within the same bound.
func (c *Client) ask(ctx context.Context, r request, a interface{ whole() bool }) error {
	ctx, cancel := context.WithTimeout(ctx, c.http.Timeout)
	defer cancel()
	err := c.send(ctx, r, a)
	e, _ := errors.AsType[*Error](err)
	by, _ := ctx.Deadline()
	if !hasReason(err, "build_opening") || e.RetryAfter == 0 || e.RetryAfter >= time.Until(by) {
		return err
	}
	if c.wait(ctx, e.RetryAfter) != nil {
		return err // ctx has ended
	}
	return c.send(ctx, r, a)
}
