package main

// rows in the order of the table.
var rows = []row{
	{1, grouping}, // with row 2
	{3, oneCaller},
	{4, onPostgres},
	{5, verification},
	{6, checksAgainstPeers},
	{7, againstLog},
	{8, layers},
	{9, flatness},
	{10, contextTurns},
}
