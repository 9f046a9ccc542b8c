package mutate

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Explained is the list of survivors that are known to change nothing that a
// test could see: the reason by the mutant's ID.
type Explained map[string]string

// ReadExplained reads the list: the mutant's ID on a line of its own, its
// reason on the indented lines below it. Empty lines and lines that start with
// # are left out.
func ReadExplained(r io.Reader) (Explained, error) {
	list := make(Explained)
	id := ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(line, "#"):
		case line[0] != ' ' && line[0] != '\t':
			id = text
			if _, twice := list[id]; twice {
				return nil, fmt.Errorf("explained twice: %s", id)
			}
			list[id] = ""
		case id == "":
			return nil, fmt.Errorf("a reason without a mutant: %s", text)
		default:
			list[id] = strings.TrimSpace(list[id] + " " + text)
		}
	}
	return list, lines.Err()
}

// Judge returns what is wrong with the results: no mutant was tested, a survivor
// is not explained, an explanation fits no survivor or says nothing.
func Judge(results []Result, explained Explained) (found []string) {
	survivors := make(map[string]bool)
	for _, r := range results {
		if r.Outcome != Survived {
			continue
		}
		survivors[r.ID] = true
		if _, ok := explained[r.ID]; !ok {
			found = append(found, "survived: "+r.ID)
		}
	}
	if len(results) == 0 {
		found = append(found, "no mutant was tested")
	}
	for id, reason := range explained {
		switch {
		case !survivors[id]:
			found = append(found, "explained and not a survivor: "+id)
		case reason == "":
			found = append(found, "listed without a reason: "+id)
		}
	}
	return found
}
