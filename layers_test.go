package countersign

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "countersign"

// maxLines is the most non-test lines a package may have.
const maxLines = 2000

// rings is the import order, from the inside out. A package may import every
// package of an inner ring. Inside its own ring it may import only the package
// it lies in (sqlite imports ledger, merchant imports service) and what
// withinRing lists, so that siblings never meet.
var rings = [][]string{
	{"internal/canon", "internal/money", "internal/pubkey", "internal/limits", "api", "internal/client", "contextclient/outbox"},
	{"evidence", "dispatch", "contextclient", "internal/scripted", "internal/narrate"},
	{"internal/authority", "internal/machine", "internal/supervision/propose", "internal/supervision/stopcontext", "internal/supervision/state", "internal/supervision/run", "internal/supervision/policy", "internal/supervision/chain", "internal/supervision/decide", "internal/supervision/guardian", "internal/supervision/freeze", "internal/contextturn/redact", "internal/contextturn/turn", "internal/contextturn/project", "internal/runbook/incident"},
	{
		"internal/ledger", "internal/ledger/postgres/statement", "internal/ledger/postgres/outbox", "internal/ledger/postgres/blob",
		"internal/keys", "internal/runbook/tasks",
		"internal/contextturn/content", "internal/contextturn/builds", "internal/contextturn/tools",
		"internal/supervision/ask", "internal/supervision/line", "internal/supervision/proof",
		"internal/supervision/model/replay",
		"internal/supervision/service", "internal/supervision/service/merchant", "internal/supervision/service/bank", "internal/supervision/service/broker",
	},
	{"internal/ledger/sqlite", "internal/ledger/postgres"},
	{"internal/settle", "internal/supervision/records", "internal/supervision/hosted", "internal/supervision/gateway", "internal/supervision/admission", "internal/supervision/managed", "internal/supervision/workspace", "internal/supervision/attack", "internal/identity", "internal/audit", "internal/contextturn/traces", "internal/contextturn/perimeter", "internal/runbook/control"},
	{"internal/channel/bounds", "internal/channel/stream", "internal/channel/edge", "internal/channel/wire", "internal/channel/owner", "internal/channel/agent", "internal/channel/projects", "internal/channel/contexthttp", "internal/channel/runbookhttp"},
	{"internal/console/frame"}, // what every page has in common
	{"internal/channel", "internal/console", "internal/console/projects", "internal/console/incident"}, // every route together; the pages
	{"internal/app"},
	{"store", "internal/command/seif/reporter", "internal/runbook/evaluate"}, // another program; what reports from beside an application; what serves an installation of its own
	{"internal/command", "internal/command/asowner", "internal/command/attacks", "internal/command/evaluation", "internal/command/incidentdemo", "internal/command/seif"},
	{"cmd/countersign"},
}

