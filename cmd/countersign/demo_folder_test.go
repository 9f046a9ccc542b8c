package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A demo leaves a folder alone that holds something of somebody else's, and does
// not say that anything is in it.
func TestDemoTakesNoOtherFolder(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("mine"), 0o600))
	if out := says(t, program(t, "demo", "--dir", dir), statusNotReady, "is not empty and no demo made it; give --dir a new folder"); strings.Contains(out, "Everything is in") {
		t.Error(out)
	}
	entries, err := os.ReadDir(dir)
	if must(t, err); len(entries) != 1 {
		t.Errorf("the folder holds %v now", entries)
	}

	// One that a demo made but in which it cannot start.
	dir = t.TempDir()
	for _, name := range []string{"demo.lock", "control"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	if out := says(t, program(t, "demo", "--dir", dir), statusNotReady, "Result: failed."); strings.Contains(out, "Everything is in") {
		t.Error(out)
	}
	out := says(t, program(t, "demo", "--json", "--dir", dir), statusNotReady)
	var result struct{ Result, Reason string }
	first, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(first), &result); err != nil || result.Result != "failed" || !strings.Contains(result.Reason, "control") {
		t.Errorf("%v: %s", err, out)
	}
}

// shown is a line of demo --json.
type shown struct {
	Step                           int
	RunID                          *string
	Actor, Action, Verdict, Result string
	Reason, Token, Page            string
}

// following starts a demo and hands over each line until it ends; act may signal
// the process.
func following(t *testing.T, act func(*exec.Cmd, shown), args ...string) (status int, lines []shown, log string) {
	t.Helper()
	cmd := program(t, append([]string{"demo", "--json"}, args...)...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		var line shown
		must(t, json.Unmarshal(scanner.Bytes(), &line))
		lines = append(lines, line)
		act(cmd, line)
	}
	must(t, scanner.Err())
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok {
		status = exit.ExitCode()
	}
	return status, lines, stderr.String()
}

// Ctrl-C in the middle of a demo is no missing state: what was to be shown was not.
func TestDemoInterrupted(t *testing.T) {
	sent := false
	status, lines, log := following(t, func(cmd *exec.Cmd, l shown) {
		if l.Actor == "scripted agent" && !sent {
			sent = true
			must(t, cmd.Process.Signal(syscall.SIGINT))
		}
	}, "--dir", t.TempDir())
	last := lines[len(lines)-1]
	if status != statusDiffers || last.Result != "failed" || last.Reason != "demo: interrupted" || !strings.Contains(log, "countersign: demo: interrupted\n") {
		t.Errorf("status %d, last line %+v\n%s", status, last, log)
	}
}

// Every line says which run it is about, and the run that a person played is
// exported when the demo ends.
func TestDemoRuns(t *testing.T) {
	dir := t.TempDir()
	status, lines, log := following(t, func(cmd *exec.Cmd, l shown) {
		if l.Token != "" {
			must(t, cmd.Process.Signal(syscall.SIGINT))
		}
	}, "--wait", "--dir", dir)
	if status != statusDone {
		t.Fatalf("status %d\n%s", status, log)
	}
	var runs []string
	for _, l := range lines {
		belongs := l.Actor == "scripted agent" || l.Actor == "owner" && l.Action != "sign in"
		if belongs && l.RunID == nil {
			t.Errorf("no run: %+v", l)
		}
		if l.RunID != nil && !slices.Contains(runs, *l.RunID) {
			runs = append(runs, *l.RunID)
		}
	}
	if len(runs) != 3 {
		t.Errorf("runs %v, want 3", runs)
	}
	says(t, program(t, "verify", filepath.Join(dir, "evidence-yours.json"), "--key", filepath.Join(dir, "evidence.pub")), statusDone, runs[2])
}

// The line that a demo prints to check it is pasted into a shell, in a folder whose
// name has to be quoted.
func TestDemoCommandWorks(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	self, err := os.Executable()
	must(t, err)
	must(t, os.Mkdir("bin", 0o700))
	must(t, os.Symlink(self, filepath.Join("bin", "countersign")))
	dir := "it's a demo"
	cmd := program(t, "demo", "--dir", dir)
	out := says(t, cmd, statusDone, "Result: ok. Everything is in "+dir+".")
	if n := strings.Count(out, "What this cannot show"); n != 1 {
		t.Errorf("what it cannot show stands there %d times", n)
	}
	_, after, found := strings.Cut(out, "Check it yourself:\n")
	line, _, _ := strings.Cut(after, "\n")
	if !found || !strings.Contains(line, "--store-key") {
		t.Fatalf("the line is %q", line)
	}
	shell := exec.Command("sh", "-c", line)
	shell.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	says(t, shell, statusDone, "VERIFIED  every check holds", "store key given from outside")

	// Again in the folder that a demo made.
	if _, err := os.Stat(filepath.Join(dir, "demo.lock")); errors.Is(err, fs.ErrNotExist) {
		t.Error("nothing marks the folder as a demo's")
	}
}

func TestInvocation(t *testing.T) {
	for program, want := range map[string]bool{
		"/tmp/go-build3127/b001/exe/countersign": true, "/home/me/countersign": false, "/opt/exe/countersign": false, "/tmp/go-build1/countersign": false,
		"/home/me/.cache/go-build/8e/" + strings.Repeat("8e", 32) + "-d/countersign": true, "/home/me/8e-d/countersign": false,
	} {
		if isRun(program) != want {
			t.Errorf("%s: %v", program, !want)
		}
	}
	for word, want := range map[string]string{"D/evidence.json": "D/evidence.json", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$x": "'$x'", "ä": "'ä'"} {
		if got := quoted(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
