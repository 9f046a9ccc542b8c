package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mostIDs is how many requirements one test may name: a test of everything shows nothing.
const mostIDs = 5

// named are the requirements that one comment names. The test is empty where the
// comment belongs to none.
type named struct {
	at   token.Position
	test testID
	ids  []string
}

// namedIDs reads the comments of all tests below root. A comment belongs to a test when it is the
// doc comment of a Test, Fuzz or Example function, or when it ends on the line above t.Run with a
// constant name that itself is in no subtest of another name. Any other comment only explains, but
// what it names must exist.
func namedIDs(root, module string) (all []named, found []string, err error) {
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
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		tests := commented(fset, parsed, path.Join(module, filepath.ToSlash(folder)))
		for _, group := range parsed.Comments {
			ids, wrong := idsIn(group.Text())
			n := named{fset.Position(group.Pos()), tests[group], ids}
			if wrong != "" {
				found = append(found, fmt.Sprintf("%s: %s", n.at, wrong))
			}
			if n.test.test != "" && len(ids) > mostIDs {
				found = append(found, fmt.Sprintf("%s: %s names %d requirements, at most %d are counted",
					n.at, n.test.test, len(ids), mostIDs))
			}
			if len(ids) > 0 {
				all = append(all, n)
			}
		}
		return nil
	})
	return all, found, err
}

// idName is an id, or the first and the last of a range.
var idName = regexp.MustCompile(`\b([HRS])-(\d{3})\b(?:\s+to\s+([HRS])-(\d{3})\b)?`)

// idsIn returns the ids in a text, each once, and what is wrong with a range.
func idsIn(text string) (ids []string, wrong string) {
	for _, match := range idName.FindAllStringSubmatch(text, -1) {
		letter, first, last := match[1], number(match[2]), number(match[2])
		if match[3] != "" {
			last = number(match[4])
			if match[3] != letter || last <= first {
				wrong = fmt.Sprintf("%s is no range", match[0])
			}
		}
		for n := first; n <= last; n++ {
			if id := fmt.Sprintf("%s-%03d", letter, n); !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids, wrong
}

// number reads the three digits of an id.
func number(digits string) (n int) {
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}

// commented returns the comments of one file that belong to a test.
func commented(fset *token.FileSet, file *ast.File, pkg string) map[*ast.CommentGroup]testID {
	above := make(map[int]*ast.CommentGroup) // by the line under the comment
	for _, group := range file.Comments {
		above[fset.Position(group.End()).Line+1] = group
	}
	tests := make(map[*ast.CommentGroup]testID)
	var subtests func(body ast.Node, test string)
	subtests = func(body ast.Node, test string) {
		ast.Inspect(body, func(n ast.Node) bool {
			name, run, ok := subtest(n)
			if !ok {
				return true
			}
			if name != "" {
				if group := above[fset.Position(n.Pos()).Line]; group != nil {
					tests[group] = testID{pkg, test + "/" + name}
				}
				subtests(run, test+"/"+name)
			}
			return false
		})
	}
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Body == nil || !testName.MatchString(f.Name.Name) {
			continue
		}
		if f.Doc != nil {
			tests[f.Doc] = testID{pkg, f.Name.Name}
		}
		subtests(f.Body, f.Name.Name)
	}
	return tests
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Example)([^a-z]|$)`)

// subtest recognizes t.Run: the name as go test prints it, empty when it is no constant, and
// what runs.
func subtest(n ast.Node) (name string, run ast.Node, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return "", nil, false
	}
	if method, ok := call.Fun.(*ast.SelectorExpr); !ok || method.Sel.Name != "Run" {
		return "", nil, false
	}
	if literal, ok := call.Args[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
		if name, err := strconv.Unquote(literal.Value); err == nil {
			return strings.ReplaceAll(name, " ", "_"), call.Args[1], true
		}
	}
	return "", call.Args[1], true
}
