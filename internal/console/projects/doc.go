// Package projects is the pages of the context perimeter: the projects with what each hands
// out and to whom, their clients, the gaps that these reported, their Context Traces (turns)
// and their Flight Recorder (interactions: calls of the context tools, and what local
// bridges saw).
//
// What has a chain of evidence of its own has it on its page, with the head to check it
// against. A query is read as the API reads one; see [parameters].
//
// The pages only show. Every line has its class of evidence, and beside it stand the fixed
// sentences of package turn, which say what a record does not show. What did not reach the
// gateway is no row, and nothing is inferred from its absence (S-087, G-37).
//
// Names, labels, tasks and documents come from elsewhere. They are shown as text.
package projects
