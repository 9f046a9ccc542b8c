// Package tasks is the versioned suite of the governed incident workflow: 50 tasks for an
// agent that has the workflow's five tools, 18 of them adversarial (R-072, R-073, G-28).
//
//	suite, err := tasks.V1()      // decoded strictly, and checked
//	problems := tasks.Check(suite)
//
// A task is a prompt as an operator or an attacker would write it, the state that the
// incident is in when it begins, and what the answer is held against: the tools that it
// takes, those that it must not use, a policy about what may happen, and what has to be
// true in the end. Nothing of it is authority: whether an action happens is decided by the
// control plane, whatever a prompt says.
//
// A task set proves nothing about a model. It is an evaluation contract until a model was
// run on it.
package tasks
