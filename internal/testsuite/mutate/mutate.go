// Package mutate changes Go code in small ways and looks whether a test
// notices. A change that no test notices is a survivor: a line that could be
// wrong today and nobody would know.
//
// [Find] makes the mutants of one package:
//
//   - invert: a comparison becomes its opposite (== !=, < >=, > <=)
//   - boundary: an order moves by one (< <=, > >=), so that "at the limit" must be tested
//   - negate: the condition of an if becomes its opposite
//   - drop: an if that only returns, continues, breaks, adds a finding or makes one call never fires
//
// [Run] tests them. The files stay as they are: a mutant reaches the compiler
// through an overlay. A mutant that does not end in time counts as noticed; one
// that does not compile counts as nothing. [Judge] compares the survivors with
// the list of those that are explained.
package mutate

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one changed file of a package.
type Mutant struct {
	// ID names the change by package, file, function, kind and the code that
	// it changes, and a number when a function has the same code twice. It does
	// not depend on line numbers, so an explanation outlives an edit elsewhere.
	ID     string
	Line   int
	file   string // absolute
	source []byte
}

var inverted = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.GEQ, token.GEQ: token.LSS,
	token.GTR: token.LEQ, token.LEQ: token.GTR,
}

var moved = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS,
	token.GTR: token.GEQ, token.GEQ: token.GTR,
}

// Find returns the mutants of the package in folder, in the order of its files
// and lines. name is what their IDs start with.
func Find(folder, name string) ([]Mutant, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []Mutant
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		found, err := mutants(file, name)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func mutants(file, name string) ([]Mutant, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(parsed) {
		return nil, nil
	}
	f := finder{fset: fset, file: file, source: source, name: name + "/" + filepath.Base(file), seen: make(map[string]int)}
	for _, declaration := range parsed.Decls {
		f.function = "package"
		if d, ok := declaration.(*ast.FuncDecl); ok {
			f.function = functionName(d)
		}
		ast.Inspect(declaration, f.visit)
	}
	slices.SortStableFunc(f.found, func(a, b Mutant) int { return a.Line - b.Line })
	return f.found, nil
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if index, ok := receiver.(*ast.IndexExpr); ok {
		receiver = index.X
	}
	if ident, ok := receiver.(*ast.Ident); ok {
		return ident.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

type finder struct {
	fset     *token.FileSet
	file     string
	source   []byte
	name     string
	function string
	seen     map[string]int
	found    []Mutant
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if to, ok := inverted[n.Op]; ok {
			f.operator("invert", n, to)
		}
		if to, ok := moved[n.Op]; ok {
			f.operator("boundary", n, to)
		}
	case *ast.IfStmt:
		if !comparison(n.Cond) { // else invert has made the same mutant
			f.condition("negate", n, "!(", ")")
		}
		if guards(n) {
			f.condition("drop", n, "false && (", ")")
		}
	}
	return true
}

// comparison reports whether a condition is one comparison and nothing else.
func comparison(e ast.Expr) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	if !ok {
		return false
	}
	_, ok = inverted[b.Op]
	return ok
}

// guards reports whether an if does nothing but leave, note a finding or make
// one call.
func guards(n *ast.IfStmt) bool {
	if n.Else != nil || len(n.Body.List) == 0 {
		return false
	}
	switch last := n.Body.List[len(n.Body.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	case *ast.AssignStmt:
		if len(n.Body.List) != 1 || len(last.Rhs) != 1 {
			return false
		}
		call, ok := last.Rhs[0].(*ast.CallExpr)
		if !ok {
			return false
		}
		ident, ok := call.Fun.(*ast.Ident)
		return ok && ident.Name == "append"
	case *ast.ExprStmt:
		return len(n.Body.List) == 1
	}
	return false
}

func (f *finder) operator(kind string, n *ast.BinaryExpr, to token.Token) {
	at := f.fset.Position(n.OpPos).Offset
	f.add(kind, n, n.OpPos, f.source[:at], []byte(to.String()), f.source[at+len(n.Op.String()):])
}

func (f *finder) condition(kind string, n *ast.IfStmt, before, after string) {
	from, to := f.fset.Position(n.Cond.Pos()).Offset, f.fset.Position(n.Cond.End()).Offset
	f.add(kind, n.Cond, n.Pos(), f.source[:from], []byte(before), f.source[from:to], []byte(after), f.source[to:])
}

func (f *finder) add(kind string, code ast.Node, at token.Pos, source ...[]byte) {
	var text strings.Builder
	if err := format.Node(&text, f.fset, code); err != nil {
		panic(err) // the printer refuses only what is no syntax tree
	}
	id := fmt.Sprintf("%s %s %s %s", f.name, f.function, kind, strings.Join(strings.Fields(text.String()), " "))
	f.seen[id]++
	if n := f.seen[id]; n > 1 {
		id = fmt.Sprintf("%s #%d", id, n)
	}
	f.found = append(f.found, Mutant{ID: id, Line: f.fset.Position(at).Line, file: f.file, source: slices.Concat(source...)})
}
