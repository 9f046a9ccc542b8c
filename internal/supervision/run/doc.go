// Package run is the state machine of one supervised run, as a pure function.
//
// A run is a chain of events. Its [State] is what folding those events gives, and
// nothing else: every decision (package decide) emits events, and every event is
// folded by the same code that later replays a chain for an auditor ([Replay]). An
// event that the machine calls unlawful can therefore neither be decided nor pass
// verification.
//
//   - [Check] applies hard checks 2 to 11 to a report and collects every finding.
//   - [Fold] applies the events of a decision to its state.
//   - [Replay] folds a finished chain and names every unlawful transition.
//
// There is no clock, no randomness and no I/O here.
package run

// Machine is the version of this state machine. It stands in the first event of
// a chain and never changes for that chain.
const Machine = 1
