package guardian

import (
	"slices"

	"countersign/evidence"
)

// Answer is what an HTTP request is answered with, as far as a verification compares
// it. ReasonCode is that of a refusal or of a decision, else "".
type Answer struct {
	Status     int64  `json:"status"`
	ReasonCode string `json:"reasonCode"`
}

// Probe is one request through the installed gateway and the answer that it has to get
// (H-204).
type Probe struct {
	Name   string
	Answer Answer
}

// Names of the probes.
const (
	ProbeNoToken       = "caller.no_token"
	ProbeWrongToken    = "caller.wrong_token"
	ProbeOwnerCookie   = "caller.owner_cookie"
	ProbeTokenAsOwner  = "caller.run_token_on_owner_route"
	ProbeForeignRead   = "origin.foreign_read"
	ProbeForeignChange = "origin.foreign_change"
	ProbeNoOrigin      = "origin.missing"
	ProbeObservation   = "receipt.observation"
	ProbeReport        = "receipt.report"
	ProbeNoPermit      = "permit.none"
	ProbeForeignPermit = "permit.foreign"
	ProbeReceipt       = "receipt.read"
	ProbeRepeated      = "idempotency.same_request"
	ProbeOtherBody     = "idempotency.other_body"
)

// Probes are sent in this order. The reason codes are those that the HTTP API publishes.
var Probes = []Probe{
	{ProbeNoToken, Answer{401, "AUTHENTICATION_REQUIRED"}},
	{ProbeWrongToken, Answer{401, "AUTHENTICATION_REQUIRED"}},
	{ProbeOwnerCookie, Answer{401, "AUTHENTICATION_REQUIRED"}},
	{ProbeTokenAsOwner, Answer{403, "BEARER_ON_OWNER_ROUTE"}},
	{ProbeForeignRead, Answer{403, "ORIGIN_REJECTED"}},
	{ProbeForeignChange, Answer{403, "ORIGIN_REJECTED"}},
	{ProbeNoOrigin, Answer{403, "ORIGIN_REJECTED"}},
	{ProbeObservation, Answer{200, ""}},
	{ProbeReport, Answer{200, "RELEVANT"}},
	{ProbeNoPermit, Answer{403, "PERMIT_REQUIRED"}},
	{ProbeForeignPermit, Answer{403, "PERMIT_MISMATCH"}},
	{ProbeReceipt, Answer{200, ""}},
	{ProbeRepeated, Answer{200, ""}},
	{ProbeOtherBody, Answer{409, "IDEMPOTENCY_CONFLICT"}},
}

// Names of the other tests. That of a channel has the channel's name behind it.
const (
	TestRuns        = "runs.synthetic" // the runs that the probes act in were made
	TestRevoked     = "runs.revoked"   // and have ended
	TestService     = "service"
	TestEnvironment = "environment"
	TestOperations  = "operations"
	TestChannel     = "channel." // + name
	TestWebMCP      = "webmcp.native"
)

// Results of a test.
const (
	Passed      = "passed"
	Failed      = "failed"
	NotBuilt    = "not_built"
	NotMeasured = "not_measured"
)

// Test is one test of a verification with its own result and time.
type Test struct {
	Name     string        `json:"name"`
	Expected *Answer       `json:"expected"` // of a probe, else nil
	Observed *Answer       `json:"observed"` // of a probe that was answered, else nil
	Result   string        `json:"result"`
	Note     string        `json:"note"` // a sentence of this program's, or ""
	At       evidence.Time `json:"at"`
}

// Names lists what a verification of the policy tests, in order.
func Names(p *Policy) []string {
	names := []string{TestService, TestEnvironment, TestOperations}
	for _, c := range p.Channels {
		names = append(names, TestChannel+c)
	}
	names = append(names, TestWebMCP, TestRuns)
	for _, probe := range Probes {
		names = append(names, probe.Name)
	}
	return append(names, TestRevoked)
}

// AllPassed reports whether the tests amount to a successful verification: each has
// passed; native WebMCP may not have been measured (H-206).
func AllPassed(tests []Test) bool {
	return !slices.ContainsFunc(tests, func(t Test) bool {
		return t.Result != Passed && (t.Name != TestWebMCP || t.Result != NotMeasured)
	})
}

// consistent reports whether a test says what one of its name can.
func (t *Test) consistent(p *Policy) bool {
	if i := slices.IndexFunc(Probes, func(p Probe) bool { return p.Name == t.Name }); i >= 0 {
		expected := Probes[i].Answer
		passed := t.Observed != nil && *t.Observed == expected
		return t.Expected != nil && *t.Expected == expected && (t.Result == Passed && passed || t.Result == Failed)
	}
	if t.Expected != nil || t.Observed != nil || !slices.Contains([]string{Passed, Failed, NotBuilt, NotMeasured}, t.Result) {
		return false
	}
	return t.Name != TestEnvironment || t.Result != Passed || p.Environment == Local
}
