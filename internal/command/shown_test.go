package command_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"countersign/internal/command"
)

// What others wrote steers no terminal, in whatever pieces it is written.
func TestShown(t *testing.T) {
	for in, want := range map[string]string{
		"plain \u00e4 \u65e5 \U0001f600\n\tx": "plain \u00e4 \u65e5 \U0001f600\n\tx",
		"a\x1b[2Jb\rc\x07\x00\x7f":            `a\u001b[2Jb\u000dc\u0007\u0000\u007f`,
		"\u009b2J\u0085":                      `\u009b2J\u0085`,
		"\u202ecod.exe\u2066\u200b\ufeff":     `\u202ecod.exe\u2066\u200b\ufeff`,
		"\u2028\u2029":                        `\u2028\u2029`,
		"\U000e0041":                          `\udb40\udc41`,
		"\xff\x9b":                            "\ufffd\ufffd",
	} {
		for name, reader := range map[string]io.Reader{"whole": strings.NewReader(in), "in bytes": iotest.OneByteReader(strings.NewReader(in))} {
			var b strings.Builder
			if n, err := io.Copy(command.Shown(&b), reader); err != nil || int(n) != len(in) || b.String() != want {
				t.Errorf("%q %s: %q, want %q (%d, %v)", in, name, b.String(), want, n, err)
			}
		}
	}
	// A line of JSON says what it said.
	const text = "a\u009b\u202e\u200d\U000e0041\x1b\n\u2028"
	var b strings.Builder
	var back string
	if err := json.NewEncoder(command.Shown(&b)).Encode(text); err != nil || json.Unmarshal([]byte(b.String()), &back) != nil || back != text {
		t.Errorf("%q is read as %q, %v", b.String(), back, err)
	}
	lost := errors.New("lost")
	if _, err := command.Shown(broken{lost}).Write([]byte("x")); !errors.Is(err, lost) {
		t.Errorf("the error is %v", err)
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// A quoted word is the same word for a shell, in one line and without steering anything.
func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"a/b.md": "a/b.md", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "\u00e4": "'\u00e4'",
		"a\x1b[2J\n": `$'a\x1b[2J\x0a'`, "\u202ex's\\": `$'\xe2\x80\xaex\'s\\'`, "\xff": `$'\xff'`,
	} {
		if got := command.Quoted(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
		if out, err := exec.Command("bash", "-c", "printf %s "+command.Quoted(word)).Output(); err != nil || string(out) != word {
			t.Errorf("%q: a shell takes %s for %q, %v", word, command.Quoted(word), out, err)
		}
	}
}
