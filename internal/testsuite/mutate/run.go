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
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Outcome is what became of a mutant.
type Outcome string

const (
	Killed   Outcome = "killed"   // a test failed or did not end in time
	Survived Outcome = "survived" // every test passed
)

// Result is one tested mutant.
type Result struct {
	Mutant
	Outcome Outcome
}

// workers is how many mutants are tested at once.
const workers = 2

// wholeLimit bounds a build, and the tests of the unchanged code.
const wholeLimit = 5 * time.Minute

// leastLimit is the least time that tests get under a mutant; a loaded machine
// must not kill one. The test of the limit itself shortens it.
var leastLimit = 20 * time.Second

// suite is the built tests of one package.
type suite struct {
	folder, binary string
	limit          time.Duration
}

// Test tests every mutant by the tests of the packages in folders, its own
// first, until one fails. It calls report for each mutant as it is done, never
// twice at once. Tests get ten times as long as they take without a mutant; when
// they do not pass then, Test fails.
func (p *Package) Test(ctx context.Context, folders []string, report func(Result)) error {
	temporary, err := os.MkdirTemp("", "countersign-mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	suites, err := p.build(ctx, temporary, folders)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := make(chan Mutant)
	var lock sync.Mutex
	var failures []error
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for m := range work {
				outcome, err := m.test(ctx, suites)
				lock.Lock()
				if err != nil {
					failures = append(failures, err)
					cancel()
				} else {
					report(Result{m, outcome})
				}
				lock.Unlock()
			}
		})
	}
	for _, m := range p.Mutants {
		if ctx.Err() != nil {
			break
		}
		work <- m
	}
	close(work)
	group.Wait()
	return errors.Join(failures...)
}

// build builds the tests of every folder with all mutants in them, and runs
// them once with none active.
func (p *Package) build(ctx context.Context, temporary string, folders []string) ([]suite, error) {
	overlay := make(map[string]string)
	for file, contents := range p.overlay {
		changed := filepath.Join(temporary, filepath.Base(file))
		if err := os.WriteFile(changed, contents, 0o600); err != nil {
			return nil, err
		}
		overlay[file] = changed
	}
	encoded, err := json.Marshal(map[string]map[string]string{"Replace": overlay})
	if err != nil {
		return nil, err
	}
	description := filepath.Join(temporary, "overlay.json")
	if err := os.WriteFile(description, encoded, 0o600); err != nil {
		return nil, err
	}
	var suites []suite
	for i, folder := range folders {
		s := suite{folder: folder, binary: filepath.Join(temporary, strconv.Itoa(i)+".test")}
		passed, output, err := bounded(ctx, wholeLimit, folder, nil, "go", "test", "-c", "-overlay", description, "-o", s.binary, ".")
		if err != nil {
			return nil, err
		}
		if !passed {
			return nil, fmt.Errorf("%s does not compile with its mutants:\n%s", folder, output)
		}
		if _, err := os.Stat(s.binary); err != nil {
			return nil, fmt.Errorf("%s has no tests", folder)
		}
		start := time.Now()
		passed, output, err = s.run(ctx, wholeLimit, "")
		if err != nil {
			return nil, err
		}
		if !passed {
			return nil, fmt.Errorf("the tests of %s do not pass without a mutant:\n%s", folder, output)
		}
		s.limit = max(leastLimit, 10*time.Since(start))
		suites = append(suites, s)
	}
	return suites, nil
}

func (m Mutant) test(ctx context.Context, suites []suite) (Outcome, error) {
	for _, s := range suites {
		passed, _, err := s.run(ctx, s.limit, strconv.Itoa(m.number))
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.ID, err)
		}
		if !passed {
			return Killed, nil
		}
	}
	return Survived, nil
}

func (s suite) run(ctx context.Context, limit time.Duration, number string) (bool, []byte, error) {
	return bounded(ctx, limit, s.folder, []string{variable + "=" + number}, s.binary, "-test.failfast")
}

// bounded runs a program in a process group of its own, kills the group at the
// limit, and reports whether it ended with status 0.
func bounded(ctx context.Context, limit time.Duration, folder string, env []string, name string, args ...string) (bool, []byte, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var output bytes.Buffer
	cmd := exec.CommandContext(limited, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &output, &output
	cmd.Env = append(os.Environ(), env...)
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
