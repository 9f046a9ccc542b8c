package mutate

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMutants(t *testing.T) {
	const folder = "testdata/limit"
	defer func(limit time.Duration) { leastLimit = limit }(leastLimit)
	leastLimit = 2 * time.Second // of the mutant that never ends
	before := contents(t, folder)
	p, err := Find(folder, "limit")
	if err != nil {
		t.Fatal(err)
	}
	var results []Result
	if err := p.Test(t.Context(), []string{folder}, func(r Result) { results = append(results, r) }); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]Outcome)
	for _, r := range results {
		got[r.ID] = r.Outcome
	}
	want := map[string]Outcome{
		"limit/limit.go Fits invert amount < 0":             Killed,
		"limit/limit.go Fits boundary amount < 0":           Killed,
		"limit/limit.go Fits drop amount < 0":               Killed,
		"limit/limit.go Fits invert amount <= limit":        Killed,
		"limit/limit.go Fits boundary amount <= limit":      Killed,
		"limit/limit.go Late invert now > end":              Killed,
		"limit/limit.go Late boundary now > end":            Survived,
		"limit/limit.go Expired invert now >= end":          Killed,
		"limit/limit.go Expired boundary now >= end":        Killed,
		"limit/limit.go Findings negate !known || !allowed": Killed,
		"limit/limit.go Findings drop !known || !allowed":   Killed,
		"limit/limit.go Findings invert len(name) == 0":     Killed,
		"limit/limit.go Findings drop len(name) == 0":       Survived,
		"limit/limit.go Wait invert n == 0":                 Killed,
		"limit/limit.go Wait drop n == 0":                   Killed,
	}
	if !maps.Equal(got, want) {
		for _, id := range slices.Sorted(maps.Keys(got)) {
			if got[id] != want[id] {
				t.Errorf("%s: got %s, want %q", id, got[id], want[id])
			}
		}
		for id := range want {
			if got[id] == "" {
				t.Errorf("not made: %s", id)
			}
		}
	}
	if after := contents(t, folder); !maps.Equal(before, after) {
		t.Error("the mutated files were changed on disk")
	}

	late, nameless := "limit/limit.go Late boundary now > end", "limit/limit.go Findings drop len(name) == 0"
	for name, c := range map[string]struct {
		list Explained
		want []string
	}{
		"nothing explained": {nil, []string{"survived: " + nameless, "survived: " + late}},
		"all explained":     {Explained{late: "a", nameless: "b"}, nil},
		"one without words": {Explained{late: "", nameless: "b"}, []string{"listed without a reason: " + late}},
		"one is killed now": {
			Explained{late: "a", nameless: "b", "limit/limit.go Wait invert n == 0": "c"},
			[]string{"explained and not a survivor: limit/limit.go Wait invert n == 0"},
		},
	} {
		found := Judge(results, c.list)
		slices.Sort(found)
		if !slices.Equal(found, c.want) {
			t.Errorf("%s: found %q, want %q", name, found, c.want)
		}
	}
	if found := Judge(nil, nil); !slices.Equal(found, []string{"no mutant was tested"}) {
		t.Errorf("no results: found %q", found)
	}
}

func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(b)
	}
	return all
}

// Tests that fail by themselves, or do not exist, judge nothing.
func TestRefuses(t *testing.T) {
	for name, c := range map[string]struct{ test, want string }{
		"failing tests": {"func TestLess(t *testing.T) { t.Error(\"always\") }", "do not pass without a mutant"},
		"broken tests":  {"func TestLess(t *testing.T) { undefined() }", "does not compile"},
		"no tests":      {"", "has no tests"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("go.mod", "module m\n\ngo 1.26\n")
			write("m.go", "package m\n\nfunc Less(a, b int) bool { return a < b }\n")
			if c.test != "" {
				write("m_test.go", "package m\n\nimport \"testing\"\n\n"+c.test)
			}
			p, err := Find(folder, "m")
			if err != nil {
				t.Fatal(err)
			}
			err = p.Test(t.Context(), []string{folder}, func(r Result) { t.Errorf("%s was judged: %s", r.ID, r.Outcome) })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestReadExplained(t *testing.T) {
	list, err := ReadExplained(strings.NewReader("# note\n\na.go F invert x == y\n  one\n  two\nb.go G drop x\n\tthree\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Explained{"a.go F invert x == y": "one two", "b.go G drop x": "three"}); !maps.Equal(list, want) {
		t.Errorf("got %q, want %q", list, want)
	}
	for _, text := range []string{"  reason of nothing\n", "a\n  r\na\n  r\n"} {
		if _, err := ReadExplained(strings.NewReader(text)); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}
