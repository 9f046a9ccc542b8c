package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"countersign/internal/limits"
)

// few are requirements like those of docs/requirements.txt.
const few = `# few
total H 6: 2 MUST, 1 LIMIT, 1 HONESTY-BOUNDARY, 2 FUTURE
total R 1: 1 MUST, 0 LIMIT, 0 HONESTY-BOUNDARY, 0 FUTURE
total S 0: 0 MUST, 0 LIMIT, 0 HONESTY-BOUNDARY, 0 FUTURE

H-001 MUST one thing
H-002 LIMIT at most two
H-003 HONESTY-BOUNDARY said
H-004 FUTURE some day
H-005 MUST another, with a part to come [open: the part]
H-006 FUTURE later
R-001 MUST elsewhere [open: that capability]
`

// TestRequirementsOfTheProtocols: the list is whole, and its FUTURE lines are what the product
// itself says is missing.
func TestRequirementsOfTheProtocols(t *testing.T) {
	t.Chdir("../..")
	list, err := readRequirements(requirementsFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 415 {
		t.Errorf("%d requirements, want 415", len(list))
	}
	declared := 0
	var future []string
	for _, r := range list {
		if r.mandatory() {
			declared++
		}
		if r.mark == "FUTURE" {
			future = append(future, r.id)
		}
	}
	if declared == 0 {
		t.Error("nothing is declared complete")
	}
	var missing []string
	for _, line := range limits.All() {
		missing = append(missing, line.ID)
	}
	slices.Sort(missing)
	if slices.Sort(future); !slices.Equal(future, missing) {
		t.Errorf("FUTURE are %v, the product names %v", future, missing)
	}
}

func TestRequirementsList(t *testing.T) {
	replaced := func(old, with string) string { return strings.Replace(few, old, with, 1) }
	for name, c := range map[string]struct{ text, want string }{
		"as it is":         {few, ""},
		"a line is gone":   {replaced("H-003 HONESTY-BOUNDARY said\n", ""), "H-004 stands where H-003 is expected"},
		"the last is gone": {replaced("H-006 FUTURE later\n", ""), `says "total H 6: `},
		"twice":            {replaced("H-002 LIMIT", "H-001 LIMIT"), "H-001 stands where H-002 is expected"},
		"another mark":     {replaced("H-001 MUST", "H-001 LIMIT"), `its lines give "total H 6: 1 MUST, 2 LIMIT`},
		"no mark":          {replaced("H-001 MUST", "H-001"), `unreadable line "H-001 one thing"`},
		"an unknown mark":  {replaced("H-001 MUST", "H-001 SHOULD"), "unreadable line"},
		"no title":         {replaced("H-001 MUST one thing", "H-001 MUST"), "unreadable line"},
		"no reason":        {replaced("[open: the part]", "[open: ]"), "unreadable line"},
		"another word":     {replaced("[open: the part]", "[done: the part]"), "unreadable line"},
		"no totals":        {replaced("total S 0: 0 MUST, 0 LIMIT, 0 HONESTY-BOUNDARY, 0 FUTURE\n", ""), `says ""`},
	} {
		module(t, map[string]string{"list.txt": c.text})
		_, err := readRequirements("list.txt")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := readRequirements("gone.txt"); err == nil {
		t.Error("a list that is not there was read")
	}
}

// commentedTests names ids in every place that counts, and in some that do not.
const commentedTests = `// H-001: a function of the package under test.
func helper() {}

// TestDoc and H-001, once more H-001.
func TestDoc(t *testing.T) {
	// H-002 in a body explains.
	helper() // H-002 too
}

// A range (H-002
// to H-004).
func FuzzRange(f *testing.F) {}

// H-005 R-001
func ExampleNamed() {}

type suite struct{}

// H-002 of a method is no test.
func (suite) TestMethod(t *testing.T) {}

// H-002 of something else is none either.
func Testify() {}

func TestSubtests(t *testing.T) {
	// H-001 belongs to the first.
	t.Run("the first", func(t *testing.T) {
		// H-002 belongs to one inside.
		t.Run("inside", func(t *testing.T) {})
	})
	// H-003 is not directly above.

	t.Run("second", func(t *testing.T) {})
	for _, name := range []string{"a", "b"} {
		// H-003 above a name that is no constant.
		t.Run(name, func(t *testing.T) {
			// H-003 is in a subtest of that name.
			t.Run("inner", func(t *testing.T) {})
		})
	}
}
`

func TestNamedIDs(t *testing.T) {
	module(t, map[string]string{
		"a/a_test.go":          tests("a", commentedTests),
		"a/a.go":               "package a\n\n// H-999 is not in a test.\n",
		"a/testdata/x_test.go": tests("x", "// H-999\nfunc TestData(t *testing.T) {}"),
	})
	all, found, err := namedIDs(".", "m")
	if err != nil || len(found) > 0 {
		t.Fatal(err, found)
	}
	got := make(map[testID]string)
	for _, n := range all {
		if n.test.test != "" {
			got[n.test] = strings.Join(n.ids, " ")
		}
	}
	want := map[testID]string{
		{"m/a", "TestDoc"}:                       "H-001",
		{"m/a", "FuzzRange"}:                     "H-002 H-003 H-004",
		{"m/a", "ExampleNamed"}:                  "H-005 R-001",
		{"m/a", "TestSubtests/the_first"}:        "H-001",
		{"m/a", "TestSubtests/the_first/inside"}: "H-002",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestClaims: what a comment must not say, and what must be said, is found before
// any test runs.
func TestClaims(t *testing.T) {
	const enough = "// H-001 H-002\nfunc TestEnough(t *testing.T) {}\n\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"enough":     {enough, nil},
		"five":       {enough + "// H-001 to H-005\nfunc TestFive(t *testing.T) {}", nil},
		"six":        {enough + "// H-001 to H-006\nfunc TestSix(t *testing.T) {}", []string{"a/a_test.go:8:1: TestSix names 6 requirements, at most 5 are counted"}},
		"six apart":  {enough + "// H-001 H-002 H-003\n// H-004 H-005 R-001\nfunc TestSix(t *testing.T) {}", []string{"TestSix names 6"}},
		"unknown":    {enough + "// H-007\nfunc TestUnknown(t *testing.T) {}", []string{"a/a_test.go:8:1: H-007 is not in docs/requirements.txt"}},
		"explaining": {enough + "func TestBody(t *testing.T) {\n\t// S-001\n}", []string{"S-001 is not in docs/requirements.txt"}},
		"past it":    {enough + "// H-005 to H-007\nfunc TestRange(t *testing.T) {}", []string{"H-007 is not in"}},
		"backwards":  {enough + "// H-003 to H-001\nfunc TestRange(t *testing.T) {}", []string{"H-003 to H-001 is no range"}},
		"mixed":      {enough + "// H-001 to R-003\nfunc TestRange(t *testing.T) {}", []string{"H-001 to R-003 is no range"}},
		"one unnamed": {"// H-001\nfunc TestOne(t *testing.T) {}", []string{
			"H-002 LIMIT, at most two: no test names it"}},
		"none named": {"func TestOne(t *testing.T) {}", []string{
			"H-001 MUST, one thing: no test names it", "H-002 LIMIT, at most two: no test names it"}},
	} {
		module(t, map[string]string{requirementsFile: few, "a/a_test.go": tests("a", c.text)})
		_, err := readClaims(".", "m")
		if (err != nil) != (len(c.want) > 0) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			continue
		}
		if err == nil {
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(c.want) {
			t.Errorf("%s: found %q, want %q", name, lines, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s: found %q, want %q", name, lines[i], want)
			}
		}
	}
}

// TestRequirementGate looks at what counts after tests that ended in every way. What
// holds is the control of each that does not.
func TestRequirementGate(t *testing.T) {
	module(t, map[string]string{requirementsFile: few, "a/a_test.go": tests("a", `// H-001
func TestOne(t *testing.T) {}

// H-002 H-003 H-004 H-005
func TestTwo(t *testing.T) {}

func TestAll(t *testing.T) {
	// H-002
	t.Run("the limit", func(t *testing.T) {})
}
`)})
	claims, err := readClaims(".", "m")
	if err != nil {
		t.Fatal(err)
	}
	const limit = "H-002 LIMIT, at most two: "
	for name, c := range map[string]struct {
		two, below, all, limit string
		want                   string
	}{
		"both":                 {two: "pass", below: "pass", all: "pass", limit: "pass"},
		"one":                  {two: "pass"},
		"failed":               {two: "fail", want: limit + "m/a TestAll/the_limit: did not run; m/a TestTwo: fail"},
		"skipped":              {two: "skip", want: limit + "m/a TestAll/the_limit: did not run; m/a TestTwo: skip"},
		"skipped below":        {two: "pass", below: "skip", want: limit + "m/a TestAll/the_limit: did not run; m/a TestTwo: skip below it"},
		"failed below":         {two: "fail", below: "fail", want: limit + "m/a TestAll/the_limit: did not run; m/a TestTwo: fail"},
		"absent":               {want: limit + "m/a TestAll/the_limit: did not run; m/a TestTwo: did not run"},
		"a subtest":            {all: "pass", limit: "pass"},
		"a subtest of another": {all: "fail", limit: "pass"},
		"a skipped subtest":    {all: "pass", limit: "skip", want: limit + "m/a TestAll/the_limit: skip; m/a TestTwo: did not run"},
	} {
		run := outcomes{
			{"m/a", "TestOne"}: "pass", {"m/b", "TestTwo"}: "pass", {"m/a", "TestTwoMore"}: "pass",
			{"m/a", "TestTwo"}: c.two, {"m/a", "TestTwo/below"}: c.below, {"m/a", "TestAll"}: c.all, {"m/a", "TestAll/the_limit"}: c.limit,
		}
		maps.DeleteFunc(run, func(_ testID, outcome string) bool { return outcome == "" })
		got := ""
		if err := claims.gate(run); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for name, run := range map[string]outcomes{"nothing ran": {}, "nothing that names one": {{"m/b", "TestOther"}: "pass"}} {
		if err := claims.gate(run); err == nil || !strings.Contains(err.Error(), "no test that passed names a requirement") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOutcomes are those of a run of go test, under the names that its comments get.
func TestOutcomes(t *testing.T) {
	module(t, map[string]string{"a/a_test.go": tests("a", `func TestGood(t *testing.T) {
	// H-001
	t.Run("has a name", func(t *testing.T) {})
}
func TestBad(t *testing.T) { t.Error("no") }
func TestNot(t *testing.T) { t.Skip("not here") }
func TestPart(t *testing.T) { t.Run("x", func(t *testing.T) { t.Skip("not here") }) }
`)})
	r := newReport(new(bytes.Buffer))
	if err := goTest(t.Context(), r, nil, "-count=1", "./..."); err == nil {
		t.Error("go test has passed")
	}
	run := r.outcomes()
	for test, want := range map[string]string{
		"TestGood": "pass", "TestGood/has_a_name": "pass", "TestBad": "fail", "TestNot": "skip", "TestPart": "skip below it", "TestGone": "did not run",
	} {
		if got := run.of(testID{"m/a", test}); got != want {
			t.Errorf("%s: %s, want %s", test, got, want)
		}
	}
	named, found, err := namedIDs(".", "m")
	if err != nil || len(found) > 0 || len(named) != 1 || run.of(named[0].test) != "pass" {
		t.Errorf("named %v, %v, %v", named, found, err)
	}
}

// TestRequirementsPrinted: each is covered by what passed or open for a reason.
func TestRequirementsPrinted(t *testing.T) {
	module(t, map[string]string{requirementsFile: few, "a/a_test.go": tests("a", `// H-001 H-005
func TestOne(t *testing.T) {}

// H-001 H-002
func TestTwo(t *testing.T) {}
`)})
	c, err := readClaims(".", "m")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.print(&out, outcomes{{"m/a", "TestOne"}: "pass", {"m/a", "TestTwo"}: "fail"})
	const want = `covered:
  H-001 MUST, one thing: m/a TestOne
open:
  H-002 LIMIT, at most two: shown by no test
  H-003 HONESTY-BOUNDARY, said: shown by no test
  H-004 FUTURE, some day: future of the protocol
  H-005 MUST, another, with a part to come: the part; in part: m/a TestOne
  H-006 FUTURE, later: future of the protocol
  R-001 MUST, elsewhere: that capability
requirements covered by tests that passed:
  Halfspan: MUST 1 of 2, LIMIT 0 of 1, HONESTY-BOUNDARY 0 of 1, FUTURE 0 of 2
  Runbook Relay: MUST 0 of 1, LIMIT 0 of 0, HONESTY-BOUNDARY 0 of 0, FUTURE 0 of 0
  SEIF: MUST 0 of 0, LIMIT 0 of 0, HONESTY-BOUNDARY 0 of 0, FUTURE 0 of 0
  open: 2 future of the protocol
  open: 1 the part
  open: 1 that capability
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}

// TestKeptResults: results are those of exactly the tree that was tested.
func TestKeptResults(t *testing.T) {
	module(t, map[string]string{"a.txt": "one", "bin/built": "x", "tools/node_modules/x": "x", ".git/x": "x"})
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := hashTree(".")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keptOutcomes(resultsFile, "."); !errors.Is(err, errNotKept) {
		t.Errorf("nothing kept: %v", err)
	}
	run := outcomes{{"m/a", "TestA"}: "pass", {"m/a", "TestB/c"}: "skip", {"m", "TestA"}: "fail"}
	if err := run.keep(resultsFile, ".", tree); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"bin/built", "tools/node_modules/x", ".git/x"} {
		write(file, "another") // is no source
	}
	if kept, err := keptOutcomes(resultsFile, "."); err != nil || !maps.Equal(kept, run) {
		t.Errorf("kept %v, %v, want %v", kept, err, run)
	}
	for name, change := range map[string]struct{ do, undo func() error }{
		"a changed file": {func() error { return os.WriteFile("a.txt", []byte("two"), 0) }, func() error { return os.WriteFile("a.txt", []byte("one"), 0) }},
		"another name":   {func() error { return os.Rename("a.txt", "b.txt") }, func() error { return os.Rename("b.txt", "a.txt") }},
		"a new file":     {func() error { return os.WriteFile("new", nil, 0o600) }, func() error { return os.Remove("new") }},
		"a link":         {func() error { return os.Symlink("a.txt", "link") }, func() error { return os.Remove("link") }},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		if _, err := keptOutcomes(resultsFile, "."); !errors.Is(err, errNotKept) {
			t.Errorf("%s: %v", name, err)
		}
		if err := change.undo(); err != nil {
			t.Fatal(err)
		}
		if _, err := keptOutcomes(resultsFile, "."); err != nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
	write("a.txt", "changed while the tests ran")
	if err := run.keep(resultsFile, ".", tree); !errors.Is(err, errNotKept) {
		t.Errorf("a tree that changed: %v", err)
	}
	if _, err := os.Stat(resultsFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the results of a tree that is gone are still there: %v", err)
	}
	write(resultsFile, "{")
	if _, err := keptOutcomes(resultsFile, "."); err == nil || errors.Is(err, errNotKept) {
		t.Errorf("damaged results: %v", err)
	}
}
