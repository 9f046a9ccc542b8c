package main

import (
	"fmt"
	"slices"
)

// need is a test that alone shows something. A run in which nothing below it passed does not
// show that.
type need struct {
	testID
	what string
}

// needs are the tests below which something must have passed, with what is not shown
// otherwise.
var needs = []need{
	{testID{"countersign/internal/console", "TestIncidentNative"}, "a tool that the browser itself has"},
}

// lacks returns the needs below which no subtest passed: none ran, all were skipped, or the
// test is not there.
func (r *report) lacks(needs []need) (found []string) {
	for _, n := range needs {
		passed := func(name string) bool { return r.tests[testID{n.pkg, name}].outcome == "pass" }
		if !slices.ContainsFunc(r.below(n.pkg, n.test), passed) {
			found = append(found, fmt.Sprintf("%s: nothing passed below %s, so nothing shows %s", n.pkg, n.test, n.what))
		}
	}
	return found
}
