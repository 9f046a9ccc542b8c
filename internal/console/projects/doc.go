// Package projects is the pages of the context perimeter: the projects with what each hands
// out and to whom, their Context Traces (turns) and their Flight Recorder (calls of the
// context tools, and what local bridges saw).
//
// The pages only show. Every line has its class of evidence, and beside it stand the fixed
// sentences of package turn, which say what a record does not show. What did not reach the
// gateway is no row, and nothing is inferred from its absence (S-087, G-37).
//
// Names, labels, tasks and documents come from elsewhere. They are shown as text.
package projects
