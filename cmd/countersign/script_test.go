package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// unbound is the program whose children are not bound to it.
const unbound = "countersign-unbound"

// raceOptions goes to every command that the tests start, unless the environment says
// otherwise. A process under the race detector sleeps a second before it exits, to see what
// its other goroutines do until then; the tests start hundreds of commands and give each a
// twentieth of that. This process has its second.
var raceOptions = "GORACE=" + cmp.Or(os.Getenv("GORACE"), "atexit_sleep_ms=50")

func TestMain(m *testing.M) {
	name, value, _ := strings.Cut(raceOptions, "=")
	if err := os.Setenv(name, value); err != nil {
		panic(err) // it is a name
	}
	testscript.Main(m, map[string]func(){"countersign": main, unbound: func() {
		bind = func(*syscall.SysProcAttr) {}
		main()
	}})
}

// TestScript runs what a person would type.
func TestScript(t *testing.T) {
	vectors, err := filepath.Abs("../../vectors")
	if err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob("testdata/script/*.txtar"); err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("VECTORS", vectors)
			e.Vars = append(e.Vars, raceOptions)
			e.Values[serverKey{}] = new(func())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"mode":   mode,
			"change": change,
			"server": server,
			"word":   word,
			"post":   post,
			"member": member,
		},
	})
}

// exits STATUS PROGRAM ARGS… runs a program that must end with this status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARGS…")
	}
	status := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		status = exit.ExitCode()
	}
	if want, err := strconv.Atoi(args[0]); err != nil || status != want {
		ts.Fatalf("exit status %d, want %s", status, args[0])
	}
}

// mode PERMISSIONS FILES… checks the permissions of files, in octal.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args[1:] {
		info, err := os.Stat(ts.MkAbs(name))
		ts.Check(err)
		if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
			ts.Fatalf("%s has mode %s, want %s", name, got, args[0])
		}
	}
}

// change FILE COPY copies a file with one hex digit of its last third changed.
func change(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	for i := len(b) * 2 / 3; i < len(b); i++ {
		if b[i] >= '0' && b[i] < '9' {
			b[i]++
			break
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o600))
}

// word NAME FILE puts what a file holds, without the line's end, into a variable.
func word(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: word NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSuffix(ts.ReadFile(args[1]), "\n"))
}

// server ARGS… starts `countersign serve ARGS… --addr localhost:0`, waits until it is
// ready and puts its origin into COUNTERSIGN_ORIGIN. It ends with the script, or at
// `server stop`, which waits for its end.
func server(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 1 && args[0] == "stop" {
		stop, _ := ts.Value(serverKey{}).(*func())
		(*stop)()
		return
	}
	self, err := os.Executable()
	ts.Check(err)
	log := &tail{}
	ready := &readyWatch{found: make(chan string, 1)}
	cmd := exec.Command(self, append([]string{"serve", "--addr", "localhost:0"}, args...)...)
	cmd.Args[0], cmd.Dir, cmd.Stderr = "countersign", ts.MkAbs("."), io.MultiWriter(log, ready)
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), raceOptions}
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped := false
	*ts.Value(serverKey{}).(*func()) = func() {
		if !stopped {
			stopped = true
			ts.Check(cmd.Process.Signal(syscall.SIGTERM))
			ts.Check(<-ended)
		}
	}
	ts.Defer(*ts.Value(serverKey{}).(*func()))
	select {
	case origin := <-ready.found:
		ts.Setenv("COUNTERSIGN_ORIGIN", origin)
	case err := <-ended:
		stopped = true
		ts.Fatalf("the server did not start: %v\n%s", err, log)
	}
}

// serverKey finds what stops a script's server.
type serverKey struct{}
