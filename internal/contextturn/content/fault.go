package content

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Fault is one thing that keeps a folder from being published.
type Fault struct {
	File string // slash-separated, inside the folder; "" when it is about the whole
	Line int    // from 1; 0 when it is not known
	Text string // what is wrong, and what to do
}

// String is the fault as a line of a report: FILE:LINE: TEXT. What does not print, as in
// the name of a file, is written as in Go.
func (f Fault) String() string {
	line := f.Text
	switch {
	case f.File != "" && f.Line == 0:
		line = fmt.Sprintf("%s: %s", f.File, f.Text)
	case f.File != "":
		line = fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
	}
	var b strings.Builder
	for _, r := range line {
		if prints(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// prints reports whether r is visible, or a space of whatever width.
func prints(r rune) bool { return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) }

// maxTold bounds the faults of an error.
const maxTold = 20

// Error joins faults to an error, a line each, the first twenty; nil when there are
// none.
func Error(faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	return faultError(faults)
}

type faultError []Fault

func (e faultError) Error() string {
	lines := make([]string, min(len(e), maxTold))
	for i := range lines {
		lines[i] = e[i].String()
	}
	if more := len(e) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return "content: " + strings.Join(lines, "\n")
}

// in puts faults into a file.
func in(file string, faults []Fault) []Fault {
	for i := range faults {
		faults[i].File = file
	}
	return faults
}
