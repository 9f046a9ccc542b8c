// Package guardian is the state machine of a workspace's guardian policies and of its
// service inventory, as pure functions (requirements 1.17, G-22).
//
// A policy is a chain of its own: drafted, edited, verified, published. What is published
// is a snapshot that never changes; publishing again makes the next version. Whether a
// verification is still fresh and a publication still enforced is computed from time:
//
//	draft --verification passed--> verified --published--> published --24 h--> degraded
//	  ^------------- edited ----------'                       '--published again--> (superseded)
//
// The [Inventory] is one chain for the workspace: which services and which policies there
// are.
//
// As with runs, deciding emits events and each is folded into the state by the same code
// that later replays a chain for an auditor ([NewReplay]). There is no clock, no randomness
// and no I/O here.
package guardian

import "time"

// Machine is the version of both state machines. It stands in the first event of a
// chain and never changes for that chain.
const Machine = 1

// Kinds of subject.
const (
	Kind          = "guardian"  // one policy
	KindInventory = "inventory" // services and policies of the workspace; its id is the workspace
)

// Times and bounds of a policy.
const (
	VerificationLife = time.Minute    // a verification that has not ended by then counts as given up
	Fresh            = time.Hour      // from the end of a verification: activation needs less (H-208)
	PublicationLife  = 24 * time.Hour // then the enforcement is degraded (H-211)
	MaxEvents        = 5000           // of one chain
	MaxServices      = 32             // of a workspace: with the longest names and origins they fit one state
	MaxPolicies      = 100            // of a workspace
	MaxOperations    = 32             // of a policy
	MaxName          = 80             // bytes of a name
	MaxDescription   = 1000           // bytes of a service's description
	MaxOrigin        = 200            // bytes
)
