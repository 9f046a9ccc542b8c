package evaluate

import (
	"context"
	"encoding/json"

	incidentpage "countersign/internal/console/incident"
)

// Agent is what is evaluated. Next is asked until it answers with a text.
type Agent interface {
	Name() string
	// Next returns the next step of a task. Its error is the provider's, and ends the task.
	Next(context.Context, Conversation) (Step, error)
}

// Conversation is all that an agent is given of a task.
type Conversation struct {
	Prompt string
	Tools  []incidentpage.Tool // as the page registers them
	Calls  []Call              // that it made, with what came of them, oldest first
}

// Step is a call, or the text that ends the task.
type Step struct {
	Call  *Ask   // nil: Text is the end
	Text  string // without a call
	Usage *Usage // nil: no provider was asked
}

// Ask is a call of a tool, as the agent wrote it.
type Ask struct {
	Tool      string
	Arguments string // JSON; nothing here judges it
}

// Usage is what a provider says of one of its answers. InputTokens are those that were not
// read from its cache.
type Usage struct {
	RequestID         string `json:"requestId"`
	InputTokens       int64  `json:"inputTokens"`
	CachedInputTokens int64  `json:"cachedInputTokens"`
	OutputTokens      int64  `json:"outputTokens"`
}

// Call is a call with what came of it. Status is the HTTP status, 0 when no tool has the
// name: then nothing was sent.
type Call struct {
	Tool      string          `json:"tool"`
	Arguments string          `json:"arguments"`
	Status    int             `json:"status"`
	Reason    string          `json:"reasonCode,omitempty"`
	Replayed  bool            `json:"replayed"`
	Result    json.RawMessage `json:"result"` // the whole answer
	LatencyMs int64           `json:"latencyMs"`
}

// Reasons of a call that was not sent, or not answered in JSON.
const (
	noTool   = "no_such_tool"
	noAnswer = "no_answer"
)
