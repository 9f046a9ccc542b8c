package api_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/api"
	"countersign/internal/canon"
	"countersign/internal/runbook/incident"
)

// receipts is the section of events.md on the receipts of the incident workflow.
func receipts(t *testing.T) string {
	t.Helper()
	_, section, found := strings.Cut(string(api.Events), "\n# Events of the incident workflow\n")
	if !found {
		t.Fatal("events.md has no such section")
	}
	return section
}

// the line of a receipt names each member of its data, and no other; so do
// those of the objects in it.
func TestReceiptMembers(t *testing.T) {
	text := receipts(t)
	_, line, _ := strings.Cut(text, "\n| `incident.receipt` | ")
	line, _, _ = strings.Cut(line, "\n")
	var named []string
	for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(line, -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	if want := members(t, incident.Receipt{}); !slices.Equal(named, want) {
		t.Errorf("the line names %v, the data has %v", named, want)
	}
	for name, of := range map[string]any{"input": incident.Input{}, "result": incident.Result{}, "metrics": incident.Metrics{}, "staged": incident.Staged{}, "approval": incident.Approval{}, "execution": incident.Execution{}} {
		_, object, found := strings.Cut(text, "\n- "+name+" {")
		object = regexp.MustCompile(`\([^()]*\)|\[[^][]*\]|\{[^{}]*\}`).ReplaceAllString(object, "")
		object, _, _ = strings.Cut(object, "}")
		want := members(t, of)
		var listed []string
		for part := range strings.SplitSeq(object, ",") {
			for word := range strings.SplitSeq(part, " and ") {
				if word = strings.Fields(word)[0]; slices.Contains(want, word) {
					listed = append(listed, word)
				}
			}
		}
		slices.Sort(listed)
		if commas := strings.Count(object, ","); !found || !slices.Equal(listed, want) || commas > len(want)-1 {
			t.Errorf("%s lists %v in %q, the data has %v", name, listed, object, want)
		}
	}
}

func members(t *testing.T, v any) []string {
	t.Helper()
	var data map[string]any
	if err := canon.Unmarshal(canon.MustMarshal(v), &data); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(data))
}

// What receipts tell, and the rules that a verifier holds them against, are those of the
// code, and no other.
func TestReceiptRulesInStep(t *testing.T) {
	told := sources(t, "doc.go", `(?m)^\tEvent[A-Z][a-z]+ += "([a-z.]+)"`)
	rules := append(sources(t, "*.go", `Must\(.*, "([a-z-]+)", "`), "first-event", "time-order", "event-limit", "event-type", "event-data", "timestamp", "subject-id")
	if len(told) != 9 || len(rules) < 20 {
		t.Errorf("control: %d events and %d rules found in the code", len(told), len(rules))
	}
	_, list, _ := strings.Cut(receipts(t), "\nWhat a receipt tells:\n")
	events, list, found := strings.Cut(list, "\nA verifier decides")
	list, _, _ = strings.Cut(list, "\nWhat evidence does not hold")
	for i, c := range []struct {
		text, form string
		want       []string
	}{{events, "`([a-z]+\\.[a-z]+)`", told}, {list, "`([a-z-]+)`", rules}} {
		var got []string
		for _, m := range regexp.MustCompile(c.form).FindAllStringSubmatch(c.text, -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !found || fmt.Sprint(got) != fmt.Sprint(slices.Compact(c.want)) {
			t.Errorf("list %d of events.md has\n\t%v\nthe code has\n\t%v", i, got, c.want)
		}
	}
}

// sources are the matches of a form in the source of the incident's machine.
func sources(t *testing.T, files, form string) (list []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "internal", "runbook", "incident", files))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(form).FindAllStringSubmatch(string(content), -1) {
			list = append(list, m[1])
		}
	}
	return list
}
