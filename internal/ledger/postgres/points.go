package postgres

// Fail points in the order of a commit. At each one Options.Fault is called and
// may return an error or end the process. A transaction is one message to the
// server and one answer, so the points lie around it: between its statements
// there is no moment at which this process could fail alone.
const (
	beforeBegin  = "before BEGIN"
	afterSend    = "after send"
	afterCommit  = "after COMMIT"
	beforeAnswer = "before answer"
)

// Points are the names of all fail points of a commit, in its order. "before
// BEGIN" is reached once a transaction before anything is sent.
var Points = []string{beforeBegin, afterSend, afterCommit, beforeAnswer}

// DurablePoints are the points at which the transaction is stored already.
// "after send" is none of them: there the server decides.
var DurablePoints = []string{afterCommit, beforeAnswer}

// beforeNotify is reached after commits, by another goroutine and once for
// several of them: a fault there loses a wake-up of other replicas.
const beforeNotify = "before NOTIFY"
