package main

import (
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// With --wait the control plane stays up, and its page is where the demo says, as nobody's session; another demo in
// the folder is refused meanwhile.
func TestDemoIncidentWaits(t *testing.T) {
	t.Parallel()
	dir, page := t.TempDir(), ""
	status, lines, log := following(t, func(cmd *exec.Cmd, l shown) {
		if l.Page == "" {
			return
		}
		page = l.Page
		answer, err := http.Get(page)
		must(t, err)
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "investigating") || len(answer.Cookies()) != 0 {
			t.Errorf("%s: %d, cookies %v", page, answer.StatusCode, answer.Cookies())
		}
		says(t, program(t, "demo", "--incident", "--dir", dir), statusNotReady, "in use by another demo")
		must(t, cmd.Process.Signal(syscall.SIGINT))
	}, "--incident", "--wait", "--dir", dir)
	if last := lines[len(lines)-1]; status != statusDone || last.Result != "ok" || !strings.HasSuffix(page, "/incident") {
		t.Errorf("status %d, page %q, last line %+v\n%s", status, page, last, log)
	}
	if answer, err := http.Get(page); err == nil {
		answer.Body.Close()
		t.Error("the server outlives the demo")
	}
}
