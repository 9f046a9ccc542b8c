package content

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// keys are what front matter may hold, in the order they are told.
var keys = []string{"id", "title", "tags", "profiles", "author", "source", "supersedes", "conflicts"}

// yamlLine finds the line in an error of the YAML reader.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// read fills d from its front matter, which begins on the file's second line.
func (d *Document) read(matter string) []Fault {
	decoder := yaml.NewDecoder(strings.NewReader(matter))
	var root, more yaml.Node
	err := decoder.Decode(&root)
	if errors.Is(err, io.EOF) {
		return []Fault{{Line: 1, Text: "the front matter is empty; write at least id and title"}}
	}
	if err == nil {
		if err = decoder.Decode(&more); errors.Is(err, io.EOF) {
			return d.fill(root.Content[0])
		}
	}
	if err == nil {
		return []Fault{{Line: 1, Text: "the front matter holds more than one YAML document; keep one"}}
	}
	fault := Fault{Line: 1, Text: "the front matter is not YAML; correct it"}
	if match := yamlLine.FindStringSubmatch(err.Error()); match != nil {
		if line, err := strconv.Atoi(match[1]); err == nil {
			fault.Line = line + 1
		}
		fault.Text = "the front matter is not YAML (" + match[2] + "); correct it"
	}
	return []Fault{fault}
}

// matter collects the faults of one front matter.
type matter struct{ faults []Fault }

func (m *matter) add(n *yaml.Node, format string, args ...any) {
	m.faults = append(m.faults, Fault{Line: n.Line + 1, Text: fmt.Sprintf(format, args...)})
}

func (d *Document) fill(root *yaml.Node) []Fault {
	m := &matter{}
	if root.Kind != yaml.MappingNode || root.Anchor != "" || root.Tag != "!!map" {
		m.add(root, "the front matter is not a list of keys and values; write id: … and title: …")
		return m.faults
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if !plain(key) || !slices.Contains(keys, key.Value) {
			m.add(key, "unknown key %.40q; the keys are %s", key.Value, strings.Join(keys, ", "))
			continue
		}
		if seen[key.Value] {
			m.add(key, "the key %s stands twice; keep one", key.Value)
			continue
		}
		seen[key.Value] = true
		d.set(m, key.Value, value)
	}
	for _, key := range keys[:2] {
		if !seen[key] {
			m.faults = append(m.faults, Fault{Line: 1, Text: fmt.Sprintf("there is no %s; add it", key)})
		}
	}
	return m.faults
}

// set takes over one value.
func (d *Document) set(m *matter, key string, value *yaml.Node) {
	switch key {
	case "id":
		d.lines[key] = value.Line + 1
		if d.Ref = m.text(key, value, MaxRef); d.Ref != "" && !IsRef(d.Ref) {
			m.add(value, "the id is not of A-Z a-z 0-9 . _ : / - with a letter or a digit first; change it")
		}
	case "title":
		d.Title = m.text(key, value, MaxTitle)
	case "author":
		d.Author = m.text(key, value, MaxTitle)
	case "source":
		d.Source = m.text(key, value, MaxSource)
	case "tags":
		d.Tags = m.list(key, value, MaxTags, MaxTag, nil)
	case "profiles":
		d.Profiles = m.list(key, value, MaxNames, 40, IsProfile)
		if len(d.Profiles) == 0 && value.Kind == yaml.SequenceNode {
			m.add(value, "profiles is empty, which would be for nobody; leave the key out for everyone")
		}
	case "supersedes":
		d.Supersedes = d.named(m, key, value)
	case "conflicts":
		d.Conflicts = d.named(m, key, value)
	}
}

// named is the list of refs of key, with the line of each.
func (d *Document) named(m *matter, key string, n *yaml.Node) []string {
	for _, item := range n.Content {
		d.lines[key+" "+item.Value] = item.Line + 1
	}
	return m.list(key, n, MaxNames, MaxRef, IsRef)
}

// plain reports whether n is text without an anchor or a tag of its own.
func plain(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0
}

// text is the value of key, or "" after a fault.
func (m *matter) text(key string, n *yaml.Node, limit int) string {
	if !plain(n) {
		m.add(n, "%s is not plain text; write it in quotes, without anchors, aliases or tags", key)
		return ""
	}
	if wrong := badLine(n.Value, limit); wrong != "" {
		m.add(n, "%s %s", key, wrong)
		return ""
	}
	return n.Value
}

// list is the values of key: at most most, each of at most limit characters and
// of the form, none twice.
func (m *matter) list(key string, n *yaml.Node, most, limit int, form func(string) bool) []string {
	if n.Kind != yaml.SequenceNode || n.Anchor != "" || n.Tag != "!!seq" || n.Style&yaml.TaggedStyle != 0 {
		m.add(n, "%s is not a list; write %s: [one, another]", key, key)
		return nil
	}
	if len(n.Content) > most {
		m.add(n, "%s has %d entries, at most %d are allowed; leave some out", key, len(n.Content), most)
		return nil
	}
	var values []string
	for _, item := range n.Content {
		value := m.text("an entry of "+key, item, limit)
		switch {
		case value == "":
		case form != nil && !form(value):
			m.add(item, "%.60q of %s has a character that is not allowed there; correct it", value, key)
		case slices.Contains(values, value):
			m.add(item, "%.60q stands twice in %s; keep one", value, key)
		default:
			values = append(values, value)
		}
	}
	return values
}
