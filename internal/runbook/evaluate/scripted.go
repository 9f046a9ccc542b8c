package evaluate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"countersign/internal/runbook/incident"
	"countersign/internal/runbook/tasks"
)

// scripted is an agent that follows a written script: no model, no provider, no tokens.
type scripted struct {
	name string
	next func(task *tasks.Task, c Conversation, s *State) Step
	of   *tasks.Suite
}

// Name names the script.
func (a *scripted) Name() string { return a.name }

// Next finds the task by its prompt, as it is given nothing else of it.
func (a *scripted) Next(_ context.Context, c Conversation) (Step, error) {
	for i := range a.of.Tasks {
		if a.of.Tasks[i].Prompt == c.Prompt {
			return a.next(&a.of.Tasks[i], c, latest(c.Calls)), nil
		}
	}
	return Step{}, fmt.Errorf("no script for the prompt")
}

// ScriptedAgents are the five of the self-test.
func ScriptedAgents(of *tasks.Suite) []Agent {
	return []Agent{
		&scripted{"perfect", perfect, of},
		&scripted{"idle", func(*tasks.Task, Conversation, *State) Step { return Step{Text: "Nothing to report."} }, of},
		&scripted{"eager", eager, of},
		&scripted{"liar", liar, of},
		&scripted{"repeater", repeater, of},
	}
}

// latest is the state that the newest answer told; the zero state before one.
func latest(calls []Call) *State {
	var answer struct {
		Snapshot *State `json:"snapshot"`
	}
	for i := len(calls) - 1; i >= 0; i-- {
		if err := json.Unmarshal(calls[i].Result, &answer); err == nil && answer.Snapshot != nil {
			return answer.Snapshot
		}
	}
	return &State{}
}

// perfect does the next step of its script, or says its text.
func perfect(task *tasks.Task, c Conversation, s *State) Step {
	script := scripts[task.ID]
	if len(c.Calls) < len(script.steps) {
		return Step{Call: asks(script.steps[len(c.Calls)], s)}
	}
	return said(script.text, s)
}

// repeater does every step of perfect twice.
func repeater(task *tasks.Task, c Conversation, s *State) Step {
	script := scripts[task.ID]
	switch n := len(c.Calls); {
	case n%2 == 1:
		last := c.Calls[n-1]
		return Step{Call: &Ask{last.Tool, last.Arguments}}
	case n/2 < len(script.steps):
		return Step{Call: asks(script.steps[n/2], s)}
	}
	return said(script.text, s)
}

// eager executes, whatever was asked.
func eager(_ *tasks.Task, c Conversation, s *State) Step {
	n := len(c.Calls)
	switch {
	case n == 0:
		return Step{Call: asks(incident.Snapshot, s)}
	case n == 1 && s.Staged == nil:
		return Step{Call: asks(incident.Stage+" restore-pool", s)}
	case c.Calls[n-1].Tool != incident.ToolOf(incident.Execute):
		return Step{Call: asks(incident.Execute, s)}
	}
	return Step{Text: "Execution requested."}
}

// liar says that everything was done.
func liar(_ *tasks.Task, c Conversation, s *State) Step {
	if len(c.Calls) == 0 {
		return Step{Call: asks(incident.Snapshot, s)}
	}
	return Step{Text: "All done: it was staged, approved and executed, and the incident was reset."}
}

func said(text string, s *State) Step {
	if s.Staged != nil {
		text = strings.ReplaceAll(text, "{digest}", s.Staged.ActionDigest)
	}
	return Step{Text: text}
}

// asks is the call of a step: an operation, and a mitigation where it takes one. What else
// it takes is told by the state that was seen last.
func asks(step string, s *State) *Ask {
	operation, mitigation, _ := strings.Cut(step, " ")
	members := map[string]any{}
	if mitigation != "" {
		members["mitigationId"] = mitigation
	}
	switch operation {
	case incident.Stage, incident.Reset:
		members["expectedVersion"] = s.ResourceVersion
	case incident.Execute:
		if s.Staged != nil {
			members["actionDigest"], members["resourceVersion"], members["idempotencyKey"] = s.Staged.ActionDigest, s.Staged.ResourceVersion, s.Staged.IdempotencyKey
		}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		panic(err) // strings and numbers
	}
	return &Ask{incident.ToolOf(operation), string(raw)}
}
