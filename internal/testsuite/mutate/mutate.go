// Package mutate changes Go code in small ways and looks whether a test
// notices. A change that no test notices is a survivor: a line that could be
// wrong today and nobody would know.
//
// [Find] makes the mutants of one package:
//
//   - invert: a comparison becomes its opposite (== !=, < >=, > <=)
//   - boundary: an order moves by one (< <=, > >=), so that "at the limit" must be tested
//   - negate: the condition of an if becomes its opposite
//   - drop: an if that only leaves, adds a finding or makes one call never fires
//
// All mutants of a package are compiled at once: a changed expression asks which
// mutant is active, and an environment variable says. So [Package.Test] builds
// the tests once and runs them once for each mutant. The files stay as they are;
// the compiler gets the changed ones through an overlay. A mutant under which the
// tests do not end in time counts as noticed. [Judge] compares the survivors with
// the list of those that are explained.
package mutate

import (
	"cmp"
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

// Mutant is one change.
type Mutant struct {
	// ID names the change by package, file, function, kind and the code that
	// it changes, and a number when a function has the same code twice. It does
	// not depend on line numbers, so an explanation outlives an edit elsewhere.
	ID     string
	Line   int
	number int // that activates it
}

// Package is a package with all its mutants.
type Package struct {
	Mutants []Mutant
	overlay map[string][]byte // contents by absolute path
}

// variable activates the mutant whose number it holds.
const variable = "COUNTERSIGN_MUTANT"

// activation is the file that the package gets in addition.
const activation = `package %s

import "os"

var mutantNumber = os.Getenv("` + variable + `")

func mutantIs(number string) bool { return mutantNumber == number }
`

// Find returns the mutants of the package in folder, in the order of its files
// and lines. name is what their IDs start with.
func Find(folder, name string) (*Package, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	p := &Package{overlay: make(map[string][]byte)}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if err := p.add(file, name); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Package) add(file, name string) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.overlay[filepath.Join(filepath.Dir(file), "zz_mutant.go")] = fmt.Appendf(nil, activation, parsed.Name.Name)
	if ast.IsGenerated(parsed) {
		return nil
	}
	f := finder{fset: fset, source: source, name: name + "/" + filepath.Base(file), seen: make(map[string]int), first: len(p.Mutants) + 1}
	for _, declaration := range parsed.Decls {
		f.function = "package"
		if d, ok := declaration.(*ast.FuncDecl); ok {
			f.function = functionName(d)
		}
		ast.Inspect(declaration, f.visit)
	}
	p.overlay[file] = f.rewritten()
	slices.SortStableFunc(f.found, func(a, b Mutant) int { return cmp.Compare(a.Line, b.Line) })
	p.Mutants = append(p.Mutants, f.found...)
	return nil
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

// finder finds the mutants of one file.
type finder struct {
	fset     *token.FileSet
	source   []byte
	name     string
	function string
	seen     map[string]int
	first    int // number of the first mutant
	found    []Mutant
	wraps    []wrap // an outer expression comes before its parts
}

// wrap puts an expression between two pieces of code.
type wrap struct {
	from, to      int // offsets of the expression
	before, after string
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST // a constant cannot depend on what is active
	case *ast.BinaryExpr:
		f.comparison(n)
	case *ast.IfStmt:
		if !isComparison(n.Cond) { // else invert makes the same mutant
			f.add("negate", n.Cond, n.Pos(), "(%s != (", "))")
		}
		if guards(n) {
			f.add("drop", n.Cond, n.Pos(), "(!%s && (", "))")
		}
	}
	return true
}

func (f *finder) comparison(n *ast.BinaryExpr) {
	x, y := f.text(n.X), f.text(n.Y)
	switch n.Op {
	case token.LSS, token.GTR: // at the limit it holds too
		f.add("invert", n, n.OpPos, "(%s != (", "))")
		f.add("boundary", n, n.OpPos, "((", ") || %s && "+x+" "+n.Op.String()+"= "+y+")")
	case token.LEQ, token.GEQ: // at the limit it holds no longer
		f.add("invert", n, n.OpPos, "(%s != (", "))")
		f.add("boundary", n, n.OpPos, "((", ") && (!%s || "+x+" "+strings.TrimSuffix(n.Op.String(), "=")+" "+y+"))")
	case token.EQL, token.NEQ:
		f.add("invert", n, n.OpPos, "(%s != (", "))")
	}
}

// isComparison reports whether a condition is one comparison and nothing else.
func isComparison(e ast.Expr) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	if !ok {
		return false
	}
	switch b.Op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		return true
	}
	return false
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

func (f *finder) offset(at token.Pos) int { return f.fset.Position(at).Offset }

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

// add notes a mutant. In the code around the expression, %s asks whether it is
// active.
func (f *finder) add(kind string, e ast.Expr, at token.Pos, before, after string) {
	var printed strings.Builder
	if err := format.Node(&printed, f.fset, e); err != nil {
		panic(err) // the printer refuses only what is no syntax tree
	}
	id := fmt.Sprintf("%s %s %s %s", f.name, f.function, kind, strings.Join(strings.Fields(printed.String()), " "))
	f.seen[id]++
	if n := f.seen[id]; n > 1 {
		id = fmt.Sprintf("%s #%d", id, n)
	}
	number := f.first + len(f.found)
	f.found = append(f.found, Mutant{ID: id, Line: f.fset.Position(at).Line, number: number})
	active := fmt.Sprintf("mutantIs(%q)", fmt.Sprint(number))
	f.wraps = append(f.wraps, wrap{
		from: f.offset(e.Pos()), to: f.offset(e.End()),
		before: strings.Replace(before, "%s", active, 1),
		after:  strings.Replace(after, "%s", active, 1),
	})
}

// rewritten returns the source with all mutants in it.
func (f *finder) rewritten() []byte {
	before, after := make(map[int]string), make(map[int]string)
	for _, w := range f.wraps {
		before[w.from] += w.before
		after[w.to] = w.after + after[w.to]
	}
	var out []byte
	for i := range len(f.source) + 1 {
		out = append(out, after[i]...)
		out = append(out, before[i]...)
		if i < len(f.source) {
			out = append(out, f.source[i])
		}
	}
	return out
}
