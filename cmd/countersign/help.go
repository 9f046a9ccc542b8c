package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// exampleMark begins a line of a help text that is a command line and nothing else.
const exampleMark = "Example: "

// preformat makes the examples in the help of a command and of those below it a block
// that is shown as it stands, to be copied. Everything else of a help text is reflowed
// to the width of the terminal, which would break and join command lines.
func preformat(n *kong.Node) {
	n.Detail = withExamples(n.Detail)
	for _, c := range n.Children {
		preformat(c)
	}
}

func withExamples(help string) string {
	var b strings.Builder
	examples := strings.Count("\n"+help, "\n"+exampleMark)
	began := false
	for line := range strings.Lines(help) {
		example, found := strings.CutPrefix(line, exampleMark)
		switch {
		case !found:
			began = false
			b.WriteString(line)
			continue
		case !began && examples == 1:
			b.WriteString("Example:\n\n")
		case !began:
			b.WriteString("Examples:\n\n")
		}
		began = true
		b.WriteString("\t" + example)
	}
	return b.String()
}
