// Package invariant holds the server to the invariants of the supervision machines
// (requirements, section 6): no execution without a claimed permit, at most one permit
// open, nothing spent beyond the budget, no record of a lost race, every stop reachable,
// and no way from an agent's input to a grant, an approval, a statement or a policy.
//
// There are only tests here. They drive a whole server over HTTP, on both engines, with a
// clock that stands until a test moves it, and hold what it answers and records against a
// model and a witness that share no code with it.
package invariant
