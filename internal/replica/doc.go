// Package replica runs real control planes for tests: server processes that can be
// killed with -9, several of them on one ledger, with clients that reach them over
// HTTP. A process is the test binary itself, executed again, and serves what package
// app opens; it ends with the test process, however that ends.
//
// # A test
//
//	func TestMain(m *testing.M) { os.Exit(replica.Main(m)) } // also ends the PostgreSQL server of package pgtest
//
//	in := replica.Prepare(t, replica.PostgreSQL) // folder with keys, fresh database, one origin
//	shop := in.OpenShop(t)                       // before Start; only for runs at the target hosted
//	rs := in.Start(t, replica.Options{}, replica.Options{Offset: 20 * time.Second}, replica.Options{})
//	front := in.Front(rs...)                     // round robin, a request at a time
//
//	owner := in.SignIn(t, front.Client())        // one session, good at every replica
//	id, _, err := owner.CreateRun(ctx, replica.Run("merchant", "local", "bounded"))
//	agent, err := replica.NewAgent(ctx, owner, id, front.Client())
//	for _, step := range replica.Steps["merchant"] {
//		done, err := agent.Do(ctx, step)
//	}
//	front.Served() // answers by replica
//
// # The origin
//
// All replicas of an installation are started with the same public origin, as behind a
// load balancer, and each listens at an address of its own. The API compares Host and
// Origin with the configured origin and never with where it listens, so a [Front] dials
// the replica's address and says the origin's host. The owner's session and the runs'
// tokens are in the ledger: they are good at every replica. Replica 0 listens at the
// origin itself, so that clients without a Front reach it there. Addresses stay the same
// across restarts; ports are taken from below the ephemeral range, so that no outgoing
// connection has one meanwhile.
//
// # A process
//
// [Replica.Kill] is kill -9, [Replica.Stop] is SIGTERM and checks that the status is 0,
// [Replica.Wait] waits for the end of one that kills itself, [Replica.Restart] starts it
// again on the same address and folder. A process that ends otherwise fails the test, and
// so does a race that its detector reports. What it logs is in a file; its end is shown
// when the test fails.
//
// A [Fault] names one of gateway.Points, of the engines' Points, perimeter.FaultStored or
// a point of the incident control plane, and which pass of it counts. There the process
// kills itself with -9, or with Hold set, stands still until
// [Replica.Release]: whoever passes the point waits, everything else goes on.
// [Replica.Held] tells when it stands. [Replica.Arm] sets a fault while it runs.
// A Hold belongs to points of the gateway; at an engine's it holds up every commit.
//
// [Replica.Move] moves the clock of one process, [Installation.Move] those of all running
// ones and the shop's. Doors of [Options] open for negative controls: decide.Doors, a
// check of the HTTP API (Without), the freeze lock (Unlocked), the poll of watched
// subjects (Unpolled).
//
// On PostgreSQL [Installation.CutListener] ends the session on which a replica hears
// notifications; in pg_stat_activity the sessions of a replica have the application_name
// countersign-replica-N. Installation.Database is where a test can look for itself.
//
// # Clients
//
// A client.Owner comes from [Installation.SignIn]; its Once sends any request of the
// owner's. An [Agent] drives one run step by step: observe, report, execute under a key
// that the test may choose. What it is told is returned as it arrived, so that a test can
// keep a journal. [Front.Client] and [Replica.Client] follow no redirect and try nothing
// again, but for a dial that failed: nothing has left then, and a Front takes the next
// replica.
//
// An observation that stands is answered again and again (30 seconds, api/protocol.md), in
// a run that has stopped too: what became of a run, the owner's view of it says.
//
// # Effects
//
// [Shop] is the real store behind its own database; [Shop.Orders] and [Shop.Spent] count
// there, and [Shop.Around] puts a handler in front that misbehaves. What a local run has
// done is in the state of its service, a subject of the ledger: see [Installation.Ledger],
// on SQLite while no process has it.
//
// Methods that take a testing.TB, and those of Installation and Replica, are called from
// the test's own goroutine; Fronts, shops and clients of different runs are safe for
// concurrent use.
package replica
