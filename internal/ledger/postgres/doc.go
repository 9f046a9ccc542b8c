// Package postgres is the ledger's engine for several replicas: any number of
// processes open one database, and nothing in the memory of one decides
// anything.
//
// [Migrate] creates the schema or brings it up to date, [Open] serves it.
//
// A Change is written by one message to the server. With up to eight Changes at
// hand each is a statement of its own; with more, two writers take groups, which
// the same statement stores as arrays (package statement). It locks the subjects
// in key order, finds the Changes of which any guard fails, and writes all parts
// of the others: a failed guard harms no neighbour. Changes that touch the same
// subject, idempotency key, permit or credential never share a statement, since
// all of it sees one snapshot and both would win. When a statement fails as a
// whole, each Change of the group is tried alone.
//
// Two facts cannot be checked inside the statement, because its snapshot is older
// than the locks it waits for. Whether the workspace is frozen: Changes that must
// not pass a freeze first take a shared advisory lock, and a Change of the
// workspace's own subject takes it alone. And that a subject which a guard wants
// absent stays so: such a Change first locks the table of subjects against other
// writers, and is meant to be rare.
//
// When a connection breaks before the answer came, the fate of its transaction
// is read from the database, once the server has ended that session: every
// session of a writer holds an advisory lock of its own for as long as it lives.
// When that cannot be had within some seconds, the answer is Unknown.
//
// Sessions need to be real ones: a pooler in front of the server must not share
// a session among clients (no transaction pooling). The sessions of the ledger
// set synchronous_commit on. A standby cannot be opened.
//
// Watchers are woken by the commits of this process, by one coalesced NOTIFY
// after the commits of others, and by a poll of the watched subjects twice a
// second, so that a lost NOTIFY costs half a second and nothing else.
//
// An opening is the holder of its leases as long as a session of its own holds
// an advisory lock under its name. A process that dies loses it at once, a
// machine that vanishes after about half a minute of silence.
//
// Erased texts leave the table at once; their bytes remain in dead rows until
// VACUUM, in the write-ahead log until it is recycled, and in backups.
package postgres
