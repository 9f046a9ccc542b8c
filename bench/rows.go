package main

import "context"

// rows in the order of the table.
var rows = []row{
	{1, grouping}, // with row 2
	{3, oneCaller},
	{4, notBuilt(4, "PostgreSQL / pgbench")},
	{5, verification},
	{6, checksAgainstPeers},
}

// notBuilt is a row without a measurement: it stands in the table and says so.
func notBuilt(number int, name string) func(context.Context, *bench) ([]line, error) {
	return func(context.Context, *bench) ([]line, error) {
		return []line{{row: number, name: name, missing: "there is no measurement yet"}}, nil
	}
}
