// Package authority holds what may be done and how much of it is used up:
// grants, budgets, permits, and the digests that tie a decision to exactly one
// action. Supervision and the incident workflow share it; it knows neither.
//
// Everything here is pure: no clock, no randomness, no I/O. Time is an argument
// and fresh identifiers come from a [Fresh], which the caller seeds.
package authority
