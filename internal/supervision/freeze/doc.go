// Package freeze is the state machine of a workspace's freezes, as pure functions
// (requirement L-8): whether the workspace is frozen, since when and why, and how many
// freezes it has seen.
//
//	open --workspace.frozen, epoch + 1--> frozen --workspace.unfrozen--> open
//
// Once in a freeze workspace.inflight lists what had been dispatched before it.
//
// What a freeze forbids is not decided here: the ledger refuses every Change that
// issues, claims or dispatches while the workspace is frozen. As with runs, deciding
// emits events and each is folded into the state by the same code that later replays a
// chain for an auditor ([Replay]). There is no clock, no randomness and no I/O here.
package freeze

// Machine is the version of the state machine. It stands in the first event of a chain
// and never changes for that chain.
const Machine = 1

// Kind is the kind of the workspace's subject; its id is the workspace.
const Kind = "workspace"

// MaxReason is how many characters a reason may have. The chain itself has no bound: a
// freeze is never refused for want of room.
const MaxReason = 500

// MaxOpen is how many intents the list of a freeze names: the state has to fit into 32 KB.
const MaxOpen = 100
