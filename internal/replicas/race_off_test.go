//go:build !race

package replicas_test

// raceFlags make go build as these tests were built.
var raceFlags []string
