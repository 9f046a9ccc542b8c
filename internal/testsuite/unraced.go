package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// unraced lists the packages whose tests run without the race detector: those of the core
// that are pure and start no goroutine, neither in their code nor in their tests. With one goroutine there is
// no race to detect, and looking for one takes up to forty times as long. What runs them
// beside each other is tested under the race detector, with all that it calls of them.
var unraced = slices.DeleteFunc(slices.Clone(covered), func(name string) bool { return slices.Contains(racedCore, name) })

// racedCore is the part of the core that starts goroutines.
var racedCore = []string{"countersign/evidence", "countersign/dispatch"}

// first are the packages whose tests take longest, which begin before the others: begun last, one
// of them runs alone for minutes in the end and leaves a core idle.
var first = []string{"countersign/internal/supervision/gateway", "countersign/cmd/countersign"}

// racedPackages lists the packages of the module outside the core, those that are [first]
// before the others. All of the lists must exist.
func racedPackages(ctx context.Context) (raced []string, err error) {
	output, err := capture(ctx, "go", "list", "./...")
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output)
	}
	all := strings.Fields(string(output))
	var found []string
	apart := slices.Concat(unraced, racedCore)
	for _, name := range apart {
		if !slices.Contains(all, name) {
			found = append(found, name+" is listed in internal/testsuite/unraced.go and does not exist")
		}
	}
	for _, name := range first {
		if !slices.Contains(all, name) || slices.Contains(apart, name) {
			found = append(found, name+" is to begin first and is not tested with the race detector")
		}
	}
	apart = append(apart, first...)
	raced = slices.DeleteFunc(all, func(name string) bool { return slices.Contains(apart, name) })
	raced = append(slices.Clone(first), raced...)
	if len(raced) == 0 {
		found = append(found, "no package is tested with the race detector")
	}
	return raced, findings(found)
}

// beside names every place in the Go files of a folder, tests included, that starts
// something beside what runs: a go statement, a method Go of a group, Parallel and RunParallel
// of a test, and AfterFunc.
func beside(folder string) (places []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New(folder + " holds no Go file")
	}
	for _, name := range files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				places = append(places, fset.Position(n.Pos()).String())
			case *ast.SelectorExpr:
				if slices.Contains([]string{"Go", "Parallel", "RunParallel", "AfterFunc"}, n.Sel.Name) {
					places = append(places, fset.Position(n.Pos()).String())
				}
			}
			return true
		})
	}
	return places, nil
}
