// Package contexthttp serves the public routes of seif.http-turn.v1: what an
// application that runs a model opens, asks for and reports with the token of its
// client (requirements 3.3 to 3.8).
//
//	contexthttp.Register(api, perimeter)
//
// # Paths
//
// The base of a project is /HANDLE/SLUG for production and /HANDLE/SLUG/staging for
// staging; /HANDLE/SLUG/production is production too. Every operation is a POST under
// BASE/context/. Handles that are first segments of the server's other routes are
// reserved.
//
// # The order of refusals
//
// G-30 fixes it, so that a request which is wrong in several ways gets one answer, the
// same one on every installation:
//
//  1. plain HTTP in production, content type, size of the body;
//  2. the token, the project of the path, and whether the client may do that here:
//     named, opted in, of this environment and profile;
//  3. the body: its grammar, types and required members, unknown members, the fixed
//     values, lengths;
//  4. the Idempotency-Key and what it was used for before;
//  5. the turn: that one is named, its form, whose it is, whether it takes anything;
//  6. the content.
//
// Steps 1 to 3 and the form of key and turn id are here; the rest is decided where it
// is committed, in package perimeter. Every route keeps this order, the ones that the
// list does not name too. A refusal stores nothing, and repeats names of members, cut
// to a bound, but no value.
//
// # What is answered
//
// An answer is written after what it tells was committed, whole and with its length. A
// client that hangs up earlier changes nothing of what was stored.
package contexthttp
