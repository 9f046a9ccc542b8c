package content

import (
	"fmt"
	"slices"
	"strings"
)

// Check returns the faults that show only when documents and cases are seen
// together: bounds of the Build, ids that stand twice, refs to what is not there,
// and documents that supersede each other in a circle.
func Check(docs []*Document, cases []Case) []Fault { return check(docs, cases, true) }

// check is [Check]. Unless all documents could be read, a ref to what is not there
// is no fault: the one that it names may be among the others.
func check(docs []*Document, cases []Case, all bool) []Fault {
	var faults []Fault
	add := func(file string, line int, format string, args ...any) {
		faults = append(faults, Fault{File: file, Line: line, Text: fmt.Sprintf(format, args...)})
	}
	if len(docs) == 0 && all {
		add("", 0, "there are no documents; write at least one")
	}
	if len(docs) > MaxDocuments {
		add("", 0, "there are %d documents, at most %d are allowed; make two projects", len(docs), MaxDocuments)
	}
	if len(cases) > MaxCases {
		add("", 0, "there are %d test cases, at most %d are allowed; remove some", len(cases), MaxCases)
	}
	byRef := make(map[string]*Document, len(docs))
	var total int64
	for _, d := range docs {
		total += int64(d.Bytes)
		if first := byRef[d.Ref]; first != nil {
			add(d.place(), d.lines["id"], "its id %s is that of %s; give it another", d.Ref, first.place())
			continue
		}
		byRef[d.Ref] = d
	}
	if total > MaxBuild {
		add("", 0, "the documents have %d bytes together, at most %d are allowed; make two projects", total, MaxBuild)
	}
	for _, d := range docs {
		for _, named := range []struct {
			key  string
			refs []string
		}{{"supersedes", d.Supersedes}, {"conflicts", d.Conflicts}} {
			for _, ref := range named.refs {
				switch {
				case ref == d.Ref:
					add(d.place(), d.lines[named.key+" "+ref], "%s names the document itself; remove it", named.key)
				case byRef[ref] == nil && all:
					add(d.place(), d.lines[named.key+" "+ref], "%s names %s, which is not here; correct it or add that document", named.key, ref)
				}
			}
		}
	}
	for _, circle := range circles(docs, byRef) {
		way := strings.Join(refs(circle[:min(len(circle), 5)]), ", ")
		if more := len(circle) - 5; more > 0 {
			way += fmt.Sprintf(" and %d more", more)
		}
		add(circle[0].place(), circle[0].lines["supersedes "+circle[1%len(circle)].Ref], "it supersedes itself by way of %s; remove one of them", way)
	}
	ids := make(map[string]Case, len(cases))
	for _, c := range cases {
		if key, text := c.wrong(); text != "" {
			add(c.place(), c.lines[key], "%s", text)
			continue
		}
		if first, twice := ids[c.ID]; twice {
			add(c.place(), c.lines["id"], "its id %s is that of %s; give it another", c.ID, first.place())
			continue
		}
		ids[c.ID] = c
		for _, ref := range c.ExpectRefs {
			if byRef[ref] == nil && all {
				add(c.place(), c.lines["expectRefs"], "expectRefs names %s, which is not here; correct it", ref)
			}
		}
	}
	return faults
}

func (d *Document) place() string {
	if d.File != "" {
		return d.File
	}
	return d.Ref
}

func (c Case) place() string {
	if c.File != "" {
		return c.File
	}
	return "case " + c.ID
}

func refs(docs []*Document) []string {
	names := make([]string, len(docs))
	for i, d := range docs {
		names[i] = d.Ref
	}
	return names
}

// maxCircles bounds the circles that are told at once.
const maxCircles = 20

// circles returns one circle of supersedes for each way back into a path, at most
// maxCircles. It keeps its own stack, because a chain may be as long as a Build.
func circles(docs []*Document, byRef map[string]*Document) (found [][]*Document) {
	const open, done = 1, 2
	type step struct {
		d    *Document
		next int
	}
	mark := make(map[*Document]int, len(docs))
	for _, start := range docs {
		if mark[start] != 0 {
			continue
		}
		mark[start] = open
		for path := []step{{d: start}}; len(path) > 0; {
			top := &path[len(path)-1]
			if top.next == len(top.d.Supersedes) {
				mark[top.d] = done
				path = path[:len(path)-1]
				continue
			}
			to := byRef[top.d.Supersedes[top.next]]
			top.next++
			switch {
			case to == nil || to == top.d: // told already
			case mark[to] == 0:
				mark[to] = open
				path = append(path, step{d: to})
			case mark[to] == open:
				from := slices.IndexFunc(path, func(s step) bool { return s.d == to })
				circle := make([]*Document, 0, len(path)-from)
				for _, s := range path[from:] {
					circle = append(circle, s.d)
				}
				if found = append(found, circle); len(found) == maxCircles {
					return found
				}
			}
		}
	}
	return found
}
