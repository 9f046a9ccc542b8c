// Package perimeter is the context gateway of seif.http-turn.v1: it reads, lets the pure
// packages turn and project decide, and stores each transition with its signed event in one
// guarded commit. A lost race is decided again from what is there by then.
//
// # Who asks
//
// [Perimeter.Authenticate] turns a token into a [Caller]: a client that is not revoked,
// of its current generation. Every commit on its behalf carries a guard on the client's
// record, so that nothing is stored for a token that was revoked or rotated meanwhile.
//
// # What is asked
//
// [Perimeter.Start], [Perimeter.Observe], [Perimeter.Complete] and
// [Perimeter.RecordBridge] take an idempotency key, which is looked up before the state of
// the turn is (G-31): a repeated request gets the first answer, whatever has become of the
// turn. Keys live as long as the turn does.
//
// [Perimeter.Call] answers a context tool. The order is fixed: the turn is asked whether it
// takes a call before any content is looked at (S-043); the answer is computed; the record
// of it is committed; only then is it returned, so that no byte of context leaves without
// its record (G-33). A record whose bytes never left is possible, and says only what was
// handed to the HTTP response.
//
// # Content
//
// Documents and manifests are blobs of the ledger under their own hash. What a Build
// consists of is its manifest, whose digest stands in the project's chain. The search index
// is made from it in this process and thrown away; it is no evidence and decides nothing.
package perimeter
