package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// What others wrote reaches no terminal as it is: the names of files in faults, and texts in
// lines of JSON, which say the same nevertheless.
func TestNothingSteersTheTerminal(t *testing.T) {
	const name = "x\x1b[2J\nb.md:1: forged\u009b\u202e.md"
	dir := t.TempDir()
	for file, text := range map[string]string{name: "no front matter", ".hidden\x1b]0;x\a\n.md": "", "good.md": "---\nid: a\ntitle: A\n---\nText.\n"} {
		must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	steers := func(out string) bool {
		return strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf) })
	}
	publish := []string{"context", "publish", dir, "--project", "acme/support", "--env", "production", "--dry-run"}
	out := says(t, program(t, publish...), statusUsage, `x\x1b[2J\nb.md:1: forged\u009b\u202e.md:1: the first line is not ---`)
	if steers(out) || strings.Contains(out, "\nb.md") {
		t.Errorf("a name steers the terminal: %q", out)
	}
	out = says(t, program(t, append(publish, "--json")...), statusUsage, `\u009b\u202e.md"`)
	line, _, _ := strings.Cut(out, "\n")
	var fault struct{ File string }
	if err := json.Unmarshal([]byte(line), &fault); err != nil || fault.File != name || steers(out) {
		t.Errorf("%q is the name %q, %v", line, fault.File, err)
	}
	must(t, os.Remove(filepath.Join(dir, name)))
	if out = says(t, program(t, publish...), 0, `left out: 1, the first is $'.hidden\x1b]0;x\x07\x0a.md'.`); steers(out) {
		t.Errorf("a hidden name steers the terminal: %q", out)
	}
	// What a person mistypes or a wrong path holds is repeated in errors.
	for _, args := range [][]string{
		{"\x1b[2J"}, {"run", "--\u202e"}, {"context", "publish", "absent\x1b[2J", "--project", "acme/support", "--env", "production"}, {"verify", "absent\u009b2J", "--key", "x"},
	} {
		if out := says(t, program(t, args...), statusUsage); steers(out) {
			t.Errorf("%q steers the terminal: %q", args, out)
		}
	}
}
