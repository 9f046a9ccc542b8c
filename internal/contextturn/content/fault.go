package content

import (
	"fmt"
	"strings"
)

// Fault is one thing that keeps a folder from being published.
type Fault struct {
	File string // slash-separated, inside the folder; "" when it is about the whole
	Line int    // from 1; 0 when it is not known
	Text string // what is wrong, and what to do
}

// String is the fault as a line of a report: FILE:LINE: TEXT.
func (f Fault) String() string {
	switch {
	case f.File == "":
		return f.Text
	case f.Line == 0:
		return fmt.Sprintf("%s: %s", f.File, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

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
