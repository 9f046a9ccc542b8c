package gateway_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// doorNames are the members of options that open a door. Those of the incident workflow
// have a longer name in app.
var doorNames = []string{"Doors", "Unlocked", "Unpolled", "Without", "IncidentPartial", "IncidentWithout"}

// doorMembers are those and one of which another struct has a namesake.
var doorMembers = append([]string{"Partial"}, doorNames...)

// doorsOpened lists the places of a file that could open a door: whatever sets
// anything of these names to more than what another of that name is.
func doorsOpened(t *testing.T, name string, source any) (opened []string, passedOn int) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, 0)
	must(t, err)
	report := func(n ast.Node) { opened = append(opened, files.Position(n.Pos()).String()) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && slices.Contains(doorMembers, key.Name) {
				if from, ok := n.Value.(*ast.SelectorExpr); !ok || strings.TrimPrefix(from.Sel.Name, "Incident") != strings.TrimPrefix(key.Name, "Incident") {
					report(n)
				}
				passedOn++
			}
		case *ast.CompositeLit:
			if len(n.Elts) > 0 && ofDoors(n.Type) {
				report(n)
			}
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				if ofDoors(to) {
					report(n)
				}
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND && ofDoors(n.X) {
				report(n)
			}
		}
		return true
	})
	return opened, passedOn
}

// ofDoors reports whether an expression names a door or a member of Doors.
func ofDoors(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return slices.Contains(doorNames, e.Name)
	case *ast.SelectorExpr:
		return slices.Contains(doorNames, e.Sel.Name) || ofDoors(e.X)
	case *ast.IndexExpr:
		return ofDoors(e.X)
	}
	return false
}

// H-006: no door can be opened in the product. Nothing outside the tests sets one,
// so no file, flag or variable can; app hands on what its caller gave it.
func TestNoDoorOpensInTheProduct(t *testing.T) {
	passed := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "replica": // test support, which the product may not import
			return fs.SkipDir
		case d.IsDir() && (d.Name() == "bench" || d.Name() == "tools" || d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			opened, on := doorsOpened(t, path, nil)
			for _, place := range opened {
				t.Errorf("%s opens a door", place)
			}
			passed += on
		}
		return nil
	})
	must(t, err)
	if passed != 7 {
		t.Errorf("doors are handed on at %d places, want seven: in app one each of Doors, Unlocked and Unpolled, two of Without and one of Partial, and Doors once more from here to the wire", passed)
	}
	for _, bad := range []string{
		`var x = decide.Doors{Window: true}`,
		`var x = gateway.Config{Doors: fromFile()}`,
		`func f(c *Config) { c.Doors.Window = true }`,
		`func f(c *Config) { c.Doors = read() }`,
		`func f(c *Config) { json.Unmarshal(b, &c.Doors) }`,
		`func f(c *Config) { c.Unlocked = os.Getenv("UNLOCKED") != "" }`,
		`var x = postgres.Options{Unpolled: fromFile()}`,
		`var x = control.Config{Without: "form"}`,
		`var x = control.Config{Partial: func() bool { return true }}`,
		`func f(c *Config) { c.IncidentWithout = read() }`,
		`func f(c *Config) { flag.BoolVar(&c.Doors.Window, "window", false, "") }`,
	} {
		if opened, _ := doorsOpened(t, "bad.go", "package bad\n"+bad); len(opened) == 0 {
			t.Errorf("%s is not found", bad)
		}
	}
}
