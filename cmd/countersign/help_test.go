package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// leaves are the commands that do something.
func leaves(n *kong.Node) (list []*kong.Node) {
	if len(n.Children) == 0 {
		return []*kong.Node{n}
	}
	for _, c := range n.Children {
		list = append(list, leaves(c)...)
	}
	return list
}

// nodes are the commands and the groups of them.
func nodes(n *kong.Node) (list []*kong.Node) {
	for _, c := range n.Children {
		list = append(append(list, c), nodes(c)...)
	}
	return list
}

// helpOf is what a command prints that asks for help, and ends there.
func helpOf(t *testing.T, args []string) (text string) {
	t.Helper()
	var out strings.Builder
	parser, err := newParser(context.Background(), streams{Out: &out, Err: io.Discard})
	must(t, err)
	type ended struct{ status int }
	parser.Exit = func(status int) { panic(ended{status}) } // kong exits in the middle of parsing
	defer func() {
		if e, ok := recover().(ended); !ok || e.status != statusDone {
			t.Errorf("%q does not end as help does", args)
		}
		text = out.String()
	}()
	_, err = parser.Parse(args)
	t.Errorf("%q went on after its help: %v", args, err)
	return ""
}

// Each command has a help with an example that it takes, and shows every example on a
// line of its own, whole: in a reflowed paragraph it could not be copied. A line that
// begins with a space would not be wrapped with its paragraph.
func TestHelp(t *testing.T) {
	parser, err := newParser(context.Background(), streams{Out: io.Discard, Err: io.Discard})
	must(t, err)
	commands := nodes(parser.Model.Node)
	if len(commands) < 17 {
		t.Fatalf("%d commands", len(commands))
	}
	longest := 0
	for _, c := range commands {
		written, is := c.Target.Addr().Interface().(kong.HelpProvider)
		if !is {
			t.Errorf("%s has no help", c.FullPath())
			continue
		}
		var examples []string
		for line := range strings.Lines(written.Help()) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
				t.Errorf("%s: %q", c.FullPath(), line)
			}
			if example, found := strings.CutPrefix(line, "Example: countersign "); found {
				examples = append(examples, example)
				longest = max(longest, len(line))
			}
		}
		out := helpOf(t, append(strings.Fields(c.FullPath())[1:], "--help"))
		var shown []string
		for line := range strings.Lines(out) {
			if example, found := strings.CutPrefix(line, "    countersign "); found {
				shown = append(shown, strings.TrimSuffix(example, "\n"))
			}
		}
		if !slices.Equal(shown, examples) {
			t.Errorf("%s shows the examples %q, want %q", c.FullPath(), shown, examples)
		}
		for _, example := range shown {
			if err := parses(example); err != nil || len(c.Children) == 0 && !strings.HasPrefix("countersign "+example, c.FullPath()) {
				t.Errorf("%s: the example %q: %v", c.FullPath(), example, err)
			}
		}
		if c.Help == "" || len(examples) == 0 {
			t.Errorf("%s has no help, or none with an example", c.FullPath())
		}
	}
	if longest < 90 {
		t.Errorf("the longest example has %d characters: nothing would have been wrapped", longest)
	}
}

// The README's table of commands has each of them, and no other.
func TestReadmeCommands(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	must(t, err)
	_, table, _ := strings.Cut(string(page), "\n## Commands\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var shown []string
	for line := range strings.Lines(table) {
		cell, found := strings.CutPrefix(line, "| `")
		cell, _, _ = strings.Cut(cell, " |")
		if !found || strings.HasPrefix(cell, "countersign") {
			continue
		}
		group := ""
		for i, name := range strings.Split(strings.ReplaceAll(cell, "`", ""), ", ") {
			if noun, verb, two := strings.Cut(name, " "); i == 0 && two {
				group, name = noun+" ", verb
			}
			shown = append(shown, group+name)
		}
	}
	parser, err := newParser(context.Background(), streams{Out: io.Discard, Err: io.Discard})
	must(t, err)
	var there []string
	for _, c := range leaves(parser.Model.Node) {
		there = append(there, strings.TrimPrefix(c.FullPath(), "countersign "))
	}
	slices.Sort(shown)
	slices.Sort(there)
	if !slices.Equal(shown, there) {
		t.Errorf("the README shows %q, there is %q", shown, there)
	}
}

// help is another word for --help, for a command too.
func TestHelpWord(t *testing.T) {
	for _, words := range [][]string{nil, {"serve"}, {"run"}, {"run", "create"}} {
		want := says(t, program(t, append(words, "--help")...), statusDone, "Usage: countersign")
		if got := says(t, program(t, append([]string{"help"}, words...)...), statusDone); got != want {
			t.Errorf("help %v says something else than --help", words)
		}
	}
	says(t, program(t, "help", "nonsense"), statusUsage)
}

// Without a command all of them are named, and the version has a flag too.
func TestBare(t *testing.T) {
	out := says(t, program(t), statusUsage, "demo, init, serve, store, run, freeze, unfreeze, project, client, context, hook, bridge, agent, attack, eval, verify, key, migrate, openapi, version", "countersign --help")
	if strings.Contains(out, "...") {
		t.Error(out)
	}
	if want := says(t, program(t, "version"), statusDone, "contract 0.1\n"); want != says(t, program(t, "--version"), statusDone) {
		t.Error("--version says something else than version")
	}
}
