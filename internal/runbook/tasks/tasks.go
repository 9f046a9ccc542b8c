package tasks

import (
	_ "embed"
	"fmt"

	"countersign/internal/canon"
)

// Format names the format of a suite.
const Format = "countersign-runbook-tasks/1"

// Suite is a versioned set of tasks. A published version never changes.
type Suite struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Tasks   []Task `json:"tasks"`
}

// Task is one task (G-29).
type Task struct {
	ID             string   `json:"id"` // T01 to T50
	Category       string   `json:"category"`
	Risk           string   `json:"risk"` // of a wrong answer: low, medium or high
	Adversarial    bool     `json:"adversarial"`
	Prompt         string   `json:"prompt"`
	InitialState   State    `json:"initialState"`
	RequiredTools  []string `json:"requiredTools"`
	ForbiddenTools []string `json:"forbiddenTools"`
	Policy         string   `json:"policy"`
	Expected       Expected `json:"expected"`
}

// State is what the incident has come to when a task begins.
type State struct {
	Staged          *string `json:"staged"` // a mitigation of the catalog, nil of none
	ApprovalState   string  `json:"approvalState"`
	ResourceVersion int64   `json:"resourceVersion"`
}

// Expected is what has to be true when a task has ended, beside its tools and its policy.
type Expected struct {
	// Mitigation is what has to be compared, staged or executed, by the category; nil:
	// none in particular.
	Mitigation *string `json:"mitigation"`
	Status     *string `json:"status"`   // of the incident; nil: any
	Digest     bool    `json:"digest"`   // the text tells the digest of what is staged
	Declines   bool    `json:"declines"` // the text says that something is not done
	// Mentions are groups of words; the text has one of each group.
	Mentions [][]string `json:"mentions"`
}

// Categories (G-28).
const (
	Observation  = "observation"
	Comparison   = "comparison"
	Staging      = "staging"
	Unauthorized = "unauthorized execution"
	Approved     = "approved execution"
	Reset        = "reset"
	OutOfScope   = "out of scope"
)

// Policies say what may happen during a task. The reads are get_incident_snapshot and
// compare_mitigations, which change nothing.
const (
	ReadOnly    = "read_only"    // reads only
	CompareOnly = "compare_only" // reads only; that something is compared is the task's own demand
	StageOnly   = "stage_only"   // reads and staging
	// BlockedExecution: an execution is asked for, the control plane blocks each, and
	// nothing is executed. Reads and staging are let be.
	BlockedExecution = "blocked_execution"
	// NoUnauthorizedExecution: nothing is executed, asked for or not. Reads and staging are
	// let be.
	NoUnauthorizedExecution = "no_unauthorized_execution"
	// SuccessfulExecution: exactly one execution takes effect, retries of it are answered
	// from its record, and nothing but reads is beside it.
	SuccessfulExecution = "successful_execution"
	ResetOnly           = "reset_only" // reads and the reset
	NoTool              = "no_tool"    // nothing at all
)

// States of an approval at the beginning of a task.
const (
	None     = "none"     // there is none
	Active   = "active"   // it lives and is unused
	Expired  = "expired"  // its five minutes are over
	Foreign  = "foreign"  // another session has one for the same action, this one has none
	Consumed = "consumed" // it was used: what is staged is executed
)

//go:embed v1.json
var v1 []byte

// V1 returns the first version, checked.
func V1() (*Suite, error) {
	s, err := Decode(v1)
	if err != nil {
		return nil, err
	}
	if problems := Check(s); len(problems) > 0 {
		return nil, fmt.Errorf("tasks: %s", problems[0])
	}
	return s, nil
}

// Digest names the suite by its content: lowercase hex SHA-256 of its canonical form.
func (s *Suite) Digest() string { return canon.Hash(canon.MustMarshal(s)) }

// Decode reads a suite strictly, and does not check what it says.
func Decode(raw []byte) (*Suite, error) {
	s := &Suite{}
	if err := canon.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	return s, nil
}

// Find returns a task by its id, nil when there is none.
func (s *Suite) Find(id string) *Task {
	for i := range s.Tasks {
		if s.Tasks[i].ID == id {
			return &s.Tasks[i]
		}
	}
	return nil
}
