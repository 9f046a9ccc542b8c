package console

import (
	"countersign/evidence"
)

// action is something that the owner can do to a run now, with what it brings about
// in words. The page's script sends it to the owner's API, which decides.
type action struct {
	Name    string // of the route
	Button  string
	Meaning []string // what it does, and what it does not
	Danger  bool
	Confirm string // what is asked before; "" when nothing is
}

// actionsOf lists what the owner's API would accept now, the most pressing first.
func actionsOf(d *runData, _ evidence.Time) []action {
	var list []action
	if !d.State.Terminal() {
		list = append(list, action{
			Name: "revoke", Button: "Revoke this run", Danger: true,
			Meaning: []string{
				"Ends the run, its grants and its unused permits at once. The agent's token is good for nothing afterwards.",
				"It cannot undo what was dispatched already, and it does not say what became of that.",
			},
			Confirm: "Revoke this run?",
		})
	}
	return list
}
