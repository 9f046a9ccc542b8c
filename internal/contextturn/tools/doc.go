// Package tools opens one Build for use and answers compass, resolve, find, why
// and test from it. The other two tools, report-gap and doctor, need no Build.
//
// # What is a word
//
// One definition serves the index, the question and the verdict. A word is a run
// of Unicode letters, digits and marks. It is folded (compatibility form, without
// marks, in lower case) and stemmed as English when it is of the letters a to z.
// The stop words of stopwords.go are no words. The words of a task or a query are
// its content words, each counted once.
//
// # Which items compass chooses
//
// Documents that the profile may not see do not exist for it: an answer is byte for
// byte what a Build of the visible documents alone would say, in every number that it
// depends on. Only the time that a call takes is not kept from depending on the others.
// A case that expects a document that the profile may not see is not there for it.
//
// Documents that another one supersedes which the profile may see are left out. A
// document fits when
//
//   - it has more than half of the task's content words, or
//   - it has at least a quarter of them (no more than four are asked for) and one
//     of those it has is rare: it stands in at most one in twenty documents of the
//     Build, or in at most five.
//
// So one word that is all over the Build makes no fit. The words of a document are
// those of its title, its tags and its text. Of the 64 best by bm25 (title 8, tags 4,
// text 1; k1 1.2, b 0.75) those that fit are handed out in that order, until there are
// five or their text would pass 64 KiB; all but the first have at least half as many of
// the words as the first. A document that does not fit into what is left is passed over
// for a shorter one; only the first may be cut, and says so. Equal scores stand in the
// order of their refs, so the order is total. Of a task with more than 64 content words
// the 64 rarest are searched; the rules count all.
//
// # Verdict
//
//   - gap: there is no item;
//   - conflict: of two items one names the other in conflicts;
//   - covered: at least 0.8 of the task's content words are in the items;
//   - partial: all else.
//
// The first that holds is the verdict. Words are looked for in the title, the tags
// and the text of every item; of an item that was cut, in the text that is left.
//
// # The index
//
// Every document is checked against its hash and read again when a Build is opened;
// the first that is not what the manifest says ends it. The index is a file of SQLite in
// a temporary folder of the machine, whatever engine keeps the ledger, so that both give
// the same answers. For every word it has the list of the documents with the word and how
// much it weighs in each, but no statistics: those are of a profile, and are counted from
// the lists. It is derived, is never evidence, and goes with [Build.Close]; what a killed
// process left is removed by the next that opens a Build. A word reaches it as a value
// only, never as syntax.
//
// # Cost
//
// To open a Build takes time and room on the disk in proportion to its documents, and
// at most a few hundred MiB of memory besides what it keeps; [Build.Size] tells what it keeps.
// A profile takes two bytes for each document, for 256 profiles at most; more are worked
// out at every call. Profiles that no document names share theirs.
//
// A call goes once through the lists of its words and once through the distinct words of
// at most 64 documents. As many calls of one Build run at once as there are processors;
// the others wait, and leave when their context ends. A call that works for more than two
// seconds is given up with [ErrTooLong]; it looks at its context wherever it may be long.
package tools

import (
	"time"

	"countersign/internal/contextturn/turn"
)

// Bounds of what is handed out.
const (
	// MaxItems bounds the items of a compass.
	MaxItems = turn.MaxCompass
	// MaxText bounds the text of a compass, in bytes.
	MaxText = 64 << 10
	// MaxLimit bounds the items of a find.
	MaxLimit = turn.MaxItems
	// DefaultLimit is how many items a find returns when no limit is asked for.
	DefaultLimit = 10
	// MaxSnippet bounds a snippet, in bytes without its dots.
	MaxSnippet = 240
)

// maxCandidates is how many of the best by bm25 a compass looks at.
const maxCandidates = 64

// maxSearched is how many words are searched at once.
const maxSearched = 64

// maxWork bounds the work of one call, without the time in which it waits for others.
const maxWork = 2 * time.Second
