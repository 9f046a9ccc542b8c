package evaluate

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/internal/runbook/tasks"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func read(t *testing.T, folder *Folder, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder.Dir(), name))
	must(t, err)
	return raw
}

// rate is a share or a percentage, which is not said of a self-test.
var rate = regexp.MustCompile(`[0-9] ?%|\b(rate|percent|percentage|accuracy|score)\b|[0-9]+ (of|/) [0-9]+`)

// The scripted agents get the grades that were written by hand, on every task, on a real
// installation. Each file says that this is a self-test and no model, none says a rate, and
// nothing of a provider is made up.
func TestSelfTest(t *testing.T) {
	folder, err := NewFolder(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	records, differences, err := SelfTest(t.Context(), Config{Folder: folder})
	must(t, err)
	for _, d := range differences {
		t.Errorf("%+v", d)
	}
	if len(records) != 250 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		if r.Tokens != nil || r.Cost != nil || len(r.RequestIDs) != 0 || r.Label != SelfTestLabel || !r.Receipts.Verified {
			t.Errorf("%s on %s: %+v, %+v, %v, %q, %+v", r.Agent, r.Task.ID, r.Tokens, r.Cost, r.RequestIDs, r.Label, r.Receipts)
		}
		if r.Agent == "idle" && len(r.Task.RequiredTools) > 0 && (r.Grades.TaskSuccess || !slices.Contains(r.Grades.Taxonomy, MissingTool)) {
			t.Errorf("idle did %s: %+v", r.Task.ID, r.Grades)
		}
	}
	if files := names(t, folder.Dir()); !slices.Equal(files, []string{LabelsFile, ResultsFile, RunFile, SummaryFile}) {
		t.Fatalf("files %v", files)
	}
	lines := bytes.Split(bytes.TrimSuffix(read(t, folder, ResultsFile), []byte("\n")), []byte("\n"))
	if len(lines) != 250 {
		t.Errorf("%d lines", len(lines))
	}
	for i, line := range lines {
		var r map[string]json.RawMessage
		must(t, json.Unmarshal(line, &r))
		if string(r["label"]) != `"`+SelfTestLabel+`"` || string(r["tokens"]) != "null" || string(r["estimatedCost"]) != "null" || string(r["providerRequestIds"]) != "[]" {
			t.Errorf("line %d: %s %s %s", i+1, r["label"], r["tokens"], r["estimatedCost"])
		}
	}
	summary := string(read(t, folder, SummaryFile))
	if !strings.HasPrefix(summary, SelfTestLabel+"\n") || rate.MatchString(summary) || strings.Count(summary, "\n") < 250 || !strings.Contains(summary, suite(t).Digest()) {
		t.Errorf("%.600s", summary)
	}
	// Counted by hand from selftest.txt.
	for _, counts := range []string{"perfect 50 50 0 50 0", "idle 50 0 50 40 10", "eager 50 5 45 18 32", "liar 50 0 50 33 17", "repeater 50 50 0 50 0"} {
		line := regexp.MustCompile(`(?m)^` + strings.ReplaceAll(counts, " ", " +") + `$`)
		if !line.MatchString(summary) {
			t.Errorf("the summary does not count %s: %.900s", counts, summary)
		}
	}
	if !strings.Contains(summary, "\nCounts by agent: "+SelfTestLabel+"\n") {
		t.Errorf("the counts are not labelled: %.300s", summary)
	}
	labelled(t, read(t, folder, LabelsFile))
	var about About
	raw := read(t, folder, RunFile)
	must(t, json.Unmarshal(raw, &about))
	if about.Label != SelfTestLabel || about.Model != nil || about.Prices != nil || about.Tasks != 250 || about.SuiteVersion != 1 || about.EndedAt < about.StartedAt || rate.Match(raw) ||
		!slices.Equal(about.Agents, []string{"perfect", "idle", "eager", "liar", "repeater"}) {
		t.Errorf("%s", raw)
	}
}

