// Package project is the state machine of what a project of the context perimeter keeps,
// as pure functions: the project with its Builds, its clients, and the gaps that were
// reported (requirements 3.2, G-32, G-33, G-35).
//
// A [Project] is a chain of its own. Each environment has at most one thing selected:
//
//	nothing --build.published--> build --draft.saved (staging)--> draft --build.published--> build
//
// Publishing makes the next Build of the environment, which never changes. A draft is
// replaced by the next one, and only staging has one.
//
// A [Client] is whom a token names:
//
//	client.created --client.rotated, generation + 1--> (again) --client.revoked--> (the end)
//
// What it is bound to (project, environment, profile, turn protocol) never changes: another
// binding is another client. The shared client of an environment is the one behind the
// project's shared token; it names no single invoker and has no turn protocol.
//
// A [Gap] is one event: somebody said that context is missing.
//
// As with runs, deciding emits events and each is folded into the state by the same code
// that later replays a chain for an auditor ([NewReplay]). There is no clock, no randomness
// and no I/O here.
package project

// Machine is the version of the three state machines. It stands in the first event of a
// chain and never changes for that chain.
const Machine = 1

// Kinds of subject.
const (
	Kind       = "project"
	KindClient = "contextclient"
	KindGap    = "gap"
)

// Environments of a project.
const (
	Production = "production"
	Staging    = "staging"
)

// What an environment has selected; "" is nothing yet.
const (
	SelectedBuild = "build"
	SelectedDraft = "draft"
)

// Kinds of client. Shared is the kind of the client behind a shared token and cannot be
// asked for.
const (
	Custom     = "custom"
	ClaudeCode = "claude-code"
	MCP        = "mcp"
	Bridge     = "bridge"
	Shared     = "shared"
)

// Whether a client takes part in the turn protocol.
const (
	Required = "required"
	Absent   = "absent"
)

// Bounds. Lengths are in characters.
const (
	MaxEvents = 50_000 // of one chain
	MaxHandle = 40     // of a handle and of a slug
	MaxName   = 100    // of a client's name
	MaxTask   = 4000   // of a gap's task
	MaxRef    = 200    // of a gap's ref
	MaxDetail = 2000   // of a gap's detail
)
