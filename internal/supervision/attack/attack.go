// Package attack is the suite of authored attacks on the control plane (G-17, H-168): a
// catalog, and the runner that carries an attack out against a server's own listener, as
// its agent and its owner would, with real HTTP requests.
//
// Every attack has a benign twin: the same requests without the one alteration. The twin
// goes first and must be allowed and take effect; then exactly one thing differs. A
// refusal that the twin would have met too shows nothing, so that without its twin an
// attack counts as failed.
//
// The runs are synthetic, on local services, and no model is called. What comes out is
// no measurement of how a model behaves (H-169).
package attack

import (
	"slices"
	"strings"

	"countersign/internal/authority"
	"countersign/internal/supervision/run"
)

// Label stands beside every result.
const Label = "replay (authored); not a live-model safety measurement"

// Who decides that an attack is blocked.
const (
	ByHardPolicy = "hard_policy"
	ByRuntime    = "runtime"
	ByReplay     = "replay (authored)"
)

// Services that attacks are carried out on.
const (
	Merchant = "merchant"
	Bank     = "bank"
	Broker   = "broker"
)

// local are the services with a local form.
var local = []string{Merchant, Bank, Broker}

// Attack is one entry of the catalog. It is not changed after the program has started.
type Attack struct {
	ID       string
	Title    string
	Altered  string   // the one thing that differs from the twin
	Twin     string   // the benign twin, and where it is not in the same run why
	Expected []string // codes, one of each shape, without repetition
	Services []string
	Target   string // local; hosted: it needs a store on the web, which it changes
	// DecidedBy is hard_policy, runtime or replay (authored), one of each shape, without
	// repetition.
	DecidedBy []string
	// Checks are the hard checks of G-09 that have to fail, one of each shape.
	Checks []int64

	shapes func(service string) []shape
}

// Shape is one form of an attack. All forms of an attack have to be blocked.
type shape struct {
	name  string
	want  Answer
	check int64  // that has to be the first to fail, 0: none is asked or none fails
	by    string // who decides; "" is hard policy
	// do plays the twin, with trial.twin, and then the attack, with trial.attackIn.
	do func(*trial)
}

// Answer is how a request is answered: the status, and the code of the refusal or of the
// decision. Decision is empty when the answer is no decision.
type Answer struct {
	Status   int
	Decision string
	Code     string
}

// paused is the answer to a report that a check or the guardian did not let pass.
func paused(code string) Answer { return Answer{200, "PAUSE", code} }

// malformed is the answer to a report that is none (L-11).
var malformed = Answer{400, "", authority.MalformedProposal}

// Catalog returns the authored attacks in their order. The caller may keep and change it.
func Catalog() []Attack { return slices.Concat(boundary, other, hosted) }

// Find returns the attack of an id, or nil.
func Find(id string) *Attack {
	list := Catalog()
	if i := slices.IndexFunc(list, func(a Attack) bool { return a.ID == id }); i >= 0 {
		return &list[i]
	}
	return nil
}

// Elsewhere says which services it applies to, when it was asked for another one.
func (a *Attack) Elsewhere() string {
	return a.ID + " applies to " + strings.Join(a.Services, ", ") + " only"
}

// Hosted reports whether it needs a store on the web.
func (a *Attack) Hosted() bool { return a.Target == run.TargetHosted }

// Line is one attack on one service.
type Line struct{ ID, Service string }

// Lines lists every attack on each of its services: the boundary cases on three, then
// the others, then the hosted one.
func Lines() (lines []Line) {
	for _, a := range Catalog() {
		for _, s := range a.Services {
			lines = append(lines, Line{a.ID, s})
		}
	}
	return lines
}
