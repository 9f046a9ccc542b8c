package ledger_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tables hold what belongs to a workspace.
var tables = regexp.MustCompile(`(?i)\b(?:FROM|INTO|UPDATE|JOIN)\s+(subjects|attributes|events|idempotency|spent_permits|credentials|texts|blobs|sealed)\b`)

// everywhere are the statements that are about every workspace on purpose, by how they
// begin.
var everywhere = map[string]string{
	"SELECT workspace, kind, id FROM subjects WHERE due <=": "whoever settles is told whose a due subject is, and leaves others'",
	"SELECT fingerprint,": "keys are the installation's, and so is the time of its newest event when one is replaced",
}

// unbound lists the SQL of a source that touches what belongs to a workspace without
// naming one.
func unbound(t *testing.T, name string, source any) (statements int, found []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		sql, ok := text(e)
		if !ok {
			return true
		}
		if tables.MatchString(sql) {
			statements++
			spelled := strings.Join(strings.Fields(sql), " ")
			meant := func(begin string) bool { return strings.HasPrefix(spelled, begin) }
			if !strings.Contains(strings.ReplaceAll(spelled, "SELECT workspace", ""), "workspace") && !slices.ContainsFunc(keys(everywhere), meant) {
				found = append(found, fmt.Sprintf("%s: %s", files.Position(n.Pos()), spelled))
			}
		}
		return false
	})
	return statements, found
}

// text is what a string is made of, variables left out.
func text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, err := strconv.Unquote(e.Value)
			return s, err == nil
		}
	case *ast.BinaryExpr:
		x, a := text(e.X)
		y, b := text(e.Y)
		return x + y, a || b
	}
	return "", false
}

func keys(m map[string]string) (list []string) {
	for key := range m {
		list = append(list, key)
	}
	return list
}

// No statement of either engine reads or writes what belongs to a workspace without
// naming the workspace.
func TestStatementsNameTheWorkspace(t *testing.T) {
	for _, engine := range []struct {
		name  string
		files []string
		least int
	}{
		{"sqlite", []string{"sqlite/*.go"}, 15},
		{"postgres", []string{"postgres/*.go", "postgres/statement/*.go", "postgres/blob/*.go"}, 15},
	} {
		statements := 0
		for _, pattern := range engine.files {
			names, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if strings.HasSuffix(name, "_test.go") {
					continue
				}
				n, found := unbound(t, name, nil)
				statements += n
				for _, f := range found {
					t.Error(f)
				}
			}
		}
		if statements < engine.least {
			t.Errorf("%s: %d statements were read", engine.name, statements)
		}
	}
	// Control: statements that forget it are found.
	for _, bad := range []string{
		`const q = "SELECT state FROM subjects WHERE kind = ? AND id = ?"`,
		"var q = `DELETE FROM credentials WHERE hash = ` + parameter",
		`const q = "SELECT workspace FROM events WHERE subject = $1"`,
	} {
		if _, found := unbound(t, "bad.go", "package bad\n"+bad); len(found) != 1 {
			t.Errorf("control: %s is not found", bad)
		}
	}
}
