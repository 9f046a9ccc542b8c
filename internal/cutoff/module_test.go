package cutoff

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// S-025, S-028, S-080, S-083, S-086: the tests of the module itself, in Node, against the
// platform's own time and chance put away.
func TestModule(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=tap")
	cmd.Dir = "../../contextclient/js"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^# pass [1-9]`).Match(out) || !regexp.MustCompile(`(?m)^# (skipped|todo) 0$`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