// withinRing lists the imports between packages of one ring, with the reason.
var withinRing = map[string][]string{
	"internal/pubkey":                  {"internal/canon"},                                                                                                                           // keys are strict base64url
	"internal/machine":                 {"internal/authority"},                                                                                                                       // a decision's names
	"internal/runbook/incident":        {"internal/authority", "internal/machine"},                                                                                                   // grants, denials; folding
	"internal/runbook/control":         {"internal/identity"},                                                                                                                        // cookies
	"internal/supervision/propose":     {"internal/authority"},                                                                                                                       // an entry has facts and digests
	"internal/supervision/stopcontext": {"internal/authority"},                                                                                                                       // the table is by reason
	"internal/supervision/state":       {"internal/authority", "internal/supervision/stopcontext"},                                                                                   // a permit binds
	"internal/supervision/run":         {"internal/authority", "internal/machine", "internal/supervision/propose", "internal/supervision/stopcontext", "internal/supervision/state"}, // what a run's state and events hold
	"internal/supervision/policy":      {"internal/authority", "internal/machine", "internal/supervision/propose", "internal/supervision/run"},                                       // what is checked, and against what
	"internal/supervision/chain":       {"internal/supervision/propose", "internal/supervision/stopcontext", "internal/supervision/run", "internal/supervision/policy"},              // it folds and checks again
	"internal/supervision/decide":      {"internal/authority", "internal/machine", "internal/supervision/propose", "internal/supervision/stopcontext", "internal/supervision/run", "internal/supervision/policy", "internal/supervision/state"},
	"internal/supervision/gateway":     {"internal/identity", "internal/supervision/admission", "internal/supervision/hosted", "internal/supervision/records"}, // a run's state and its token change in one commit; what is shown is read there
	"internal/supervision/guardian":    {"internal/authority", "internal/machine", "internal/supervision/run", "internal/supervision/state"},                   // denials; folding; what a run is bound to
	"internal/supervision/freeze":      {"internal/authority", "internal/machine", "internal/supervision/state"},                                               // denials; folding; states of an execution
	"internal/contextturn/turn":        {"internal/authority", "internal/contextturn/redact", "internal/machine"},                                              // denials; what a client says in its own words; folding
	"internal/contextturn/project":     {"internal/authority", "internal/machine"},                                                                             // denials; folding
	"internal/supervision/workspace":   {"internal/supervision/gateway", "internal/supervision/records"},                                                       // a verification makes synthetic runs
	"internal/supervision/managed":     {"internal/supervision/gateway"},                                                                                       // it lets runs go on
	"internal/supervision/attack":      {"internal/supervision/gateway", "internal/supervision/records"},                                                       // it makes synthetic runs
	"internal/contextturn/builds":      {"internal/contextturn/tools"},                                                                                         // what is kept open
	"internal/contextturn/tools":       {"internal/contextturn/content"},                                                                                       // a Build is opened
	"internal/contextturn/perimeter":   {"internal/contextturn/traces", "internal/identity"},                                                                   // what is stored is read and shown there; tokens
	"internal/channel/edge":            {"internal/channel/bounds", "internal/channel/stream"},                                                                 // every request is an exchange; what a stream sends
	"internal/channel/owner":           {"internal/channel/edge", "internal/channel/stream", "internal/channel/wire"},                                          // the one error table; the JSON forms that both show
	"internal/channel/agent":           {"internal/channel/edge", "internal/channel/wire"},
	"internal/channel/projects":        {"internal/channel/edge", "internal/channel/wire"},
	"internal/channel/contexthttp":     {"internal/channel/edge", "internal/channel/wire"},
	"internal/channel/runbookhttp":     {"internal/channel/edge", "internal/channel/wire"},
}

// support is what only tests and the development commands use. It may import
// anything, its lines count as test lines, and the product may not import it.
var support = []string{
	"internal/pgtest",
	"internal/invariant",
	"internal/cutoff",
	"internal/replica",
	"internal/replicas",
	"internal/ledger/ledgertest",
	"internal/testsuite",
	"internal/testsuite/mutate",
}

// pure packages decide. They get time, identifiers and state as arguments.
var pure = []string{
	"internal/canon", "internal/money", "internal/pubkey", "evidence", "internal/authority", "internal/machine", "internal/runbook/incident",
	"internal/supervision/propose", "internal/supervision/stopcontext", "internal/supervision/state", "internal/supervision/run", "internal/supervision/policy",
	"internal/supervision/chain", "internal/supervision/decide", "internal/supervision/guardian", "internal/supervision/freeze", "internal/contextturn/redact", "internal/contextturn/turn", "internal/contextturn/project",
}

// impure is what a pure package does not import, subpackages included.
var impure = []string{
	"context", "os", "net", "database/sql", "log", "math/rand", "crypto/rand", "syscall", "unsafe", "C",
}

