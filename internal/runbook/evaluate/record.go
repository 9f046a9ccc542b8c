package evaluate

import (
	"time"

	"countersign/evidence"
	"countersign/internal/runbook/tasks"
)

// Record is one task that was carried out, a line of results.jsonl. What a
// provider did not say is null: nothing is made up.
type Record struct {
	Label      string        `json:"label"`
	Agent      string        `json:"agent"`
	Task       tasks.Task    `json:"task"`
	StartedAt  evidence.Time `json:"startedAt"`
	Before     State         `json:"before"` // the incident when the task began
	Steps      []StepRecord  `json:"steps"`
	Text       *string       `json:"text"` // the agent's last; null: it gave none
	Ended      string        `json:"ended"`
	AgentError *string       `json:"agentError"`
	After      State         `json:"after"`
	Receipts   Receipts      `json:"receipts"`
	RequestIDs []string      `json:"providerRequestIds"`
	LatencyMs  int64         `json:"latencyMs"` // from the prompt to the end, calls included
	Tokens     *Tokens       `json:"tokens"`
	Cost       *Cost         `json:"estimatedCost"`
	Grades     Grades        `json:"grades"`
}

// How a task ended.
const (
	EndedText  = "text"
	EndedCalls = "calls" // [MaxCalls] were made
	EndedError = "agent_error"
)

// StepRecord is one step of an agent with what came of it.
type StepRecord struct {
	LatencyMs int64  `json:"latencyMs"` // until the agent had answered
	Usage     *Usage `json:"usage"`
	Call      *Call  `json:"call"` // null: the text
}

// seen is what is graded.
func (r *Record) seen() *Seen {
	s := &Seen{Before: r.Before, After: r.After, Receipts: r.Receipts, Bounded: r.Ended == EndedCalls}
	for _, step := range r.Steps {
		if step.Call != nil {
			s.Calls = append(s.Calls, *step.Call)
		}
	}
	if r.Text != nil {
		s.Text = *r.Text
	}
	if r.AgentError != nil {
		s.AgentError = *r.AgentError
	}
	return s
}

// account sums what the provider said. One answer without it makes the sum unknown.
func (r *Record) account(p *Prices) {
	r.RequestIDs = []string{}
	total, known := Tokens{}, len(r.Steps) > 0
	for _, step := range r.Steps {
		u := step.Usage
		if u == nil {
			known = false
			continue
		}
		if u.RequestID != "" {
			r.RequestIDs = append(r.RequestIDs, u.RequestID)
		}
		total.Input, total.CachedInput, total.Output = total.Input+u.InputTokens, total.CachedInput+u.CachedInputTokens, total.Output+u.OutputTokens
	}
	if !known {
		return
	}
	r.Tokens = &total
	if p != nil {
		cost := p.Cost(total)
		r.Cost = &cost
	}
}

// since is a duration in whole milliseconds.
func since(t time.Time) int64 { return time.Since(t).Milliseconds() }
