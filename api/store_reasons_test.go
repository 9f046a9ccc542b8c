package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"countersign/api"
)

// Every code that a store answers stands in reasons.md, and no other does.
func TestStoreReasonsInStep(t *testing.T) {
	code := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)+$`)
	answered := map[string]bool{"INTERNAL": true} // the one of a single word
	for _, folder := range []string{"../dispatch", "../store"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if s, err := strconv.Unquote(literal.Value); err == nil && code.MatchString(s) {
						answered[s] = true
					}
				}
				return true
			})
		}
	}
	_, text, found := strings.Cut(string(api.Reasons), "\n## What the store answers\n")
	if !found || len(answered) < 10 {
		t.Fatalf("no section, or only %d codes in the code", len(answered))
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(text, -1) {
		documented[m[1]] = true
	}
	if got, want := slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(answered)); !slices.Equal(got, want) {
		t.Errorf("reasons.md has\n\t%v\nthe store answers\n\t%v", got, want)
	}
}

// What this part does not have is nowhere something to wait for: the pages name it
// where they say that it is not built, and in the names that a stop carries.
func TestPagesPromiseNothing(t *testing.T) {
	for _, page := range []string{"protocol.md", "reasons.md"} {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(string(raw)), " ")
		for _, promise := range []string{"Wait for the owner", "wait for the owner", "until it has been reconciled", "until the effect has been reconciled", "Wait until"} {
			if strings.Contains(text, promise) {
				t.Errorf("%s says %q", page, promise)
			}
		}
	}
}
