package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/contextturn/turn"
)

func contextPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/context.md")
	must(t, err)
	return string(text)
}

// fenced is what the page shows in a language.
func fenced(t *testing.T, page, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n```"+language+"\n")
	code, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		t.Fatalf("the page shows nothing in %s", language)
	}
	return code
}

// The applications that the page shows, with a model that repeats what it was handed.
const (
	goApplication = `package main

import (
	"context"
	"fmt"
	"log"

	"countersign/contextclient"
)

func askModel(_ context.Context, text, question string) (string, error) { return "go heard: " + text, nil }

func main() {
	ctx, question := context.Background(), "How do I refund a gift card order?"
%s
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}
`
	jsApplication = `const question = "How do I refund a gift card order?";
const askModel = async (text) => "js heard: " + text;
%s
console.log(answer);
`
)

// What context.md shows works as it is pasted, from the first command to the verified evidence, and both
// applications are handed what was published.
// S-002: the application opens, asks and reports; by hand it is three requests.
// S-008: the hook's intention is in the turn.
// S-047: it is recorded while the turn is open.
func TestShownContext(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"node", "go", "sha256sum", "base64"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("the page needs %s: %v", name, err)
		}
	}
	root, err := filepath.Abs("../..")
	must(t, err)
	page, apps := contextPage(t), t.TempDir()
	app := fmt.Sprintf(goApplication, fenced(t, page, "go"))
	must(t, os.WriteFile(filepath.Join(apps, "app.go"), []byte(app), 0o600))
	app = strings.Replace(fmt.Sprintf(jsApplication, fenced(t, page, "js")), `"./contextclient.js"`, `"`+root+`/contextclient/js/contextclient.js"`, 1)
	must(t, os.WriteFile(filepath.Join(apps, "app.mjs"), []byte(app), 0o600))
	compiler, err := exec.LookPath("go")
	must(t, err)
	cache, err := exec.Command(compiler, "env", "GOCACHE").Output()
	must(t, err)
	run := fmt.Sprintf("(cd %s && GOCACHE=%s %s run %s/app.go)\nnode %s/app.mjs\n", root, strings.TrimSpace(string(cache)), compiler, apps, apps)

	session := []string{"go build -o countersign ./cmd/countersign", "export XDG_CACHE_HOME=$PWD/cache"}
	for _, block := range indentedBlocks(page) {
		session = append(session, block)
		if strings.HasPrefix(block, "export SEIF_BASE_URL=") {
			session = append(session, run)
		}
	}
	session = append(session, "stat -c 'mode %a %n' token bridge-token cache/countersign/outbox cache/countersign/outbox/*")
	out, err := pastedShell(t)("set -e\n" + strings.Join(session, "\n"))
	if err != nil {
		t.Errorf("the session ends with %v", err)
	}
	const text = "The money goes back to a new gift card, never to a bank account."
	for _, want := range []string{
		"production Build 1: published", "go heard: # Refund an order", "js heard: # Refund an order", "covered\n# Refund an order", text,
		`"matcher": "mcp__seif__.*"`, "\n" + turn.WithDelivery + "\n", "bridge-observed  brg_",
		"1 context call, 1 delivery, 1 observation,", "intention to use mcp__seif__context_compass (toolu_01). [observed]", "The client reported completed. [reported]",
		"VERIFIED  every check holds", "delivered 0, dropped 0, waiting 0",
		"mode 600 token", "mode 600 bridge-token", "mode 700 cache/countersign/outbox",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, text); n < 3 {
		t.Errorf("the document is handed out %d times", n)
	}
	if strings.Contains(out, "countersign hook claude-code: ") || strings.Contains(out, "mode 644") {
		t.Errorf("the hook complains, or a file is not private:\n%s", out)
	}
}

// The page says what is claimed and what is not in the words that the program uses.
func TestContextPageSays(t *testing.T) {
	page := contextPage(t)
	has := func(t *testing.T, sentence string) {
		t.Helper()
		if sentence == "" || !strings.Contains(page, sentence) {
			t.Errorf("the page does not say %q", sentence)
		}
	}
	// S-003: it binds only who routes context through it.
	// S-004: it sees no model, reading or outside tool.
	// S-067: whoever goes around the gateway is outside.
	t.Run("perimeter", func(t *testing.T) {
		has(t, turn.HonestyPerimeter)
		has(t, "whoever goes around the gateway is outside the protocol")
	})
	// S-009: an intention is only that.
	// S-010: the id of a tool's use is not correlated.
	t.Run("observation", func(t *testing.T) { has(t, turn.HonestyObservation) })
	// S-046: comprehension is not observed.
	// S-076: what is not observed.
	t.Run("delivery", func(t *testing.T) {
		has(t, turn.HonestyDelivery)
		has(t, turn.HonestyNotObserved)
	})
	// S-061: statuses are reported.
	// S-087: nothing is inferred of what is absent.
	// S-089: a bridge receipt is of the bridge alone.
	t.Run("reported", func(t *testing.T) {
		has(t, turn.HonestyReported)
		has(t, turn.HonestyAbsent)
		has(t, turn.HonestyBridge)
	})
	// S-012: no delivery means that none was observed.
	// S-013: it says nothing about the model.
	// S-072: the states cancelled and failed are technical.
	t.Run("states", func(t *testing.T) {
		for _, s := range []string{turn.Open, turn.WithDelivery, turn.WithoutDelivery, turn.Expired, turn.ReportedCanceled, turn.ReportedFailed} {
			has(t, "| `"+s+"` | "+turn.Sentence(s)+" |")
		}
	})
	// S-074: what is observed.
	// S-075: what is reported.
	t.Run("classes", func(t *testing.T) {
		for _, class := range []string{turn.ClassObserved, turn.ClassReported, turn.ClassBridge, turn.ClassNotObserved} {
			has(t, "\n| "+class+" | ")
		}
	})
	// S-088: what the protocol refers to and does not say is said to be out of scope.
	t.Run("scope", func(t *testing.T) {
		for _, name := range []string{"retention policy", "authoring of Builds", "Trinity", "out of scope", "Context Traces"} {
			has(t, name)
		}
	})
}

// hookSettings is what Claude Code reads.
type hookSettings struct {
	Hooks struct {
		PreToolUse []struct {
			Matcher string
			Hooks   []struct {
				Type, Command string
				Timeout       int
			}
		}
	}
}

// The settings call this very program from wherever Claude Code runs, and nothing that becomes of the program
// is a decision about the tool: neither a mistake in its arguments nor that it is gone.
func TestHookSettings(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	program := filepath.Join(folder, "counter sign")
	self, err := os.Executable()
	must(t, err)
	// The test's program is this one when it is called countersign.
	must(t, os.WriteFile(program, []byte("#!/bin/sh\nexec "+folder+"/bin/countersign \"$@\"\n"), 0o700))
	must(t, os.Mkdir(filepath.Join(folder, "bin"), 0o700))
	must(t, os.Symlink(self, filepath.Join(folder, "bin", "countersign")))
	out, err := exec.Command(program, "hook", "claude-code", "--print-settings").Output()
	must(t, err)
	var s hookSettings
	must(t, json.Unmarshal(out, &s))
	if len(s.Hooks.PreToolUse) != 1 || s.Hooks.PreToolUse[0].Matcher != "mcp__seif__.*" || len(s.Hooks.PreToolUse[0].Hooks) != 1 {
		t.Fatalf("%s", out)
	}
	hook := s.Hooks.PreToolUse[0].Hooks[0]
	if hook.Type != "command" || hook.Timeout <= 0 || !strings.HasPrefix(strings.Trim(hook.Command, "'"), "/") || !strings.Contains(hook.Command, " hook claude-code") {
		t.Errorf("%+v", hook)
	}
	call := func(command string, args ...string) (string, error) {
		cmd := exec.Command("sh", "-c", command+strings.Join(args, " "))
		cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}
		cmd.Stdin = strings.NewReader(`{"hook_event_name":"PreToolUse","tool_name":"mcp__seif__find","tool_use_id":"t"}`)
		var complaint strings.Builder
		cmd.Stderr = &complaint
		printed, err := cmd.Output()
		if len(printed) > 0 {
			t.Errorf("%s prints %q", command, printed)
		}
		return complaint.String(), err
	}
	plain := strings.TrimSuffix(hook.Command, " || exit 0")
	for _, args := range []string{"", " --flush", " --version", " help", " -x 1"} {
		if said, err := call(filepath.Join(folder, "bin", "countersign")+" hook claude-code", args); err != nil || !strings.Contains(said, "SEIF_TURN_ID") {
			t.Errorf("with %q: %v, %q", args, err, said)
		}
	}
	gone := strings.ReplaceAll(hook.Command, self, filepath.Join(folder, "gone"))
	if gone == hook.Command {
		t.Fatalf("%s does not call %s", hook.Command, self)
	}
	if _, err := call(gone); err != nil {
		t.Errorf("a program that is gone: %v", err)
	}
	if _, err := call(strings.TrimSuffix(gone, " || exit 0")); err == nil || plain == hook.Command {
		t.Error("without the shell's last word it would end as well: the test shows nothing")
	}
}
