package ledgertest

import (
	"slices"
	"testing"
)

type test struct {
	name string
	run  func(*testing.T, Backend)
}

// tests is the one list. A name is never reused for something else.
var tests = []test{
	{"StoresEveryPart", testStoresEveryPart},
	{"KeepsBytes", testKeepsBytes},
	{"InvalidChange", testInvalidChange},
	{"LostRaceLeavesNoRow", testLostRace},
	{"ReadGuards", testReadGuards},
	{"WriteSkew", testWriteSkew},
	{"DuplicateKeys", testDuplicateKeys},
	{"SecondFate", testSecondFate},
	{"NotAfterBoundaries", testNotAfterBoundaries},
	{"NotAfterInQueue", testNotAfterInQueue},
	{"Freeze", testFreeze},
	{"FreezeRace", testFreezeRace},
	{"FreezeEpoch", testFreezeEpoch},
	{"OneGroup", plain(testOneGroup)},
	{"GroupsForm", testGroupsForm},
	{"FullQueue", plain(testFullQueue)},
	{"CancelledCaller", plain(testCancelledCaller)},
	{"Linearizable", testLinearizable},
	{"FaultAtEveryPoint", testFaults},
	{"KillAtEveryPoint", testKills},
	{"DiskFull", plain(testDiskFull)},
	{"IOError", plain(testIOError)},
	{"Restart", plain(testRestart)},
	{"Leases", plain(testLeases)},
	{"Due", testDue},
	{"Workspaces", plain(testWorkspaces)},
	{"Find", testFind},
	{"Watch", testWatch},
	{"Clock", testClock},
	{"EraseText", testEraseText},
	{"Blobs", plain(testBlobs)},
	{"InvalidBlobs", plain(testInvalidBlobs)},
	{"BlobFaultAtEveryPoint", plain(testBlobFaults)},
	{"Installation", plain(testInstallation)},
	{"Close", testClose},
	{"Controls", testControls},
}

// plain is a test without subtests, which a control can run too.
func plain(check func(testing.TB, Backend)) func(*testing.T, Backend) {
	return func(t *testing.T, b Backend) { check(t, b) }
}

// Names returns the names of the tests that Run runs on every engine.
func Names() []string {
	names := make([]string, len(tests))
	for i, one := range tests {
		names[i] = one.name
	}
	return names
}

// Run runs every test on the engine, each on a database of its own.
func Run(t *testing.T, b Backend) {
	if len(b.Points) == 0 || len(b.Durable) == 0 || b.Replicas < 1 || b.Writers < 1 || b.DiskFull.Begin == nil || b.IOError.Begin == nil {
		t.Fatal("the backend does not describe itself")
	}
	if !slices.Equal(b.Migrations, Migrations) {
		t.Fatalf("migrations %q, want %q", b.Migrations, Migrations)
	}
	for _, one := range tests {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t, b)
		})
	}
}
