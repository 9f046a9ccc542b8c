package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"countersign/internal/client"
)

// program prepares this test binary as the program.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "countersign" // TestMain then is main
	return cmd
}

// waitingDemo starts a demo that stays up, and returns it with the lines that
// follow the run it offers.
func waitingDemo(t *testing.T, dir string) (cmd *exec.Cmd, origin, token string, rest *bufio.Scanner) {
	t.Helper()
	cmd = program(t, "demo", "--json", "--wait", "--dir", dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	log := &tail{}
	cmd.Stderr = log
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var offer struct{ Origin, Token string }
		must(t, json.Unmarshal(lines.Bytes(), &offer))
		if offer.Token != "" {
			return cmd, offer.Origin, offer.Token, lines
		}
	}
	t.Fatalf("the demo ended without an offer:\n%s", log)
	return nil, "", "", nil
}

// status runs the program and returns its exit status and what it wrote.
func status(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := program(t, args...).CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	if ok {
		return exit.ExitCode(), string(out)
	}
	return 0, string(out)
}

func TestDemoWaits(t *testing.T) {
	dir := t.TempDir()
	cmd, origin, token, rest := waitingDemo(t, dir)

	agent := client.Consumer{Origin: origin, Token: token, HTTP: client.New()}
	if r, err := agent.Get(context.Background(), "/api/v1/capabilities"); err != nil || r.Status != 200 || !strings.Contains(string(r.Body), `"status":"ready"`) {
		t.Errorf("the offered token: %d %s %v", r.Status, r.Body, err)
	}
	if got, out := status(t, "demo", "--dir", dir); got != statusNotReady || !strings.Contains(out, "in use") {
		t.Errorf("a second demo in the folder: status %d, want 3\n%s", got, out)
	}
	if got, out := status(t, "serve", "--dir", filepath.Join(dir, "control"), "--addr", "localhost:0"); got != statusNotReady || !strings.Contains(out, "in use") {
		t.Errorf("a second server in the folder: status %d, want 3\n%s", got, out)
	}
	if got, out := status(t, "store", "--dir", filepath.Join(dir, "store"), "--addr", "127.0.0.1:0", "--trust", filepath.Join(dir, "control/keys/dispatch.pub")); got != statusNotReady || !strings.Contains(out, "in use") {
		t.Errorf("a second store in the folder: status %d, want 3\n%s", got, out)
	}

	must(t, cmd.Process.Signal(syscall.SIGTERM))
	last := ""
	for rest.Scan() {
		last = rest.Text()
	}
	if err := cmd.Wait(); err != nil || last != `{"result":"ok"}` {
		t.Errorf("after SIGTERM: %v, last line %s", err, last)
	}
}

// A line that comes in pieces is still found.
func TestReadyWatch(t *testing.T) {
	w := readyWatch{found: make(chan string, 1)}
	for _, piece := range []string{"address x\ncounter", "sign: ready", " at http://localhost:1", "\nmore\n", readyMark + "http://localhost:2\n"} {
		if _, err := io.WriteString(&w, piece); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-w.found; got != "http://localhost:1" {
		t.Errorf("found %s", got)
	}
}
