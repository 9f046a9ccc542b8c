// Command hook is the hook and nothing else, for tests that start many of it.
package main

import (
	"os"
	"time"

	"countersign/internal/command/seif/reporter"
)

var began = time.Now()

func main() { reporter.Hook(os.Stdin, os.Stderr, began) }
