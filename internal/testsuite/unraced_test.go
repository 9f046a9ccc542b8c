package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Only packages that layers_test.go holds to be pure are tested without the race detector,
// and only where nothing starts a goroutine.
func TestUnraced(t *testing.T) {
	pure := pureOfLayers(t)
	for _, name := range unraced {
		folder, ok := strings.CutPrefix(name, "countersign/")
		if !ok || !slices.Contains(pure, folder) {
			t.Errorf("%s is not in the list of pure packages in layers_test.go", name)
			continue
		}
		places, err := beside(path.Join("../..", folder))
		if err != nil {
			t.Error(err)
		}
		for _, at := range places {
			t.Errorf("%s is tested without the race detector, and starts something beside: %s", name, at)
		}
	}
	if len(unraced) == 0 {
		t.Error("no package is listed")
	}

	// Controls: evidence is pure and starts goroutines, so that purity alone is not enough;
	// and nobody counts the ledger as pure.
	if places, err := beside("../../evidence"); err != nil || len(places) == 0 {
		t.Errorf("control: evidence starts nothing: %v", err)
	}
	if !slices.Contains(pure, "evidence") || slices.Contains(pure, "internal/ledger") {
		t.Errorf("control: read %q of layers_test.go", pure)
	}
}

// pureOfLayers reads the list of pure packages in layers_test.go.
func pureOfLayers(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../layers_test.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok || general.Tok != token.VAR {
			continue
		}
		for _, spec := range general.Specs {
			value := spec.(*ast.ValueSpec)
			if value.Names[0].Name != "pure" {
				continue
			}
			ast.Inspect(value, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok {
					name, err := strconv.Unquote(literal.Value)
					if err != nil {
						t.Fatal(err)
					}
					names = append(names, name)
				}
				return true
			})
		}
	}
	return names
}

// Every way to start something beside is found, in tests too; a package without a file is an error.
func TestBeside(t *testing.T) {
	for _, body := range []string{"go f()", "group.Go(f)", "t.Parallel()", "b.RunParallel(f)", "time.AfterFunc(d, f)"} {
		module(t, map[string]string{"a/a.go": "package a\n", "a/a_test.go": "package a\n\nfunc g() { " + body + " }\n"})
		if places, err := beside("a"); err != nil || len(places) != 1 {
			t.Errorf("%s: found %q, %v", body, places, err)
		}
	}
	module(t, map[string]string{"a/a.go": "package a\n\nfunc g() { f() }\n", "b/c.txt": ""})
	if places, err := beside("a"); err != nil || len(places) != 0 {
		t.Errorf("control: found %q, %v where nothing starts", places, err)
	}
	if _, err := beside("b"); err == nil {
		t.Error("a folder without Go files is no error")
	}
}

// What is listed is taken out of all packages, what takes longest begins, and all of it
// must exist.
func TestRacedPackages(t *testing.T) {
	beforeUnraced, beforeCore, beforeFirst := unraced, racedCore, first
	defer func() { unraced, racedCore, first = beforeUnraced, beforeCore, beforeFirst }()
	module(t, map[string]string{"a/a.go": "package a\n", "b/b.go": "package b\n", "c/c.go": "package c\n"})
	for name, c := range map[string]struct {
		unraced, core, first, want []string
		wrong                      string
	}{
		"one and one":            {[]string{"m/a"}, nil, []string{"m/c"}, []string{"m/c", "m/b"}, ""},
		"one of each":            {[]string{"m/a"}, []string{"m/b"}, nil, []string{"m/c"}, ""},
		"none":                   {nil, nil, nil, []string{"m/a", "m/b", "m/c"}, ""},
		"all listed":             {[]string{"m/a", "m/b"}, []string{"m/c"}, nil, nil, "no package is tested with the race detector"},
		"unraced, not there":     {[]string{"m/d"}, nil, nil, nil, "m/d is listed"},
		"core, not there":        {nil, []string{"m/d"}, nil, nil, "m/d is listed"},
		"first, not there":       {nil, nil, []string{"m/d"}, nil, "m/d is to begin first"},
		"unraced, and first":     {[]string{"m/a"}, nil, []string{"m/a"}, nil, "m/a is to begin first"},
		"of the core, and first": {nil, []string{"m/a"}, []string{"m/a"}, nil, "m/a is to begin first"},
	} {
		unraced, racedCore, first = c.unraced, c.core, c.first
		raced, err := racedPackages(t.Context())
		if c.wrong == "" && (err != nil || !slices.Equal(raced, c.want)) {
			t.Errorf("%s: %q, %v; want %q", name, raced, err, c.want)
		}
		if c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v, want %q", name, err, c.wrong)
		}
	}
}

// The compiler gets the option for SQLite's own code and for nothing else.
func TestTranslated(t *testing.T) {
	t.Chdir("../..")
	for name, want := range map[string]bool{
		"modernc.org/sqlite/lib": false, "modernc.org/sqlite": true, "countersign/internal/ledger/sqlite": true,
	} {
		// -n prints what would be done to build what nobody has built yet.
		output, err := capture(t.Context(), "go", "build", "-race", "-n", "-a", translated, name)
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		found := false
		for line := range strings.Lines(string(output)) {
			if strings.Contains(line, "/compile ") && strings.Contains(line, " -p "+name+" ") {
				found = true
				if got := strings.Contains(line, " -race ") && !strings.Contains(line, " -race=false "); got != want {
					t.Errorf("%s: with the race detector: %v, want %v: %s", name, got, want, line)
				}
			}
		}
		if !found {
			t.Errorf("%s is not compiled", name)
		}
	}
}
