// Package run is the state machine of one supervised run, as a pure function.
//
// A run is a chain of events. Its [State] is what folding those events gives,
// and nothing else: every decision of this package emits events, and every
// event is folded by the same code that later replays a chain for an auditor
// ([Replay]). An event that the machine calls unlawful can therefore neither
// be decided nor pass verification.
//
//   - [ParseReport] reads a consumer's report (check 1 of G-09).
//   - [Check] applies hard checks 2 to 11 to it and collects every finding.
//   - The Decide functions turn a state, a request and the time into a
//     [Transition], or into an *authority.Denial.
//   - [Settle] writes what time alone has brought about.
//   - [Replay] folds a finished chain and names every unlawful transition.
//
// There is no clock, no randomness and no I/O here. A State that was passed to
// a Decide function must not be used again.
package run

// Machine is the version of this state machine. It stands in the first event of
// a chain and never changes for that chain.
const Machine = 1
