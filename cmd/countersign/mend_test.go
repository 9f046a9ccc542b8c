package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"countersign/internal/pgtest"
)

// result runs a prepared program and returns its exit status and what it wrote.
func result(t *testing.T, cmd *exec.Cmd) (int, string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	must(t, err)
	return 0, string(out)
}

// says fails unless the program ends with the status and its output has each text.
func says(t *testing.T, cmd *exec.Cmd, status int, texts ...string) string {
	t.Helper()
	got, out := result(t, cmd)
	if got != status {
		t.Errorf("%s: status %d, want %d", cmd.Args, got, status)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("%s: want %q in\n%s", cmd.Args, text, out)
		}
	}
	return out
}

// Each command that is given a wrong or an empty database says what to do, and
// what it says is a command line that does it.
func TestDatabaseAdvice(t *testing.T) {
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop()) })
	t.Chdir(t.TempDir())
	t.Setenv("COUNTERSIGN_DATABASE", "")
	empty := func() string {
		return server.Database(t, func(context.Context, string) error { return nil })
	}
	url, mistyped := empty(), empty()

	out := says(t, program(t, "init", "--dir", "D", "--database", url), statusDone, "Next: countersign serve --dir D --database "+url+"\n")
	_, next, _ := strings.Cut(out, "Next: countersign ")
	if err := parses(strings.TrimSpace(next)); err != nil {
		t.Errorf("the next command: %v", err)
	}
	says(t, program(t, "init", "--dir", "D", "--database", url), statusNotReady, "serve --dir D --database "+url)

	noLedger := []string{"holds no ledger", "mistyped", "`countersign init --dir NEW --database " + mistyped + "`"}
	says(t, program(t, "serve", "--dir", "D", "--addr", "localhost:0", "--database", mistyped), statusNotReady, noLedger...)
	says(t, program(t, "migrate", "--dir", "D", "--database", mistyped), statusNotReady, noLedger...)
	says(t, program(t, "migrate", "--dir", "D"), statusNotReady, "give --database when the ledger is on PostgreSQL")
	says(t, program(t, "migrate", "--dir", "D", "--database", url), statusDone, "nothing to apply")
	says(t, program(t, "migrate", "--dir", "absent", "--database", url), statusNotReady, "`countersign init --dir absent --database "+url+"`")

	says(t, program(t, "init", "--dir", "E", "--database", url), statusNotReady, "belongs to another installation; give an empty one")
	if _, err := os.Stat("E"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("init left a folder behind: %v", err)
	}
	says(t, program(t, "init", "--dir", "E", "--database", mistyped), statusDone) // the advice of above, taken
	says(t, program(t, "serve", "--dir", "E", "--addr", "localhost:0", "--database", url), statusNotReady, "give --dir the folder that the ledger was made with")
	says(t, program(t, "migrate", "--dir", "E", "--database", url), statusNotReady, "belongs to another installation", "give --dir the folder")

	// A variable that names the ledger names it for the next command as well, and
	// may hold a password.
	t.Setenv("COUNTERSIGN_DATABASE", empty())
	says(t, program(t, "init", "--dir", "F"), statusDone, "Next: countersign serve --dir F\n")
}

// What is in the way is named together with what mends it, by every command that
// meets it.
func TestAdvice(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("COUNTERSIGN_DATABASE", "")
	says(t, program(t, "init", "--dir", "D"), statusDone)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	busy := taken.Addr().String()

	says(t, program(t, "serve", "--dir", "absent"), statusNotReady, "absent holds no installation", "`countersign init --dir absent`")
	says(t, program(t, "serve", "--dir", "D", "--addr", busy), statusNotReady, "in use", "another address")
	says(t, program(t, "serve", "--dir", "D", "--addr", "localhost:0", "--metrics-addr", busy), statusNotReady, "in use", "another address")
	says(t, program(t, "serve", "--dir", "D", "--addr", "localhost:99999"), statusUsage, "a port from 0 to 65535")
	says(t, program(t, "serve", "--dir", "D", "--addr", "localhost:http"), statusUsage, "a port from 0 to 65535")
	says(t, program(t, "serve", "--dir", "D", "--addr", "localhost:0", "--metrics-addr", "localhost:99999"), statusUsage, "a port from 0 to 65535")
	says(t, program(t, "serve", "--dir", "D", "--addr", "192.0.2.1:0", "--origin", "https://a.example"), statusNotReady, "an address of this machine")
	says(t, program(t, "init", "--dir", "P", "--database", "postgres://127.0.0.1:1/none"), statusNotReady, "start PostgreSQL")
	says(t, program(t, "serve", "--dir", "D", "--database", "postgres://127.0.0.1:1/none", "--addr", "localhost:0"), statusNotReady, "start PostgreSQL")

	// A store that cannot be served is not made.
	trust := filepath.Join("D", "keys", "dispatch.pub")
	for _, addr := range []string{busy, "192.0.2.1:0"} {
		says(t, program(t, "store", "--dir", "S", "--addr", addr, "--create", "--trust", trust), statusNotReady, "address")
	}
	says(t, program(t, "store", "--dir", "S", "--addr", "127.0.0.1:99999", "--create", "--trust", trust), statusUsage, "a port from 0 to 65535")
	if _, err := os.Stat("S"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("store --create left a folder behind: %v", err)
	}

	f, err := os.OpenFile(filepath.Join("D", "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	defer f.Close()
	must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	for _, args := range [][]string{{"serve", "--dir", "D", "--addr", "localhost:0"}, {"migrate", "--dir", "D"}} {
		says(t, program(t, args...), statusNotReady, "in use by another process", "stop that process")
	}
}

// A folder that may not be written to is called that, and not one in which another
// init is at work.
func TestInitWithoutPermission(t *testing.T) {
	// Nothing is refused to root, so the program is somebody else then, who has to
	// reach it.
	root := t.TempDir()
	must(t, os.Chmod(filepath.Dir(root), 0o755))
	must(t, os.Chmod(root, 0o755))
	self, err := os.Executable()
	must(t, err)
	binary, err := os.ReadFile(self)
	must(t, err)
	path := filepath.Join(root, "countersign")
	must(t, os.WriteFile(path, binary, 0o755))
	closed := filepath.Join(root, "closed")
	must(t, os.Mkdir(closed, 0o555))
	for _, dir := range []string{closed, filepath.Join(closed, "new")} {
		cmd := exec.Command(path, "init", "--dir", dir)
		cmd.Args[0], cmd.Dir = "countersign", root
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		if out := says(t, cmd, statusNotReady, "permission denied", "give this user access to it"); strings.Contains(out, "another init") {
			t.Error(out)
		}
	}
}
