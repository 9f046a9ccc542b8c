// Package evaluation is the command that evaluates agents on the tasks of the governed
// incident workflow: it checks the suite, tests the harness with scripted agents, and
// refuses a live run as long as something that it needs is missing.
package evaluation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"countersign/internal/command"
	"countersign/internal/runbook/evaluate"
	"countersign/internal/runbook/tasks"
)

// Command is `countersign eval`.
type Command struct {
	Runbook Runbook `cmd:"" help:"Evaluate agents on the 50 tasks of the incident workflow."`
}

// Help says what there is.
func (Command) Help() string {
	return `Evaluates agents on versioned tasks, against a control plane of its own. No model was run on them by
whoever made this program, and nothing here claims a success of one.

Example: countersign eval runbook --self-test`
}

// Runbook is `countersign eval runbook`.
type Runbook struct {
	Check    bool     `help:"Check the suite and print what is in it."`
	SelfTest bool     `help:"Test the harness: five scripted agents, whose grades were written by hand."`
	Provider string   `placeholder:"P" help:"Provider of the model of a live run. None is built yet."`
	Model    string   `placeholder:"M" help:"The model of a live run, pinned: its name ends with a date, a release of three digits, or @sha256:DIGEST."`
	Prices   string   `placeholder:"FILE" help:"JSON with the model's current prices, for a live run."`
	Tasks    []string `placeholder:"IDS" help:"Only these tasks of a live run, such as T01,T02."`
	Out      string   `placeholder:"DIR" help:"A new or empty folder for the results. Default: a new temporary one, whose path is printed."`
	JSON     bool     `name:"json" help:"Print one JSON object a line, and nothing else."`

	only []string // a test's: these tasks of the self-test
}

// Help says what is run, and what that shows.
func (Runbook) Help() string {
	return `The suite has 50 tasks, 18 of them adversarial. A control plane is made in a temporary folder and served on
loopback; each task begins in the state that it names, reached over HTTP, and the agent's calls go to the same
API as everybody's. Two grades are kept apart: whether the task was done, and whether its policy held, that is
whether only what may happen happened. Two policies also demand that something happened: successful_execution
exactly one execution, blocked_execution an attempt that the control plane blocked. The grades are computed from
the calls, the text and the session's signed receipts.

--check validates the suite and carries nothing out.

--self-test runs five scripted agents (perfect, idle, eager, liar, repeater) on every task and compares each
grade with the one that was written by hand. It tests the harness: no model is asked, so nothing of it says how
one behaves.

A live run needs --provider, a pinned --model and --prices. The file of prices is one object with model,
currency, asOf (a date, at most 31 days ago), inputPerMillion, cachedInputPerMillion and outputPerMillion,
prices as strings such as "0.30". It does not start while one of them is missing, and says which.

The folder gets results.jsonl, a task a line with every call and its answer; summary.txt; labels.csv, for a
person who judges the texts; and run.json last, without which the run did not end. Claims in a text are found by
keyword: a paraphrase can be missed, and a quotation taken for a claim.

Example: countersign eval runbook --check
Example: countersign eval runbook --self-test --out DIR
Example: countersign eval runbook --provider P --model NAME-2026-11-30 --prices prices.json --tasks T01,T02 --out DIR

Status 0: the suite is as it has to be; no grade differs. 1: it is not; one differs. 2: wrong usage or an
unreadable file. 3: something that a run needs is missing, or it was interrupted.`
}

// Run does what the flags say.
func (c *Runbook) Run(ctx context.Context, s command.Streams) error {
	live := c.Provider != "" || c.Model != "" || c.Prices != ""
	switch n := count(c.Check, c.SelfTest, live); {
	case n != 1:
		return command.Usage("eval runbook: want one of --check, --self-test, and --provider with --model and --prices")
	case len(c.Tasks) > 0 && !live:
		return command.Usage("--tasks belongs to a live run")
	case c.Check && c.Out != "":
		return command.Usage("eval runbook: --check writes nothing; leave --out away")
	}
	suite, err := tasks.V1()
	if err != nil {
		return command.Differs("%w", err)
	}
	switch {
	case c.Check:
		return check(s.Out, suite, c.JSON)
	case live:
		return c.live(suite, time.Now())
	}
	return c.selfTest(ctx, s)
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// check prints what is in a suite and what is wrong with it.
func check(w io.Writer, suite *tasks.Suite, asJSON bool) error {
	problems := tasks.Check(suite)
	adversarial := 0
	for _, count := range suite.Counts() {
		adversarial += count.Adversarial
		if err := line(w, asJSON, count, "%-23s %2d tasks, %2d adversarial\n", count.Category, count.Tasks, count.Adversarial); err != nil {
			return err
		}
	}
	for _, problem := range problems {
		if err := line(w, asJSON, map[string]string{"problem": problem}, "%s\n", problem); err != nil {
			return err
		}
	}
	total := struct {
		Suite       string `json:"suite"`
		Digest      string `json:"digest"`
		Tasks       int    `json:"tasks"`
		Adversarial int    `json:"adversarial"`
		Problems    int    `json:"problems"`
	}{suite.Format, suite.Digest(), len(suite.Tasks), adversarial, len(problems)}
	if err := line(w, asJSON, total, "%s: %d tasks, %d adversarial\n%s\n", total.Suite, total.Tasks, total.Adversarial, total.Digest); err != nil {
		return err
	}
	if len(problems) > 0 {
		return command.ErrDiffers
	}
	return nil
}

// line prints an object for programs, or the line for a person.
func line(w io.Writer, asJSON bool, object any, format string, args ...any) error {
	if !asJSON {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	}
	raw, err := json.Marshal(object)
	if err == nil {
		_, err = w.Write(append(raw, '\n'))
	}
	return err
}

// live refuses as long as something is missing. Without a provider something is.
func (c *Runbook) live(suite *tasks.Suite, now time.Time) error {
	for _, id := range c.Tasks {
		if suite.Find(id) == nil {
			return command.Usage("--tasks: there is no task %q; they are T01 to T50", id)
		}
	}
	if err := free(c.Out); err != nil {
		return err
	}
	var missing []string
	if c.Provider == "" {
		missing = append(missing, "a provider (--provider)")
	} else {
		missing = append(missing, fmt.Sprintf("the provider %q, which is not built; none is", c.Provider))
	}
	switch {
	case c.Model == "":
		missing = append(missing, "a pinned model (--model)")
	case !evaluate.Pinned(c.Model):
		missing = append(missing, fmt.Sprintf("a pinned model: %q names no release", c.Model))
	}
	if c.Prices == "" {
		missing = append(missing, "current prices (--prices)")
	} else {
		raw, err := readPrices(c.Prices)
		if err != nil {
			return command.Usage("--prices: %w", err)
		}
		prices, err := evaluate.ReadPrices(raw)
		if err != nil {
			return command.Usage("--prices %s: %w", c.Prices, err)
		}
		if problem := prices.Current(c.Model, now); problem != "" {
			missing = append(missing, problem)
		}
	}
	return fmt.Errorf("eval runbook: the live run does not start. Missing: %s. Nothing was run and nothing was written", strings.Join(missing, "; "))
}

// maxPrices bounds what is read of a file of prices, in bytes.
const maxPrices = 1 << 20

// readPrices reads a regular file: a device, or a pipe that nobody writes to, has no end.
func readPrices(name string) ([]byte, error) {
	// What is no regular file is not opened: to open a pipe waits for whoever writes.
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxPrices+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxPrices:
		return nil, fmt.Errorf("%s is longer than %d bytes", name, maxPrices)
	}
	return raw, nil
}

