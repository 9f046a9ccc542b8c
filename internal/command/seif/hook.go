package seif

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/contextclient/outbox"
	"countersign/internal/command"
	"countersign/internal/command/seif/reporter"
)

// Hook are the commands that a runtime calls, and the delivery of what they could not deliver.
type Hook struct {
	ClaudeCode claudeCode `cmd:"" name:"claude-code" help:"The PreToolUse hook of Claude Code."`
	Flush      flush      `cmd:"" help:"Deliver what waits in the outbox."`
}

// Help is what kong shows.
func (Hook) Help() string {
	return `A hook reports that a runtime is about to use a tool. That is an intention: whether the tool ran, and what came of
it, was not observed.

Example: countersign hook claude-code --print-settings
Example: countersign hook flush`
}

type claudeCode struct {
	PrintSettings bool `help:"Print what to put into the settings.json of Claude Code, and report nothing."`
}

func (claudeCode) Help() string {
	return `Claude Code calls it before a tool is used and gives it JSON on stdin. Of that it takes tool_name and tool_use_id, for
tools of mcp__seif__ only, and reports them to the open turn that SEIF_TURN_ID names. What the tool is called with
is neither sent nor kept.

It observes and never blocks: the status is 0 whatever happens, stdout stays empty, and what is wrong is one line on
stderr. With a server that is dead or hangs it ends within 300 ms, and the report waits in the outbox; a later
hook, or hook flush, delivers it under its first key.` + environment + `

Example: countersign hook claude-code --print-settings`
}

func (c *claudeCode) Run(s command.Streams) error {
	if !c.PrintSettings {
		reporter.Hook(os.Stdin, s.Err, time.Now())
		return nil
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.Abs(self)
	}
	if err != nil {
		return err
	}
	if filepath.Base(filepath.Dir(self)) == "exe" && strings.Contains(self, string(filepath.Separator)+"go-build") {
		return command.Usage("go run removes this program when it ends; build it first: go build -o countersign ./cmd/countersign")
	}
	return printSettings(s, self)
}

// hookSeconds is after how long Claude Code ends a hook: far above what the hook takes.
const hookSeconds = 5

// printSettings prints the fragment. A program that is gone, or dies, ends with a status that Claude Code might take
// for a decision, so that the shell has the last word.
func printSettings(s command.Streams, program string) error {
	type object map[string]any
	w := json.NewEncoder(s.Out)
	w.SetEscapeHTML(false)
	w.SetIndent("", "  ")
	return w.Encode(object{"hooks": object{"PreToolUse": []any{object{
		"matcher": "mcp__seif__.*",
		"hooks":   []any{object{"type": "command", "command": command.Quoted(program) + " hook claude-code || exit 0", "timeout": hookSeconds}},
	}}}})
}

type flush struct{}

func (flush) Help() string {
	return `Sends everything that waits, due or not, oldest first, each report once and under its first key, and says what became of
each. It stops when the server does not answer.` + environment + `

Example: countersign hook flush

A report of a turn may be delivered with the next token of its client; a refused token leaves it in the outbox. A
receipt of a bridge is sent only with the token that it was made with.

Status 0: nothing waits any more, and nothing was dropped. 1: something was dropped: refused for good, or older than
24 hours. 3: something still waits, because the server was not reached, wants it later, or refused the token.`
}

func (flush) Run(ctx context.Context, s command.Streams) error {
	p, err := place(func(d outbox.Dropped) {
		if d.Status == 0 { // a refusal is in the line of its report
			fmt.Fprintln(s.Err, d)
		}
	})
	if err != nil {
		return err
	}
	before, err := p.Box.State(ctx)
	if err != nil {
		return err
	}
	n := 0
	f, err := p.Box.FlushAll(ctx, func(ctx context.Context, e outbox.Entry) (outbox.Answer, error) {
		n++
		fmt.Fprintf(s.Err, "%d of %d: POST %s, attempt %d: ", n, len(before.Entries), command.Quoted(e.Path), e.Attempts)
		a, err := p.Send(ctx, e)
		switch {
		case err != nil:
			fmt.Fprintln(s.Err, "not delivered:", err)
		case p.Held(e):
			fmt.Fprintln(s.Err, "not sent:", a.Detail)
		case a.Delivered():
			fmt.Fprintln(s.Err, "delivered")
		case a.Final():
			fmt.Fprintln(s.Err, "dropped: the server refused it with", a)
		default:
			fmt.Fprintln(s.Err, "it waits: got", a)
		}
		return a, err
	})
	fmt.Fprintf(s.Out, "delivered %d, dropped %d, waiting %d\n", f.Delivered, f.Dropped, f.Waiting)
	switch {
	case err != nil:
		return err
	case f.Waiting > 0:
		return fmt.Errorf("%d still waiting in %s; give the command again, with the right token where one was refused", f.Waiting, p.Path)
	case f.Dropped > 0:
		return command.Differs("%d dropped, which will not be delivered", f.Dropped)
	}
	return nil
}
