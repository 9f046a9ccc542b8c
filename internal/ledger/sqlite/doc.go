// Package sqlite is the embedded engine of the ledger: one file, one process,
// and a commit that was answered survives power loss.
//
// [Create] makes the file, [Migrate] brings an older one up to date, [Open]
// serves it. Each holds the lock of the file's folder, so that a second process
// gets [ErrLocked] instead of a second writer; Open holds it until Close.
//
// One goroutine writes, on one connection in WAL mode with synchronous=FULL. It
// takes the Changes that wait, at most BatchLimit of them, and commits them as
// one transaction with a savepoint each: a failed guard undoes its own Change
// and harms no neighbour. No context of a caller reaches that connection; a
// caller that leaves stops waiting and its Change keeps its fate. Everything
// that depends on the Change alone is done before it is queued, in the caller's
// goroutine.
//
// After an error that is not a failed guard the writer rolls back, answers
// NotStored to the whole group and opens a new connection. After a COMMIT that
// reported an error it asks a new connection whether the group is there. When
// that cannot be told either, the answer is Unknown, the ledger stops taking
// commits, and [Ledger.Failed] is closed: the process has to exit, since only a
// new start can say what the file holds.
//
// Reads have connections of their own, which cannot write. Every read is short;
// a caller that wants a long chain reads the head first and then pages up to
// it, because one long read keeps the WAL from being reset.
//
// Erased texts are overwritten in the file and the WAL is emptied behind them.
// What a file system, a flash disk or a backup keeps of old blocks is beyond
// this package.
package sqlite
