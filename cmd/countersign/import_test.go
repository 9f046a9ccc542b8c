package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A program of somebody else's takes the public packages in as the README says.
func TestImport(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	must(t, err)
	edit := regexp.MustCompile(`(?m)^ {4}go (mod edit .*)$`).FindStringSubmatch(string(page))
	if edit == nil || !strings.Contains(string(page), "\n    go mod tidy\n") {
		t.Fatal("the README shows no go mod edit and go mod tidy")
	}
	checkout, err := filepath.Abs("../..")
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(`package main

import (
	"countersign/dispatch"
	"countersign/evidence"
)

func main() { println(dispatch.PermitHeader, evidence.ExportFormat) }
`), 0o600))
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		// What tidy does, from what this machine has: it also asks for go.mod files of
		// modules that are not needed here.
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("mod", "init", "shop.example")
	run(strings.Fields(strings.Replace(edit[1], "/path/to/this/checkout", checkout, 1))...)
	if out := run("run", "."); !strings.Contains(out, "countersign-export/1") {
		t.Errorf("the program prints %s", out)
	}
}