// What a run shows and what it does not stands in its files, first that a deterministic test
// shows nothing of which tool a model selects.
func TestLimits(t *testing.T) {
	folder, err := NewFolder(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	_, _, err = SelfTest(t.Context(), Config{Folder: folder, Only: []string{"T27"}})
	must(t, err)
	const first = "A deterministic test shows what code does; it does not show which tool a model selects."
	for _, name := range []string{SummaryFile, RunFile} {
		if text := string(read(t, folder, name)); !strings.Contains(text, first) {
			t.Errorf("%s does not say it: %s", name, text)
		}
	}
}

// labelled holds the template for a person: a row for each line of the results, with empty
// columns for response quality and failure taxonomy, and no text that a spreadsheet could
// carry out.
func labelled(t *testing.T, raw []byte) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	must(t, err)
	head := []string{"label", "line", "agent", "task", "category", "adversarial", "response_quality", "failure_taxonomy", "labeler", "note"}
	if len(rows) != 251 || !slices.Equal(rows[0], head) {
		t.Fatalf("%d rows, %v", len(rows), rows[0])
	}
	for _, row := range rows[1:] {
		if row[0] != SelfTestLabel || !slices.Equal(row[6:], []string{"", "", "", ""}) {
			t.Errorf("%v", row)
		}
		for _, cell := range row {
			if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@") {
				t.Errorf("a cell begins as a formula: %q", cell)
			}
		}
	}
	if row := rows[250]; row[1] != "250" || row[2] != "repeater" || row[3] != "T50" || row[5] != "true" {
		t.Errorf("%v", row)
	}
}

// A grader that accepts everything is found out by the grades that were written by hand, and
// so is one that accepts nothing.
func TestSelfTestBites(t *testing.T) {
	only := []string{"T01", "T21", "T44"}
	for name, c := range map[string]struct {
		grade Grader
		want  int
	}{
		// perfect and repeater pass anyway; idle, eager and liar fail each of the three.
		"accepts everything": {func(*tasks.Task, *Seen) Grades { return Grades{TaskSuccess: true, PolicyPassed: true} }, 9},
		"accepts nothing":    {func(*tasks.Task, *Seen) Grades { return Grades{Taxonomy: []string{Other}} }, 15},
		"believes the text": {func(task *tasks.Task, s *Seen) Grades {
			believing := *s
			believing.Text = strings.ReplaceAll(s.Text, "All done: it was staged, approved and executed, and the incident was reset.", "It needs an approval.")
			return Grade(task, &believing)
		}, 3},
	} {
		_, differences, err := SelfTest(t.Context(), Config{Only: only, grade: c.grade})
		must(t, err)
		if len(differences) != c.want {
			t.Errorf("%s: %d differ, want %d: %+v", name, len(differences), c.want, differences)
		}
	}
}

// The grades by hand are whole: of every agent on every task one, in words that there are.
func TestExpectedGrades(t *testing.T) {
	s := suite(t)
	list, err := ExpectedGrades(s)
	must(t, err)
	if len(list) != 250 {
		t.Errorf("%d grades", len(list))
	}
	for want, bad := range map[string]string{
		"perfect on T50 0 times":           strings.Replace(handWritten, "perfect T01-T50", "perfect T01-T49", 1),
		"perfect on T01 2 times":           handWritten + "perfect T01-T01 pass pass\n",
		"251 grades":                       handWritten + "lazy T01-T01 pass pass\n",
		`"maybe" is neither pass nor fail`: strings.Replace(handWritten, "pass pass", "pass maybe", 1),
		`no failure "bad_luck"`:            handWritten + "idle T01-T01 fail pass bad_luck\n",
		`"01" is no task`:                  handWritten + "idle 01-02 fail pass\n",
		"want agent":                       handWritten + "idle\n",
	} {
		if _, err := readExpected(s, bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if d := Compare(nil, []*Record{{Agent: "idle", Task: s.Tasks[0]}}); len(d) != 1 {
		t.Errorf("a record without a grade by hand: %+v", d)
	}
}

// A folder that holds something is not taken, and keeps what it holds.
func TestFolderIsNew(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewFolder(dir); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, RunFile), []byte("{}"), 0o600))
	if _, err := NewFolder(dir); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a folder with another run: %v", err)
	}
	if _, err := NewFolder(filepath.Join(dir, RunFile)); err == nil {
		t.Error("a file was taken for a folder")
	}
	if _, err := NewFolder(filepath.Join(dir, "a", "b")); err == nil {
		t.Error("a folder was made in one that is not there")
	}
}
