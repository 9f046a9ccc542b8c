// Package run is the state machine of one supervised run, as a pure function.
//
// A run is a chain of events. Its [State] is what folding those events gives, and
// nothing else: every decision (package decide) emits events, and every event is
// folded by the same code that later replays a chain for an auditor (package chain). An
// event that the machine calls unlawful can therefore neither be decided nor pass
// verification.
//
// [Fold] applies events to a state and names every rule that they break. Package policy
// has the hard checks of a report, package decide makes the events.
//
// There is no clock, no randomness and no I/O here.
package run

// Machine is the version of this state machine. It stands in the first event of
// a chain and never changes for that chain.
const Machine = 1
