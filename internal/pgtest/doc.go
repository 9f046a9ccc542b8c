// Package pgtest starts a private PostgreSQL server for tests.
//
// [Main] wraps the tests of a package; [Database] gives a test a fresh, migrated
// database of the package's one shared server, which starts at its first use:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	url := pgtest.Database(t, postgres.Migrate)
//
// A test that stops or crashes the server takes one of its own with [Start].
//
// The server is a real one: fsync and synchronous_commit are on and its data
// never lie on a memory file system. It listens only on a Unix socket in a
// folder that no other user may enter. It runs as an unprivileged user: the one
// who runs the tests, or for root the user postgres or nobody. It is a child
// that the kernel stops when the test process ends in any way, by -9 too
// (Linux: PR_SET_PDEATHSIG; elsewhere only [Main] and [Server.Stop] end it), and
// a later Start removes the folders that a killed process left.
//
// The environment variable COUNTERSIGN_TEST_POSTGRES, a URL, lends an existing
// server to [Database] instead; its user must be allowed to create databases.
// Binaries are looked for in PATH and in /usr/lib/postgresql/*/bin. A test that
// finds none fails: a skipped test proves nothing.
package pgtest
