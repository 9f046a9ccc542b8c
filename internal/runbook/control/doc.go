// Package control is the control plane of the governed incident workflow: it reads a
// session, lets package incident decide, and commits the transition together with its
// receipt, or nothing.
//
//	plane := control.New(control.Config{…})
//	snapshot, err := plane.Snapshot(ctx, cookie)               // creates nothing
//	answer, err := plane.Do(ctx, cookie, remote, request, nonce)
//
// A session begins with the first request that leaves a receipt, refused ones too.
// [Answer.Cookie] is then the cookie to set, also when it is not known whether the request
// was stored; the ledger keeps its hash only. A cookie that is unknown or has expired
// begins another session.
//
// # Races
//
// Every commit is a compare-and-swap over the session's revision and the head of its
// chain. Who lost to another receipt alone is decided again, at most [MaxTries] times;
// who lost to another version is told so and leaves no receipt (L-14, R-040). Inside one
// process requests of a session wait for each other, which is order and no guard.
//
// # Approval
//
// [Plane.Form] gives the nonce for the page's approval form: a MAC over session, digest,
// version and the number of approvals given, so that it is good for one approval of one
// action. It is on the page alone, in no answer of the API. A live approval is also the
// permit of one execution: its id gets one fate in the ledger, whatever else fails.
//
// # Errors
//
// A refusal is an *authority.Denial with a reason of package incident; the answer that
// comes with it tells the receipt, if it left one. [ErrUnavailable] means that nothing was
// stored, [ErrUnknown] that the ledger cannot say: an execution sent again with the same
// key gets its record.
package control
