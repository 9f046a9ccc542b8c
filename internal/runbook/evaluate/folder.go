package evaluate

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"countersign/evidence"
	"countersign/internal/app"
)

// Files of a run's folder.
const (
	ResultsFile = "results.jsonl" // a record a line
	SummaryFile = "summary.txt"
	LabelsFile  = "labels.csv" // for a person to fill in
	RunFile     = "run.json"   // written last: without it the run did not end
)

// ErrNotEmpty means that a folder holds something.
var ErrNotEmpty = errors.New("the folder is not empty")

// Folder is where a run is kept. Nothing is in it that a run did not produce.
type Folder struct {
	dir     string
	results *os.File
	out     *bufio.Writer
}

// NewFolder takes a folder for a run: one that it makes, or one that is empty.
func NewFolder(dir string) (*Folder, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return nil, err
	case len(entries) > 0:
		return nil, fmt.Errorf("%s: %w", dir, ErrNotEmpty)
	}
	return &Folder{dir: dir}, nil
}

// Dir is the folder's path.
func (f *Folder) Dir() string { return f.dir }

// add appends a record. The file begins with the first.
func (f *Folder) add(r *Record) (err error) {
	if f == nil {
		return nil
	}
	if f.results == nil {
		if f.results, err = f.create(ResultsFile); err != nil {
			return err
		}
		f.out = bufio.NewWriter(f.results)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := f.out.Write(append(raw, '\n')); err != nil {
		return err
	}
	return f.out.Flush()
}

// close ends what is written of a run that did not come to its end.
func (f *Folder) close() error {
	if f == nil || f.results == nil {
		return nil
	}
	err := errors.Join(f.out.Flush(), f.results.Close())
	f.results = nil
	return err
}

func (f *Folder) create(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(f.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

func (f *Folder) write(name string, content []byte) error {
	file, err := f.create(name)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// About is run.json: what was run, on what, and when.
type About struct {
	Label             string        `json:"label"`
	Format            string        `json:"format"`
	Suite             string        `json:"suite"`
	SuiteVersion      int           `json:"suiteVersion"`
	SuiteDigest       string        `json:"suiteDigest"`
	Agents            []string      `json:"agents"`
	Model             *string       `json:"model"`
	Prices            *Prices       `json:"prices"`
	Build             string        `json:"build"`
	Revision          string        `json:"revision"`
	Engine            string        `json:"engine"`
	EvidencePublicKey string        `json:"evidencePublicKeys"`
	MaxCalls          int           `json:"maxCalls"`
	StartedAt         evidence.Time `json:"startedAt"`
	EndedAt           evidence.Time `json:"endedAt"`
	Tasks             int           `json:"tasks"` // records in results.jsonl
	Limits            []string      `json:"limits"`
}

// FormatRun names the format of the files.
const FormatRun = "countersign-runbook-evaluation/1"

// Limits are what the files show and what they do not.
var Limits = []string{
	"A deterministic test shows what code does; it does not show which tool a model selects.",
	"Claims, mentions and refusals in a text are found by keyword; labels.csv is for a person's judgement.",
	"The estimated cost is computed from the prices given; the provider's bill counts.",
}

// conclude writes what a run has when it ended; run.json last.
func (f *Folder) conclude(c *Config, h *house, records []*Record, began time.Time) error {
	if f == nil {
		return nil
	}
	if f.results == nil {
		return errors.New("evaluate: no task was carried out")
	}
	err := errors.Join(f.out.Flush(), f.results.Sync(), f.results.Close())
	f.results = nil
	if err != nil {
		return err
	}
	if err := f.write(SummaryFile, summary(c, records)); err != nil {
		return err
	}
	labels, err := labels(records)
	if err != nil {
		return err
	}
	if err := f.write(LabelsFile, labels); err != nil {
		return err
	}
	about := About{
		Label: c.Label, Format: FormatRun, Suite: c.Suite.Format, SuiteVersion: c.Suite.Version, SuiteDigest: c.Suite.Digest(), Agents: []string{}, Model: c.Model, Prices: c.Prices,
		Engine: h.plane.Engine(), EvidencePublicKey: string(h.public), MaxCalls: MaxCalls, StartedAt: evidence.TimeOf(began), EndedAt: evidence.TimeOf(time.Now()), Tasks: len(records), Limits: Limits,
	}
	about.Build, about.Revision = app.Build()
	for _, a := range c.Agents {
		about.Agents = append(about.Agents, a.Name())
	}
	raw, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	return f.write(RunFile, append(raw, '\n'))
}

// summary has a line for each task, and before them plain counts by agent, no rate.
func summary(c *Config, records []*Record) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s, %s\n\n", c.Label, c.Suite.Format, c.Suite.Digest())
	fmt.Fprintf(&b, "Counts by agent: %s\n", c.Label)
	fmt.Fprintf(&b, countForm, "agent", "tasks", "task pass", "task fail", "policy pass", "policy fail")
	for _, agent := range c.Agents {
		n, task, policy := 0, 0, 0
		for _, r := range records {
			if r.Agent != agent.Name() {
				continue
			}
			n++
			if r.Grades.TaskSuccess {
				task++
			}
			if r.Grades.PolicyPassed {
				policy++
			}
		}
		fmt.Fprintf(&b, countForm, agent.Name(), n, task, n-task, policy, n-policy)
	}
	fmt.Fprintln(&b)
	fmt.Fprintf(&b, rowForm, "agent", "task", "category", "task", "policy", "failures")
	for _, r := range records {
		fmt.Fprintf(&b, rowForm, r.Agent, r.Task.ID, r.Task.Category, passed(r.Grades.TaskSuccess), passed(r.Grades.PolicyPassed), orDash(strings.Join(r.Grades.Taxonomy, " ")))
	}
	fmt.Fprintln(&b)
	for _, limit := range Limits {
		fmt.Fprintln(&b, limit)
	}
	return []byte(b.String())
}

// Forms of a line of a task, and of one of an agent.
const (
	rowForm   = "%-9s %-4s %-22s %-4s %-6s %s\n"
	countForm = "%-9s %5v %9v %9v %11v %11v\n"
)

func passed(ok bool) string {
	if ok {
		return "pass"
	}
	return "fail"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// labels is the template for a person's judgement: the last four columns are empty.
// Texts are not in it, which a spreadsheet could take for formulas; results.jsonl has them.
func labels(records []*Record) ([]byte, error) {
	var b strings.Builder
	w := csv.NewWriter(&b)
	if err := w.Write([]string{"label", "line", "agent", "task", "category", "adversarial", "response_quality", "failure_taxonomy", "labeler", "note"}); err != nil {
		return nil, err
	}
	for i, r := range records {
		if err := w.Write([]string{r.Label, strconv.Itoa(i + 1), r.Agent, r.Task.ID, r.Task.Category, strconv.FormatBool(r.Task.Adversarial), "", "", "", ""}); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return []byte(b.String()), w.Error()
}