// ambient lists the functions that read a clock or a random source although
// the package they lie in may be imported.
var ambient = map[string][]string{
	"time":           {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"crypto/ed25519": {"GenerateKey"},
}

// public packages are imported by strangers.
var public = []string{"evidence", "dispatch", "contextclient", "contextclient/outbox"}

// canonical is the one module outside the standard library that the core
// leans on: the strict JSON reader behind internal/canon.
const canonical = "github.com/go-json-experiment/json"

// A rule names what one package does wrong. Its bites are packages that each
// break it, written as the import path and the source.
type rule struct {
	name  string
	check func(p pkg) []string
	bites [][2]string
}

var rules = []rule{
	{
		name:  "every package has a place in the order",
		check: unknown,
		bites: [][2]string{{"internal/helpers", "package helpers"}, {"store/internal/cart", "package cart"}},
	},
	{
		name:  "imports point inward",
		check: outward,
		bites: [][2]string{
			{"internal/canon", `package canon; import _ "countersign/evidence"`},
			{"internal/authority", `package authority; import _ "countersign/internal/supervision/run"`},
			{"internal/ledger", `package ledger; import _ "countersign/internal/ledger/sqlite"`},
			{"internal/supervision/gateway", `package gateway; import _ "countersign/internal/channel/edge"`},
			{"internal/app", `package app; import _ "countersign/cmd/countersign"`},
		},
	},
	{
		name:  "siblings never import each other",
		check: sibling,
		bites: [][2]string{
			{"internal/ledger/sqlite", `package sqlite; import _ "countersign/internal/ledger/postgres"`},
			{"internal/channel/owner", `package owner; import _ "countersign/internal/channel/agent"`},
			{"evidence", `package evidence; import _ "countersign/dispatch"`},
		},
	},
	{
		name:  "pure packages import only the standard library and each other",
		check: borrowed,
		bites: [][2]string{
			{"internal/supervision/run", `package run; import _ "countersign/dispatch"`},
			{"internal/authority", `package authority; import _ "github.com/google/uuid"`},
			{"evidence", `package evidence; import _ "github.com/go-json-experiment/json"`},
		},
	},
	{
		name:  "pure packages do no I/O and know no time and no chance",
		check: ambientAuthority,
		bites: append(imports("internal/money", impure...),
			[2]string{"internal/authority", `package authority; import "time"; var _ = time.Now()`},
			[2]string{"internal/authority", `package authority; import clock "time"; var now = clock.Now`},
			[2]string{"internal/authority", `package authority; import . "time"`},
			[2]string{"internal/supervision/run", `package run; import _ "net/http"`},
			[2]string{"evidence", `package evidence; import "crypto/ed25519"; var _, _, _ = ed25519.GenerateKey(nil)`},
		),
	},
	{
		name:  "channels and pages never import ledger, model or service",
		check: channel,
		bites: append(imports("internal/channel/owner",
			"countersign/internal/ledger",
			"countersign/internal/ledger/sqlite",
			"countersign/internal/supervision/model/replay",
			"countersign/internal/supervision/service",
			"countersign/internal/supervision/service/merchant"),
			imports("internal/console", "countersign/internal/ledger")...),
	},
	{
		name:  "the store imports only dispatch of ours",
		check: storefront,
		bites: imports("store", "countersign/evidence", "countersign/internal/ledger"),
	},
	{
		name:  "the product imports no test support",
		check: testSupport,
		bites: imports("internal/app", "testing", "testing/synctest",
			"countersign/internal/pgtest", "countersign/internal/ledger/ledgertest"),
	},
	{
		name:  "no package is over 2,000 lines",
		check: oversized,
		bites: [][2]string{{"internal/app", "package app\n" + strings.Repeat("\n", maxLines)}},
	},
}

// TestLayers holds the import order and what goes with it.
func TestLayers(t *testing.T) {
	tree := readTree(t, ".")
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, p := range tree {
				for _, finding := range r.check(p) {
					t.Errorf("%s: %s", p.path, finding)
				}
			}
		})
	}
	t.Run("every package of the order exists", func(t *testing.T) {
		for _, name := range slices.Concat(slices.Concat(rings...), support, pure, public) {
			if !slices.ContainsFunc(tree, func(p pkg) bool { return p.path == name }) {
				t.Errorf("%s is in a table of layers_test.go and not in the tree", name)
			}
		}
	})
}

