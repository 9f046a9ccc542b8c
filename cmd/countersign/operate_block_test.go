package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shownBlocks are the indented blocks below a heading of docs/operate.md, as they
// are pasted into a shell.
func shownBlocks(t *testing.T, heading string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operate.md")
	must(t, err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("operate.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return indentedBlocks(section)
}

func indentedBlocks(section string) (blocks []string) {
	inside := false
	for line := range strings.Lines(section) {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented && !inside:
			blocks = append(blocks, code)
		case indented:
			blocks[len(blocks)-1] += code
		}
		inside = indented
	}
	return blocks
}

// freePorts are two at which nobody listens.
func freePorts(t *testing.T) (ports [2]string) {
	t.Helper()
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close() // not before there is another
		ports[i] = port(t, l.Addr().String())
	}
	return ports
}

// pastedShell is a folder in which what the page shows can be pasted. Two things are
// not as there: `go build` gives this test's program, and the servers listen at free
// ports. otherwise are pairs of what the page shows and what is typed instead.
func pastedShell(t *testing.T, otherwise ...string) (paste func(session string) (string, error)) {
	t.Helper()
	for _, name := range []string{"sh", "curl", "jq", "sqlite3"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("the page needs %s: %v", name, err)
		}
	}
	root := t.TempDir()
	bin, work := filepath.Join(root, "bin"), filepath.Join(root, "work")
	must(t, os.Mkdir(bin, 0o700))
	must(t, os.Mkdir(work, 0o700))
	self, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(self, filepath.Join(bin, "countersign")))
	free := freePorts(t)
	control, shop := free[0], free[1]
	program := fmt.Sprintf(`#!/bin/sh
case "$1" in
serve) exec %[1]s/countersign "$@" --addr localhost:%[2]s ;;
store) exec %[1]s/countersign "$@" --addr 127.0.0.1:%[3]s ;;
agent|run|freeze|unfreeze|project|client|context) exec %[1]s/countersign "$@" --origin http://localhost:%[2]s ;;
esac
exec %[1]s/countersign "$@"
`, bin, control, shop)
	must(t, os.WriteFile(filepath.Join(bin, "program"), []byte(program), 0o700))
	must(t, os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\n[ \"$*\" = 'build -o countersign ./cmd/countersign' ] && cp "+bin+"/program countersign\n"), 0o700))
	ports := strings.NewReplacer(append(otherwise, "8420", control, "8421", shop)...)
	return func(session string) (string, error) {
		out, err := os.Create(filepath.Join(root, "out"))
		must(t, err)
		defer out.Close()
		cmd := exec.Command("sh", "-c", ports.Replace(session))
		cmd.Dir, cmd.Stdout, cmd.Stderr = work, out, out
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "COUNTERSIGN_DATABASE=", "COUNTERSIGN_ORIGIN=", "COUNTERSIGN_TOKEN=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		must(t, cmd.Start())
		result := make(chan error, 1)
		go func() { result <- cmd.Wait() }()
		select {
		case err = <-result:
		case <-time.After(2 * time.Minute):
			err = fmt.Errorf("the session does not end")
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // what was started with &; there may be nothing
		for _, folder := range []string{"control", "shop", "restored"} {
			if lock, err := os.Open(filepath.Join(work, folder, "lock")); err == nil {
				must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)) // until the server has ended
				must(t, lock.Close())
			}
		}
		text, readErr := os.ReadFile(out.Name())
		must(t, readErr)
		return string(text), err
	}
}

// What operate.md shows to start an installation, to create a run and hand it to an
// agent works as it is pasted.
func TestShownStart(t *testing.T) {
	start, run := shownBlocks(t, "Start an installation"), shownBlocks(t, "Create a run and hand it to an agent")
	if len(start) != 1 || len(run) != 3 {
		t.Fatalf("%d and %d blocks", len(start), len(run))
	}
	watch := run[2]
	if strings.Count(strings.Join(run, ""), "/events") != 1 || !strings.Contains(watch, "/events") {
		t.Errorf("what does not return by itself is not last and alone: %q", watch)
	}
	paste := pastedShell(t)
	out, err := paste(strings.Join([]string{
		start[0], run[0], run[1],
		"./countersign verify evidence.json --key control/keys/evidence.pub --store-key shop/keys/receipt.pub",
		"stat -c 'mode %a %n' token evidence.json", // umask
	}, "\n"))
	if err != nil {
		t.Errorf("the session ends with %v", err)
	}
	for _, want := range []string{
		"Created control", "execute merchant.checkout.submit", "buy again after completion", "VERIFIED  every check holds", "store key given from outside",
		"Turn 1: merchant.catalog", "409 RUN_NOT_READY: ", "mode 600 token", "mode 600 evidence.json",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}

// Negative control: without the lines that wait, serve looks for a key that the
// store has not made yet. The store is kept from starting for as long as it takes.
func TestShownStartHasToWait(t *testing.T) {
	start := shownBlocks(t, "Start an installation")[0]
	var hasty strings.Builder
	for line := range strings.Lines(start) {
		switch {
		case strings.HasPrefix(line, "curl "):
		case strings.HasPrefix(line, "./countersign store"):
			hasty.WriteString("mkfifo gate; (read go < gate; exec " + strings.TrimSuffix(strings.TrimSpace(line), " &") + ") &\n")
		case strings.HasPrefix(line, "./countersign serve"):
			hasty.WriteString(strings.TrimSuffix(strings.TrimSpace(line), " &") + "\n")
		default:
			hasty.WriteString(line)
		}
	}
	if out, err := pastedShell(t)(hasty.String()); err == nil || !strings.Contains(out, "receipt.pub: no such file or directory") {
		t.Errorf("%v: nothing had to be waited for\n%s", err, out)
	}
}
