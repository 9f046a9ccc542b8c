package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// ledgers are the engines' packages: they run the same tests, and each its own
// fail points.
var ledgers = []twins{{
	pkgs: [2]string{"countersign/internal/ledger/sqlite", "countersign/internal/ledger/postgres"},
	test: "TestLedger",
	own:  []string{"FaultAtEveryPoint", "KillAtEveryPoint"},
}}

// translated keeps the race detector, and the checks of pointers that come with it, out of
// the C of SQLite as it was translated to Go. A connection of it is used by one goroutine
// at a time; that they take turns is seen in the driver and in our own code, which have the
// detector. With it every page that SQLite reads would be paid for byte by byte.
const translated = "-gcflags=modernc.org/sqlite/lib=-race=false -d=checkptr=0"

// test runs every test of the module, all but those of [unraced] under the race detector.
func test(ctx context.Context, out io.Writer) (err error) {
	if err := needCompiler(ctx); err != nil {
		return err
	}
	claims, err := readClaims(".", "countersign")
	if err != nil {
		return err
	}
	tree, err := hashTree(".")
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "countersign-suite-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	if err := getShellTools(ctx, out); err != nil {
		return err
	}
	p := parts{out: out}
	defer p.print()
	var env []string
	var stop func() error
	if err := p.run("PostgreSQL", func() (err error) {
		env, stop, err = startServer(ctx, out)
		return err
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := p.run("browser", func() error { return getBrowser(ctx, out) }); err != nil {
		return err
	}

	raced, err := racedPackages(ctx)
	if err != nil {
		return err
	}
	profiles := []string{filepath.Join(folder, "unraced"), filepath.Join(folder, "raced")}
	measured := func(profile string) []string {
		return []string{"-coverprofile=" + profile, "-coverpkg=" + strings.Join(covered, ",")}
	}
	r := newReport(out)
	tests := p.run("tests", func() error {
		// Tests of processes and locks leave a core idle now and then; twice as many packages
		// as cores fill it.
		always := []string{"-count=1", "-timeout=25m", fmt.Sprintf("-p=%d", 2*runtime.NumCPU())}
		var run error
		for _, part := range []struct {
			says     string
			flags    []string
			packages []string
		}{
			{"without the race detector, since nothing in them runs beside anything else:", append(measured(profiles[0]), "-race=false"), unraced},
			{"with the race detector, the rest of the core:", append(measured(profiles[1]), "-race", translated), racedCore},
			// Counting every statement of the core under the race detector takes more than half of the
			// time of what uses it, and the core's own tests have to execute it anyway.
			{"with the race detector, which does not look into SQLite's own code:", []string{"-race", translated}, raced},
		} {
			fmt.Fprintf(out, "  %s\n", part.says)
			run = errors.Join(run, goTest(ctx, r, env, slices.Concat(always, part.flags, part.packages)...))
			if ctx.Err() != nil {
				break
			}
		}
		r.summary(10)
		r.printPoints(pointLists)
		if ctx.Err() != nil {
			return run
		}
		if err := r.outcomes().keep(resultsFile, ".", tree); errors.Is(err, errNotKept) {
			fmt.Fprintln(out, err)
		} else if err != nil {
			return errors.Join(run, err)
		}
		return errors.Join(run, findings(append(r.gate(ledgers, targets, pointLists), r.lacks(needs)...)))
	})
	if tests != nil {
		return tests // a profile of half a run says nothing
	}
	shown := p.run("requirements", func() error {
		claims.totals(out, r.outcomes())
		return claims.gate(r.outcomes())
	})
	return errors.Join(shown, p.run("coverage", func() error { return coverageGate(out, profiles...) }))
}

// goTest runs go test -json with more variables in its environment and reports
// its events as they come.
func goTest(ctx context.Context, r *report, env []string, args ...string) error {
	cmd := command(ctx, "go", append([]string{"test", "-json"}, args...)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := make(chan []byte)
	read := make(chan error, 2)
	var readers sync.WaitGroup
	readers.Go(func() { read <- sendLines(stdout, lines) })
	readers.Go(func() { read <- sendLines(stderr, lines) })
	go func() {
		readers.Wait()
		close(lines)
	}()
	const often = 30 * time.Second
	ticker := time.NewTicker(often)
	defer ticker.Stop()
	ended := ctx.Done()
	var late <-chan time.Time
	for open := true; open; {
		select {
		case <-ended:
			ended, late = nil, time.After(grace)
		case <-late: // a child of a test that ignores SIGINT may hold the pipes
			if err := killGroup(cmd); err != nil {
				return err
			}
		case line, ok := <-lines:
			if open = ok; ok {
				r.line(line)
			}
		case <-ticker.C:
			r.progress(often)
		}
	}
	err = errors.Join(<-read, <-read)
	if exit := wait(ctx, cmd); exit != nil {
		return errors.Join(fmt.Errorf("go test: %w", exit), err)
	}
	return err
}

// sendLines sends every line of from, of any length, without its end.
func sendLines(from io.Reader, lines chan<- []byte) error {
	buffered := bufio.NewReader(from)
	for {
		line, err := buffered.ReadBytes('\n')
		if len(line) > 0 {
			lines <- bytes.TrimSuffix(line, []byte("\n"))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// getShellTools installs what is typed into a shell by what the pages show, where that
// can be done. Elsewhere its tests are skipped and say why.
func getShellTools(ctx context.Context, out io.Writer) error {
	var missing []string
	for _, name := range []string{"curl", "jq", "sqlite3"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 || len(missing) == 0 {
		return nil
	}
	if err := apt(ctx, out, "update", "-q"); err != nil {
		return err
	}
	return apt(ctx, out, append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)...)
}

// needCompiler fails when the race detector cannot be built.
func needCompiler(ctx context.Context) error {
	settings, err := capture(ctx, "go", "env", "CGO_ENABLED", "CC")
	if err != nil {
		return err
	}
	enabled, compiler, _ := strings.Cut(strings.TrimSpace(string(settings)), "\n")
	if fields := strings.Fields(compiler); enabled == "1" && len(fields) > 0 {
		if _, err := exec.LookPath(fields[0]); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: the race detector needs a C compiler; on Debian: apt-get install gcc libc6-dev", errNotReady)
}
