package frame

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"

	"countersign/evidence"
)

// words are the functions of every template.
var words = template.FuncMap{
	"moment": Moment,
	"stamp":  Stamp,
	"millis": func(t evidence.Time) int64 { return int64(t) },
	"short":  Short,
	"spaced": func(s string) string { return strings.ReplaceAll(s, "_", " ") },
	"json":   SpellJSON,
	"dict":   dict,
	"long":   func(s string) bool { return len(s) > 140 }, // too long for a heading's size
}

// Moment is a time as every page spells it, to the second.
func Moment(t evidence.Time) string { return t.Time().Format("2006-01-02 15:04:05 UTC") }

// Stamp is the time of an event, to the millisecond.
func Stamp(s string) string {
	t, err := evidence.ParseTime(s)
	if err != nil {
		return s
	}
	return t.Format("2006-01-02 15:04:05.000 UTC")
}

// Short is the part of an id that tells it from others of the same moment.
func Short(id string) string {
	if len(id) <= 8 {
		return id
	}
	return "…" + id[len(id)-8:]
}

// SpellJSON writes a value for people, every member on a line of its own.
func SpellJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}

// dict makes a map of names and values for a template that takes several.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("frame: %v is not a name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}
