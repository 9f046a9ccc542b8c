// Package machine is what every state machine over evidence has in common, as pure
// functions: an event is folded into a state, and what it breaks is named.
//
// A machine is a [Definition]: its kind and version, its types of events, and where its
// state keeps [Progress]. Deciding ([Begin]) emits events, each of which is folded at once
// by the code that later replays a finished chain for an auditor ([NewReplay]). What an
// event means is in its own Apply, which requires what the machine allows ([Fold.Must])
// and changes the state.
//
// There is no clock, no randomness and no I/O here: time and seed are arguments. Nothing
// here is safe for concurrent use.
package machine
