package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// exports finds the compiled form of everything that package app imports.
var exports = sync.OnceValues(func() (map[string]string, error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", ".").Output()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		found[p.ImportPath] = p.Export
	}
})

// wired lists what package app hands to others to lean on: every interface of this module,
// and every function of a module's configuration, that a value is given for. It is read
// off the sources, with their types; more are files of the package that are made up.
func wired(t *testing.T, more ...string) []string {
	t.Helper()
	paths, err := exports()
	must(t, err)
	files := token.NewFileSet()
	var sources []*ast.File
	names, err := filepath.Glob("*.go")
	must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		must(t, err)
		sources = append(sources, f)
	}
	for i, source := range more {
		f, err := parser.ParseFile(files, fmt.Sprintf("made-up-%d.go", i), source, parser.SkipObjectResolution)
		must(t, err)
		sources = append(sources, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(paths[path]) })}
	_, err = config.Check("countersign/internal/app", files, sources, info)
	must(t, err)
	found := map[string]bool{}
	for _, f := range sources {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				given(info, n, found)
			case *ast.CompositeLit:
				filled(info, n, found)
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// given notes what a function of this module is called with.
func given(info *types.Info, call *ast.CallExpr, found map[string]bool) {
	signature, ok := info.Types[call.Fun].Type.(*types.Signature)
	if !ok || !ours(callee(info, call.Fun)) {
		return
	}
	for i := range call.Args {
		at := min(i, signature.Params().Len()-1)
		note(signature.Params().At(at).Type(), "", found)
	}
}

func callee(info *types.Info, f ast.Expr) types.Object {
	switch f := f.(type) {
	case *ast.Ident:
		return info.Uses[f]
	case *ast.SelectorExpr:
		return info.Uses[f.Sel]
	}
	return nil
}

// filled notes what a literal of a struct of this module is made of.
func filled(info *types.Info, literal *ast.CompositeLit, found map[string]bool) {
	named, ok := types.Unalias(info.Types[literal].Type).(*types.Named)
	if !ok || !ours(named.Obj()) {
		return
	}
	fields, ok := named.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, e := range literal.Elts {
		field := fields.Field(i)
		if kv, keyed := e.(*ast.KeyValueExpr); keyed {
			i := 0
			for fields.Field(i).Name() != kv.Key.(*ast.Ident).Name {
				i++
			}
			field = fields.Field(i)
		}
		note(field.Type(), nameOf(named)+"."+field.Name(), found)
	}
}

// note adds an interface of this module, in whatever collection, or a function of the
// field at.
func note(t types.Type, at string, found map[string]bool) {
	switch t := types.Unalias(t).(type) {
	case *types.Slice:
		note(t.Elem(), at, found)
	case *types.Map:
		note(t.Elem(), at, found)
	case *types.Signature:
		if at != "" {
			found[at] = true
		}
	case *types.Named:
		if types.IsInterface(t) && ours(t.Obj()) {
			found[nameOf(t)] = true
		}
	}
}

func ours(o types.Object) bool {
	return o != nil && o.Pkg() != nil && strings.HasPrefix(o.Pkg().Path(), "countersign/")
}

func nameOf(t *types.Named) string { return t.Obj().Pkg().Name() + "." + t.Obj().Name() }
