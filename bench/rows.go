package main

import "context"

// rows in the order of the table.
var rows = []row{
	{1, notBuilt(1, "cycles/s at 64 runs: grouped / batch limit 1")},
	{2, notBuilt(2, "in-process cycles/s at 64 / bare program")},
	{3, notBuilt(3, "one caller: cycle p50 / floor")},
	{4, notBuilt(4, "PostgreSQL / pgbench")},
	{5, notBuilt(5, "verify a 100,000-event export")},
	{6, checksAgainstPeers},
}

// notBuilt is a row without a measurement: it stands in the table and says so.
func notBuilt(number int, name string) func(context.Context, *bench) ([]line, error) {
	return func(context.Context, *bench) ([]line, error) {
		return []line{{row: number, name: name, missing: "there is no measurement yet"}}, nil
	}
}