// TestLayersBite shows that every rule finds what breaks it.
func TestLayersBite(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if len(r.bites) == 0 {
				t.Fatal("no package that breaks the rule")
			}
			for _, bite := range r.bites {
				p := pkg{path: bite[0]}
				if err := p.add([]byte(bite[1])); err != nil {
					t.Fatal(err)
				}
				if len(r.check(p)) == 0 {
					t.Errorf("not found in %s: %.80s", bite[0], bite[1])
				}
			}
		})
	}
	t.Run("generated lines do not count", func(t *testing.T) {
		p := pkg{path: "internal/app"}
		source := "// Code generated by a test. DO NOT EDIT.\n\npackage app\n" + strings.Repeat("\n", maxLines)
		if err := p.add([]byte(source)); err != nil {
			t.Fatal(err)
		}
		if p.lines != 0 {
			t.Errorf("%d lines counted in a generated file, want 0", p.lines)
		}
	})
}

// TestPublicPackages holds what strangers see: no internal type in the exported
// API, and no module behind it but the strict JSON reader.
func TestPublicPackages(t *testing.T) {
	built := list(t, public...)
	for _, name := range public {
		t.Run(name, func(t *testing.T) {
			p, err := built.importer.Import(path.Join(modulePath, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, finding := range internalTypes(p) {
				t.Error(finding)
			}
		})
	}
	for _, finding := range drivers(built.dependencies) {
		t.Error(finding)
	}

	t.Run("bites", func(t *testing.T) {
		for _, source := range []string{
			`func F() (*ledger.Subject, error) { return nil, nil }`,
			`type T struct { S []ledger.Subject }`,
			`type T struct { ledger.Subject }`,
			`type T = ledger.Subject`,
			`type T struct{}; func (*T) M(map[string]ledger.Subject) {}`,
			`type T interface { M(func(ledger.Subject)) }`,
			`type G[P any] struct{}; var V G[ledger.Subject]`,
			`const C = ledger.Stored`,
			`type hidden struct{}; func (hidden) M(ledger.Subject) {}; func F() hidden { return hidden{} }`,
		} {
			p := built.check(t, "package evidence\nimport \"countersign/internal/ledger\"\n"+source)
			if len(internalTypes(p)) == 0 {
				t.Errorf("not found: %s", source)
			}
		}
		p := built.check(t, "package evidence\nimport \"countersign/internal/ledger\"\n"+
			"type T struct { s ledger.Subject }; func (T) m(ledger.Subject) {}; func F() T { return T{} }")
		if found := internalTypes(p); len(found) != 0 {
			t.Errorf("unexported uses were found: %v", found)
		}
		if len(drivers([]string{"modernc.org/sqlite"})) == 0 {
			t.Error("a driver behind a public package was not found")
		}
	})
}

func unknown(p pkg) []string {
	if p.path == "." || ring(p.path) >= 0 || slices.Contains(support, p.path) {
		return nil
	}
	return []string{"has no place in the tables of layers_test.go"}
}

func outward(p pkg) (found []string) {
	if slices.Contains(support, p.path) {
		return nil
	}
	for _, i := range p.ours() {
		if from, to := ring(p.path), ring(i); from >= 0 && (to > from || to == from && isParent(p.path, i)) {
			found = append(found, "imports "+i+" of an outer ring")
		} else if from == to && slices.Contains(withinRing[i], p.path) {
			found = append(found, "imports "+i+", which imports it")
		}
	}
	return found
}

func sibling(p pkg) (found []string) {
	for _, i := range p.ours() {
		if ring(p.path) < 0 || ring(p.path) != ring(i) {
			continue
		}
		if !isParent(i, p.path) && !slices.Contains(withinRing[p.path], i) {
			found = append(found, "imports its sibling "+i)
		}
	}
	return found
}

func borrowed(p pkg) (found []string) {
	if !slices.Contains(pure, p.path) {
		return nil
	}
	for _, i := range p.imports {
		own, ours := strings.CutPrefix(i, modulePath+"/")
		switch {
		case ours && slices.Contains(pure, own):
		case !ours && standard(i):
		case p.path == "internal/canon" && isParent(canonical, i):
		default:
			found = append(found, "imports "+i)
		}
	}
	return found
}

func ambientAuthority(p pkg) (found []string) {
	if !slices.Contains(pure, p.path) {
		return nil
	}
	for _, i := range p.imports {
		for _, banned := range impure {
			if isParent(banned, i) {
				found = append(found, "imports "+i)
			}
		}
	}
	for _, use := range p.ambient {
		found = append(found, "uses "+use)
	}
	return found
}

func channel(p pkg) (found []string) {
	if !isParent("internal/channel", p.path) && !isParent("internal/console", p.path) {
		return nil
	}
	for _, i := range p.ours() {
		for _, banned := range []string{"internal/ledger", "internal/supervision/model", "internal/supervision/service"} {
			if isParent(banned, i) {
				found = append(found, "imports "+i)
			}
		}
	}
	return found
}

func storefront(p pkg) (found []string) {
	if !isParent("store", p.path) {
		return nil
	}
	for _, i := range p.ours() {
		if i != "dispatch" {
			found = append(found, "imports "+i)
		}
	}
	return found
}

func testSupport(p pkg) (found []string) {
	if slices.Contains(support, p.path) {
		return nil
	}
	for _, i := range p.imports {
		own, ours := strings.CutPrefix(i, modulePath+"/")
		if ours && slices.Contains(support, own) || isParent("testing", i) {
			found = append(found, "imports "+i)
		}
	}
	return found
}

func oversized(p pkg) []string {
	if slices.Contains(support, p.path) {
		return nil
	}
	if p.lines > maxLines {
		return []string{fmt.Sprintf("has %d non-test lines, at most %d are allowed", p.lines, maxLines)}
	}
	return nil
}

// ring returns the ring of a package, counted from the inside, or -1.
func ring(name string) int {
	return slices.IndexFunc(rings, func(r []string) bool { return slices.Contains(r, name) })
}

// isParent reports whether name is parent or lies below it.
func isParent(parent, name string) bool {
	return name == parent || strings.HasPrefix(name, parent+"/")
}

// standard reports whether an import path belongs to the standard library,
// whose first element has no dot.
func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// imports returns one breaking package for each import.
func imports(name string, of ...string) (bites [][2]string) {
	for _, i := range of {
		bites = append(bites, [2]string{name, fmt.Sprintf("package %s; import _ %q", path.Base(name), i)})
	}
	return bites
}

// pkg is one package of the module without its tests, all build constraints
// included: an import that only another platform compiles counts too.
type pkg struct {
	path    string // in the module; "." is the root
	imports []string
	ambient []string // uses of functions in the ambient table
	lines   int      // without generated files
}

// ours returns the imports of this module's packages, as paths in the module.
func (p pkg) ours() (own []string) {
	for _, i := range p.imports {
		if i, ok := strings.CutPrefix(i, modulePath+"/"); ok {
			own = append(own, i)
		}
	}
	return own
}

func (p *pkg) add(source []byte) error {
	file, err := parser.ParseFile(token.NewFileSet(), p.path, source, parser.ParseComments)
	if err != nil {
		return err
	}
	if !ast.IsGenerated(file) {
		p.lines += strings.Count(string(source), "\n")
	}
	local := make(map[string]string) // name in this file -> import path
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		p.imports = append(p.imports, name)
		if _, watched := ambient[name]; !watched {
			continue
		}
		switch {
		case spec.Name == nil:
			local[path.Base(name)] = name
		case spec.Name.Name == ".":
			p.ambient = append(p.ambient, name+" without its name")
		default:
			local[spec.Name.Name] = name
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && slices.Contains(ambient[local[x.Name]], selector.Sel.Name) {
			p.ambient = append(p.ambient, x.Name+"."+selector.Sel.Name)
		}
		return true
	})
	return nil
}

// readTree parses every package of this module below root. Modules of their
// own, test data and hidden folders are not part of it.
func readTree(t *testing.T, root string) []pkg {
	t.Helper()
	found := make(map[string]*pkg)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file == root {
				return nil
			}
			if name := entry.Name(); name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		name := filepath.ToSlash(filepath.Dir(file))
		if found[name] == nil {
			found[name] = &pkg{path: name}
		}
		if strings.HasSuffix(file, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return found[name].add(source)
	})
	if err != nil {
		t.Fatal(err)
	}
	var tree []pkg
	for _, p := range found {
		tree = append(tree, *p)
	}
	slices.SortFunc(tree, func(a, b pkg) int { return cmp.Compare(a.path, b.path) })
	return tree
}

