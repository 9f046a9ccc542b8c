package main

import (
	"os"
	"path/filepath"
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
// removed when it ends, .../go-build123/b001/exe/countersign.
func isRun(program string) bool {
	folder := filepath.Dir(program)
	return filepath.Base(folder) == "exe" && strings.Contains(folder, string(filepath.Separator)+"go-build")
}
