// Package api holds the published contract, embedded so that the server serves
// exactly what is in the tree.
//
// openapi.json is written by `countersign openapi` from the routes that serve;
// protocol.md says in words what exists, context-turns.md the same of context turns;
// events.md what every event of a chain holds, reasons.md what every reason code
// means and what to do next. Tests keep each in step with the code.
package api

import _ "embed"

// OpenAPI is the OpenAPI 3.1 document of the HTTP API.
//
//go:embed openapi.json
var OpenAPI []byte

// Protocol is the contract in words, served as the specification.
//
//go:embed protocol.md
var Protocol []byte

// ContextTurns is the contract of context turns in words.
//
//go:embed context-turns.md
var ContextTurns []byte

// Events documents the data of every type of event.
//
//go:embed events.md
var Events []byte

// Reasons documents every reason code.
//
//go:embed reasons.md
var Reasons []byte