// built holds the compiled form of some packages and all they depend on.
type built struct {
	dependencies []string
	importer     types.Importer
}

// list compiles the packages, and the ledger for the bites.
func list(t *testing.T, names ...string) built {
	t.Helper()
	dependencies := goList(t, names...)
	exports := goList(t, append([]string{"internal/ledger"}, names...)...)
	lookup := func(name string) (io.ReadCloser, error) {
		file := exports[name]
		if file == "" {
			return nil, fmt.Errorf("no export data for %s", name)
		}
		return os.Open(file)
	}
	b := built{importer: importer.ForCompiler(token.NewFileSet(), "gc", lookup)}
	for name := range dependencies {
		b.dependencies = append(b.dependencies, name)
	}
	slices.Sort(b.dependencies)
	return b
}

// goList returns the packages and everything they import, each with the file
// of its export data.
func goList(t *testing.T, names ...string) map[string]string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for _, name := range names {
		args = append(args, "./"+name)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	found := make(map[string]string)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		found[p.ImportPath] = p.Export
	}
}

// check type-checks one file of a made-up package.
func (b built) check(t *testing.T, source string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "bite.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&types.Config{Importer: b.importer}).Check(modulePath+"/evidence", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drivers names the dependencies that a public package must not have.
func drivers(dependencies []string) (found []string) {
	for _, name := range dependencies {
		if !isParent(modulePath, name) && !standard(name) && !isParent(canonical, name) {
			found = append(found, "a public package pulls in "+name)
		}
	}
	return found
}

// internalTypes names every internal type that the exported API of p shows.
func internalTypes(p *types.Package) (found []string) {
	v := viewer{of: p, seen: make(map[types.Type]bool)}
	for _, name := range p.Scope().Names() {
		if object := p.Scope().Lookup(name); object.Exported() {
			v.at = name
			v.show(object.Type())
		}
	}
	return v.found
}

// viewer walks types as far as a user of the package can see them.
type viewer struct {
	of    *types.Package
	at    string // the exported name that led here
	seen  map[types.Type]bool
	found []string
}

func (v *viewer) show(t types.Type) {
	if t == nil || v.seen[t] {
		return
	}
	v.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		v.name(t.Obj())
		v.list(t.TypeArgs())
		v.show(t.Rhs())
	case *types.Named:
		v.name(t.Obj())
		v.list(t.TypeArgs())
		v.parameters(t.TypeParams())
		if t.Obj().Pkg() == v.of {
			v.show(t.Underlying())
			for method := range t.Methods() {
				if method.Exported() {
					v.show(method.Type())
				}
			}
		}
	case *types.TypeParam:
		v.show(t.Constraint())
	case *types.Pointer:
		v.show(t.Elem())
	case *types.Slice:
		v.show(t.Elem())
	case *types.Array:
		v.show(t.Elem())
	case *types.Chan:
		v.show(t.Elem())
	case *types.Map:
		v.show(t.Key())
		v.show(t.Elem())
	case *types.Tuple:
		for variable := range t.Variables() {
			v.show(variable.Type())
		}
	case *types.Signature:
		v.show(t.Params())
		v.show(t.Results())
		v.parameters(t.TypeParams())
	case *types.Struct:
		for field := range t.Fields() {
			if field.Exported() {
				v.show(field.Type())
			}
		}
	case *types.Interface:
		for method := range t.ExplicitMethods() {
			if method.Exported() {
				v.show(method.Type())
			}
		}
		for embedded := range t.EmbeddedTypes() {
			v.show(embedded)
		}
	case *types.Union:
		for term := range t.Terms() {
			v.show(term.Type())
		}
	}
}

func (v *viewer) list(l *types.TypeList) {
	for t := range l.Types() {
		v.show(t)
	}
}

func (v *viewer) parameters(l *types.TypeParamList) {
	for p := range l.TypeParams() {
		v.show(p.Constraint())
	}
}

func (v *viewer) name(o *types.TypeName) {
	if p := o.Pkg(); p != nil && strings.Contains(p.Path()+"/", modulePath+"/internal/") {
		v.found = append(v.found, fmt.Sprintf("%s shows %s.%s", v.at, p.Path(), o.Name()))
	}
}
