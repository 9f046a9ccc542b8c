package app

import (
	"os"
	"runtime/debug"
)

// gcPercent is how much the heap of a serving process grows before it is collected.
// What lives is a few MB and each action makes a quarter of one, so that Go's own 100
// would collect many times a second, for a seventh of the work under load.
const gcPercent = 400

// SetCollector sets the garbage collector of a serving process, unless the operator
// has with GOGC.
func SetCollector() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
}
