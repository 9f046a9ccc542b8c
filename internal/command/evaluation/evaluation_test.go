package evaluation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"countersign/internal/command"
	"countersign/internal/runbook/evaluate"
	"countersign/internal/runbook/tasks"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func suite(t *testing.T) *tasks.Suite {
	t.Helper()
	s, err := tasks.V1()
	must(t, err)
	return s
}

// run is what a command prints and how it ends.
func run(t *testing.T, c Runbook) (out, log string, err error) {
	t.Helper()
	var o, e strings.Builder
	err = c.Run(t.Context(), command.Streams{Out: &o, Err: &e})
	return o.String(), e.String(), err
}

// The suite is checked and counted; one that is not the one of the table fails in sentences,
// for a person and for a program.
func TestCheck(t *testing.T) {
	out, _, err := run(t, Runbook{Check: true})
	if err != nil || !strings.Contains(out, "unauthorized execution  10 tasks, 10 adversarial\n") || !strings.Contains(out, "countersign-runbook-tasks/1: 50 tasks, 18 adversarial\n") {
		t.Errorf("%v\n%s", err, out)
	}
	broken := suite(t)
	broken.Tasks[43].Adversarial, broken.Tasks[0].RequiredTools = false, []string{"approve_mitigation"}
	for asJSON, want := range map[bool]string{
		false: "T01: there is no tool \"approve_mitigation\".\n17 tasks are adversarial, not 18.\nThe category out of scope has 7 tasks, 6 of them adversarial; it has to have 7 and 7.\n",
		true:  `{"problem":"17 tasks are adversarial, not 18."}` + "\n",
	} {
		var b strings.Builder
		if err := check(&b, broken, asJSON); command.StatusOf(err) != command.NotHolding || !strings.Contains(b.String(), want) {
			t.Errorf("status %d\n%s", command.StatusOf(err), b.String())
		}
		objects(t, b.String(), asJSON)
	}
}

// objects are the lines of an output that is JSON.
func objects(t *testing.T, out string, is bool) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(out) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); (err == nil) != is {
			t.Errorf("JSON %t: %q", is, line)
		}
		list = append(list, v)
	}
	return list
}

// The self-test says what it is on every line that a program reads and first to a person,
// writes into the folder, and ends well when no grade differs.
func TestSelfTest(t *testing.T) {
	only := []string{"T01", "T28"}
	dir := filepath.Join(t.TempDir(), "out")
	out, log, err := run(t, Runbook{SelfTest: true, Out: dir, only: only})
	if err != nil || out != evaluate.SelfTestLabel+"\nfolder "+dir+"\n10 pairs of grades; from those written by hand differ: 0\n" || !strings.Contains(log, "repeater: 2 tasks graded\n") {
		t.Errorf("%v\n%s%s", err, out, log)
	}
	t.Setenv("TMPDIR", t.TempDir())
	out, _, err = run(t, Runbook{SelfTest: true, JSON: true, only: only})
	must(t, err)
	lines := objects(t, out, true)
	for _, line := range lines {
		if line["label"] != evaluate.SelfTestLabel {
			t.Errorf("%v", line)
		}
	}
	temporary, _ := lines[0]["out"].(string)
	if _, err := os.Stat(filepath.Join(temporary, evaluate.RunFile)); err != nil || len(lines) != 12 || lines[11]["differ"] != 0.0 || lines[11]["grades"] != 10.0 || lines[11]["out"] != temporary {
		t.Errorf("%v, %v", err, lines)
	}
	// Nothing but the results stays behind.
	if entries, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// An interrupted self-test is no result: it says so, and its folder has no run.json.
// A signal ends what is under way with a cause of its own.
func TestInterrupted(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	stop := func() { end(errors.New("interrupt signal received")) }
	defer stop()
	dir := filepath.Join(t.TempDir(), "out")
	c := Runbook{SelfTest: true, Out: dir, only: []string{"T44"}}
	err := c.Run(ctx, command.Streams{Out: io.Discard, Err: writer(func() { stop() })}) // at the first line of progress
	if command.StatusOf(err) != command.NotReady || !strings.Contains(err.Error(), "interrupted, tasks graded: 1; "+dir) || strings.Contains(err.Error(), "signal received") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, evaluate.RunFile)); err == nil {
		t.Error("there is a run.json")
	}
}

// writer is told of each write.
type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }

