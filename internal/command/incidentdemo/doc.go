// Package incidentdemo plays the governed incident workflow against a running server and
// tells each step: an agent that looks, stages, is refused and executes once, and a person
// who approves. There is no person: the demo says so, fetches the page as a browser would,
// and sends what its form sends. That this is possible is the stated boundary of the
// workflow, not a way around it.
//
// It is outside the control plane: it holds the origin and the cookie that it was given, and
// decides nothing. What does not come as it must ends it with an error.
package incidentdemo
