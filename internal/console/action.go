package console

import (
	"fmt"
	"slices"

	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
)

// action is something that the owner can do to a run now, with what it brings about
// in words. The page's script sends it to the owner's API, which decides.
type action struct {
	Name    string // of the route
	Key     string // on the page; the name, unless there are several of that name
	Button  string
	Meaning []string // what it does, and what it does not
	Danger  bool
	Confirm string // what is asked before; "" when nothing is
	Shows   []term // beside the question
	Said    string // what is said when it was recorded
	Hidden  []term // members of the request that are fixed by what is shown
	Choices []choice
	Text    *textInput
	Until   int64 // server's time in milliseconds when it can no longer be done, 0: never
	Blocked bool  // by the freeze that stands: it is shown, and cannot be done
}

// choice is a value of the member "finding".
type choice struct{ Value, Word, Meaning string }

// textInput is a member that is typed.
type textInput struct {
	Name, Label string
	Max         int
	Optional    bool
}

// actionsOf lists what the owner's API would accept now, the most pressing first.
func actionsOf(d *runData) []action {
	var list []action
	for _, o := range offers {
		blocked := o.route == decide.RouteRetry && d.Frozen && decide.MetFreeze(d.State)
		if !blocked && !slices.Contains(d.Eligible, o.route) {
			continue
		}
		for i, a := range o.of(d) {
			a.Name, a.Key, a.Blocked = o.route, o.route, blocked
			if i > 0 {
				a.Key = fmt.Sprint(o.route, "-", i)
			}
			list = append(list, a)
		}
	}
	return list
}

// offers are the routes that a page offers, in their order.
var offers = []struct {
	route string
	of    func(*runData) []action
}{
	{decide.RouteApprove, approve}, {decide.RouteClarify, clarify}, {decide.RouteRetry, retry}, {decide.RouteProbe, probe},
	{decide.RouteReconcile, reconcile}, {decide.RouteStep, advance}, {decide.RouteRevoke, revoke},
}

// approve is offered only for what is shown whole.
func approve(d *runData) []action {
	p := d.Proposal
	if p == nil || !p.Whole {
		return nil
	}
	return []action{{
		Button: "Approve " + p.Amount, Said: "Approved. Nothing has been dispatched.",
		Meaning: []string{
			"Creates one grant for a single use of exactly this effect digest. It ends after 5 minutes, or with the proposal if that is sooner.",
			"Dispatches nothing. The agent has to propose exactly this, and every check applies to it again.",
		},
		Confirm: "Approve " + p.Amount + " to " + exact(p.Destination) + "?",
		Shows:   []term{{"operation", p.OperationID}, {"effect digest", p.EffectDigest}},
		Hidden:  []term{{"proposalId", p.ID}, {"digest", p.EffectDigest}},
		Until:   int64(p.ExpiresAt),
	}}
}

func clarify(*runData) []action {
	return []action{{
		Button: "Send the clarification", Said: "The clarification is recorded, and the run goes on.",
		Meaning: []string{
			"Agent and guardian are shown your words as the owner's, and the run goes on. Up to ten in a run.",
			"It widens no grant: nothing is allowed that was not allowed before.",
		},
		Text: &textInput{Name: "clarification", Label: "Clarification", Max: 2000},
	}}
}

func retry(*runData) []action {
	return []action{{
		Button: "Let it try again", Said: "The run goes on.",
		Meaning: []string{
			"The run goes on with a fresh observation.",
			"Nothing is dispatched by this, and nothing that was sent before is sent again.",
		},
	}}
}

// advance is offered where no agent holds a token: there the run goes on by itself.
func advance(d *runData) []action {
	if d.State.Session.Generation > 0 {
		return nil
	}
	return []action{{
		Button: "Advance one action", Said: "One action was tried; the timeline says what came of it.",
		Meaning: []string{
			"Asks the executor for its next action and, if checks and guardian let it pass, carries it out. At most one.",
			"It may spend within the grants.",
		},
	}}
}

func revoke(*runData) []action {
	return []action{{
		Button: "Revoke this run", Danger: true, Said: "The run is revoked.",
		Meaning: []string{
			"Ends the run, its grants and its unused permits at once. Afterwards the agent's token only reads what was.",
			"It cannot undo what was dispatched already, and it does not settle what became of that.",
		},
		Confirm: "Revoke this run?",
	}}
}

func probe(d *runData) (list []action) {
	for _, x := range decide.InDoubt(d.State) {
		list = append(list, action{
			Button: "Look it up at the store", Said: "The store was asked; the timeline has its answer.",
			Meaning: []string{
				"Asks the store what became of " + x.OperationID + ", in a signed request of its own. If it was not applied, the store first closes it, so that a late original is refused too.",
				"It sends nothing again. A signed answer counts as a receipt, observed by look-up.",
			},
			Hidden: []term{{"executionId", x.ID}},
		})
	}
	return list
}

func reconcile(d *runData) []action {
	x := d.State.Execution
	if x == nil {
		return nil
	}
	choices := []choice{{state.FindingApplied, "It was applied", "The reserved amount counts as spent. The run does not complete by it."}}
	if x.State != run.ExecutionMismatch { // there a receipt stands against it
		choices = append(choices, choice{state.FindingNotApplied, "It was not applied", "The reserved amount is released, and the run may try again. At a store the request is closed first."})
	}
	choices = append(choices, choice{state.FindingUnknown, "I could not find out", "Nothing moves. The amount stays reserved."})
	return []action{{
		Button: "Record this statement", Danger: true, Said: "Your statement is recorded.",
		Meaning: []string{
			"Recorded as your word about " + x.OperationID + ", not as a receipt. It never completes a run, and it sends nothing.",
			"A receipt that says otherwise is recorded whenever it comes, and stands against your statement.",
		},
		Confirm: "Record this statement?",
		Hidden:  []term{{"executionId", x.ID}},
		Choices: choices,
		Text:    &textInput{Name: "note", Label: "Note", Max: 500, Optional: true},
	}}
}
