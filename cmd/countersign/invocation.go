package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// invocation is how this program was called, for a line to be pasted into the same
// shell: the name or path that was typed, or `go run` with the package when it was
// that which built it.
func invocation() string {
	self, err := os.Executable()
	if err != nil || !isRun(self) {
		return quoted(os.Args[0])
	}
	const inTree = "./cmd/countersign"
	if _, err := os.Stat(inTree); err == nil {
		return "go run " + inTree
	}
	return "go run countersign/cmd/countersign" // from everywhere else in the module
}

// isRun reports whether go run built the program: it is then in a folder that is
// removed when it ends, .../go-build123/b001/exe/countersign, or, run again unchanged,
// in the build cache under its hash, .../8e/8e81…-d/countersign.
func isRun(program string) bool {
	folder := filepath.Dir(program)
	if cached.MatchString(filepath.Base(folder)) {
		return true
	}
	return filepath.Base(folder) == "exe" && strings.Contains(folder, string(filepath.Separator)+"go-build")
}

// cached is the name of a program's folder in the build cache.
var cached = regexp.MustCompile(`^[0-9a-f]{64}-d$`)
