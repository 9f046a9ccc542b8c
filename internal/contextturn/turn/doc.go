// Package turn is the state machine of a context turn (seif.http-turn.v1) as pure
// functions: what one application was handed while it ran a model, and what it reported
// of that.
//
//	absent --contextturn.opened--> OPEN
//	OPEN --context.delivered | context.answered | contextturn.observed--> OPEN
//	OPEN --contextturn.completed--> COMPLETED_WITH_CONTEXT_DELIVERY
//	                              | COMPLETED_WITHOUT_CONTEXT_DELIVERY
//	                              | REPORTED_CANCELLED | REPORTED_FAILED
//	OPEN --[15 minutes] contextturn.expired--> EXPIRED_OR_INCOMPLETE
//	EXPIRED_OR_INCOMPLETE --contextturn.late--> EXPIRED_OR_INCOMPLETE
//
// No other arrow exists: a turn that has ended receives nothing more (S-078). A turn is a
// boundary of evidence. It grants nothing, and no delivery is an approval.
//
// Two more kinds of chain have one event each: a delivery outside a turn
// ([Interaction], L-16) and what a local bridge saw ([Receipt], G-38).
//
// Every fact has a class of evidence, see [ClassObserved]. What the classes do and do not
// say is told in fixed sentences ([Sentence]), the same on pages, in documents and by the
// verifier.
//
// As with runs, deciding emits events and each is folded into the state by the same code
// that later replays a chain for an auditor ([NewReplay]). There is no clock, no randomness
// and no I/O here.
package turn

import "time"

// Protocol is the identifier of the protocol (S-001).
const Protocol = "seif.http-turn.v1"

// Machine is the version of the state machine. It stands in the first event of a chain
// and never changes for that chain.
const Machine = 1

// Kinds of chain.
const (
	Kind            = "contextturn"
	KindInteraction = "interaction"
	KindBridge      = "bridge"
)

// Bounds (G-34).
const (
	Life            = 15 * time.Minute // of a turn (S-077)
	MaxCalls        = 100              // context calls of a turn
	MaxObservations = 200              // of a turn
	MaxLateReports  = 100              // that are counted
	MaxOpen         = 100              // open turns of a client
	MaxItems        = 20               // of one call
	MaxCompass      = 5                // items of a compass
	MaxClientRef    = 128              // characters, after redaction
	MaxNote         = 500              // characters, after redaction
	MaxToolUseID    = 128              // characters
)

// States of a turn (S-068 to S-072).
const (
	Open             = "OPEN"
	WithDelivery     = "COMPLETED_WITH_CONTEXT_DELIVERY"
	WithoutDelivery  = "COMPLETED_WITHOUT_CONTEXT_DELIVERY"
	Expired          = "EXPIRED_OR_INCOMPLETE"
	ReportedCanceled = "REPORTED_CANCELLED"
	ReportedFailed   = "REPORTED_FAILED"
)

// What a client may report (S-060).
const (
	Completed = "completed"
	Cancelled = "cancelled"
	Failed    = "failed"
)

// How a turn was opened.
const (
	ViaHTTP        = "http"        // by the client, with its token
	ViaSupervision = "supervision" // by this control plane, for an attempt of a managed run (G-39)
)

// Tools (S-041).
const (
	Compass   = "compass"
	Resolve   = "resolve"
	Find      = "find"
	Why       = "why"
	ReportGap = "report-gap"
	Test      = "test"
	Doctor    = "doctor"
)

// Verdicts of compass (G-33).
const (
	Covered  = "covered"
	Partial  = "partial"
	Gap      = "gap"
	Conflict = "conflict"
)

// PreToolUse is the one event that a hook may report (S-050).
const PreToolUse = "pre_tool_use"

// Classes of evidence (S-074 to S-076); [ClassOf] says which one an event has.
const (
	ClassObserved    = "observed"        // it reached this gateway
	ClassReported    = "reported"        // the client says so
	ClassNotObserved = "not observed"    // nothing of it has reached this gateway
	ClassBridge      = "bridge-observed" // a local bridge says so
)

// classes are those of all events of the three kinds of chain, by type.
var classes = map[string]string{
	Opened{}.EventType():    ClassObserved,    // the start; one by supervision is this control plane's own
	Delivered{}.EventType(): ClassObserved,    // the call, and what its answer was handed
	Answered{}.EventType():  ClassObserved,    // the call of any tool; its answer handed out nothing
	Observed{}.EventType():  ClassObserved,    // the hook's report, not what it is about
	Recorded{}.EventType():  ClassObserved,    // the call
	Complete{}.EventType():  ClassReported,    // the status
	Late{}.EventType():      ClassReported,    // the status, which changes nothing
	Expiry{}.EventType():    ClassNotObserved, // a completion: the clock alone says that none came in time
	Bridged{}.EventType():   ClassBridge,
}

// ClassOf returns the class of evidence of an event by its type: of what reached this
// gateway, of what was reported, or of what did not come. "" for what is none of the
// package's events. Pages, lists and exports show this one and no other.
func ClassOf(eventType string) string { return classes[eventType] }

// Kinds of what a bridge sees (G-38).
var BridgeKinds = []string{"file.read", "file.write", "process.start", "process.exit", "http.request", "http.response"}

// Tools lists the seven tools in the order of G-32.
var Tools = []string{Compass, Resolve, Find, Why, ReportGap, Test, Doctor}
