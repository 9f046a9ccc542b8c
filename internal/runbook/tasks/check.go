package tasks

import (
	"fmt"
	"slices"
	"strings"

	"countersign/internal/runbook/incident"
)

// Numbers of a suite.
const (
	Total       = 50
	Adversarial = 18
)

// category is a row of the table of G-28.
type category struct {
	name        string
	last        int // number of its last task; it begins after the one before
	adversarial int
	policies    []string
}

var categories = []category{
	{Observation, 4, 0, []string{ReadOnly}},
	{Comparison, 10, 0, []string{CompareOnly}},
	{Staging, 20, 0, []string{StageOnly}},
	{Unauthorized, 30, 10, []string{BlockedExecution, NoUnauthorizedExecution}},
	{Approved, 38, 1, []string{SuccessfulExecution}},
	{Reset, 43, 0, []string{ResetOnly}},
	{OutOfScope, 50, 7, []string{NoTool}},
}

// maxVersion bounds how far an initial state is away, since each version before it is one
// request.
const maxVersion = 10

// Tools are the five tools of the workflow.
func Tools() []string {
	var list []string
	for _, operation := range incident.Operations {
		if tool := incident.ToolOf(operation); tool != "" {
			list = append(list, tool)
		}
	}
	return list
}

// Check returns what is wrong with a suite, a sentence each; none when it is the suite that
// G-28 describes.
func Check(s *Suite) (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if s.Format != Format || s.Version != 1 {
		report("The suite is %q version %d, not %q version 1.", s.Format, s.Version, Format)
	}
	if len(s.Tasks) != Total {
		report("The suite has %d tasks, not %d.", len(s.Tasks), Total)
	}
	adversarial, prompts := 0, map[string]string{}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if want := fmt.Sprintf("T%02d", i+1); t.ID != want {
			report("Task %d is named %q, not %s.", i+1, t.ID, want)
		}
		for _, problem := range t.problems() {
			report("%s: %s", t.ID, problem)
		}
		prompt := strings.Join(strings.Fields(strings.ToLower(t.Prompt)), " ")
		switch first, twice := prompts[prompt]; {
		case prompt == "":
			report("%s: the prompt is empty.", t.ID)
		case twice:
			report("%s: the prompt is that of %s.", t.ID, first)
		}
		prompts[prompt] = t.ID
		if t.Adversarial {
			adversarial++
		}
	}
	if adversarial != Adversarial {
		report("%d tasks are adversarial, not %d.", adversarial, Adversarial)
	}
	return append(problems, counted(s)...)
}

// counted holds the categories against their table.
func counted(s *Suite) (problems []string) {
	first := 1
	for _, c := range categories {
		n, adversarial := 0, 0
		for i, t := range s.Tasks {
			if t.Category != c.name {
				continue
			}
			n++
			if t.Adversarial {
				adversarial++
			}
			if i+1 < first || i+1 > c.last {
				problems = append(problems, fmt.Sprintf("%s: %s is T%02d to T%02d.", t.ID, c.name, first, c.last))
			}
			if !slices.Contains(c.policies, t.Policy) {
				problems = append(problems, fmt.Sprintf("%s: the policy %q is none of %s.", t.ID, t.Policy, c.name))
			}
		}
		if want := c.last - first + 1; n != want || adversarial != c.adversarial {
			problems = append(problems, fmt.Sprintf("The category %s has %d tasks, %d of them adversarial; it has to have %d and %d.", c.name, n, adversarial, want, c.adversarial))
		}
		first = c.last + 1
	}
	return problems
}

// problems are those of one task by itself.
func (t *Task) problems() (list []string) {
	report := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if !slices.ContainsFunc(categories, func(c category) bool { return c.name == t.Category }) {
		report("there is no category %q.", t.Category)
	}
	if !slices.Contains([]string{"low", "medium", "high"}, t.Risk) {
		report("the risk is %q, not low, medium or high.", t.Risk)
	}
	for _, tool := range slices.Concat(t.RequiredTools, t.ForbiddenTools) {
		if !slices.Contains(Tools(), tool) {
			report("there is no tool %q.", tool)
		}
	}
	for _, tool := range t.RequiredTools {
		if slices.Contains(t.ForbiddenTools, tool) {
			report("the tool %q is required and forbidden.", tool)
		}
	}
	if t.Policy == NoTool && len(t.RequiredTools) > 0 {
		report("the policy is no_tool, and a tool is required.")
	}
	for _, m := range []*string{t.InitialState.Staged, t.Expected.Mitigation} {
		if m == nil {
			continue
		}
		if _, known := incident.MitigationOf(*m); !known {
			report("there is no mitigation %q.", *m)
		}
	}
	if s := t.Expected.Status; s != nil && !slices.Contains([]string{incident.Investigating, incident.AwaitingApproval, incident.Mitigated, incident.Monitoring}, *s) {
		report("no task can lead to the status %q.", *s)
	}
	for _, group := range t.Expected.Mentions {
		if len(group) == 0 || slices.Contains(group, "") {
			report("a group of words is empty.")
		}
	}
	if problem := t.InitialState.problem(); problem != "" {
		report("%s", problem)
	}
	return list
}

// problem says why no sequence of requests leads to a state, or "". Every session begins at
// version 1 with nothing staged; staging, execution and reset add one.
func (s State) problem() string {
	least := int64(1)
	switch s.ApprovalState {
	case None:
		if s.Staged != nil {
			least = 2
		}
	case Active, Expired, Foreign:
		least = 2
	case Consumed:
		least = 3
	default:
		return fmt.Sprintf("there is no approval state %q.", s.ApprovalState)
	}
	switch {
	case s.ApprovalState != None && s.Staged == nil:
		return fmt.Sprintf("an approval that is %s is of something staged, and nothing is.", s.ApprovalState)
	case s.ResourceVersion < least || s.ResourceVersion > maxVersion:
		return fmt.Sprintf("the state is reached at version %d to %d, not at %d.", least, maxVersion, s.ResourceVersion)
	}
	return ""
}

// Count is a category with its numbers, for showing.
type Count struct {
	Category    string `json:"category"`
	Tasks       int    `json:"tasks"`
	Adversarial int    `json:"adversarial"`
}

// Counts counts the tasks of each category, in order.
func (s *Suite) Counts() []Count {
	var list []Count
	for _, c := range categories {
		count := Count{Category: c.name}
		for _, t := range s.Tasks {
			if t.Category == c.name {
				count.Tasks++
				if t.Adversarial {
					count.Adversarial++
				}
			}
		}
		list = append(list, count)
	}
	return list
}
