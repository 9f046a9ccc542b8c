package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// unbound is the program whose children are not bound to it.
const unbound = "countersign-unbound"

func TestMain(m *testing.M) {
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
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"mode":   mode,
			"change": change,
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
