package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// target is one fuzz target and how often check executes it.
type target struct {
	pkg        string // import path
	name       string
	executions int
}

// targets lists every fuzz target of the module. One that is listed and not in
// the tree fails, and so does one that is in the tree and not listed.
var targets = []target{
	{"countersign/internal/canon", "FuzzCanonical", 5000},
	{"countersign/internal/canon", "FuzzUnmarshal", 5000},
	{"countersign/internal/canon", "FuzzMarshal", 5000},
	{"countersign/internal/money", "FuzzParse", 5000},
	{"countersign/evidence", "FuzzReadExport", 5000},
	{"countersign/evidence", "FuzzParseKeys", 5000},
	{"countersign/internal/supervision/propose", "FuzzParseReport", 5000},
	{"countersign/internal/supervision/propose", "FuzzParseOutcome", 5000},
	{"countersign/internal/supervision/run", "FuzzReplay", 2000},
	{"countersign/internal/runbook/incident", "FuzzReplay", 2000},
	{"countersign/internal/contextturn/redact", "FuzzText", 2000},
	{"countersign/internal/contextturn/content", "FuzzParseDocument", 5000},
	{"countersign/dispatch", "FuzzPermit", 5000},
	{"countersign/dispatch", "FuzzReceipt", 5000},
	{"countersign/dispatch", "FuzzSignedPayload", 5000},
}

// fuzz executes every target for its number of executions.
func fuzz(ctx context.Context, out io.Writer) error {
	present, err := fuzzFunctions(".", "countersign")
	if err != nil {
		return err
	}
	if found := mismatch(targets, present); len(found) > 0 {
		return findings(found)
	}
	for _, t := range targets {
		if err := t.execute(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// mismatch compares the listed targets with those of the tree.
func mismatch(listed, present []target) (found []string) {
	same := func(a target) func(target) bool {
		return func(b target) bool { return a.pkg == b.pkg && a.name == b.name }
	}
	if len(listed) == 0 {
		found = append(found, "no fuzz target is listed")
	}
	for _, t := range listed {
		if !slices.ContainsFunc(present, same(t)) {
			found = append(found, fmt.Sprintf("%s %s is listed and does not exist", t.pkg, t.name))
		}
	}
	for _, t := range present {
		if !slices.ContainsFunc(listed, same(t)) {
			found = append(found, fmt.Sprintf("%s %s is not listed in internal/testsuite/fuzz.go", t.pkg, t.name))
		}
	}
	return found
}

// fuzzFunctions finds the fuzz targets of the module at root.
func fuzzFunctions(root, module string) (present []target, err error) {
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipFolder(root, file)
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		for _, declaration := range parsed.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				present = append(present, target{pkg: path.Join(module, filepath.ToSlash(folder)), name: f.Name.Name})
			}
		}
		return nil
	})
	return present, err
}

// skipFolder leaves out what go does not count to the module: test data, hidden
// folders and modules of their own.
func skipFolder(root, folder string) error {
	if folder == root {
		return nil
	}
	name := filepath.Base(folder)
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

var executed = regexp.MustCompile(`execs: (\d+)`)

func (t target) execute(ctx context.Context, out io.Writer) error {
	output, err := capture(ctx, "go", "test", "-run=^$", "-fuzz=^"+t.name+"$",
		"-fuzztime="+strconv.Itoa(t.executions)+"x", t.pkg)
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", t.pkg, t.name, err, output)
	}
	count := 0
	for _, match := range executed.FindAllSubmatch(output, -1) {
		if count, err = strconv.Atoi(string(match[1])); err != nil {
			return err
		}
	}
	if count < t.executions {
		return fmt.Errorf("%s %s: %d of %d executions\n%s", t.pkg, t.name, count, t.executions, output)
	}
	fmt.Fprintf(out, "  %8d executions  %s %s\n", count, t.pkg, t.name)
	return nil
}
