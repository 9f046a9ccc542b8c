// Command testsuite runs the project's own gates. The Makefile and .ci/run call
// it; it needs no shell.
//
//	testsuite test           every test, against both engines; under the race detector but for pure packages
//	testsuite check          format, vet, staticcheck, layers, contract, tampering, fuzz
//	testsuite fuzz           every fuzz target for its number of executions
//	testsuite cover          statement coverage of the core by its own tests
//	testsuite mutate         changes the deciding code and expects a test to fail
//	testsuite requirements   what of the protocols is shown by tests that passed
//
// A gate fails when it matched nothing: no test ran, a fuzz target is gone or
// executed nothing, a package that must be covered is missing, no mutant was
// made. test also fails when a test was skipped without a reason, when the two
// engines did not run the same ledger tests, or when a crash test did not print
// that it has killed a process at every fail point.
//
// test and requirements fail when docs/requirements.txt declares something complete
// that no test shows: a comment of the test names it and the test passed in this run. test keeps
// what became of every test in bin/test-results.json; requirements reads that if it is of exactly
// this tree, and runs test otherwise.
//
// test needs PostgreSQL. It uses the server at COUNTERSIGN_TEST_POSTGRES, or
// starts a private one and stops it at its end, also after SIGINT and SIGTERM.
// Where the server binaries are missing and it runs as root on a machine with
// apt-get, it installs them without creating a cluster, and curl, jq and
// sqlite3 too.
//
// test also needs Chromium, which it installs likewise, and axe-core, which it
// installs with npm in the version that tools/package.json names.
//
// Exit status: 0 all held; 1 a gate failed; 2 wrong usage; 3 the machine lacks
// something, which the message names.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// errNotReady is wrapped by errors about what the machine lacks.
var errNotReady = errors.New("not ready")

var commands = map[string]func(context.Context, io.Writer) error{
	"test":         test,
	"check":        check,
	"fuzz":         fuzz,
	"cover":        cover,
	"mutate":       mutants,
	"requirements": requirements,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	status := run(ctx, os.Stdout, os.Stderr, os.Args[1:])
	stop()
	os.Exit(status)
}

func run(ctx context.Context, stdout, stderr io.Writer, args []string) int {
	if len(args) != 1 || commands[args[0]] == nil {
		fmt.Fprintln(stderr, "usage: testsuite test|check|fuzz|cover|mutate|requirements")
		return 2
	}
	if _, err := os.Stat("layers_test.go"); err != nil {
		fmt.Fprintln(stderr, "testsuite: run it in the root of the module")
		return 2
	}
	err := commands[args[0]](ctx, stdout)
	if ctx.Err() != nil {
		err = errors.Join(errors.New("interrupted"), err)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNotReady):
		fmt.Fprintf(stderr, "testsuite %s: %v\n", args[0], err)
		return 3
	default:
		fmt.Fprintf(stderr, "testsuite %s: %v\n", args[0], err)
		return 1
	}
}

// findings turns what a gate found into one error, nil when it found nothing.
func findings(found []string) error {
	if len(found) == 0 {
		return nil
	}
	return errors.New(strings.Join(found, "\n  "))
}
