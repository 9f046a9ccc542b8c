package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFuzzTargets(t *testing.T) {
	const fuzzed = `func FuzzReal(f *testing.F) { f.Add("x"); f.Fuzz(func(*testing.T, string) {}) }
func FuzzBroken(f *testing.F) { f.Add("x"); f.Fuzz(func(t *testing.T, s string) { if s == "x" { t.Error("found") } }) }
type helper struct{}
func (helper) FuzzMethod() {}`
	module(t, map[string]string{
		"a/a_test.go":          tests("a", fuzzed),
		"a/testdata/x_test.go": tests("x", `func FuzzData(f *testing.F) {}`),
		"own/go.mod":           "module own\n",
		"own/own_test.go":      tests("own", `func FuzzOwn(f *testing.F) {}`),
	})
	present, err := fuzzFunctions(".", "m")
	if err != nil {
		t.Fatal(err)
	}
	if want := []target{{"m/a", "FuzzReal", 0}, {"m/a", "FuzzBroken", 0}}; !slices.Equal(present, want) {
		t.Fatalf("the tree holds %v, want %v", present, want)
	}
	for name, c := range map[string]struct {
		listed []target
		found  []string
	}{
		"all listed": {[]target{{"m/a", "FuzzReal", 9}, {"m/a", "FuzzBroken", 9}}, nil},
		"one gone": {[]target{{"m/a", "FuzzReal", 9}, {"m/a", "FuzzBroken", 9}, {"m/b", "FuzzReal", 9}},
			[]string{"m/b FuzzReal is listed and does not exist"}},
		"one not listed": {[]target{{"m/a", "FuzzReal", 9}},
			[]string{"m/a FuzzBroken is not listed in internal/testsuite/fuzz.go"}},
	} {
		if found := mismatch(c.listed, present); !slices.Equal(found, c.found) {
			t.Errorf("%s: found %q, want %q", name, found, c.found)
		}
	}
	if found := mismatch(nil, nil); !slices.Equal(found, []string{"no fuzz target is listed"}) {
		t.Errorf("an empty list: found %q", found)
	}

	var out bytes.Buffer
	if err := (target{"m/a", "FuzzReal", 50}).execute(t.Context(), &out); err != nil {
		t.Errorf("a target that holds: %v", err)
	}
	if err := (target{"m/a", "FuzzBroken", 50}).execute(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "found") {
		t.Errorf("a target that fails: %v", err)
	}
	// go test calls it a success when the name fits nothing.
	if err := (target{"m/a", "FuzzGone", 50}).execute(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "0 of 50 executions") {
		t.Errorf("a target that is not there: %v", err)
	}
}

func TestCoverageGate(t *testing.T) {
	core := covered
	defer func() { covered = core }()
	covered = []string{"m/a", "m/b"}
	module(t, map[string]string{
		// Two test binaries report m/a; together they execute 19 of 20 statements.
		"enough":  "mode: atomic\nm/a/a.go:1.1,2.2 10 0\nm/a/a.go:3.1,4.2 9 1\nm/a/a.go:5.1,6.2 1 0\nm/a/a.go:1.1,2.2 10 7\nm/b/b.go:1.1,2.2 1 1\n",
		"below":   "mode: atomic\nm/a/a.go:1.1,2.2 94 1\nm/a/a.go:3.1,4.2 6 0\nm/b/b.go:1.1,2.2 1 1\n",
		"missing": "mode: atomic\nm/a/a.go:1.1,2.2 1 1\n",
		"damaged": "mode: atomic\nm/a/a.go:1.1,2.2 one 1\n",
	})
	for name, want := range map[string]string{
		"enough":  "",
		"below":   "m/a: 94.0 % of statements covered, at least 95 wanted",
		"missing": "m/b has no statement in the coverage profile",
		"damaged": "unreadable line",
	} {
		var out bytes.Buffer
		err := coverageGate(&out, name)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	// Two profiles count together: neither executes enough by itself.
	module(t, map[string]string{
		"one":   "mode: atomic\nm/a/a.go:1.1,2.2 10 7\nm/a/a.go:3.1,4.2 10 0\n",
		"other": "mode: set\nm/a/a.go:1.1,2.2 10 0\nm/a/a.go:3.1,4.2 10 1\nm/b/b.go:1.1,2.2 1 1\n",
	})
	if err := coverageGate(new(bytes.Buffer), "one", "other"); err != nil {
		t.Errorf("two profiles: %v", err)
	}
	if err := coverageGate(new(bytes.Buffer), "other"); err == nil {
		t.Error("control: one of the two is enough")
	}
	if err := coverageGate(new(bytes.Buffer), "one", "gone"); err == nil {
		t.Error("a profile that is not there is no error")
	}
}

// Every test of the contract that check runs exists, so that one that is renamed is not left out.
func TestContractTests(t *testing.T) {
	files, err := filepath.Glob("../channel/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var source []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	exists := func(name string) bool { return bytes.Contains(source, []byte("\nfunc "+name+"(t *testing.T) {")) }
	for _, name := range contractTests {
		if !exists(name) {
			t.Errorf("internal/channel has no test %s", name)
		}
	}
	if exists("TestGone") {
		t.Error("control: a test that is not there is found")
	}
}

func TestFormat(t *testing.T) {
	module(t, map[string]string{"a.go": "package m\n"})
	if err := format(t.Context()); err != nil {
		t.Errorf("formatted: %v", err)
	}
	module(t, map[string]string{"a.go": "package  m\n"})
	if err := format(t.Context()); err == nil || !strings.Contains(err.Error(), "a.go") {
		t.Errorf("not formatted: %v", err)
	}
}

// TestOnly runs a chosen test of a package; a choice that fits nothing fails.
func TestOnly(t *testing.T) {
	module(t, map[string]string{
		"a/race.go":  "//go:build race\n\npackage a\n\nconst raced = true\n",
		"a/plain.go": "//go:build !race\n\npackage a\n\nconst raced = false\n",
		"a/a_test.go": tests("a", `func TestPlain(t *testing.T) { if raced { t.Error("the race detector is on") } }
func TestOther(t *testing.T) { t.Error("another test") }`),
	})
	t.Setenv("GOFLAGS", "-race")
	var out bytes.Buffer
	if err := only(t.Context(), &out, "./a", "-race=false", "-run=^TestPlain$"); err != nil {
		t.Errorf("the chosen test: %v\n%s", err, &out)
	}
	if err := only(t.Context(), &out, "./a", "-run=^TestPlain$"); err == nil {
		t.Error("control: with the race detector the test holds too")
	}
	if err := only(t.Context(), &out, "./a", "-race=false", "-run=^TestGone$"); err == nil || !strings.Contains(err.Error(), "no test ran") {
		t.Errorf("a test that is not there: %v", err)
	}
}
