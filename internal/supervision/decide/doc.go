// Package decide turns a run's state, a request and the time into what happens
// next, as a pure function.
//
// [Begin] opens a decision and settles what time alone has brought about. The
// methods of [Deciding] then each decide one thing: they emit events, or they
// return an *authority.Denial. Every event is folded into the state at once, by the
// same machine that replays a chain for an auditor (package run), so that what that
// machine calls unlawful cannot be decided. [Deciding.Done] hands over the
// [Transition]: state, events and everything else that one commit stores together.
//
// There is no clock, no randomness and no I/O here: time and identifiers come from
// the caller. A State that was passed to Begin belongs to the decision.
//
// The tests of this package lie in package run: the machine is tested by what is
// decided, and decisions by what the machine says of them.
package decide
