package mutate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Outcome is what became of a mutant.
type Outcome string

const (
	Killed   Outcome = "killed"       // a test failed or did not end in time
	Survived Outcome = "survived"     // every test passed
	Invalid  Outcome = "not compiled" // the change is no program
)

// Result is one tested mutant.
type Result struct {
	Mutant
	Outcome Outcome
}

// Tests are the folders of the packages whose tests judge the mutants of one
// package: its own first.
type Tests []string

const (
	workers    = 2
	buildLimit = 5 * time.Minute
)

// leastLimit is the least time that tests get; a loaded machine must not kill a
// mutant. The test of the limit itself shortens it.
var leastLimit = 20 * time.Second

// Run tests mutants with two workers and calls report for each as it is done,
// never twice at once. The tests get ten times as long as they take on the
// unchanged code. It fails when that does not pass.
func Run(ctx context.Context, mutants []Mutant, tests Tests, report func(Result)) error {
	temporary, err := os.MkdirTemp("", "countersign-mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)

	limits := make([]time.Duration, len(tests))
	for i, folder := range tests {
		outcome, took, err := judge(ctx, temporary, "", folder, 5*time.Minute)
		if err != nil {
			return err
		}
		if outcome != Survived {
			return fmt.Errorf("the tests of %s do not pass on the unchanged code", folder)
		}
		limits[i] = max(leastLimit, 10*took)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := make(chan Mutant)
	var lock sync.Mutex
	var failures []error
	var group sync.WaitGroup
	for n := range workers {
		folder := filepath.Join(temporary, fmt.Sprint(n))
		group.Go(func() {
			for m := range work {
				outcome, err := m.test(ctx, folder, tests, limits)
				lock.Lock()
				if err != nil {
					failures = append(failures, fmt.Errorf("%s: %w", m.ID, err))
					cancel()
				} else {
					report(Result{m, outcome})
				}
				lock.Unlock()
			}
		})
	}
	for _, m := range mutants {
		if ctx.Err() != nil {
			break
		}
		work <- m
	}
	close(work)
	group.Wait()
	return errors.Join(failures...)
}

// test judges a mutant by every package's tests until one of them fails.
func (m Mutant) test(ctx context.Context, temporary string, tests Tests, limits []time.Duration) (Outcome, error) {
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return "", err
	}
	changed := filepath.Join(temporary, "mutant.go")
	if err := os.WriteFile(changed, m.source, 0o600); err != nil {
		return "", err
	}
	overlay := filepath.Join(temporary, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: changed}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return "", err
	}
	for i, folder := range tests {
		outcome, _, err := judge(ctx, temporary, overlay, folder, limits[i])
		if err != nil || outcome != Survived {
			return outcome, err
		}
	}
	return Survived, nil
}

// judge builds the test binary of a folder's package, runs it there and says
// how long that took.
func judge(ctx context.Context, temporary, overlay, folder string, limit time.Duration) (Outcome, time.Duration, error) {
	binary := filepath.Join(temporary, "mutant.test")
	args := []string{"test", "-c", "-ldflags=-s -w", "-o", binary} // without symbols it links in half the time
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	passed, output, err := bounded(ctx, buildLimit, folder, "go", append(args, ".")...)
	if err != nil {
		return "", 0, err
	}
	if !passed {
		if overlay == "" {
			return "", 0, fmt.Errorf("%s: the unchanged code does not compile:\n%s", folder, output)
		}
		return Invalid, 0, nil
	}
	start := time.Now()
	passed, _, err = bounded(ctx, limit, folder, binary, "-test.failfast")
	took := time.Since(start)
	if errors.Is(err, os.ErrNotExist) {
		return "", 0, fmt.Errorf("%s has no tests", folder)
	}
	if err := errors.Join(err, os.Remove(binary)); err != nil {
		return "", 0, err
	}
	if passed {
		return Survived, took, nil
	}
	return Killed, took, nil
}

// bounded runs a program in a process group of its own, kills the group at the
// limit, and reports whether it ended with status 0.
func bounded(ctx context.Context, limit time.Duration, folder, name string, args ...string) (bool, []byte, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var output bytes.Buffer
	cmd := exec.CommandContext(limited, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return false, nil, ctx.Err()
	}
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) || limited.Err() != nil {
		return err == nil, output.Bytes(), nil
	}
	return false, nil, err
}
