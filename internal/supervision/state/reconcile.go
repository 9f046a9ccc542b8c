package state

import "time"

// Findings of an owner about an unconfirmed effect (G-14).
const (
	FindingApplied    = "applied"
	FindingNotApplied = "not_applied"
	FindingUnknown    = "unknown"
)

// Answers to a probe (L-4). Only a receipt decides anything.
const (
	AnswerReceipt         = "receipt"
	AnswerNotSeen         = "not_seen"         // the target can be asked, and cannot close
	AnswerBeyondRetention = "beyond_retention" // the store does not know any more
	AnswerUnreachable     = "unreachable"      // no answer came back
	AnswerUnverifiable    = "unverifiable"     // what came back proves nothing
)

// Answers lists every answer to a probe.
var Answers = []string{AnswerReceipt, AnswerNotSeen, AnswerBeyondRetention, AnswerUnreachable, AnswerUnverifiable}

// Bounds of statements.
const (
	MaxStated     = 8                // executions that rest on a statement after which the run went on
	StatementWait = 90 * time.Second // from a hosted intent to not_applied: the dispatch permit's 30 s, and 60 s (L-4)
)
