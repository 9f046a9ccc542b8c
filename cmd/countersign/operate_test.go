package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// commandLines finds those that a page shows in its indented blocks.
var commandLines = regexp.MustCompile(`(?m)^ {4}(?:\./countersign|go run \./cmd/countersign) (.*)$`)

// redirected is what a shell takes for itself at the end of a command line.
var redirected = regexp.MustCompile(` (>|\|\|?|&)( .*)?$`)

const (
	sampleRun  = "01940e2e-7c00-7000-8000-000000000001"
	sampleTurn = "trn_01940e2e7c0070008000000000000001"
)

// TestShownCommands holds the pages against the program: every command line that
// they show is one that it takes.
func TestShownCommands(t *testing.T) {
	for page, atLeast := range map[string]int{"../../docs/operate.md": 11, "../../docs/context.md": 12, "../../docs/incident.md": 7, "../../README.md": 1} {
		text, err := os.ReadFile(page)
		must(t, err)
		found := 0
		for _, m := range commandLines.FindAllStringSubmatch(string(text), -1) {
			line := strings.NewReplacer("$RUN", sampleRun, "$run", sampleRun, "$SEIF_TURN_ID", sampleTurn).Replace(redirected.ReplaceAllString(m[1], ""))
			found++
			if err := parses(line); err != nil {
				t.Errorf("%s: countersign %s: %v", page, line, err)
			}
		}
		if found < atLeast {
			t.Errorf("%s shows %d commands, want at least %d: is the pattern right?", page, found, atLeast)
		}
	}
	// Negative control.
	for _, line := range []string{"serve --dir D --metrics-port 9", "revoke ID", "init"} {
		if parses(line) == nil {
			t.Errorf("countersign %s is taken", line)
		}
	}
}

// parses takes a command line apart without running it.
func parses(line string) error {
	parser, err := newParser(context.Background(), streams{Out: io.Discard, Err: io.Discard})
	if err != nil {
		return err
	}
	_, err = parser.Parse(shellWords(line))
	return err
}

// shellWord is one word of a command line; quotes stand around a whole word only.
var shellWord = regexp.MustCompile(`"[^"]*"|\S+`)

// shellWords are the words of a command line.
func shellWords(line string) (words []string) {
	for _, word := range shellWord.FindAllString(line, -1) {
		words = append(words, strings.Trim(word, `"`))
	}
	return words
}
