package evaluate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"countersign/evidence"
	incidentpage "countersign/internal/console/incident"
	"countersign/internal/runbook/tasks"
)

// Bounds of a task.
const (
	MaxCalls = 12               // that are carried out
	TaskTime = 10 * time.Minute // until an agent has to be done
)

// Config is what a run is made of.
type Config struct {
	Suite  *tasks.Suite
	Only   []string // ids of tasks; nil: all
	Agents []Agent
	Label  string  // what the results are of; in every file
	Model  *string // pinned; nil: no model was asked
	Prices *Prices // nil: no cost is estimated
	Folder *Folder // nil: nothing is written
	Log    *slog.Logger
	// Done is told of each task when it has been graded; nil: nobody is.
	Done func(*Record)

	grade Grader // a test's; nil: Grade
}

// Run carries out the tasks with each agent, one after the other, and returns the records.
// An error means that the harness failed; a task whose agent failed is a record.
func Run(ctx context.Context, c Config) (records []*Record, err error) {
	for _, id := range c.Only {
		if c.Suite.Find(id) == nil {
			return nil, fmt.Errorf("evaluate: there is no task %q", id)
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.grade == nil {
		c.grade = Grade
	}
	h, err := open(ctx, c.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close(), c.Folder.close()) }()
	began := time.Now()
	for _, agent := range c.Agents {
		for i := range c.Suite.Tasks {
			task := &c.Suite.Tasks[i]
			if len(c.Only) > 0 && !slices.Contains(c.Only, task.ID) {
				continue
			}
			r, err := h.task(ctx, &c, agent, task)
			if err != nil {
				return records, fmt.Errorf("%s, agent %s: %w", task.ID, agent.Name(), err)
			}
			records = append(records, r)
			if err := c.Folder.add(r); err != nil {
				return records, err
			}
			if c.Done != nil {
				c.Done(r)
			}
		}
	}
	return records, c.Folder.conclude(&c, h, records, began)
}

// task carries out one task with an agent.
func (h *house) task(ctx context.Context, c *Config, agent Agent, task *tasks.Task) (*Record, error) {
	b, before, err := h.prepare(ctx, task.InitialState)
	if err != nil {
		return nil, err
	}
	r := &Record{Label: c.Label, Agent: agent.Name(), Task: *task, StartedAt: evidence.TimeOf(time.Now()), Before: *before, Steps: []StepRecord{}}
	r.converse(ctx, b, agent)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	after, err := b.state(ctx)
	if err != nil {
		return nil, err
	}
	receipts, err := b.receipts(ctx)
	if err != nil {
		return nil, err
	}
	receipts.Before = before.Receipts.Total
	if receipts.Before > len(receipts.Items) {
		return nil, fmt.Errorf("evaluate: the session had %d receipts and has %d", receipts.Before, len(receipts.Items))
	}
	r.After, r.Receipts = *after, *receipts
	r.account(c.Prices)
	r.Grades = c.grade(task, r.seen())
	return r, nil
}

// converse lets the agent work until it has said its last.
func (r *Record) converse(ctx context.Context, b *browser, agent Agent) {
	ctx, stop := context.WithTimeout(ctx, TaskTime)
	defer stop()
	began := time.Now()
	defer func() { r.LatencyMs = since(began) }()
	talk := Conversation{Prompt: r.Task.Prompt, Tools: incidentpage.Tools}
	for {
		asked := time.Now()
		step, err := agent.Next(ctx, talk)
		record := StepRecord{LatencyMs: since(asked), Usage: step.Usage}
		switch {
		case err != nil:
			said := err.Error()
			r.Ended, r.AgentError = EndedError, &said
			if step.Usage != nil {
				r.Steps = append(r.Steps, record)
			}
			return
		case step.Call == nil:
			r.Ended, r.Text = EndedText, &step.Text
			r.Steps = append(r.Steps, record)
			return
		case len(talk.Calls) == MaxCalls:
			r.Ended = EndedCalls
			r.Steps = append(r.Steps, record)
			return
		}
		call := b.call(ctx, *step.Call)
		record.Call = &call
		r.Steps = append(r.Steps, record)
		talk.Calls = append(talk.Calls, call)
	}
}