// free refuses a folder that holds something, before anything is made.
func free(dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return command.Usage("--out: %w", err)
	case len(entries) > 0:
		return command.Usage("--out: %s is not empty; give a new folder", dir)
	}
	return nil
}

// selfTest runs the scripted agents.
func (c *Runbook) selfTest(ctx context.Context, s command.Streams) (err error) {
	folder, err := c.folder()
	if err != nil {
		return err
	}
	if err := line(s.Out, c.JSON, map[string]string{"label": evaluate.SelfTestLabel, "out": folder.Dir()}, "%s\nfolder %s\n", evaluate.SelfTestLabel, folder.Dir()); err != nil {
		return err
	}
	each, done := cmp.Or(len(c.only), tasks.Total), 0
	records, differences, err := evaluate.SelfTest(ctx, evaluate.Config{
		Folder: folder, Only: c.only, Log: slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelError})),
		Done: func(r *evaluate.Record) {
			if done++; done%each == 0 {
				fmt.Fprintf(s.Err, "%s: %d tasks graded\n", r.Agent, each)
			}
		},
	})
	switch {
	case err != nil && ctx.Err() != nil: // a client tells the cause and not context.Canceled
		return fmt.Errorf("eval runbook: interrupted, tasks graded: %d; %s has what was graded until then, and no %s", done, folder.Dir(), evaluate.RunFile)
	case err != nil:
		return fmt.Errorf("eval runbook: tasks graded: %d: %w", done, err)
	}
	return c.report(s.Out, folder.Dir(), records, differences)
}

// report prints what differs, and that nothing does.
func (c *Runbook) report(w io.Writer, dir string, records []*evaluate.Record, differences []evaluate.Difference) error {
	for _, r := range records {
		if !c.JSON {
			break
		}
		if err := line(w, true, graded{evaluate.SelfTestLabel, r.Agent, r.Task.ID, r.Grades.TaskSuccess, r.Grades.PolicyPassed, r.Grades.Taxonomy}, ""); err != nil {
			return err
		}
	}
	for _, d := range differences {
		if err := line(w, c.JSON, different{evaluate.SelfTestLabel, d}, "%s on %s: %s; by hand: %s\n", d.Agent, d.Task, d.Got, d.Want); err != nil {
			return err
		}
	}
	end := struct {
		Label  string `json:"label"`
		Grades int    `json:"grades"`
		Differ int    `json:"differ"`
		Out    string `json:"out"`
	}{evaluate.SelfTestLabel, len(records), len(differences), dir}
	if err := line(w, c.JSON, end, "%d pairs of grades; from those written by hand differ: %d\n", end.Grades, end.Differ); err != nil {
		return err
	}
	if len(differences) > 0 {
		return command.ErrDiffers
	}
	return nil
}

// graded is a task of a self-test for programs.
type graded struct {
	Label        string   `json:"label"`
	Agent        string   `json:"agent"`
	Task         string   `json:"task"`
	TaskSuccess  bool     `json:"taskSuccess"`
	PolicyPassed bool     `json:"policyPassed"`
	Taxonomy     []string `json:"taxonomy"`
}

// different is a grade that differs, for programs.
type different struct {
	Label string `json:"label"`
	evaluate.Difference
}

// folder takes the folder of --out, or makes a temporary one.
func (c *Runbook) folder() (*evaluate.Folder, error) {
	dir := c.Out
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "countersign-eval-"); err != nil {
			return nil, fmt.Errorf("%w; set TMPDIR to a folder that exists and that this user may write", err)
		}
	}
	folder, err := evaluate.NewFolder(dir)
	if err != nil {
		return nil, command.Usage("--out: %w; give a new folder in one that exists", err)
	}
	return folder, nil
}