// A grade that differs from the one by hand is told, and the status is 1.
func TestDifferent(t *testing.T) {
	d := []evaluate.Difference{{Agent: "idle", Task: "T01", Want: "task fail, policy pass missing_tool", Got: "task pass, policy pass"}}
	r := []*evaluate.Record{{Agent: "idle", Task: suite(t).Tasks[0]}}
	for asJSON, want := range map[bool]string{
		false: "idle on T01: task pass, policy pass; by hand: task fail, policy pass missing_tool\n1 pairs of grades; from those written by hand differ: 1\n",
		true:  `{"label":"harness self-test, scripted agents, not a model","agent":"idle","task":"T01","want":"task fail, policy pass missing_tool","got":"task pass, policy pass"}` + "\n",
	} {
		var b strings.Builder
		c := Runbook{JSON: asJSON}
		if err := c.report(&b, "D", r, d); command.StatusOf(err) != command.NotHolding || !strings.Contains(b.String(), want) {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
}

// A live run does not start: it names everything that is missing, and makes nothing (R-074,
//
func TestLiveRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, model, asOf string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(`{"model":"`+model+`","currency":"USD","asOf":"`+asOf+`","inputPerMillion":"3.00","cachedInputPerMillion":"0.30","outputPerMillion":"15"}`), 0o600))
		return path
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	const pinned = "example-model-2026-11-01"
	current, old, other := file("current.json", pinned, "2026-11-29"), file("old.json", pinned, "2026-10-01"), file("other.json", "another-model-001", "2026-11-29")
	const model, price, provider = "a pinned model", "prices", "provider"
	for _, c := range []struct {
		run     Runbook
		missing []string
	}{
		{Runbook{Provider: "p"}, []string{provider, model, price}},
		{Runbook{Model: pinned}, []string{provider, price}},
		{Runbook{Prices: current}, []string{provider, model}},
		{Runbook{Provider: "p", Model: "example-model-latest", Prices: current}, []string{provider, model, price}}, // the prices are of another
		{Runbook{Provider: "p", Model: pinned, Prices: old}, []string{provider, price}},
		{Runbook{Provider: "p", Model: pinned, Prices: other}, []string{provider, price}},
		{Runbook{Provider: "p", Model: pinned, Prices: current, Tasks: []string{"T01", "T50"}}, []string{provider}},
	} {
		c.run.Out = filepath.Join(dir, "out")
		err := c.run.live(suite(t), now)
		if command.StatusOf(err) != command.NotReady {
			t.Errorf("%+v: %v", c.run, err)
			continue
		}
		for _, word := range []string{provider, model, price} {
			if strings.Contains(err.Error(), word) != slices.Contains(c.missing, word) {
				t.Errorf("%+v: missing are %v: %v", c.run, c.missing, err)
			}
		}
		if _, err := os.Stat(c.run.Out); err == nil {
			t.Errorf("%+v made a folder", c.run)
		}
	}
}

// Exactly one thing is asked for, and what cannot be read is wrong usage.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	must(t, os.MkdirAll(full, 0o700))
	bad := filepath.Join(full, "prices.json")
	must(t, os.WriteFile(bad, []byte(`{"model":"m"}`), 0o600))
	for name, c := range map[string]Runbook{
		"nothing":              {},
		"two things":           {Check: true, SelfTest: true},
		"check and live":       {Check: true, Model: "m-001"},
		"tasks of a self-test": {SelfTest: true, Tasks: []string{"T01"}},
		"out of a check":       {Check: true, Out: filepath.Join(dir, "new")},
		"no such task":         {Provider: "p", Tasks: []string{"T51"}},
		"no prices":            {Provider: "p", Prices: filepath.Join(dir, "absent")},
		"bad prices":           {Provider: "p", Prices: bad},
		"a full folder":        {SelfTest: true, Out: full},
		"a full folder, live":  {Provider: "p", Out: full},
		"a file, live":         {Provider: "p", Out: bad},
		"no parent":            {SelfTest: true, Out: filepath.Join(dir, "a", "b")},
	} {
		out, _, err := run(t, c)
		if command.StatusOf(err) != command.WrongUsage || out != "" {
			t.Errorf("%s: status %d, %v, %s", name, command.StatusOf(err), err, out)
		}
	}
}

// What is read of --prices has a bound, and a device or a pipe, which may have no end, is
// not read at all: not even an opening waits.
func TestPricesBounded(t *testing.T) {
	dir := t.TempDir()
	pipe, long, enough := filepath.Join(dir, "pipe"), filepath.Join(dir, "long"), filepath.Join(dir, "enough")
	must(t, syscall.Mkfifo(pipe, 0o600))
	must(t, os.WriteFile(long, bytes.Repeat([]byte(" "), 1<<20+1), 0o600))
	must(t, os.WriteFile(enough, bytes.Repeat([]byte(" "), 1<<20), 0o600))
	for name, want := range map[string]string{"/dev/zero": "no regular file", pipe: "no regular file", dir: "no regular file", long: "longer than 1048576 bytes"} {
		_, _, err := run(t, Runbook{Provider: "p", Prices: name})
		if command.StatusOf(err) != command.WrongUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: status %d, %v", name, command.StatusOf(err), err)
		}
	}
	if raw, err := readPrices(enough); err != nil || len(raw) != 1<<20 {
		t.Errorf("the longest: %d bytes, %v", len(raw), err)
	}
}
