package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// A line of a help that begins with a space is not wrapped with its paragraph.
func TestHelpIsProse(t *testing.T) {
	parser, err := newParser(context.Background(), streams{io.Discard, io.Discard})
	must(t, err)
	if len(parser.Model.Children) < 9 {
		t.Fatalf("%d commands", len(parser.Model.Children))
	}
	for _, c := range parser.Model.Children {
		for line := range strings.Lines(c.Detail) {
			if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
				t.Errorf("%s: %q", c.Name, line)
			}
		}
	}
}

// Without a command all of them are named, and the version has a flag too.
func TestBare(t *testing.T) {
	out := says(t, program(t), statusUsage, "init, serve, store, agent, demo, verify, migrate, openapi, version", "countersign --help")
	if strings.Contains(out, "...") {
		t.Error(out)
	}
	if want := says(t, program(t, "version"), statusDone, "contract 0.1\n"); want != says(t, program(t, "--version"), statusDone) {
		t.Error("--version says something else than version")
	}
}
