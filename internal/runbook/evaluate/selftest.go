package evaluate

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"countersign/internal/runbook/tasks"
)

// SelfTestLabel stands in everything that a self-test writes.
const SelfTestLabel = "harness self-test, scripted agents, not a model"

//go:embed selftest.txt
var handWritten string

// Expected is a grade that was written by hand.
type Expected struct {
	Agent, Task               string
	TaskSuccess, PolicyPassed bool
	Taxonomy                  []string
}

// ExpectedGrades reads the hand-written grades: one of every agent on every task, or it
// fails.
func ExpectedGrades(s *tasks.Suite) ([]Expected, error) { return readExpected(s, handWritten) }

func readExpected(s *tasks.Suite, text string) ([]Expected, error) {
	var list []Expected
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		more, err := readLine(line)
		if err != nil {
			return nil, fmt.Errorf("evaluate: selftest.txt line %d: %w", i+1, err)
		}
		list = append(list, more...)
	}
	for _, agent := range ScriptedAgents(s) {
		for _, task := range s.Tasks {
			n := 0
			for _, e := range list {
				if e.Agent == agent.Name() && e.Task == task.ID {
					n++
				}
			}
			if n != 1 {
				return nil, fmt.Errorf("evaluate: selftest.txt has %s on %s %d times", agent.Name(), task.ID, n)
			}
		}
	}
	if want := len(ScriptedAgents(s)) * len(s.Tasks); len(list) != want {
		return nil, fmt.Errorf("evaluate: selftest.txt has %d grades, not %d", len(list), want)
	}
	return list, nil
}

// readLine reads a line: agent, first-last, taskSuccess, policyPassed, failures.
func readLine(line string) (list []Expected, err error) {
	words := strings.Fields(line)
	if len(words) < 4 {
		return nil, fmt.Errorf("want agent, tasks, two grades and failures")
	}
	e := Expected{Agent: words[0], TaskSuccess: words[2] == "pass", PolicyPassed: words[3] == "pass", Taxonomy: words[4:]}
	for _, grade := range words[2:4] {
		if grade != "pass" && grade != "fail" {
			return nil, fmt.Errorf("%q is neither pass nor fail", grade)
		}
	}
	for _, failure := range e.Taxonomy {
		if !slices.Contains(Taxonomy, failure) {
			return nil, fmt.Errorf("there is no failure %q", failure)
		}
	}
	first, last, _ := strings.Cut(words[1], "-")
	from, err := number(first)
	if err != nil {
		return nil, err
	}
	to, err := number(last)
	if err != nil {
		return nil, err
	}
	for n := from; n <= to; n++ {
		e.Task = fmt.Sprintf("T%02d", n)
		list = append(list, e)
	}
	return list, nil
}

func number(id string) (int, error) {
	digits, found := strings.CutPrefix(id, "T")
	n, err := strconv.Atoi(digits)
	if !found || err != nil || len(digits) != 2 {
		return 0, fmt.Errorf("%q is no task", id)
	}
	return n, nil
}

// Difference is a grade that is not the one that was written by hand.
type Difference struct {
	Agent string `json:"agent"`
	Task  string `json:"task"`
	Want  string `json:"want"`
	Got   string `json:"got"`
}

// SelfTest runs the scripted agents and returns the records with the grades that differ
// from those written by hand. Label, agents and model are its own.
func SelfTest(ctx context.Context, c Config) (records []*Record, differences []Difference, err error) {
	if c.Suite, err = tasks.V1(); err != nil {
		return nil, nil, err
	}
	expected, err := ExpectedGrades(c.Suite)
	if err != nil {
		return nil, nil, err
	}
	c.Label, c.Agents, c.Model, c.Prices = SelfTestLabel, ScriptedAgents(c.Suite), nil, nil
	if records, err = Run(ctx, c); err != nil {
		return records, nil, err
	}
	return records, Compare(expected, records), nil
}

// Compare holds grades against those that were written by hand.
func Compare(expected []Expected, records []*Record) (differences []Difference) {
	for _, r := range records {
		i := slices.IndexFunc(expected, func(e Expected) bool { return e.Agent == r.Agent && e.Task == r.Task.ID })
		if i < 0 {
			differences = append(differences, Difference{r.Agent, r.Task.ID, "no grade", "one"})
			continue
		}
		e := expected[i]
		want, got := spelled(e.TaskSuccess, e.PolicyPassed, e.Taxonomy), spelled(r.Grades.TaskSuccess, r.Grades.PolicyPassed, r.Grades.Taxonomy)
		if want != got {
			differences = append(differences, Difference{r.Agent, r.Task.ID, want, got})
		}
	}
	return differences
}

func spelled(task, policy bool, taxonomy []string) string {
	return strings.TrimSpace("task " + passed(task) + ", policy " + passed(policy) + " " + strings.Join(taxonomy, " "))
}
