// Package limits is the list of what the protocols foresee and this build does not
// have, so that it is visible as missing and never pretended (G-40).
//
// A line stays until the thing works; then it leaves the file together with the test
// that expects it.
package limits

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
)

// NotImplemented is the only status of a line.
const NotImplemented = "not_implemented"

// Line is one thing that is missing. The id is that of the protocol's requirement.
type Line struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Status string `json:"status"`
}

// Group is the lines of one protocol.
type Group struct {
	Protocol string
	Lines    []Line
}

//go:embed limits.json
var file []byte

// protocols by the letter with which their requirements begin.
var protocols = []struct{ letter, name string }{
	{"H", "Halfspan supervision"}, {"R", "Runbook Relay governed workflow"}, {"S", "SEIF HTTP turn observation"},
}

// All returns every line, in the order of the file.
func All() []Line {
	var lines []Line
	if err := json.Unmarshal(file, &lines); err != nil {
		panic(err) // the file is part of the program
	}
	return lines
}

// ByProtocol returns the lines in groups.
func ByProtocol() []Group {
	lines := All()
	var groups []Group
	for _, p := range protocols {
		of := slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return !strings.HasPrefix(l.ID, p.letter+"-") })
		groups = append(groups, Group{p.name, of})
	}
	return groups
}
